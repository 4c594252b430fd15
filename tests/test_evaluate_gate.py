"""The gate of quality: floors pinned with the digest of a web that is the same everywhere, and what shuts the gate."""

import importlib.util
import itertools
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.errors import InputError
from opilio.frontier.strategies import BestFirst
from opilio.lab.experiments.experiment import Experiment, from_table, load
from opilio.lab.experiments.floors import Floor, Pinned, Pins, State, check, measured, pin, read_pins, write_pins
from opilio.lab.experiments.plan import Selection
from opilio.lab.experiments.results import ExperimentFacts, Results, ScoreRow, WebFacts
from opilio.lab.experiments.runner import run_experiment
from opilio.lab.experiments.summary import ExperimentSummary
from opilio.lab.webs import RecordedWeb
from opilio.lab.webs.generated import NAME, make_web

ROOT = Path(__file__).parent.parent
FLOORS = ROOT / "bench" / "quality_floors.json"
KEYWORDS = "best-first, keywords"


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> RecordedWeb:
    """The web that is made up."""
    return make_web(tmp_path_factory.mktemp("gate") / NAME)


@pytest.fixture(scope="session")
def experiment(made: RecordedWeb) -> Experiment:
    """The gate's experiment, on that web alone."""
    found = load(ROOT / "experiments" / "gate.toml", made.folder.parent)
    return msgspec.structs.replace(found, webs=tuple(web for web in found.webs if web.name == NAME))


@pytest.fixture(scope="module")
def summary() -> ExperimentSummary:
    """Results that were not crawled for: of two strategies on a web that is called as the made one."""
    table = {"name": "gate", "webs": [NAME], "strategies": ["bfs1", "breadth-first"], "topics": {"split": "all"}}
    tasks = ["from examples", "from neighbours"]
    found = from_table({**table, "tasks": tasks, "measures": {"table": ["recall@100", "recall"]}})
    names = ["bfs1", "breadth-first"]
    web = WebFacts(NAME, "ab" * 32, 1000, 10, 200, ["owls", "hawks"])
    rows = [
        ScoreRow(NAME, task, topic, 0, name, "recall", point, 0.1 + 0.2 * at + 0.1 * name.count("b") + point / 1000)
        for at, task in enumerate(tasks)
        for topic in web.topics
        for name in names
        for point in (100, 200)
    ]
    return ExperimentSummary(Results(ExperimentFacts(found, "0", "", "bfs1", names, {}, [web], tasks, 8, []), [], rows))


@pytest.fixture
def pins(summary: ExperimentSummary) -> Pins:
    """Floors that are just what was measured."""
    return pin(summary, {})


@pytest.fixture(scope="module")
def gate() -> ModuleType:
    """The program."""
    spec = importlib.util.spec_from_file_location("gate", ROOT / "bench" / "gate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def changed(pins: Pins, by: float) -> Pins:
    """The floors, each higher by a factor."""
    floors = [msgspec.structs.replace(floor, value=floor.value * by) for floor in pins[NAME].floors]
    return {NAME: Pinned(pins[NAME].digest, floors)}


# -- the floors of the project


def test_the_quality_is_what_was_pinned(experiment: Experiment, tmp_path: Path) -> None:
    """The gate's fast part: each strategy and classifier finds as much of the made web as when it was pinned.

    Every figure that has a value is pinned. Only a judge that accepts no page has no precision, or no recall, of what it
    accepts: some that go by keywords.
    """
    summary = ExperimentSummary(run_experiment(experiment, tmp_path, workers=1))
    checks = check(summary, read_pins(FLOORS))
    assert [str(found) for found in checks if found.state is not State.HELD] == []
    pinned = {(floor.task, floor.strategy, floor.column) for floor in read_pins(FLOORS)[NAME].floors}
    cells = itertools.product(experiment.tasks, experiment.strategies, experiment.measures.table)
    missing = [(str(task), one, column) for task, one, column in cells if (task, one.name, column) not in pinned]
    assert all(column.startswith("accepted") for _, _, column in missing)
    assert {experiment.judge_of(one).kind for _, one, _ in missing} <= {"keywords"}


def test_the_made_web_is_the_same_everywhere(made: RecordedWeb, tmp_path: Path) -> None:
    """Made again it has the digest that was pinned, perhaps on another machine; another seed makes another web."""
    assert made.digest == read_pins(FLOORS)[NAME].digest
    assert make_web(tmp_path / "again").digest == made.digest
    assert make_web(tmp_path / "other", seed=1).digest != made.digest
    made.verify()


def test_a_strategy_made_worse_shuts_the_gate(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When best-first no longer looks at how good a link is, its floors are not held, and the gate says which."""
    monkeypatch.setattr(BestFirst, "priority", lambda self, link: 0.5)
    only = Selection.parse([f"strategy={KEYWORDS}", "strategy=breadth-first"])
    worse = ExperimentSummary(run_experiment(experiment, tmp_path, workers=1, selection=only))
    checks = {(found.state, found.says.partition(" = ")[0]) for found in check(worse, read_pins(FLOORS))}
    for task in ("from examples", "from neighbours"):
        assert (State.WORSE, f"{task}, {KEYWORDS}: recall") in checks
        assert (State.HELD, f"{task}, breadth-first: recall") in checks
    assert any(state is State.NOT_MEASURED for state, _ in checks)  # the strategies that were left out


# -- comparing


def test_a_figure_below_its_bound_is_worse(summary: ExperimentSummary, pins: Pins) -> None:
    """Within the margin a floor is held, beyond it is not; a figure that is better holds."""
    assert {found.state for found in check(summary, pins)} == {State.HELD}
    assert {found.state for found in check(summary, changed(pins, 1.04))} == {State.HELD}
    assert {found.state for found in check(summary, changed(pins, 1.06))} == {State.WORSE}
    assert {found.state for found in check(summary, changed(pins, 0.5))} == {State.HELD}


def test_another_web_is_refused(summary: ExperimentSummary, pins: Pins) -> None:
    """Floors of a web with another digest are not compared, not even when they are held, and the gate is shut."""
    other = {NAME: Pinned("0" * 64, changed(pins, 0.1)[NAME].floors)}
    (found,) = check(summary, other)
    assert found.state is State.OTHER_WEB
    assert found.state.is_failure
    assert "000000000000" in found.says
    assert summary.facts.webs[0].digest[:12] in found.says
    with pytest.raises(InputError, match="not compared"):
        pin(summary, other)
    assert pin(summary, other, lower=True) == pins


def test_a_floor_cannot_be_lost(summary: ExperimentSummary, pins: Pins) -> None:
    """A floor whose strategy is gone shuts the gate, and stays when others are pinned; --lower drops it."""
    gone = Floor("from examples", "gone", "recall", 0.5)
    more = {NAME: Pinned(pins[NAME].digest, [*pins[NAME].floors, gone])}
    found = [one for one in check(summary, more) if one.state is not State.HELD]
    assert [(one.state, one.state.is_failure) for one in found] == [(State.NOT_MEASURED, True)]
    assert gone in pin(summary, more)[NAME].floors
    assert gone not in pin(summary, more, lower=True)[NAME].floors


def test_what_is_new_is_pinned_without_shutting_the_gate(summary: ExperimentSummary, pins: Pins) -> None:
    """A web or a strategy without floors is told of; --pin adds it and leaves the others."""
    assert [found.state for found in check(summary, {})] == [State.NOT_PINNED]
    fewer = {NAME: Pinned(pins[NAME].digest, pins[NAME].floors[2:])}
    states = [found.state for found in check(summary, fewer)]
    assert states.count(State.NOT_PINNED) == 2
    assert not any(state.is_failure for state in states)
    assert set(pin(summary, fewer)[NAME].floors) == set(pins[NAME].floors)


def test_pinning_raises_and_only_lower_lowers(summary: ExperimentSummary, pins: Pins) -> None:
    """Floors below what was measured are raised, those above are kept unless --lower says otherwise."""
    assert pin(summary, changed(pins, 0.5)) == pins
    high = changed(pins, 1.5)
    assert pin(summary, high) == high
    assert pin(summary, high, lower=True) == pins


def test_webs_that_were_not_measured_keep_their_floors(summary: ExperimentSummary, pins: Pins) -> None:
    """Pinning on a machine without a corpus does not lose the floors of that corpus."""
    elsewhere = Pinned("1" * 64, [Floor("from examples", "x", "recall", 0.5)])
    assert pin(summary, {**pins, "elsewhere": elsewhere}, lower=True)["elsewhere"] == elsewhere


@given(st.floats(0.01, 1.0), st.floats(0.01, 1.0), st.sampled_from(["recall", "dynamic lexical"]))
def test_bounds_have_the_right_side(pinned: float, value: float, column: str) -> None:
    """A figure that is better than the pin always holds; for ranks, lower is better."""
    floor = Floor("t", "s", column, pinned)
    assert floor.better(value) == (value < pinned if column == "dynamic lexical" else value > pinned)
    assert floor.holds(value) or not floor.better(value)
    assert floor.holds(pinned)


def test_floors_are_read_as_written(pins: Pins, tmp_path: Path) -> None:
    """Each floor is one line; what is no floors file is an error that names it."""
    write_pins(tmp_path / "pins.json", pins)
    assert read_pins(tmp_path / "pins.json") == pins
    assert sum('"recall@100"' in line for line in (tmp_path / "pins.json").read_text().splitlines()) == 4
    write_pins(tmp_path / "ours.json", read_pins(FLOORS))
    assert (tmp_path / "ours.json").read_text() == FLOORS.read_text()
    (tmp_path / "pins.json").write_text("[]")
    with pytest.raises(InputError, match="floors that cannot be read"):
        read_pins(tmp_path / "pins.json")


# -- the program


def test_the_program_fails_when_a_floor_is_not_held(
    gate: ModuleType,
    summary: ExperimentSummary,
    pins: Pins,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 1 and the word WORSE; --pin alone does not lower, --pin --lower does, and then it passes."""
    floors = tmp_path / "floors.json"
    write_pins(floors, changed(pins, 2.0))
    monkeypatch.setattr(gate, "QUALITY_FLOORS", floors)
    monkeypatch.setattr(gate, "crawl", lambda webs: summary)

    def code(*arguments: str) -> object:
        with pytest.raises(SystemExit) as caught:
            gate.main(["--only", "quality", *arguments])
        return caught.value.code

    assert code() == 1
    assert "WORSE        made: from examples, breadth-first: recall" in capsys.readouterr().out
    assert code("--pin") == 0
    assert code() == 1
    assert code("--pin", "--lower") == 0
    assert code() == 0
    other = {NAME: Pinned("2" * 64, pins[NAME].floors)}
    write_pins(floors, other)
    assert code() == 1
    assert "not compared" in str(code("--pin"))
    assert read_pins(floors) == other


def test_missing_webs_are_left_out(
    gate: ModuleType,
    summary: ExperimentSummary,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The made web is always there; a corpus that is not is named, and the rest is run."""
    ran: list[str] = []

    def note(experiment: Experiment, folder: Path) -> Results:
        ran.extend(web.name for web in experiment.webs)
        return Results(summary.facts, [], [])

    monkeypatch.setattr(gate, "run_experiment", note)
    gate.crawl(tmp_path)
    assert ran == [NAME]
    assert "missing      wiki4schools: no recorded web at" in capsys.readouterr().out
    assert measured(summary, "wiki4schools") == []
