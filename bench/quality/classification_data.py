"""Labelled webs as the classifiers see them: pages analysed, links followed, examples drawn. Used by classification.py.

A corpus is a folder with one JSON page a line (`url`, `html`, `topics`) in zstandard files. None of its contents is
kept anywhere: pages are read, analysed and forgotten.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zstandard

from opilio.analyze import Analyzer
from opilio.classify import Example, TrainingSet
from opilio.features.anchors import anchor_stems
from opilio.features.classifier_input import ClassifierInput, TextReader, significant_stems
from opilio.model import Document
from opilio.model.url import normalize
from opilio.settings import RobotsSettings, StoreSettings, TrapSettings
from opilio.topics import default_others
from opilio.topics.hierarchy import ABOVE_ROOT, ROOT, Hierarchy, Mark, Node

TEST_PAGES = 50
"""Of each topic, at most; and as many in all that must be refused."""
LEAST_TEST_PAGES = 30
MAX_ANCHORS = 50
"""As many as training looks at (learn/trainer.py)."""
MAX_NEIGHBOURS = 200
OTHERS_TRUTH = ""
"""The topic of a page that all topics must refuse."""


class View(NamedTuple):
    """One way to see a corpus as topics."""

    name: str
    folder: str
    file: str
    depth: int
    """Of a label with dots, so many parts are the topic."""
    sizes: tuple[int, ...]
    refused: frozenset[str] = frozenset()
    """Labels that are no topic."""


VIEWS = (
    View("wiki4schools paths", "wiki4schools", "articles.jsonl.zst", 9, (2, 5, 20)),
    View("wiki4schools subjects", "wiki4schools", "articles.jsonl.zst", 1, (2, 5, 20, 100)),
    View("webkb", "webkb", "pages.jsonl.zst", 9, (2, 5, 20, 100), frozenset({"other"})),
    View("foldoc", "foldoc", "pages.jsonl.zst", 9, (2, 5, 20, 100)),
)


@dataclass
class Page:
    """One analysed page."""

    url: str
    labels: tuple[str, ...]
    item: ClassifierInput
    """Without links."""
    significant: bytes
    inlinks: list[tuple[int, str]] = field(default_factory=list)
    """Numbers of the pages that link here, and the words of the links."""
    outlinks: list[int] = field(default_factory=list)


class Draw(NamedTuple):
    """One experiment's pages: numbers of pages and their topics."""

    topics: list[str]
    train: list[tuple[int, str]]
    test: list[tuple[int, str]]


def is_final(label: str) -> bool:
    """Labels whose SHA-256 begins with an odd digit are for published figures, the others for development."""
    return int(hashlib.sha256(label.encode()).hexdigest()[0], 16) % 2 == 1


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=2**28)
    with path.open("rb") as file:
        for line in io.TextIOWrapper(decompressor.stream_reader(file), encoding="utf-8"):
            yield json.loads(line)


def read_pages(folder: Path, file: str) -> list[Page]:
    """All pages of a corpus through the real analysis, with the links among them."""
    analyzer = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings())
    pages: list[Page] = []
    links: list[list[tuple[str, str]]] = []
    for line in read_lines(folder / file):
        url = normalize(line["url"])
        document = analyzer.analyze(line["html"].encode(), "text/html; charset=utf-8", url)
        if document is None or not url:
            continue
        pages.append(_page(document, url, line["topics"]))
        links.append([(link.url, link.anchor) for link in document.links])
    redirects = folder / "redirects.jsonl.zst"
    found = read_lines(redirects) if redirects.exists() else iter(())
    moved = {normalize(line["from"]): normalize(line["to"]) for line in found}
    _connect(pages, links, moved)
    return pages


def _page(document: Document, url: str, labels: Sequence[str]) -> Page:
    # No address: on a corpus of one host the directory metric of oasis would take whatever it is shown.
    return Page(url, tuple(labels), ClassifierInput.of(document, ""), significant_stems(document))


def _connect(pages: list[Page], links: list[list[tuple[str, str]]], moved: Mapping[str, str]) -> None:
    numbers = {page.url: number for number, page in enumerate(pages)}
    for number, found in enumerate(links):
        for url, anchor in found:
            target = numbers.get(url, numbers.get(moved.get(url, ""), number))
            if target != number:
                pages[target].inlinks.append((number, anchor))
                pages[number].outlinks.append(target)


def topic_of(page: Page, view: View) -> str | None:
    """The topic of a page with a single label; `OTHERS_TRUTH` without any, None with several."""
    labels = {".".join(label.split(".")[: view.depth]) for label in page.labels} - view.refused
    if not labels:
        return OTHERS_TRUTH
    return labels.pop() if len(labels) == 1 else None


def topics_of(pages: Sequence[Page], view: View) -> list[str]:
    """Those with enough pages for the largest training set and a test."""
    counts = Counter(topic_of(page, view) for page in pages)
    least = max(view.sizes) + LEAST_TEST_PAGES
    return sorted(topic for topic, count in counts.items() if topic and count >= least)


def draw(pages: Sequence[Page], view: View, size: int, seed: int) -> Draw:
    """`size` examples of each topic, and held-out pages: of the topics, and as many of none of them."""
    rng = random.Random(f"{view.name} {seed}")
    topics = topics_of(pages, view)
    by_topic: dict[str, list[int]] = defaultdict(list)
    for number, page in enumerate(pages):
        topic = topic_of(page, view)
        if topic in topics and len(page.item.stems):
            by_topic[topic].append(number)
        elif topic is not None and not topic.startswith(tuple(f"{one}." for one in topics)):
            by_topic[OTHERS_TRUTH].append(number)
    train, test = [], []
    for topic in topics:
        numbers = rng.sample(by_topic[topic], len(by_topic[topic]))
        # The test pages are the same for all sizes of the training set.
        test += [(number, topic) for number in numbers[:TEST_PAGES][: len(numbers) - max(view.sizes)]]
        train += [(number, topic) for number in numbers[::-1][:size]]
    refused = rng.sample(by_topic[OTHERS_TRUTH], min(len(by_topic[OTHERS_TRUTH]), len(test)))
    return Draw(topics, train, [*test, *((number, OTHERS_TRUTH) for number in refused)])


def with_all_links(pages: Sequence[Page], number: int) -> ClassifierInput:
    """What training knows of a page: words of all links to it, and the terms of all pages around it."""
    page = pages[number]
    words = [anchor for _, anchor in page.inlinks if anchor][:MAX_ANCHORS]
    around = list(dict.fromkeys([*(source for source, _ in page.inlinks), *page.outlinks]))[:MAX_NEIGHBOURS]
    near = b"".join(pages[other].significant for other in around)
    return _linked(page.item, "\n".join(words), near)


def with_one_link(pages: Sequence[Page], number: int) -> ClassifierInput:
    """What a crawl knows of a page when it is fetched: the one link, drawn by lot, by which it was found."""
    page = pages[number]
    if not page.inlinks:
        return page.item
    source, anchor = random.Random(number).choice(page.inlinks)
    return _linked(page.item, anchor, pages[source].significant)


def _linked(item: ClassifierInput, anchors: str, neighbours: bytes) -> ClassifierInput:
    stems = anchor_stems(anchors, item.language)
    return replace(item, anchors=stems, neighbours=np.frombuffer(neighbours, "<u4"))


def flat_hierarchy(topics: Sequence[str]) -> Hierarchy:
    """All topics side by side below the root, all wanted."""
    nodes = [Node(ROOT, ABOVE_ROOT, "everything", "", Mark.PATH)]
    nodes += [Node(kcid, ROOT, topic, topic, Mark.GOOD) for kcid, topic in enumerate(topics, 1)]
    return Hierarchy(nodes)


def training_set(pages: Sequence[Page], drawn: Draw) -> TrainingSet:
    """The examples, with the set of OTHERS that comes with Opilio."""
    kcids = {topic: kcid for kcid, topic in enumerate(drawn.topics, 1)}
    reader = TextReader()
    others = [
        Example(ABOVE_ROOT, reader.read(document.title, document.text, document.language), positive=False)
        for document in default_others()
    ]
    return TrainingSet(
        hierarchy=flat_hierarchy(drawn.topics),
        examples=tuple(Example(kcids[topic], with_all_links(pages, number)) for number, topic in drawn.train),
        others=tuple(others),
        keywords={kcid: " ".join(topic.replace(".", "_").split("_")).lower() for topic, kcid in kcids.items()},
    )
