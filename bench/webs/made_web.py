"""A web that is made while it is crawled, of any size: for benches in which the engine, not the web, is measured.

Page `number` is always the same. Hosts have Zipf sizes and a subject each; four subjects are what the crawl is after.
A page has some 36 links: to its host's home and section pages, to near pages of its host, to hosts of its subject, the
great ones more often, and to any. Text, terms, words of links and judgement follow the subject. A few pages are gone, a
few redirect, one in a hundred nearly repeats the page before it.

What a worker would send the engine is made here without HTTP, HTML and classifier: the records are those of
`opilio.model`, whole. `Made` makes them in this process; `MadeWorkers` has other processes do it, over a socket and in
the messages of `opilio.crawl`, so that the engine receives them as in any crawl.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import uvloop

from opilio import Collection
from opilio.analyze.terms import Vocabulary
from opilio.classify import Model
from opilio.crawl.messages import WorkerOrder, WorkerSetup, encoder, order_decoder, visits_decoder
from opilio.crawl.worker_pool import Inbox
from opilio.model import (
    Document,
    Fetch,
    HostReport,
    Judgement,
    Lease,
    LeaseKind,
    Link,
    Links,
    Outcome,
    Region,
    Visit,
    url_key,
)
from opilio.process import Channel, Child, collect_rarely, frame, read_message, start

SUBJECTS = 16
WANTED = ("databases", "astronomy", "cookery", "chess")  # the first subjects
SENTENCES, SENTENCE_WORDS, PAGE_SENTENCES, COMMON_SENTENCES = 1500, 14, 20, 6
PHRASES = 400
SECTION = 50
NAV, NEAR, ALIKE, ANY = 8, 16, 12, 8
EXAMPLES = 12
_REGIONS = [Region.NAV] * NAV + [Region.MAIN] * (NEAR + ALIKE + ANY)
_POOL = 1 << 20
_SEND_VISITS = 32


@dataclass(frozen=True)
class Phrase:
    """The words of a link and those around it, with their stems."""

    anchor: str
    context: str
    inside: bytes
    around: bytes


class Made:
    """The web: `visit` answers a lease."""

    def __init__(self, pages: int, hosts: int, kcids: Sequence[int] = (), seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        sizes = 1.0 / np.arange(10, hosts + 10) ** 0.7
        sizes = np.maximum(1, (rng.permutation(sizes) * pages / sizes.sum())).astype(np.int64)
        self.starts = np.concatenate(([0], np.cumsum(sizes)))
        self.sizes = sizes
        self.subjects = rng.integers(0, SUBJECTS, hosts)
        great_first = np.argsort(-sizes, kind="stable")
        self.alike = [great_first[self.subjects[great_first] == subject] for subject in range(SUBJECTS)]
        self.great_first = great_first
        self.kcids = list(kcids) or [0] * len(WANTED)
        self.version = 0
        self._numbers = rng.integers(0, 2**31, _POOL + 4096)
        self._shares = rng.random(_POOL + 4096)
        self._vocabulary = Vocabulary()
        self._write_texts(random.Random(seed))
        self._links_around = bytes([8]) * sum((NAV, NEAR, ALIKE, ANY))

    def _write_texts(self, rng: random.Random) -> None:
        common = _words(rng, 3000)
        stems = self._vocabulary
        self._sentences: list[list[tuple[str, bytes]]] = []
        self._phrases: list[list[Phrase]] = []
        for subject in range(SUBJECTS + 1):
            own = _words(rng, 800) if subject < SUBJECTS else common
            own = [WANTED[subject], *own] if subject < len(WANTED) else own
            sentences = []
            for _ in range(SENTENCES):
                words = [_zipf(rng, own if rng.random() < 0.4 else common) for _ in range(SENTENCE_WORDS)]
                numbers = stems.numbers([word.encode() for word in words], "en").tobytes()
                sentences.append((" ".join(words) + ".", numbers))
            self._sentences.append(sentences)
            self._phrases.append([self._phrase(rng, own, common) for _ in range(PHRASES)])

    def _phrase(self, rng: random.Random, own: list[str], common: list[str]) -> Phrase:
        anchor = [_zipf(rng, own if rng.random() < 0.5 else common) for _ in range(3)]
        around = [_zipf(rng, own if rng.random() < 0.3 else common) for _ in range(8)]
        inside, outside = (
            self._vocabulary.numbers([word.encode() for word in words], "en").astype("<u4").tobytes()
            for words in (anchor, around)
        )
        return Phrase(" ".join(anchor), " ".join(around), inside, outside)

    # -- addresses

    def url(self, host: int, place: int) -> str:
        """The address of a page: the `place`-th of its host."""
        if place == 0:
            return f"http://www.site{host}.example/"
        return f"http://www.site{host}.example/part{place // SECTION}/{place}.html"

    def page_of(self, url: str) -> tuple[int, int]:
        """Host and place of an address."""
        host, _, path = url[15:].partition(".example/")
        return int(host), int(path[path.rfind("/") + 1 : -5]) if path else 0

    def subject_of(self, host: int, place: int) -> int:
        """Four of five pages of a host are about its subject."""
        mixed = (host * 7919 + place * 104_729) % 1_000_003
        return int(self.subjects[host]) if mixed % 5 else mixed % SUBJECTS

    def examples(self, subject: int) -> list[str]:
        """Addresses of pages about a subject, on as many hosts."""
        found = []
        for host in self.alike[subject][: 4 * EXAMPLES].tolist():
            places = (place for place in range(min(int(self.sizes[host]), 40)) if self._status(place) == Outcome.OK)
            found += [self.url(host, p) for p in places if self.subject_of(host, p) == subject][:1]
        return found[:EXAMPLES]

    @staticmethod
    def _status(place: int) -> Outcome:
        if place % SECTION == 49:
            return Outcome.CLIENT_ERROR
        return Outcome.REDIRECT if place % (2 * SECTION) == 47 else Outcome.OK

    # -- visits

    def visit(self, lease: Lease) -> Visit:
        """What a worker would say."""
        if lease.kind is LeaseKind.HOST:
            fetch = Fetch(Outcome.CLIENT_ERROR, 404, "10.0.0.1", started_s=time.time())
            return Visit(lease, fetch, host=HostReport(404))
        if lease.kind is not LeaseKind.PAGE:  # a sitemap, an icon, a page that should not exist: there is none
            return Visit(lease, Fetch(Outcome.CLIENT_ERROR, 404, "10.0.0.1", started_s=time.time(), took_ms=120.0))
        host, place = self.page_of(lease.url)
        fetch = self.fetch(host, place)
        if fetch.outcome is not Outcome.OK:
            return Visit(lease, fetch)
        document, judgement = self.page(host, place)
        return Visit(lease, fetch, document, judgement=judgement)

    def fetch(self, host: int, place: int) -> Fetch:
        """How the request for a page ends."""
        now_s, status = time.time(), self._status(place)
        ip = f"10.{host >> 16}.{host >> 8 & 255}.{host & 255}"
        if status is Outcome.CLIENT_ERROR:
            return Fetch(status, 404, ip, started_s=now_s, took_ms=120.0)
        if status is Outcome.REDIRECT:
            return Fetch(status, 301, ip, started_s=now_s, redirect_url=self.url(host, place - 1))
        return Fetch(
            Outcome.OK, 200, ip, "text/html", 9_000, 20_000 + place, now_s, 150.0, warc_file="w0-0.warc.gz",
            warc_offset=0, warc_bytes=8_000,
        )  # fmt: skip

    def page(self, host: int, place: int) -> tuple[Document, Judgement]:
        """A page as the analysis and a model would see it."""
        number = int(self.starts[host]) + place
        at = number * 2_654_435_761 % _POOL
        subject = self.subject_of(host, place)
        drawn = self._numbers[at : at + 128].tolist()
        own, common = self._sentences[subject], self._sentences[SUBJECTS]
        chosen = [own[n % SENTENCES] for n in drawn[: PAGE_SENTENCES - COMMON_SENTENCES]]
        chosen += [common[n % SENTENCES] for n in drawn[PAGE_SENTENCES - COMMON_SENTENCES : PAGE_SENTENCES]]
        text = f"Page {number}. " + " ".join(sentence for sentence, _ in chosen)
        terms = self._vocabulary.terms(np.frombuffer(b"".join(numbers for _, numbers in chosen), "<u8"))
        links, phrases = self._links(host, place, subject, drawn, at)
        near = number - 1 if place % 100 == 60 else number  # one in a hundred nearly repeats the page before it
        document = Document(
            chosen[0][0], "", "en", "utf-8", text, text, links, terms.ids, terms.counts, terms.new, number + 1,
            hashlib.shake_128(near.to_bytes(8, "little")).digest(256),
            link_words=b"".join([phrase.inside + phrase.around for phrase in phrases]),
            link_words_in=bytes([3]) * len(links), link_words_around=self._links_around[: len(links)],
        )  # fmt: skip
        return document, self._judge(subject, drawn[44] / 2**31)

    def _links(self, host: int, place: int, subject: int, drawn: list[int], at: int) -> tuple[Links, list[Phrase]]:
        size = int(self.sizes[host])
        shares = self._shares[at : at + 2 * (ALIKE + ANY)] ** 2
        alike = self.alike[subject]
        hosts = np.concatenate(
            (alike[(shares[:ALIKE] * len(alike)).astype(np.int64)],
             self.great_first[(shares[ALIKE : ALIKE + ANY] * len(self.great_first)).astype(np.int64)])
        )  # fmt: skip
        places = (self.sizes[hosts] * shares[ALIKE + ANY :]).astype(np.int64).tolist()
        targets = [(host, section * SECTION) for section in range(NAV) if section * SECTION < size]
        targets += [(host, (place + n % 81 - 40) % size) for n in drawn[20 : 20 + NEAR]]
        targets += zip(hosts.tolist(), places, strict=True)
        links, phrases = [], []
        for position, (to, there) in enumerate(targets):
            url = self.url(to, there)
            phrase = self._phrases[self.subject_of(to, there)][drawn[64 + position] % PHRASES]
            links.append(Link(url, url_key(url), phrase.anchor, phrase.context, _REGIONS[position], position))
            phrases.append(phrase)
        return Links.of(links), phrases

    def _judge(self, subject: int, share: float) -> Judgement:
        is_wanted = subject < len(WANTED)
        relevance = 0.55 + 0.44 * share if is_wanted else 0.45 * share**4
        kcid = self.kcids[subject] if is_wanted else 0
        votes = {"terms": relevance - 0.5, "pairs": relevance - 0.45, "terms+anchors": relevance - 0.4}
        agreed = list(votes) if is_wanted else []
        return Judgement(kcid, is_wanted, relevance, relevance - 0.5, votes, agreed, is_wanted, self.version)


def _words(rng: random.Random, count: int) -> list[str]:
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    return sorted({"".join(rng.choices(syllables, k=rng.randint(2, 4))) for _ in range(count)})


def _zipf(rng: random.Random, words: list[str]) -> str:
    return words[int(len(words) * rng.random() ** 3)]


def make_collection(folder: Path, web: Made, settings: dict[str, object]) -> list[int]:
    """A collection with four topics and examples of each; the kcids of the topics."""
    lines = ["<!DOCTYPE NETSCAPE-Bookmark-file-1>", "<DL><p>"]
    for subject, name in enumerate(WANTED):
        lines += [f"<DT><H3>{name}</H3>", "<DL><p>"]
        lines += [f'<DT><A HREF="{url}">{name}</A>' for url in web.examples(subject)] + ["</DL><p>"]
    bookmarks = folder.parent / f"{folder.name}-bookmarks.html"
    bookmarks.write_text("\n".join([*lines, "</DL><p>"]))
    collection = Collection.create(folder, bookmarks=bookmarks, settings=settings)
    kcids = dict(collection.sql("SELECT name, kcid FROM topics").rows)
    return [kcids[name] for name in WANTED]


# -- in processes of their own


class MadeWorkers:
    """Workers (`opilio.crawl.worker_pool`) that make the web in `count` processes."""

    def __init__(self, setup: WorkerSetup, pages: int, hosts: int, kcids: Sequence[int], count: int = 1) -> None:
        self._given = [str(pages), str(hosts), ",".join(map(str, kcids))]
        self._count = count
        self._children: list[Child] = []
        self._writers: list[asyncio.StreamWriter] = []
        self._readers: list[asyncio.Task[None]] = []
        self._inbox = Inbox()
        self._model = setup.model

    @property
    def pids(self) -> list[int]:
        return [child.process.pid for child in self._children]

    async def start(self) -> None:
        for _ in range(self._count):
            child = start("bench.webs.made_web:work", *self._given)
            self._children.append(child)
            reader, writer = await child.channel.streams()
            self._writers.append(writer)
            self._readers.append(asyncio.create_task(self._receive(reader)))
        if self._model:
            self.use_model(self._model)

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        while message := await read_message(reader):
            self._inbox.put(visits_decoder.decode(message))

    def submit(self, leases: Sequence[Lease]) -> None:
        for at, writer in enumerate(self._writers):
            share = list(leases[at :: self._count])
            if share:
                writer.write(frame(encoder.encode(WorkerOrder(share))))

    def use_model(self, model: bytes) -> None:
        version = str(Model.from_bytes(model).version).encode()  # all they need to know of it
        for writer in self._writers:
            writer.write(frame(encoder.encode(WorkerOrder(model=version))))

    def send_link_words(self) -> None:
        """They always do."""

    def give_up(self) -> None:
        """Nothing is waited for."""

    async def visits(self, timeout_s: float) -> list[Visit]:
        return await self._inbox.get(timeout_s)

    async def close(self) -> None:
        for task in self._readers:
            task.cancel()
        for writer in self._writers:
            writer.close()
        for child in self._children:
            await asyncio.to_thread(child.process.wait)


async def _serve(engine: Channel, web: Made) -> None:
    reader, writer = await engine.streams(limit=2**20)
    while message := await read_message(reader):
        order = order_decoder.decode(message)
        if order.model:
            web.version = int(order.model)
        for at in range(0, len(order.leases), _SEND_VISITS):
            visits = [web.visit(lease) for lease in order.leases[at : at + _SEND_VISITS]]
            writer.write(frame(encoder.encode(visits)))
            await writer.drain()


def work(engine: Channel, pages: str, hosts: str, kcids: str) -> None:
    """The work of a process."""
    collect_rarely()
    web = Made(int(pages), int(hosts), [int(kcid) for kcid in kcids.split(",")])
    uvloop.run(_serve(engine, web))
