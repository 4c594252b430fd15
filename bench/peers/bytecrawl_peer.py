"""ByteCrawl's Shark-Search, one page at a time, over all hosts. Its proxy is that of the environment (http_proxy)."""

import argparse
import contextlib
import json
import os
from pathlib import Path
from typing import Any

from bytecrawl import SharkSearch

MAX_DEPTH = 50


class Enough(BaseException):
    """As many pages were fetched as the budget allows. No Exception: the library goes on after those."""


class ManyStarts(SharkSearch):
    """It takes a single start page: the others are offered with the first, with the score that a start page has.

    Pages are counted where they come, because its own limit counts URLs that were tried.
    """

    def __init__(self, query: str, starts: list[str], pages: int) -> None:
        super().__init__(query=query, delay=0.0, same_domain=False)
        self._starts = starts
        self._pages = pages
        self.fetched = 0

    def on_visit(self, url: str, links: list[dict[str, str]]) -> None:
        super().on_visit(url, links)
        self.fetched += 1
        if self.fetched >= self._pages:
            raise Enough

    def score_links(self, url: str, links: list[dict[str, str]], page_relevance: float, depth: int) -> Any:
        starts, self._starts = self._starts, []
        return [(start, self.initial_score(start)) for start in starts] + super().score_links(
            url, links, page_relevance, depth
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=Path, required=True, help="file with one URL on each line")
    parser.add_argument("--proxy", required=True)
    parser.add_argument("--pages", type=int, required=True)
    parser.add_argument("--order", choices=["shark-search"], default="shark-search")
    parser.add_argument("--keywords", default="", help="separated by spaces")
    options = parser.parse_args()
    os.environ["http_proxy"] = options.proxy
    first, *others = options.seeds.read_text().split()
    crawler = ManyStarts(options.keywords, others, options.pages)
    with contextlib.suppress(Enough):
        crawler.crawl(first, max_pages=100 * options.pages, max_depth=MAX_DEPTH)
    print(json.dumps({"pages": crawler.fetched}))


if __name__ == "__main__":
    main()
