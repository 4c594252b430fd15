"""A small web with a topic, its neighbour, and pages that pretend to be about it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from fetch_servers import Handler, WebServer
from opilio import Collection
from opilio.classify import Example
from opilio.features.classifier_input import TextReader
from opilio.topics import default_others
from opilio.topics.hierarchy import ABOVE_ROOT, Hierarchy, Mark, Node
from webs import Page, Web

OWL = [
    "owl",
    "owlet",
    "barn",
    "tawny",
    "snowy",
    "feather",
    "talon",
    "beak",
    "roost",
    "nest",
    "pellet",
    "vole",
    "prey",
    "hoot",
    "screech",
    "moult",
    "wing",
    "silent",
    "hunt",
    "dusk",
    "woodland",
    "farmland",
    "perch",
    "egg",
    "chick",
    "fledgling",
    "brood",
    "ringing",
    "bird",
    "raptor",
    "nocturnal",
    "hearing",
    "facial",
    "disc",
    "meadow",
    "hedge",
    "shrew",
    "mouse",
    "tuft",
    "eagle",
    "boreal",
    "burrow",
    "hollow",
    "branch",
    "flight",
    "plumage",
    "habitat",
    "ornithologist",
]
CASINO = [
    "casino",
    "poker",
    "roulette",
    "jackpot",
    "slot",
    "blackjack",
    "dealer",
    "chip",
    "bonus",
    "wager",
    "bet",
    "odds",
    "croupier",
    "baccarat",
    "spin",
    "payout",
    "deposit",
    "gambler",
    "ante",
    "bluff",
    "dice",
    "craps",
    "lottery",
    "ticket",
    "bookmaker",
    "stake",
    "tournament",
    "freeroll",
    "rakeback",
    "bankroll",
    "house",
    "edge",
    "keno",
    "bingo",
    "sportsbook",
    "parlay",
    "handicap",
    "punter",
    "betting",
    "fortune",
    "prize",
    "voucher",
    "loyalty",
    "cashier",
    "withdrawal",
]
RIVER = [
    "river",
    "delta",
    "estuary",
    "tributary",
    "meander",
    "sediment",
    "floodplain",
    "current",
    "bank",
    "basin",
    "watershed",
    "rapids",
    "gorge",
    "canyon",
    "waterfall",
    "gravel",
    "silt",
    "ferry",
    "bridge",
    "weir",
    "lock",
    "canal",
    "dam",
    "reservoir",
    "erosion",
    "channel",
    "stream",
    "brook",
    "spring",
    "source",
    "mouth",
    "discharge",
    "gauge",
    "flood",
    "levee",
    "oxbow",
    "braided",
    "salmon",
    "trout",
    "kingfisher",
    "reed",
    "upstream",
    "downstream",
]


def text(seed: int, words: int = 150, **shares: float) -> str:
    """Words drawn at random: a share of each kind (owl, casino, river), the rest words that no other page has."""
    draw = random.Random(seed)
    kinds = {"owl": OWL, "casino": CASINO, "river": RIVER}
    found = []
    for _ in range(words):
        [kind] = draw.choices([*shares, ""], [*shares.values(), 1 - sum(shares.values())])
        found.append(draw.choice(kinds[kind]) if kind else "".join(draw.choices("abcdefghijklmnop", k=9)))
    return " ".join(found)


class OwlWeb:
    """Pages by path, on three hosts in turn."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def add(self, kind: str, count: int, **shares: float) -> list[str]:
        """Pages of a kind; their paths."""
        paths = [f"/{kind}/{number}" for number in range(count)]
        for number, path in enumerate(paths):
            self.texts[path] = text(1000 * (1 + len(self.texts)) + number, **shares)
        return paths

    def url(self, path: str) -> str:
        """The address of a page: every third is on another host."""
        return f"http://h{list(self.texts).index(path) % 3}.test{path}"

    def routes(self) -> dict[str, bytes | Handler]:
        """Every page links to the next ten, the last ones to the first."""
        paths = list(self.texts)
        pages = []
        for place, path in enumerate(paths):
            near = [(place + step) % len(paths) for step in range(1, 11)]
            links = tuple((one, paths[one].split("/")[1]) for one in near)
            pages.append(Page(self.texts[path], title=path, url=self.url(path), links=links))
        return Web(pages).routes()

    def taxonomy(self, folder: Path, examples: dict[str, list[str]], others: list[str] | None = None) -> Path:
        """A file with topics, all wanted, and their examples."""
        lines = ["topics:"]
        for topic, paths in examples.items():
            lines += [
                f"  {topic}:",
                "    good: true",
                "    examples:",
                *(f"      - {self.url(path)}" for path in paths),
            ]
        if others:
            lines = ["others:", *(f"  - {self.url(path)}" for path in others), *lines]
        file = folder / "topics.yaml"
        file.write_text("\n".join(lines))
        return file

    def collection(self, server: WebServer, folder: Path, taxonomy: Path, **changes: Any) -> Collection:
        """A collection that crawls it at full speed, in one process."""
        settings: dict[str, Any] = {"fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.0}
        settings |= {"run.workers": -1, "fetch.per_domain": 10, "learn.mined_negatives": 0, "classify.calibrate": False}
        settings.update({key.replace("__", "."): value for key, value in changes.items()})
        return Collection.create(folder, topics=taxonomy, settings=settings)


READER = TextReader()
OTHERS = tuple(
    Example(ABOVE_ROOT, READER.read(one.title, one.text, one.language), False, one.title)
    for one in list(default_others())[:40]
)


def hierarchy(*names: str) -> Hierarchy:
    """Wanted topics of these names, 1, 2 ..."""
    nodes = [Node(kcid, 0, name, name, Mark.GOOD) for kcid, name in enumerate(names, 1)]
    return Hierarchy([Node(0, ABOVE_ROOT, "all", "", Mark.PATH), *nodes])


def documents(kcid: int, kind: str, count: int, *, positive: bool = True, **shares: float) -> list[Example]:
    """Training documents of a topic, each with so much of its words of each kind."""
    return [
        Example(kcid, READER.read("", text(hash_of(kind) + n, **shares)), positive, f"{kind} {n}") for n in range(count)
    ]


def hash_of(kind: str) -> int:
    return 1000 * sum(kind.encode())
