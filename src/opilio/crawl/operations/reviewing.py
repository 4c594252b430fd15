"""Operations by which a reader improves the results: feedback, clusters of a topic, and the assisted review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opilio.crawl.operations.asking import update_counts
from opilio.crawl.operations.browse import search_hits
from opilio.crawl.operations.client import OperationClient, caller_operation
from opilio.crawl.operations.context import Context, address_of
from opilio.crawl.operations.declaration import READS, WRITES, Meta, Route, operation
from opilio.learn.training_data import pending_changes, recording_changes, undo_changes

CLUSTER_TIMEOUT_S = 300.0
ADDRESS_HINT = "Give the address as the results show it."


# -- feedback


@operation(
    WRITES,
    rest=Route("POST", "feedback", "teaching"),
    about={
        "verdict": Meta(
            description="relevant, irrelevant, or belongs (to `topic`).",
            extra_json_schema={"enum": ["relevant", "irrelevant", "belongs"]},
        ),
        "topic": Meta(description="The topic that is meant; by default the one that the page is in."),
    },
)
def feedback(at: Context, url: str, verdict: str, topic: str | None = None) -> dict[str, Any]:
    """Say of a page that it is `relevant`, `irrelevant`, or that it `belongs` to a topic; returns what was changed.

    The topic is by default the one that the page is in. A running crawl learns from it at once; otherwise the next
    training does, and `pending` counts the changes until then. `undo_feedback` takes `moment_us`.
    """
    from opilio.learn.feedback import give_feedback  # noqa: PLC0415
    from opilio.learn.words import said_with, spreading_answers  # noqa: PLC0415

    with spreading_answers(at.store, at.settings) as spread, recording_changes(at.store) as moment_us:
        said = give_feedback(at.store, address_of(url, ADDRESS_HINT), verdict, topic or None)
    update_counts(at)
    return {**said_with(spread, said), "moment_us": moment_us}


@operation(
    WRITES,
    timeout_s=CLUSTER_TIMEOUT_S,
    rest=Route("POST", "feedback/pages", "teaching"),
    about={
        "oids": Meta(description="The numbers of the pages, such as those of a cluster."),
        "verdict": Meta(description="relevant or irrelevant.", extra_json_schema={"enum": ["relevant", "irrelevant"]}),
        "topic": Meta(description="The topic that is meant; by default the one that each page is in."),
    },
)
def feedback_on_pages(at: Context, oids: Sequence[int], verdict: str, topic: str | None = None) -> dict[str, Any]:
    """Say of many pages, such as a cluster, that they are `relevant` or `irrelevant`.

    Returns how many `pages` became examples or counter-examples. `undo_feedback` takes `moment_us`.
    """
    from opilio.learn.feedback import give_feedback_on_pages  # noqa: PLC0415
    from opilio.learn.words import said_with, spreading_answers  # noqa: PLC0415

    with spreading_answers(at.store, at.settings) as spread, recording_changes(at.store) as moment_us:
        said = give_feedback_on_pages(at.store, oids, verdict, topic or None)
    update_counts(at)
    return {**said_with(spread, said), "moment_us": moment_us}


@operation(
    WRITES,
    rest=Route("POST", "feedback/undo", "teaching"),
    about={
        "moment_us": Meta(description="As `feedback` returns it, or `feedback_given`."),
        "url": Meta(description="Undo it for this page only; by default for all pages that it was said of."),
    },
)
def undo_feedback(at: Context, moment_us: int, url: str = "") -> dict[str, Any]:
    """Undo feedback: the training data is what it was. What was said of a page since then stays."""
    from opilio.learn.feedback import undo_feedback  # noqa: PLC0415
    from opilio.learn.words import said_with, spreading_answers  # noqa: PLC0415

    with spreading_answers(at.store, at.settings) as spread:
        result = undo_feedback(at.store, moment_us, address_of(url, ADDRESS_HINT) if url else "")
    update_counts(at)
    return said_with(spread, result)


@operation(READS)
def feedback_given(at: Context, urls: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What you have said of some pages, by URL: `verdict`, `topic`, and `moment_us` for `undo_feedback`."""
    from opilio.learn.feedback import feedback_given  # noqa: PLC0415

    return feedback_given(at.store, urls)


@operation(READS, rest=Route("GET", "pending", "teaching"))
def pending(at: Context) -> dict[str, Any]:
    """The changes of the training data since the model in use was trained: `model`, `count` and `changes`.

    `missing`: so many more pages must be confirmed before a first model can be trained; until then words judge.
    """
    return pending_changes(at.store)


@operation(WRITES)
def forget_changes(at: Context, version: int) -> int:
    """Undo your changes of the training data since a model was trained; returns how many documents that affects."""
    return undo_changes(at.store, version)


# -- clusters


@caller_operation(
    READS,
    timeout_s=CLUSTER_TIMEOUT_S,
    rest=Route("GET", "clusters", "clusters", "analysis"),
    about={
        "topic": Meta(description="A topic and all below it; empty: all topics."),
        "k": Meta(description="How many clusters; 0: as many as the entropy suggests."),
        "search": Meta(description="A question: cluster the pages of the topic that match it."),
    },
)
def clusters(client: OperationClient, topic: str = "", k: int = 0, *, search: str = "") -> dict[str, Any]:
    """The clusters of the pages of a topic, by default of all: names, terms, most central pages.

    With `k` 0 their number is chosen.

    With `search`, the clusters of the pages of the topic that match a question, whether they are relevant or not.
    """
    return client.call(_clusters, topic, k, search_hits(client, search, topic) if search else None)


@operation(READS, timeout_s=CLUSTER_TIMEOUT_S)
def _clusters(at: Context, topic: str, k: int, among: list[int] | None) -> dict[str, Any]:
    """The clusters of a topic, or of some pages."""
    from opilio.search.clusters import find_clusters  # noqa: PLC0415

    return find_clusters(at.store, topic, k, among=among)


@operation(WRITES)
def split_topic(at: Context, topic: str, clusters: Sequence[Mapping[str, Any]]) -> list[str]:
    """Make subtopics of clusters, with their most central pages as examples; returns their paths. Train afterwards."""
    from opilio.search import clusters as found  # noqa: PLC0415

    with recording_changes(at.store):
        return found.split_topic(at.store, topic, [dict(cluster) for cluster in clusters])


# -- the assisted review: nothing is learned from it until `learn_review`


@operation(
    READS,
    rest=Route("GET", "review", "review"),
    about={"url": Meta(description="The page to show next; by default the next one of the sample.")},
)
def review(at: Context, topic: str, url: str | None = None) -> dict[str, Any]:
    """The state of the review of a topic: groups, estimates of precision and recall, and the page to judge `next`."""
    from opilio.search.review import review_state  # noqa: PLC0415

    return review_state(at.store, topic, address_of(url, ADDRESS_HINT) if url else None)


@operation(
    WRITES,
    rest=Route("POST", "review", "review"),
    about={
        "verdict": Meta(
            description="yes, no, unsure or skip.", extra_json_schema={"enum": ["yes", "no", "unsure", "skip"]}
        )
    },
)
def judge(at: Context, topic: str, url: str, verdict: str) -> None:
    """Judge a page in the review of a topic: `yes`, `no`, `unsure` or `skip`. The latest verdict counts."""
    from opilio.search import review as reviewed  # noqa: PLC0415

    reviewed.judge(at.store, topic, address_of(url, ADDRESS_HINT), verdict)


@operation(WRITES, rest=Route("POST", "review/back", "review"))
def take_back(at: Context, topic: str) -> str:
    """Delete the latest verdict of a review; returns the page that it was about."""
    from opilio.search import review as reviewed  # noqa: PLC0415

    return reviewed.undo_verdict(at.store, topic)


@operation(
    WRITES,
    rest=Route("POST", "review/decide", "review"),
    about={
        "group": Meta(description="The name of a group, as the review lists it."),
        "decision": Meta(
            description="kept, dropped or by rule.", extra_json_schema={"enum": ["kept", "dropped", "by rule"]}
        ),
    },
)
def decide_group(at: Context, topic: str, group: str, decision: str) -> None:
    """Keep or drop a group of a review as a whole (`kept`, `dropped`), or let the rule of 75 % decide (`by rule`)."""
    from opilio.search import review as reviewed  # noqa: PLC0415

    reviewed.decide_group(at.store, topic, group, decision)


@operation(READS, about={"format_name": Meta(description="jsonl, csv or parquet; by default as the suffix says.")})
def export_review(at: Context, topic: str, target: Path | str, format_name: str = "") -> dict[str, int]:
    """Write the pages of a topic that its review keeps to a file; returns how many `pages`, and `open` groups."""
    from opilio.search import review as reviewed  # noqa: PLC0415

    return reviewed.export_review(at.store, topic, at.output_file(target), format_name)


@operation(READS, rest=Route("GET", "review/verdicts", "review"))
def verdicts(at: Context, topic: str) -> list[dict[str, Any]]:
    """All verdicts in the review of a topic: url, title, verdict, group, time."""
    from opilio.search.review import list_verdicts  # noqa: PLC0415

    return list_verdicts(at.store, topic)


@operation(WRITES, rest=Route("POST", "review/learn", "review"))
def learn_review(at: Context, topic: str) -> dict[str, int]:
    """Make examples and counter-examples of the verdicts; returns how many `yes` and `no`. Train afterwards."""
    from opilio.search import review as reviewed  # noqa: PLC0415

    with recording_changes(at.store):
        return reviewed.learn_review(at.store, topic)


@operation(WRITES, rest=Route("POST", "review/anew", "review"))
def restart_review(at: Context, topic: str) -> int:
    """Delete all verdicts of a review, to judge what another model found; returns how many there were."""
    from opilio.search.review import restart_review  # noqa: PLC0415

    return restart_review(at.store, topic)
