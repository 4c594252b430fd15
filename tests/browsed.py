"""A crawled collection for tests of the portal: with a subtopic, link scores, and a title that would be a script."""

import shutil
from pathlib import Path

from opilio import Collection

TOPICS = ["cryptography", "data compression", "statistics"]
SCRIPT = "</title></script><script>alert('title')</script>"


def crawled(taught: Path, folder: Path) -> Collection:
    """A copy of a crawled collection, changed to what a test wants to look at."""
    collection = Collection(shutil.copytree(taught, folder / "birds & bees"))
    changes = [
        "INSERT INTO topics VALUES (9, 1, 'hashes', 'cryptography / hashes', 'subsumed', ['hash'], 'digests <b>')",
        "UPDATE pages SET kcid = 9 WHERE kcid = 1 AND oid % 2 = 0",
        "INSERT INTO hubs SELECT oid, 1.0 / (1 + oid) FROM pages WHERE kcid = 2",
        "INSERT INTO auth SELECT oid, 2.0 / (1 + oid) FROM pages WHERE kcid = 2",
        f"UPDATE pages SET title = '{SCRIPT.replace(chr(39), chr(39) * 2)}' WHERE oid = {hostile_oid(collection)}",
        "INSERT INTO notices VALUES (now()::TIMESTAMP, 'harvest', NULL, 'the harvest <i>fell</i>', 'widen the topic', '')",
    ]
    for sql in changes:
        collection.sql(sql, write=True)
    return collection


def hostile_oid(collection: Collection) -> int:
    """The page that gets the bad title: the best one of a topic, as the front of the portal has them."""
    best = next(topic["best"] for topic in collection.portal()["wanted"] if topic["topic"] == TOPICS[1])
    return int(collection.sql(f"SELECT oid FROM crawl WHERE url = '{best[0]['url']}'").rows[0][0])
