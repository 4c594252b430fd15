"""What a collection is asked about its judgements, and what it is taught: at rest, or through a crawl that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opilio import learn
from opilio.analyze.files import read_file
from opilio.crawl.asking import Askable, address_of
from opilio.crawl.control import ASK_TIMEOUT_S, ask
from opilio.crawl.lessons import train_now, use_model_now
from opilio.store import Store

TRAIN_TIMEOUT_S = 600.0


class Teachable(Askable):
    """What concerns topics, examples, judgements and models."""

    def topics(self) -> list[dict[str, Any]]:
        """The topic tree: path, mark, keywords, examples, pages."""
        return list(self._read("topics"))

    def distill(self, topic: str | None = None, method: str = "hits", top: int = 20) -> dict[str, Any]:
        """The best hubs and authorities of a topic with all below it, of all that are wanted when it is None."""
        return dict(self._read("distill", TRAIN_TIMEOUT_S, topic=topic, method=method, top=top))

    def census(self, last_pages: int = 0, topic: str | None = None) -> dict[str, Any]:
        """Which topics the latest pages fell into (0: all pages), what the others are about, and what to do."""
        return dict(self._read("census", last_pages=last_pages, topic=topic))

    def mark(self, topic: str, *, good: bool) -> list[str]:
        """Want a topic, or not any more; at once when a crawl runs. Returns the topics whose mark has changed."""
        return list(self._teach("mark", topic=topic, good=good))

    def add_example(self, topic: str, example: str, *, positive: bool = True) -> str:
        """Add a document to learn from: a URL, a file, or `text:` and a text; a negative one belongs to OTHERS."""
        return str(
            self._teach("add_example", topic=topic, example=example, positive=positive, relative_to=str(Path.cwd()))
        )

    def drop_example(self, topic: str, name: str) -> None:
        """Forget a document of a topic."""
        self._teach("drop_example", topic=topic, name=name)

    # -- archetypes

    def archetypes(self, topic: str | None = None) -> list[dict[str, Any]]:
        """Pages learned from without the user's word (state `archetype`), those to come next, and other candidates."""

        def read(store: Store) -> list[dict[str, Any]]:
            return learn.list_archetypes(store, self.settings, topic)

        return list(self._ask_or_open("archetypes", read, TRAIN_TIMEOUT_S, read_only=True, topic=topic))

    def confirm_archetype(self, topic: str, url: str) -> None:
        """Vouch for an archetype or another stored page: it is your own example of the topic from now on."""
        self._teach("confirm_archetype", topic=topic, url=_url(url))

    def reject_archetype(self, topic: str, url: str) -> None:
        """Make an archetype or a candidate a counter-example of the topic; it is never proposed again."""
        self._teach("reject_archetype", topic=topic, url=_url(url))

    def trim_example(self, topic: str, url: str, text: str) -> None:
        """Learn from a part of a stored page in place of the whole; it is your own example of the topic then."""
        self._teach("trim_example", topic=topic, url=_url(url), text=text)

    def page_text(self, url: str) -> dict[str, Any]:
        """The title and the visible text of a stored page, as `trim_example` takes parts of it."""
        return dict(self._read("page_text", url=_url(url)))

    # -- judging

    def train(self, *, judge_anew: bool = True) -> int:
        """Train a model from what the examples are now; its version. Stored pages are judged anew by it."""
        answer = ask(self.folder, "train", timeout_s=TRAIN_TIMEOUT_S, judge_anew=judge_anew)
        if answer is not None:
            return int(answer)
        with self._store() as store:
            return train_now(store, self.settings, judge_anew=judge_anew)

    def propose(self, file: Path | str) -> int:
        """Write the terms and collocations that could tell the topics apart to a file for an expert to edit.

        `settings.oasis.filter` names the file that the classifier `oasis` uses then. Returns how many topics are in it.
        """
        with self._opened(read_only=True) as store:
            return learn.propose(store, self.settings, Path(file))

    def explain(self, target: str, *, version: int = 0) -> dict[str, Any]:
        """Why a page or a file is judged as it is: topic, confidence, votes, terms for and against, the way to it."""
        path = Path(target)
        if "://" not in target and path.is_file():
            said = read_file(path)
            request: dict[str, Any] = {"title": said.title, "text": said.text, "url": ""}
        else:
            url = address_of(target, "Give a file, or a URL of the collection.")
            request = {"title": "", "text": "", "url": url}
        return dict(self._read("explain", **request, version=version))

    def explain_link(self, target: str) -> dict[str, Any]:
        """What leads to a URL, fetched or not; while a crawl runs by `evidence`, what its priority is made of, too."""
        url = address_of(target, "Give a URL that the crawl has met.")
        return dict(
            self._ask_or_open(
                "explain_link", lambda store: learn.explain_link(store, url), ASK_TIMEOUT_S, read_only=True, url=url
            )
        )

    # -- models

    def models(self) -> list[dict[str, Any]]:
        """All models, newest first: why each was trained, on how much, what is expected of it, what it found."""
        return list(self._read("models"))

    def refused_models(self) -> list[dict[str, Any]]:
        """The models that were made and not taken, newest first, each with the figures that spoke against it."""
        return list(self._read("refused_models"))

    def compare_models(self, first: int, second: int) -> dict[str, Any]:
        """What two models say of the pages that both have judged."""
        return dict(self._read("compare_models", first=first, second=second))

    def use_model(self, version: int) -> int:
        """Judge by an older model again: it gets a new version, which is returned. Stored pages are judged anew."""
        answer = ask(self.folder, "use_model", timeout_s=TRAIN_TIMEOUT_S, version=version)
        if answer is not None:
            return int(answer)
        with self._store() as store:
            return use_model_now(store, self.settings, version)


def _url(text: str) -> str:
    return address_of(text, "Give the address as `opilio archetypes list FOLDER` shows it.")
