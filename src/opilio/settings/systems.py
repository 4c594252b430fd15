"""The systems of the papers: which settings make each of them what it is, with the paper's defaults.

`run.system` names one. Its values take the place of Opilio's defaults; a setting that the user gives still counts. What
no setting can give a system is in its page, docs/systems/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opilio.settings.sections import KIB

_LEARNS_NOTHING: dict[str, Any] = {"learn.mined_negatives": 0, "learn.questions": 0}
"""No paper mines negatives among the pages met, or asks about pages during the crawl."""


@dataclass(frozen=True)
class System:
    """The system of a paper."""

    paper: str
    about: str
    settings: Mapping[str, Any]
    """By dotted name, where it differs from Opilio's defaults."""


SYSTEMS: Mapping[str, System] = {
    "focus": System(
        "Chakrabarti, van den Berg, Dom: Distributed Hypertext Resource Discovery Through Examples (VLDB 1999)",
        "a Bayes tree judges, the database orders the queue, a distiller raises what good hubs link to",
        {
            **_LEARNS_NOTHING,
            "classify.classifier": "bayes",
            "classify.focus": "soft",
            "frontier.strategy": "sql",
            "frontier.order_by": "numtries, relevance desc, serverload",  # 3.2: aggressive discovery
            "frontier.distill_after": 100,
            "frontier.distill_method": "focus",
            "frontier.hub_percentile": 0.9,
        },
    ),
    "bingo": System(
        "Sizov et al.: The BINGO! System for Information Portal Generation and Expert Web Search (CIDR 2003)",
        "a tree of SVMs over several feature spaces learns from archetypes, first sharply focused, then harvesting",
        {
            **_LEARNS_NOTHING,
            "classify.classifier": "svm",
            "classify.spaces": ("terms", "pairs", "terms+anchors"),
            "classify.calibrate": False,  # the side of the hyperplane decides
            "frontier.strategy": "bingo",
            "frontier.tunnel_steps": 2,
            "frontier.tunnel_decay": 0.5,
            "frontier.hot_urls": 25_000,
            "frontier.distill_method": "hits",
            "frontier.hubs_first": 10,
            "learn.phases": True,
            "learn.retrain_after": 100,
            "learn.guard": "off",
        },
    ),
    "best-n-first": System(
        "Pant, Srinivasan, Menczer: Exploration versus Exploitation in Topic Driven Crawlers (2002)",
        "the cosine of a page and the topic's words is the score of its links; the best N are fetched at a time",
        {
            **_LEARNS_NOTHING,
            "classify.classifier": "cosine",
            "frontier.strategy": "best-n-first",
            "frontier.n": 256,
            "frontier.max_queued": 256,  # MAX_BUFFER
            "limits.max_pages": 2000,  # MAX_PAGES
            "fetch.total_timeout_s": 10.0,
            "fetch.accept": {"text/html": 100 * KIB},
            "fetch.cut_bytes": 100 * KIB,  # 2.2: the first 100 KB
        },
    ),
    "oasis": System(
        "Kluev: Compiling Document Collections from the Internet (SIGIR Forum 2000)",
        "a filter of terms and collocations, five metrics and the mean score of a link's parents",
        {
            **_LEARNS_NOTHING,
            "classify.classifier": "oasis",
            "frontier.strategy": "oasis",
            "oasis.core_share": 0.65,
            "oasis.variable_share": 0.3,
            "oasis.damping": 0.2,
        },
    ),
}
