"""Feedback on results, clusters of a topic, and the assisted review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opilio.crawl.asking import Askable, address_of

CLUSTER_TIMEOUT_S = 300.0


class Reviewable(Askable):
    """What a reader says of results, topic by topic."""

    # -- feedback

    def feedback(self, url: str, verdict: str, topic: str | None = None) -> dict[str, Any]:
        """Say of a page that it is `relevant`, `irrelevant`, or that it `belongs` to a topic; returns which one learns.

        The topic is by default the one that took the page. A crawl that runs learns it at once; otherwise it is learned
        with the next `train()`: `pending()` counts what waits.
        """
        return dict(self._teach("feedback", url=_url(url), verdict=verdict, topic=topic))

    def pending(self) -> dict[str, Any]:
        """What was taught since the model that judges was trained: `model`, `count` and `changes`."""
        return dict(self._read("pending"))

    def examples(self) -> list[dict[str, Any]]:
        """What is learned from: topic, name, title, side (`positive`), source, and whether its page is there."""
        return list(self._read("examples"))

    def compare_topics(self, first: int, second: int) -> dict[str, Any]:
        """What `compare_models` tells, the pages of each topic before and after, and which pages changed topics."""
        return dict(self._read("compare_topics", first=first, second=second))

    def forget_lessons(self, version: int) -> int:
        """Take back what you taught since a model was trained; how many documents that concerned."""
        return int(self._teach("forget", version=version))

    # -- clusters

    def clusters(self, topic: str, k: int = 0) -> dict[str, Any]:
        """The clusters of the pages of a topic: names, terms, most central pages; `k` 0 chooses how many."""
        return dict(self._read("clusters", CLUSTER_TIMEOUT_S, topic=topic, k=k))

    def split_topic(self, topic: str, clusters: Sequence[Mapping[str, Any]]) -> list[str]:
        """Make subtopics of clusters, with their most central pages as examples; their paths. Train then."""
        return list(self._teach("split_topic", topic=topic, clusters=[dict(cluster) for cluster in clusters]))

    # -- the assisted review

    def review(self, topic: str, url: str | None = None) -> dict[str, Any]:
        """How the review of a topic stands: groups, estimates of precision and recall, and the page to judge `next`."""
        return dict(self._read("review", topic=topic, url=None if url is None else _url(url)))

    def judge(self, topic: str, url: str, verdict: str) -> None:
        """Judge a page in the review of a topic: `yes`, `no`, `unsure` or `skip`. The latest word counts."""
        self._teach("judge", topic=topic, url=_url(url), verdict=verdict)

    def take_back(self, topic: str) -> str:
        """Forget the latest verdict of a review; the page it was about."""
        return str(self._teach("take_back", topic=topic))

    def verdicts(self, topic: str) -> list[dict[str, Any]]:
        """All that was judged in the review of a topic: url, title, verdict, group, time."""
        return list(self._read("verdicts", topic=topic))

    def learn_review(self, topic: str) -> dict[str, int]:
        """Make examples and counter-examples of what was judged; how many were `yes` and `no`. Train then."""
        return dict(self._teach("learn_review", topic=topic))

    def review_anew(self, topic: str) -> int:
        """Forget all verdicts of a review, to judge what another model found; how many there were."""
        return int(self._teach("review_anew", topic=topic))


def _url(text: str) -> str:
    return address_of(text, "Give the address as the results show it.")
