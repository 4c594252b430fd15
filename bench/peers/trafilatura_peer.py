"""Trafilatura's focused crawler, one host after the other, as it knows one site at a time."""

import argparse
import json

from trafilatura.settings import use_config
from trafilatura.spider import focused_crawler


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", required=True)
    parser.add_argument("--proxy", required=True)
    parser.add_argument("--pages", type=int, required=True)
    parser.add_argument("--hosts", required=True, help="hosts to crawl, separated by commas")
    options = parser.parse_args()
    config = use_config()
    config.set("DEFAULT", "SLEEP_TIME", "0")
    pages = 0
    for host in options.hosts.split(","):
        left = options.pages - pages
        if left <= 0:
            break
        todo, known = focused_crawler(
            f"http://{host}/", max_seen_urls=left, max_known_urls=100_000, todo=None, config=config
        )
        pages += max(0, len(known) - len(todo))
    print(json.dumps({"pages": pages}))


if __name__ == "__main__":
    main()
