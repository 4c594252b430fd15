"""The pages of one run in the order they were fetched, each with its truth, its judgement, and why its turn came.

Records of runs hold pages and judgements, but no priorities. A simulated run is therefore simulated again, which gives
the same pages in any process, and observed: the priority of each URL when it was taken, what that was made of, and at
some steps the best URLs that were still queued. A real crawl cannot be repeated so cheaply: its listing has what its
record has.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from pathlib import Path

import msgspec

from opilio.errors import InputError
from opilio.frontier import QueuedUrl
from opilio.lab.experiments.crawls import RunSpec, make_judge, record_of, simulation_of
from opilio.lab.experiments.experiment import Experiment
from opilio.lab.experiments.plan import KINDS, Plan, Selection, open_webs
from opilio.lab.experiments.records import RunPlace, RunRecord, read_log
from opilio.lab.experiments.runner import RunWorker
from opilio.lab.experiments.simulate import Simulation
from opilio.model import host_of

SHOWN_PARTS = 3
SHOWN_QUEUED = 3
FIRST_STEPS, EVERY_STEPS = 5, 10
"""The best queued URLs are listed at each of the first steps, then at every tenth: at each they are searched for."""
_SHOWN_MATCHES = 12


class ListedUrl(msgspec.Struct, frozen=True):
    """A URL that was queued while another was taken."""

    url: str
    title: str
    """'' when its page is not in the recorded web."""
    truth: str
    priority: float


class ListedPage(msgspec.Struct, frozen=True):
    """A page that was fetched."""

    place: int
    """1 for the first."""
    url: str
    host: str
    title: str
    truth: str
    """`target`, `example`, or '' for a page without the label."""
    relevance: float
    confidence: float
    depth: int
    requests: int
    """Made until then, this one included."""
    priority: float | None = None
    """When it was taken; None: not known, for a real crawl."""
    parts: dict[str, float] = {}
    """What the priority was made of, the strongest parts first; empty for strategies that do not explain it."""
    queued: list[ListedUrl] = []
    """The best URLs that were queued at that moment and not taken, best first; at some steps only."""


class RunListing(msgspec.Struct, frozen=True):
    """A run, page by page."""

    web: str
    task: str
    topic: str
    repeat: int
    strategy: str
    real: bool
    recorded: bool
    """Whether the folder holds the run; if not, it was simulated for the listing only."""
    targets: int
    pages: list[ListedPage]


def list_run(experiment: Experiment, folder: Path, wanted: Iterable[str]) -> RunListing:
    """List the run that is named by patterns such as `strategy=evidence` and `repeat=0`. They must fit one run only."""
    selection = Selection.parse(wanted, "--show", (*KINDS, "repeat"))
    worker = RunWorker(experiment, lambda run: None)
    place, key = _only_run(experiment, selection, worker)
    spec = worker.spec(place, key)
    kept = _recorded(folder, key)
    if spec.contestant.real:
        if kept is None:
            raise InputError(
                f"{folder}: the run of a real crawl is not there", "Run the experiment first, with the same code."
            )
        return _listing(spec, kept, None, recorded=True)
    judge = make_judge(experiment, spec.judge, spec.analysed, spec.topic)
    observer = _Observer(spec)
    simulation = observer.simulation = simulation_of(spec, judge, observer.observe)
    found = record_of(spec, simulation.run(), judge)
    if kept is not None and kept.pages != found.pages:
        raise InputError(
            f"{folder}: the run there has other pages than its simulation", "Delete runs.log; run it again."
        )
    return _listing(spec, found, observer, recorded=kept is not None)


def _only_run(experiment: Experiment, selection: Selection, worker: RunWorker) -> tuple[RunPlace, str]:
    webs = open_webs(web for web in experiment.webs if selection("web", web.name))
    plan = Plan(experiment, webs, selection)
    for name in plan.webs:
        plan.set_topics(name, worker.topics(name))
    plan.check()
    found = [run for job in plan.jobs({}) if selection("repeat", str(job.repeat)) for run in job.wanted]
    if len(found) == 1:
        return found[0]
    names = [" ".join(f'--show "{kind}={getattr(place, kind)}"' for kind in (*KINDS, "repeat")) for place, _ in found]
    more = f"\n  and {len(names) - _SHOWN_MATCHES:,} more" if len(names) > _SHOWN_MATCHES else ""
    raise InputError(
        f"--show: {len(found):,} runs fit, and one is shown at a time",
        "Name one of them:\n  " + "\n  ".join(names[:_SHOWN_MATCHES]) + more
        if names
        else "There is no such repeat: they are numbered 0, 1, ...",
    )


def _recorded(folder: Path, key: str) -> RunRecord | None:
    try:
        run = read_log(folder).get(key)
    except InputError:
        return None
    if run is not None and run.skipped:
        raise InputError(f"this run could not be made: {run.skipped}", "Choose another one.")
    return run


class _Observer:
    """Notes what is known of a URL at the moment it is taken."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self.simulation: Simulation | None = None
        self.notes: dict[int, tuple[float, dict[str, float], list[ListedUrl]]] = {}
        """By page number, in the order taken: priority, parts, and what was queued."""

    def observe(self, url: QueuedUrl) -> None:
        """Called when a URL has left its queue, before it is fetched."""
        assert self.simulation is not None
        answers, frontier = self._spec.answers, self.simulation.absorber.frontier
        number = answers.number(url.url)
        if number in self.notes or answers.page(number)[1] is None:
            return
        parts = frontier.learner.explain(url.oid) if frontier.learner is not None else {}
        strongest = heapq.nlargest(SHOWN_PARTS, parts.items(), key=lambda part: abs(part[1]))
        step = len(self.notes)
        queued = []
        if step < FIRST_STEPS or (step + 1) % EVERY_STEPS == 0:
            best = heapq.nsmallest(SHOWN_QUEUED, frontier.tiers.hot_queued, key=lambda other: other.rank)
            queued = [self._listed(other) for other in best]
        self.notes[number] = url.priority, dict(strongest), queued

    def _listed(self, url: QueuedUrl) -> ListedUrl:
        answers = self._spec.answers
        number = answers.number(url.url)
        document = answers.page(number)[1]
        return ListedUrl(
            url.url, document.title if document is not None else "", _truth(self._spec, number), url.priority
        )


def _truth(spec: RunSpec, page: int) -> str:
    return "target" if page in spec.target_set else "example" if page in spec.topic.examples else ""


def _listing(spec: RunSpec, run: RunRecord, observer: _Observer | None, *, recorded: bool) -> RunListing:
    urls, documents = spec.analysed.web.urls, spec.analysed.documents
    rows = zip(
        run.crawled.tolist(),
        run.relevances.tolist(),
        run.confidences.tolist(),
        run.link_depths.tolist(),
        run.requests_until.tolist(),
        strict=True,
    )
    pages = []
    for at, (page, relevance, confidence, depth, requests) in enumerate(rows, 1):
        document = documents[page]
        priority, parts, queued = observer.notes[page] if observer is not None else (None, {}, [])
        pages.append(
            ListedPage(
                at,
                urls[page],
                host_of(urls[page]),
                document.title if document is not None else "",
                _truth(spec, page),
                relevance,
                confidence,
                depth,
                requests,
                priority,
                parts,
                queued,
            )
        )
    place = spec.place
    return RunListing(
        place.web,
        place.task,
        place.topic,
        place.repeat,
        place.strategy,
        spec.contestant.real,
        recorded,
        len(spec.topic.targets),
        pages,
    )
