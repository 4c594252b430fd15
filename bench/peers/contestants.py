"""Who takes part in a comparison over HTTP (compare.py): Opilio as a user would call it, and its peers as scripts.

Each is told the same of a topic: start pages, keywords and a budget of pages. Opilio is given the examples too, from
which a classifier learns; peers have nothing that could learn from them. All are other programs than this one: what
they fetched is read from the server's log.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opilio.lab.experiments.experiment import TRUTH, Contestant, Experiment
from opilio.lab.experiments.tasks import TaskTopic
from opilio.lab.webs import Serving
from opilio.settings import Settings, override, to_toml

PEERS = Path(__file__).parent


@dataclass(frozen=True)
class Assignment:
    """What a contestant is told, and where it may write."""

    topic: TaskTopic
    starts: tuple[int, ...]
    pages: int
    serving: Serving
    folder: Path

    def urls(self, pages: Sequence[int]) -> list[str]:
        return [self.serving.web.urls[page] for page in pages]

    def seeds_file(self) -> Path:
        path = self.folder / "seeds.txt"
        path.write_text("\n".join(self.urls(self.starts)) + "\n", "utf-8")
        return path


@dataclass(frozen=True)
class Peer:
    """Another crawler, by the script that drives it."""

    name: str
    library: str
    options: tuple[str, ...] = ()

    def version(self) -> str:
        """'' when it is not installed."""
        try:
            return importlib.metadata.version(self.library)
        except importlib.metadata.PackageNotFoundError:
            return ""

    def identity(self) -> str:
        """All that its runs depend on, besides the assignment."""
        return f"{self.library} {self.version()} {self.options} {self._script().read_text('utf-8')}"

    def command(self, told: Assignment) -> list[str]:
        proxy = f"http://{told.serving.address}"
        keywords = ["--keywords", told.topic.keywords] if self.options else []
        what = ["--seeds", str(told.seeds_file()), "--proxy", proxy, "--pages", str(told.pages)]
        return [sys.executable, str(self._script()), *what, *self.options, *keywords]

    def _script(self) -> Path:
        return PEERS / f"{self.library}_peer.py"


ALL_PEERS = (
    Peer("Scrapy, breadth-first", "scrapy", ("--order", "breadth-first")),
    Peer("Scrapy, keywords", "scrapy", ("--order", "keywords")),
    Peer("crawl4ai, best-first", "crawl4ai", ("--order", "best-first")),
    Peer("crawl4ai, adaptive", "crawl4ai", ("--order", "adaptive")),
    Peer("ByteCrawl, Shark-Search", "bytecrawl", ("--order", "shark-search")),
    Peer("trafilatura", "trafilatura"),
)


@dataclass(frozen=True)
class Own:
    """A strategy of the experiment, as `opilio crawl` runs it: all that is on by default is on."""

    experiment: Experiment
    contestant: Contestant

    @property
    def name(self) -> str:
        return self.contestant.name

    def settings(self, repeat: int = 0) -> Settings:
        judge = self.experiment.judge_of(self.contestant)
        if judge.kind == TRUTH:
            sys.exit(f"{self.name}: labels judge in process only; name a classifier")
        changes = {**judge.settings, "classify.classifier": judge.kind}
        return override(self.experiment.settings_of(self.contestant, repeat), changes, self.name)

    def identity(self) -> str:
        return to_toml(self.settings())

    def command(self, told: Assignment) -> list[str]:
        changes = {**told.serving.settings, "limits.max_pages": told.pages}
        config, topic = told.folder / "crawl.toml", told.folder / "topic.yaml"
        config.write_text(to_toml(override(self.settings(told.topic.seed_set), changes)), "utf-8")
        topic.write_text(json.dumps(self._topic(told)), "utf-8")  # JSON is YAML
        given = ["--config", str(config), "--topics", str(topic)]
        if set(told.starts) - set(told.topic.examples):  # else examples are the seeds
            given += ["--seeds", str(told.seeds_file())]
        return [sys.executable, "-m", "opilio", "crawl", str(told.folder / "collection"), *given, "--quiet"]

    def _topic(self, told: Assignment) -> dict[str, object]:
        """The topic as a taxonomy of one. Examples are links where the crawl starts at them, else files: a page that
        is fetched only to learn from it would count as crawled."""
        web, topic = told.serving.web, told.topic
        examples: list[object] = []
        for page in topic.examples:
            if page in told.starts:
                examples.append(web.urls[page])
            else:
                path = told.folder / f"example{page}.html"
                path.write_bytes(web.body(page))
                examples.append({"file": path.name})
        return {"name": topic.label, "keywords": topic.keywords.split(), "examples": examples}
