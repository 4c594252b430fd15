"""crawl4ai without a browser: its HTTP strategy.

A deep crawl over all hosts, breadth-first or best-first by keywords; or its adaptive crawler, which follows the links
of one site at a time, chosen by their words and previews, and is not allowed to stop before the pages are used up.
"""

import argparse
import asyncio
import json
import os
from pathlib import Path
from typing import Any

import aiohttp

os.environ["CRAWL4AI_NO_CLOUD_NOTICE"] = "1"

from crawl4ai import AdaptiveConfig, AdaptiveCrawler, AsyncWebCrawler, CacheMode, CrawlerRunConfig, HTTPCrawlerConfig
from crawl4ai.async_crawler_strategy import AsyncHTTPCrawlerStrategy
from crawl4ai.deep_crawling import BestFirstCrawlingStrategy, BFSDeepCrawlStrategy, DeepCrawlStrategy
from crawl4ai.deep_crawling.scorers import KeywordRelevanceScorer

MAX_DEPTH = 50


def use_proxy(proxy: str) -> None:
    """Its HTTP strategy has no setting for a proxy: give every session of the library below it one."""
    original = aiohttp.ClientSession.__init__

    def with_proxy(self: aiohttp.ClientSession, *args: Any, **options: Any) -> None:
        original(self, *args, **{"proxy": proxy, **options})

    aiohttp.ClientSession.__init__ = with_proxy  # type: ignore[method-assign]


def best_first(seeds: list[str], pages: int, keywords: list[str]) -> DeepCrawlStrategy:
    """It takes a single start page; a state to resume from may hold several, all as good as a page can be."""
    queue = [{"score": -1.0, "depth": 0, "url": seed, "parent_url": None} for seed in seeds]
    state = {"visited": [], "depths": dict.fromkeys(seeds, 0), "pages_crawled": 0, "queue_items": queue}
    scorer = KeywordRelevanceScorer(keywords=keywords, weight=1.0)
    return BestFirstCrawlingStrategy(
        max_depth=MAX_DEPTH, include_external=True, max_pages=pages, url_scorer=scorer, resume_state=state
    )


async def crawl(seed: str, strategy: DeepCrawlStrategy) -> int:
    run = CrawlerRunConfig(
        deep_crawl_strategy=strategy,
        cache_mode=CacheMode.BYPASS,
        stream=True,
        verbose=False,
        check_robots_txt=True,
        mean_delay=0.0,  # between two requests to one host; by default 0.1 s and more
        max_range=0.0,
        semaphore_count=16,
    )
    count = 0
    async with AsyncWebCrawler(
        crawler_strategy=AsyncHTTPCrawlerStrategy(HTTPCrawlerConfig(verify_ssl=False))
    ) as crawler:
        async for result in await crawler.arun(seed, config=run):
            count += bool(result.success)
    return count


async def adapt(seeds: list[str], pages: int, query: str) -> int:
    """Digest one start page after the other until so many pages were crawled."""
    count = 0
    strategy = AsyncHTTPCrawlerStrategy(HTTPCrawlerConfig(verify_ssl=False))
    async with AsyncWebCrawler(crawler_strategy=strategy) as crawler:
        for seed in seeds:
            config = AdaptiveConfig(
                confidence_threshold=1.0, saturation_threshold=1.0, min_gain_threshold=0.0,
                max_depth=pages, max_pages=pages - count,
            )  # fmt: skip
            found = await AdaptiveCrawler(crawler, config).digest(seed, query)
            count += len(found.crawled_urls)
            if count >= pages:
                break
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    starts = parser.add_mutually_exclusive_group(required=True)
    starts.add_argument("--seed")
    starts.add_argument("--seeds", type=Path, help="file with URLs; breadth-first takes the first only")
    parser.add_argument("--proxy", required=True)
    parser.add_argument("--pages", type=int, required=True)
    parser.add_argument("--order", choices=["breadth-first", "best-first", "adaptive"], default="breadth-first")
    parser.add_argument("--keywords", default="", help="separated by spaces")
    options = parser.parse_args()
    use_proxy(options.proxy)
    os.environ["http_proxy"] = options.proxy  # previews of links are fetched by another library
    seeds = [options.seed] if options.seed else options.seeds.read_text().split()
    if options.order == "adaptive":
        print(json.dumps({"pages": asyncio.run(adapt(seeds, options.pages, options.keywords))}))
        return
    if options.order == "best-first":
        strategy = best_first(seeds, options.pages, options.keywords.split())
    else:
        strategy = BFSDeepCrawlStrategy(max_depth=MAX_DEPTH, include_external=True, max_pages=options.pages)
    print(json.dumps({"pages": asyncio.run(crawl(seeds[0], strategy))}))


if __name__ == "__main__":
    main()
