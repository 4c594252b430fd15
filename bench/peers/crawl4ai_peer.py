"""crawl4ai without a browser: its HTTP strategy, deep crawl breadth-first over all hosts."""

import argparse
import asyncio
import json
import os
from typing import Any

import aiohttp

os.environ["CRAWL4AI_NO_CLOUD_NOTICE"] = "1"

from crawl4ai import AsyncWebCrawler, CacheMode, CrawlerRunConfig, HTTPCrawlerConfig
from crawl4ai.async_crawler_strategy import AsyncHTTPCrawlerStrategy
from crawl4ai.deep_crawling import BFSDeepCrawlStrategy


def use_proxy(proxy: str) -> None:
    """Its HTTP strategy has no setting for a proxy: give every session of the library below it one."""
    original = aiohttp.ClientSession.__init__

    def with_proxy(self: aiohttp.ClientSession, *args: Any, **options: Any) -> None:
        original(self, *args, **{"proxy": proxy, **options})

    aiohttp.ClientSession.__init__ = with_proxy  # type: ignore[method-assign]


async def crawl(seed: str, pages: int) -> int:
    strategy = BFSDeepCrawlStrategy(max_depth=50, include_external=True, max_pages=pages)
    run = CrawlerRunConfig(
        deep_crawl_strategy=strategy, cache_mode=CacheMode.BYPASS, stream=True, verbose=False, check_robots_txt=True
    )
    count = 0
    async with AsyncWebCrawler(
        crawler_strategy=AsyncHTTPCrawlerStrategy(HTTPCrawlerConfig(verify_ssl=False))
    ) as crawler:
        async for result in await crawler.arun(seed, config=run):
            count += bool(result.success)
    return count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", required=True)
    parser.add_argument("--proxy", required=True)
    parser.add_argument("--pages", type=int, required=True)
    options = parser.parse_args()
    use_proxy(options.proxy)
    print(json.dumps({"pages": asyncio.run(crawl(options.seed, options.pages))}))


if __name__ == "__main__":
    main()
