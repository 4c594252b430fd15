"""How long it takes to publish a portal of 1,000 pages, and how much of its index a search loads.

    python -m bench.speed.publish [--quick] [--pages 1000] [--folder FOLDER]

A collection is made without fetching (`retraining.make_collection`): real texts, 20 links a page, judgements of a
model. Its best pages are published, with the reasons for their judgements and the full-text index. A question loads
`index.js`, a part of the vocabulary for each of its words, and the texts of ten results; the mean size of that is
`search_bytes`. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from bench.speed.retraining import make_collection
from opilio import Collection
from opilio.lab.local_web import LocalServer, build
from opilio.web.publishing import publish

SHOWN, RELEVANT_SHARE, WAITING = 10, 20, 1000


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="publish 200 pages")
    parser.add_argument("--pages", type=int, default=0, help="pages to publish (default: 1000, quick 200)")
    parser.add_argument("--folder", type=Path, help="for the collection and the site (default: a temporary one)")
    given = parser.parse_args()
    pages = given.pages or (200 if given.quick else 1000)
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with LocalServer(build("full")) as server:
            make_collection(folder / "collection", server.web, server, RELEVANT_SHARE * pages, WAITING)
        collection, site = Collection(folder / "collection"), folder / "site"
        per_topic = -(-pages // max(1, len(collection.portal()["wanted"])))
        started_s, cpu_s = time.perf_counter(), time.process_time()
        written = publish(collection, site, name="bench", pages_per_topic=per_topic)
        took_s, took_cpu_s = time.perf_counter() - started_s, time.process_time() - cpu_s
        words = [path.stat().st_size for path in (site / "search" / "words").iterdir()]
        texts = [path.stat().st_size for path in (site / "search" / "pages").iterdir()]
        index = (site / "search" / "index.js").stat().st_size
        figures = {
            "bench": "publish", "pages": written["pages"], "topics": written["topics"], "took_s": round(took_s, 2),
            "s_per_1000_pages": round(1000 * took_s / written["pages"], 2),
            "cpu_s_per_1000_pages": round(1000 * took_cpu_s / written["pages"], 2),
            "site_bytes": sum(path.stat().st_size for path in site.rglob("*") if path.is_file()),
            "index_files": len(words) + len(texts) + 1, "index_bytes": sum(words) + sum(texts) + index,
            "search_bytes": round(index + statistics.mean(words) + SHOWN * statistics.mean(texts)),
        }  # fmt: skip
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
