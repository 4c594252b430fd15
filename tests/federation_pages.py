"""Small collections for tests of the federation: three with pages of their own, and one that has all of them."""

import random
from collections.abc import Sequence
from pathlib import Path

from opilio.crawl.peer import LocalPeer
from opilio.federation.search import FederatedSearch
from search_pages import Page, make_collection

BIRDS = ["owl", "hawk", "nest", "feather", "egg", "wing", "forest", "night", "prey", "chick"]
CARS = ["engine", "wheel", "road", "brake", "fuel", "driver", "gear", "motor", "race", "tyre"]
COMMON = ["small", "large", "old", "new", "white", "black", "time", "place", "world", "people"]
NAMES = ("birds", "cars", "both")


def make_pages(count: int, words: Sequence[str], seed: int) -> list[Page]:
    """Pages of random words, some in titles and in links; no two are alike."""
    rng = random.Random(seed)

    def draw(n: int) -> str:
        return " ".join(rng.choice([*words, *words, *COMMON]) for _ in range(n))

    return [
        Page(
            text=f"{draw(rng.randint(8, 90))} unique{seed}x{number}",
            title=f"{draw(rng.randint(1, 4))} {seed} {number}",
            url=f"http://{words[0]}{number % 4}.example/{seed}/{number}.html",
            relevance=round(rng.random(), 3),
            kcid=rng.choice([1, 2, 3]),
            links=((rng.randrange(count), draw(2)),),
        )
        for number in range(count)
    ]


def joined(parts: Sequence[Sequence[Page]]) -> list[Page]:
    """All pages of several collections as those of one: links lead to the same pages as before."""
    pages: list[Page] = []
    for part in parts:
        first = len(pages)
        pages += [
            Page(**{**vars(page), "links": tuple((first + target, anchor) for target, anchor in page.links)})
            for page in part
        ]
    return pages


def make_federation(place: Path, sizes: Sequence[int] = (60, 50, 40)) -> Path:
    """The collections `birds`, `cars` and `both` in a folder, and `all`, which has their pages."""
    words = (BIRDS, CARS, BIRDS[:5] + CARS[:5])
    parts = [make_pages(size, some, seed) for seed, (size, some) in enumerate(zip(sizes, words, strict=True))]
    for name, part in zip(NAMES, parts, strict=True):
        make_collection(place / name, part)
    make_collection(place / "all", joined(parts))
    return place


def open_federation(place: Path, **options: float) -> FederatedSearch:
    """The three as a federation that knows their summaries."""
    federation = FederatedSearch([LocalPeer(name, place / name) for name in NAMES], **options)  # type: ignore[arg-type]
    assert federation.refresh() == {}
    return federation
