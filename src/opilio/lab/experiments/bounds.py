"""Strategies that know what no crawler can know. They show how much a better order, or a better judge, could gain.

The oracle knows all labels and all links. It plans a whole crawl before the first page is fetched (`make_plan`), and
takes URLs in the order of that plan; a URL that redirects to a planned page has the place of that page. Foresight knows
what the judge will say of every queued page: where it is little better than an order that guesses from links, no better
guess will help, but a better judge may. Only simulated crawls can have such orders.

What the plan optimises is `auc`, the mean recall over the first part of the web. To find the best order of all is hard:
choosing the fewest pages that lead to all targets is a Steiner tree problem. So the oracle is a strong order and no
proven upper bound. These rules are exact, and the rest is a choice among several plans:

- A queued target is taken at once: no order gains by letting it wait. So all targets that a chain of targets leads to
  are found together, and a plan only has to choose among pages that are no targets.
- When each page has one page that leads to it, the best order is known (Horn 1972: the subtree with most targets per
  page first). Every plan is put into that order.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from opilio.frontier import QueuedUrl, Strategy, strategies
from opilio.lab.experiments.analysed import Analysed
from opilio.lab.experiments.graph import LinkGraph
from opilio.lab.experiments.simulate import Answers
from opilio.model import Judgement
from opilio.settings import FrontierSettings, Settings

if TYPE_CHECKING:
    _Block: TypeAlias = tuple[float, int, int, list[int], list["_Block"]]

_SEED_PRIORITY = 100.0
_NO_PAGE = -100.0
_NO_PLACE = -1e9
_LOOKAHEAD_STEPS = (1, 2, 3)
"""Plans are made with each of these: how many pages in a row are chosen for the targets that they bring together."""
_MAX_ROUNDS = 8
"""A plan is reordered until it is no better, at most this often. Most are done after three rounds."""


@strategies.register("oracle")
class Oracle(Strategy):
    """The order of a plan that was made with all labels and links. `know` must be called before the crawl."""

    order_by = "priority desc"

    def __init__(self, settings: FrontierSettings) -> None:
        super().__init__(settings)
        self._place_of: Callable[[str], int | None] = lambda url: None

    def know(self, place_of: Callable[[str], int | None]) -> None:
        """The place of a URL in the plan; None when it leads to no page."""
        self._place_of = place_of

    def priority(self, link: QueuedUrl) -> float:
        """Minus its place; a URL that leads to no page comes last."""
        place = self._place_of(link.url)
        return -float(place) if place is not None else _NO_PLACE


@strategies.register("foresight")
class Foresight(Strategy):
    """The page that the judge is surest of first. `know` must be called before the crawl."""

    order_by = "priority desc"

    def __init__(self, settings: FrontierSettings) -> None:
        super().__init__(settings)
        self._confidence_of: Callable[[str], float] = lambda url: 0.0

    def know(self, confidence_of: Callable[[str], float]) -> None:
        """How sure the judge will be of the page at a URL."""
        self._confidence_of = confidence_of

    def priority(self, link: QueuedUrl) -> float:
        """The judge's confidence; a URL without a page comes last."""
        return _SEED_PRIORITY if link.depth == 0 else self._confidence_of(link.url)


KNOWING = (Oracle, Foresight)


def foreseen(answers: Answers, judge: Callable[[int], Judgement]) -> Callable[[str], float]:
    """By URL: how sure a judge will be of its page."""

    def confidence_of(url: str) -> float:
        number = answers.number(url)
        return judge(number).confidence if number >= 0 and answers.page(number)[1] is not None else _NO_PAGE

    return confidence_of


# -- the oracle's plan


@dataclass(frozen=True)
class PlannedWeb:
    """What a plan is made of. Pages are numbers; links lead to where redirects end, and to pages that can be had."""

    links: Sequence[Sequence[int]]
    """By page: where its links lead, each page once."""
    targets: frozenset[int]
    starts: tuple[int, ...]
    max_pages: int
    """Pages that count for `auc`."""

    def area(self, order: Sequence[int]) -> int:
        """How many targets were found after 1, 2, ... pages, added up: `auc` without its divisors."""
        return sum(self.max_pages - place for place, page in enumerate(order[: self.max_pages]) if page in self.targets)


def planned_web(
    analysed: Analysed,
    graph: LinkGraph,
    targets: Iterable[int],
    starts: Sequence[int],
    settings: Settings,
    max_pages: int,
) -> PlannedWeb:
    """The web as a crawl with these settings can walk through it; only the first `max_pages` pages count."""
    readable = analysed.readable
    robots = settings.robots
    links: list[Sequence[int]] = []
    for page, document in enumerate(analysed.documents):
        found = graph.targets[graph.starts[page] : graph.starts[page + 1]]
        if document is None or (document.nofollow and robots.obey_meta):
            links.append(())
            continue
        if robots.obey_rel_nofollow and any(document.links.nofollow):
            found = found[[not nofollow for nofollow in document.links.nofollow]]
        found = np.unique(found[found >= 0])
        links.append(found[readable[found] & (found != page)].tolist())
    return PlannedWeb(links, frozenset(targets), tuple(dict.fromkeys(starts)), max_pages)


def make_plan(web: PlannedWeb) -> list[int]:
    """The pages to fetch, in order, until all targets that can be reached are found; the best of several plans."""
    closure = _Closures(web)
    drafts = [_nearest_targets(web)]
    drafts += [_Walk(web, closure, steps).plan() for steps in _LOOKAHEAD_STEPS]
    return max((_reordered(web, draft) for draft in drafts), key=web.area)


def places_of(
    plan: Sequence[int], answers: Answers, graph: LinkGraph, analysed: Analysed, starts: Iterable[int]
) -> Callable[[str], int | None]:
    """By URL: its place in the plan. Where only a redirect leads to a page in time, the redirect has its place too.

    All other pages that can be had come after the plan; what leads nowhere, or is a redirect that is not needed, has no
    place.
    """
    places = {page: place for place, page in enumerate(plan)}
    found = {page: places.get(page, len(plan)) for page in np.flatnonzero(analysed.readable).tolist()}
    known = set(starts)
    for page in plan:
        direct = analysed.links(page).tolist()
        known.update(direct)
        ends = graph.targets[graph.starts[page] : graph.starts[page + 1]].tolist()
        for through, end in zip(direct, ends, strict=True):
            if through >= 0 and through != end and end in places and end not in known:
                known.add(end)
                found.update(dict.fromkeys(_chain(answers, through), places[end]))
    return lambda url: found.get(answers.number(url))  # a number, for https and http may be the same page


def _chain(answers: Answers, page: int) -> Iterator[int]:
    """The URLs of a chain of redirects, by number, without the page at its end."""
    seen: set[int] = set()
    while page >= 0 and page not in seen:
        seen.add(page)
        target = answers.page(page)[0].redirect_url
        if not target:
            return
        yield page
        page = answers.number(target)


class _Closures:
    """Which targets a page brings: those that it links to, those that they link to, and so on through targets.

    Sets of targets are the bits of an integer: to unite two and to count one takes less than a microsecond.
    """

    def __init__(self, web: PlannedWeb) -> None:
        bits = {target: 1 << at for at, target in enumerate(sorted(web.targets))}
        self._reach = self._reached(web, bits)
        shared: dict[int, int] = {}  # many pages bring the same targets
        self.brings: list[int] = []
        for page, links in enumerate(web.links):
            mask = 0
            if page not in bits:
                for link in links:
                    if link in bits:
                        mask |= self._reach[link]
            self.brings.append(shared.setdefault(mask, mask))

    def of(self, page: int) -> int:
        """The targets that are found once a page is known, itself included if it is one."""
        return self._reach.get(page, 0)

    @staticmethod
    def _reached(web: PlannedWeb, bits: Mapping[int, int]) -> dict[int, int]:
        """By target: all targets that can be reached through targets, itself included."""
        reach = dict(bits)
        inner = {target: [link for link in web.links[target] if link in bits] for target in bits}
        sources: dict[int, list[int]] = {target: [] for target in bits}
        for target, links in inner.items():
            for link in links:
                sources[link].append(target)
        todo = dict.fromkeys(bits)
        while todo:
            target, _ = todo.popitem()
            mask = reach[target]
            for source in sources[target]:
                if mask & ~reach[source]:
                    reach[source] |= mask
                    todo[source] = None
        return reach


class _Walk:
    """A crawl that always takes the page from which a few steps bring most new targets per page.

    What a page brings only shrinks while a crawl goes on. So a value that was found earlier is an upper bound: a page
    is valued again only when it is the best by its old value.
    """

    def __init__(self, web: PlannedWeb, closures: _Closures, steps: int) -> None:
        self._web = web
        self._closures = closures
        self._brings = closures.brings
        self._steps = steps
        self._known = bytearray(len(web.links))
        self._missing = (1 << len(web.targets)) - 1
        self._order: list[int] = []
        self._heap: list[tuple[float, int]] = []
        self._bounds = self._upper_bounds()

    def plan(self) -> list[int]:
        """The pages in order."""
        for start in self._web.starts:
            self._meet(start)
        while self._missing:
            page = self._best()
            if page is None:
                page = self._nearest()
            if page is None:
                break
            self._order.append(page)
            for link in self._web.links[page]:
                self._meet(link)
        return self._order

    def _upper_bounds(self) -> list[float]:
        """By page: the most that it, or any page within the steps looked ahead, brings. No mean is above that."""
        bounds = [float(mask.bit_count()) for mask in self._brings]
        for _ in range(self._steps - 1):
            bounds = [
                max([bounds[page], *(bounds[link] for link in links)]) for page, links in enumerate(self._web.links)
            ]
        return bounds

    def _meet(self, page: int) -> None:
        """A page became known: a target is fetched at once, with all targets that it leads to; others are queued."""
        waiting = [page]
        while waiting:
            page = waiting.pop()
            if self._known[page]:
                continue
            self._known[page] = 1
            if page in self._web.targets:
                self._order.append(page)
                self._missing &= ~self._closures.of(page)
                waiting += self._web.links[page]
            else:
                heapq.heappush(self._heap, (-self._bounds[page], page))

    def _best(self) -> int | None:
        """Take the queued page of the greatest value; None when none has any."""
        heap = self._heap
        while heap:
            value, page = heap[0]
            if not value:
                return None
            now = -self._value(page)
            if now == value:
                heapq.heappop(heap)
                return page
            heapq.heapreplace(heap, (now, page))
        return None

    def _value(self, page: int) -> float:
        """The most new targets per page that this page and some of the pages behind it bring."""
        count, cost = self._gain(page, self._missing, self._steps)
        return count / cost

    def _gain(self, page: int, missing: int, steps: int) -> tuple[int, int]:
        """How many targets the best choice of pages behind a page brings, and how many pages it takes."""
        found = self._brings[page] & missing
        count, cost = found.bit_count(), 1
        if steps == 1:
            return count, cost
        known, targets = self._known, self._web.targets
        behind = [link for link in self._web.links[page] if not known[link] and link not in targets]
        if steps == 2:
            return self._widened(found, [self._brings[link] & missing for link in behind])
        best = count, cost
        for link in behind:
            if self._bounds[link] * best[1] > best[0]:
                more, pages = self._gain(link, missing & ~found, steps - 1)
                if (count + more) * best[1] > best[0] * (cost + pages):
                    best = count + more, cost + pages
        return best

    @staticmethod
    def _widened(found: int, masks: Iterable[int]) -> tuple[int, int]:
        """Targets of a page, joined by those of pages behind it as long as each brings more than the average."""
        count, cost = found.bit_count(), 1
        for mask in sorted(set(masks), key=int.bit_count, reverse=True):
            if mask.bit_count() * cost <= count:
                break
            more = (mask & ~found).bit_count()
            if more * cost > count:
                found |= mask
                count, cost = count + more, cost + 1
        return count, cost

    def _nearest(self) -> int | None:
        """Take the queued page with the fewest pages between it and any target that is missing."""
        roots = {page: page for _, page in self._heap}
        edge = list(roots)
        while edge:
            following = []
            for page in edge:
                for link in self._web.links[page]:
                    if not self._known[link] and link not in roots:
                        roots[link] = roots[page]
                        if link in self._web.targets:
                            return self._take(roots[page])
                        following.append(link)
            edge = following
        return None

    def _take(self, page: int) -> int:
        """Take a page out of the queue."""
        self._heap = [entry for entry in self._heap if entry[1] != page]
        heapq.heapify(self._heap)
        return page


def _nearest_targets(web: PlannedWeb) -> list[int]:
    """All targets, each by the way with the fewest pages that are no targets."""
    parents: dict[int, int] = {}
    order: list[int] = []
    edge = [(page, -1) for page in web.starts]
    while edge:
        following: list[tuple[int, int]] = []
        while edge:
            page, parent = edge.pop()
            if page in parents:
                continue
            parents[page] = parent
            order.append(page)
            for link in web.links[page]:
                if link not in parents:
                    (edge if link in web.targets else following).append((link, page))
        edge = following
    return _needed(web, order, parents)


def _needed(web: PlannedWeb, order: Sequence[int], parents: Mapping[int, int]) -> list[int]:
    """The targets of an order, and what leads to them."""
    needed: set[int] = set()
    for target in order:
        page = target if target in web.targets else -1
        while page >= 0 and page not in needed:
            needed.add(page)
            page = parents[page]
    return [page for page in order if page in needed]


def _reordered(web: PlannedWeb, order: list[int]) -> list[int]:
    """The same pages in a better order, without those that turn out not to be needed."""
    best = order
    for _ in range(_MAX_ROUNDS):
        parents = _finders(web, order)
        order = _densest_first(web, _needed(web, order, parents), parents)
        if web.area(order) <= web.area(best):
            break
        best = order
    return best


def _finders(web: PlannedWeb, order: Sequence[int]) -> dict[int, int]:
    """By page of an order: the page by which it is found first; -1 for a start."""
    wanted = set(order)
    parents = dict.fromkeys(web.starts, -1)
    for page in order:
        for link in web.links[page]:
            if link in wanted:
                parents.setdefault(link, page)
    return parents


def _densest_first(web: PlannedWeb, pages: Sequence[int], parents: Mapping[int, int]) -> list[int]:
    """Horn's order of a forest: again and again the part of a tree, begun at its root, with the most targets per page.

    A block is a page with all that follows it directly because it is as dense or denser; `rest` has the blocks below.
    """
    below: dict[int, list[_Block]] = {page: [] for page in (-1, *pages)}
    for place in range(len(pages) - 1, -1, -1):  # what a page leads to comes after it
        page = pages[place]
        targets, members, rest = int(page in web.targets), [page], below.pop(page)
        while rest and -rest[0][0] * len(members) >= targets:
            _, _, more, found, further = heapq.heappop(rest)
            targets += more
            members += found
            if len(further) > len(rest):
                rest, further = further, rest
            for block in further:
                heapq.heappush(rest, block)
        heapq.heappush(below[parents[page]], (-targets / len(members), place, targets, members, rest))
    order: list[int] = []
    waiting = below[-1]
    while waiting:
        _, _, _, members, rest = heapq.heappop(waiting)
        order += members
        for block in rest:
            heapq.heappush(waiting, block)
    return order
