"""Trafilatura's focused crawler, one host after the other, as it knows one site at a time.

Its proxy is that of the environment (http_proxy). From seeds, their hosts share the budget evenly, and what one leaves
goes to the others; with --hosts, one host after the other is crawled from its home page until the budget is spent.
"""

import argparse
import json
from pathlib import Path
from urllib.parse import urlsplit

from trafilatura import spider
from trafilatura.settings import use_config


class Counting:
    """Counts pages where trafilatura fetches them: its own limit counts URLs that were tried."""

    def __init__(self) -> None:
        self._urls: set[str] = set()
        self._fetch = spider.fetch_response

    @property
    def pages(self) -> int:
        return len(self._urls)

    def __call__(self, *args, **options):
        response = self._fetch(*args, **options)
        if response is not None and response.status == 200:
            self._urls.add(response.url)
        return response


class Site:
    """One host, crawled in parts."""

    def __init__(self, host: str) -> None:
        self.home = f"http://{host}/"  # not a start page: it would stay below the folder of that
        self.todo: list[str] = []
        self.known: list[str] = []
        self.is_done = False

    def crawl(self, urls: int, config) -> None:
        """Try up to so many URLs more."""
        before = self.todo
        self.todo, self.known = spider.focused_crawler(
            self.home, max_seen_urls=urls, max_known_urls=100_000, todo=self.todo, known_links=self.known, config=config
        )
        self.is_done = not self.todo or self.todo == before


def crawl(sites: list[Site], pages: int, config, *, whole_sites: bool) -> int:
    """Crawl until so many pages were fetched or nothing is left; how many it was."""
    counting = spider.fetch_response = Counting()
    while counting.pages < pages and sites:
        for place, site in enumerate(sites):
            left = pages - counting.pages
            if left > 0:
                site.crawl(left if whole_sites else max(1, left // (len(sites) - place)), config)
        sites = [site for site in sites if not (site.is_done or whole_sites)]
    return counting.pages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    starts = parser.add_mutually_exclusive_group(required=True)
    starts.add_argument("--seed")
    starts.add_argument("--seeds", type=Path, help="file with one URL on each line")
    parser.add_argument("--proxy", required=True)
    parser.add_argument("--pages", type=int, required=True)
    parser.add_argument("--hosts", default="", help="to crawl from their home pages, in place of the seeds")
    options = parser.parse_args()
    config = use_config()
    config.set("DEFAULT", "SLEEP_TIME", "0")
    sites = {host: Site(host) for host in options.hosts.split(",") if host}
    if not options.hosts:
        seeds = [options.seed] if options.seed else options.seeds.read_text().split()
        for seed in seeds:
            host = urlsplit(seed).netloc
            sites.setdefault(host, Site(host)).todo.append(seed)
    print(json.dumps({"pages": crawl(list(sites.values()), options.pages, config, whole_sites=bool(options.hosts))}))


if __name__ == "__main__":
    main()
