"""Samples of an assisted review: the groups they are drawn from, which page is next, and what they say of the whole.

The share of one group that is relevant has the interval of Wilson. For several groups, each with its weight, the
intervals of the groups are added up at a narrower level (Yan and Su 2010): because the groups err independently, their
sum is surer than each of them. A group of which every page was judged adds no doubt, and one of which a large part was
adds less (the correction for finite populations).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from opilio.store import Store
from opilio.store.reviews import DOUBTFUL, FILTERED, UNDOUBTED, groups_of_not_taken, groups_of_taken

LEVEL = 0.95
SAMPLE_SHARE, KEPT_ABOVE = 0.2, 0.75
"""OASIS 4.7: 20 % of a group, and "more than 75 %"."""
MIN_DIRECTORY_PAGES = 10
"""A smaller directory has no group of its own: one page of five would stand for the other four."""
MAX_CHECKED_PAGES = 50
"""At most this many undoubted pages are judged: nothing is decided by them."""
MOMENTS = (0.1, 0.5, 1.0)
"""Shares of the crawl, as the paper has the 10th, 50th and 100th hour."""
MOMENT_PAGES = 100
"""Pages looked at before each of them."""
YES, NO, UNSURE, SKIP = "yes", "no", "unsure", "skip"
VERDICTS = (YES, NO, UNSURE, SKIP)
KINDS = (DOUBTFUL, UNDOUBTED, FILTERED)


@dataclass(frozen=True)
class Stratum:
    """A group of pages, and what was found in a sample of it."""

    pages: int
    judged: int
    relevant: int

    @property
    def share(self) -> float:
        """The share of its sample that is relevant."""
        return self.relevant / self.judged

    @property
    def weight_of_sample(self) -> float:
        """How many independent pages its sample is worth; infinite when the whole group was judged."""
        if self.judged >= self.pages:
            return math.inf
        return self.judged * (self.pages - 1) / (self.pages - self.judged)


@dataclass(frozen=True)
class ShareInterval:
    """A share, and where it may lie."""

    value: float
    low: float
    high: float


def z_of(level: float = LEVEL) -> float:
    """How many standard deviations an interval reaches to each side."""
    return NormalDist().inv_cdf(0.5 + level / 2)


def wilson(share: float, judged: float, z: float) -> tuple[float, float]:
    """The interval of Wilson for a share found among `judged` pages."""
    if math.isinf(judged):
        return share, share
    squared = z * z / judged
    middle = (share + squared / 2) / (1 + squared)
    reach = z / (1 + squared) * math.sqrt(share * (1 - share) / judged + squared / (4 * judged))
    return max(0.0, middle - reach), min(1.0, middle + reach)


def estimate(strata: Sequence[Stratum], level: float = LEVEL) -> ShareInterval | None:
    """The share that is relevant in all groups together; None while no page of one of them was judged."""
    filled = [stratum for stratum in strata if stratum.pages]
    if not filled or not all(stratum.judged for stratum in filled):
        return None
    pages = sum(stratum.pages for stratum in filled)
    weights = [stratum.pages / pages for stratum in filled]
    z = _narrowed(filled, weights, z_of(level))
    bounds = [wilson(stratum.share, stratum.weight_of_sample, z) for stratum in filled]
    low, high = (sum(w * b[side] for w, b in zip(weights, bounds, strict=True)) for side in (0, 1))
    known_yes = sum(stratum.relevant for stratum in filled) / pages
    known_no = sum(stratum.judged - stratum.relevant for stratum in filled) / pages
    value = sum(w * stratum.share for w, stratum in zip(weights, filled, strict=True))
    return ShareInterval(value, min(value, max(low, known_yes)), max(value, min(high, 1 - known_no)))


def _narrowed(strata: Sequence[Stratum], weights: Sequence[float], z: float) -> float:
    """The reach at which the intervals of the groups add up to that of all."""
    errors = [w / math.sqrt(s.weight_of_sample) for s, w in zip(strata, weights, strict=True)]
    return z * math.hypot(*errors) / sum(errors) if sum(errors) else z


def recall(found: tuple[int, ShareInterval], missed: tuple[int, ShareInterval]) -> ShareInterval:
    """The share that was found of all that is relevant: both sides are a number of pages and the share relevant.

    Its ends are those of the two intervals that are farthest apart, so it is rather too wide than too narrow.
    """

    def share(relevant: float, lost: float) -> float:
        return relevant / (relevant + lost) if relevant + lost else 0.0

    (kept, precision), (left, lost) = found, missed
    return ShareInterval(
        share(kept * precision.value, left * lost.value),
        share(kept * precision.low, left * lost.high),
        share(kept * precision.high, left * lost.low),
    )


@dataclass(frozen=True)
class ReviewGroup:
    """Pages that are judged by one sample."""

    kind: str
    agreed: str
    """The metrics that said yes."""
    directory: str
    """Of all pages in it, or their host; empty for the undoubted, and for pages of many small directories."""
    pages: int
    yes: int
    no: int
    unsure: int
    skipped: int
    fresh: int | None
    """The page that is drawn next, and the one of those that were skipped that was so first, and when."""
    later: int | None
    later_us: int | None = None

    @property
    def name(self) -> str:
        """What it is called in the table `reviews`."""
        return " | ".join(part for part in (self.kind, self.agreed, self.directory) if part)

    @property
    def sample(self) -> int:
        """How many of its pages are to be judged."""
        wanted = math.ceil(SAMPLE_SHARE * self.pages)
        wanted = min(wanted, MAX_CHECKED_PAGES) if self.kind == UNDOUBTED else wanted
        return min(wanted, self.pages - self.unsure)

    @property
    def left(self) -> int:
        """How many are still to be judged."""
        return max(0, self.sample - self.yes - self.no)

    @property
    def decision(self) -> str:
        """`open` until the sample is judged, then `kept` or `refused` as a whole."""
        if self.kind == UNDOUBTED:
            return "kept"
        if self.left or not self.yes + self.no:
            return "open"
        return "kept" if self.yes > KEPT_ABOVE * (self.yes + self.no) else "refused"

    @property
    def stratum(self) -> Stratum:
        """The same for an estimate."""
        return Stratum(self.pages, self.yes + self.no, self.yes)


def load_groups(store: Store, kcid: int, kcids: list[int]) -> list[ReviewGroup]:
    """The groups of a topic, in the order in which they are judged; `kcids` are it and all below it."""
    models = store.load_models()
    draw = models[0].version if models else 0
    taken = groups_of_taken(store, kcid, kcids, draw=draw, min_directory_pages=MIN_DIRECTORY_PAGES)
    not_taken = groups_of_not_taken(
        store, kcid, kcids, draw=draw, min_directory_pages=MIN_DIRECTORY_PAGES, moments=MOMENTS,
        moment_pages=MOMENT_PAGES,
    )  # fmt: skip
    return [ReviewGroup(*row) for row in (*taken, *not_taken)]


def next_page(groups: list[ReviewGroup]) -> tuple[int, ReviewGroup] | None:
    """The page to judge next, group after group; those that were skipped come last."""
    for group in groups:
        if group.left > group.skipped and group.fresh is not None:
            return group.fresh, group
    skipped = [group for group in groups if group.left and group.later is not None]
    first = min(skipped, key=lambda group: group.later_us or 0, default=None)
    return None if first is None or first.later is None else (first.later, first)
