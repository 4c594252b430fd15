"""Link analysis: which pages of a collection are its hubs, and which its authorities.

A *hub* is a page with many links to relevant pages, an *authority* one to which many hubs link. Four methods find
them, all by one call, `distill` (`analysis.py`):

- `weighted`: HITS in which links count by relevance, and boilerplate and links inside a site do not; the default;
- `hits`: HITS on the neighbourhood of a topic, where no host can praise itself or one page many times (BINGO 2.5);
- `focus`: the distiller of Focus, in SQL: links weigh as much as their ends are relevant (Focus 2.2);
- `pagerank`: how often a reader is on a page who follows links at random (BestN 4.2).

`rankings.py` has both kinds of HITS and PageRank, over the graph that `graph.py` loads; `focus.py` has the distiller of
Focus; `back_links.py` has links from outside the crawl; `scores.py` has what all methods give; `recommendations.py`
finds what great hubs recommend, and stores scores.

Invariants of all of them:

1. A link to a URL that redirects counts for the URL it ends at, a link to a duplicate counts for the original, and so
   do links of a duplicate. A circle of redirects ends nowhere: links into it do not count.
2. A page links to another or does not: repeated links count once.
3. A result comes from one snapshot of the database and changes nothing in it, so it can be had while a crawl runs.
4. The same snapshot gives the same scores, to the last bit, on any number of threads.
5. Scores of a kind sum to 1, or are all 0 when no link counts.

Hosts are told apart by `sid`, the host with its port. A *site* is all hosts of a registered domain, a *server* all
hosts at one address. `neglected` lists what the best hubs recommend and nobody has fetched yet. A crawl has all of this
done in the background: `analyse` for every topic at once, then `save_scores`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opilio.process import loader

if TYPE_CHECKING:
    from opilio.distill.analysis import (
        BACKGROUND_OPTIONS,
        DEFAULT_METHOD,
        METHODS,
        STORED_METHODS,
        Analysis,
        analyse,
        distill,
        listing,
    )
    from opilio.distill.back_links import BackLinks
    from opilio.distill.focus import Neglected, neglected
    from opilio.distill.graph import WebGraph
    from opilio.distill.recommendations import Recommended, save_scores
    from opilio.distill.scores import DistillOptions, Scored, Scores

_MODULES = {
    "Analysis": "analysis",
    "BACKGROUND_OPTIONS": "analysis",
    "BackLinks": "back_links",
    "DEFAULT_METHOD": "analysis",
    "METHODS": "analysis",
    "STORED_METHODS": "analysis",
    "Neglected": "focus",
    "DistillOptions": "scores",
    "Recommended": "recommendations",
    "Scored": "scores",
    "Scores": "scores",
    "WebGraph": "graph",
    "analyse": "analysis",
    "distill": "analysis",
    "save_scores": "recommendations",
    "listing": "analysis",
    "neglected": "focus",
}

__all__ = [
    "BACKGROUND_OPTIONS",
    "DEFAULT_METHOD",
    "METHODS",
    "STORED_METHODS",
    "Analysis",
    "BackLinks",
    "DistillOptions",
    "Neglected",
    "Recommended",
    "Scored",
    "Scores",
    "WebGraph",
    "analyse",
    "distill",
    "listing",
    "neglected",
    "save_scores",
]

__getattr__ = loader(__name__, _MODULES)
