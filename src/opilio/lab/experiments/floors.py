"""Floors: the quality that crawls had on a web, pinned with the digest of that web, and what became of it.

Figures of another web cannot be compared, however alike it is: a web whose digest differs from the pinned one is
refused. A floor is never lowered by accident, nor lost: what is pinned must be measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from opilio.errors import InputError
from opilio.lab.experiments.scores import column_parts
from opilio.lab.experiments.summary import ExperimentSummary

MARGIN = 0.05
"""The same code gives the same figures, but other versions of numerical libraries may move a page or two; a recall of
0.2 on six topics with 35 targets each means 42 pages."""


class Floor(msgspec.Struct, frozen=True, order=True):
    """A figure that was reached: the mean over the topics of a web. For ranks, which are better low, a ceiling."""

    task: str
    strategy: str
    column: str
    value: float

    @property
    def bound(self) -> float:
        """How bad a figure may be."""
        return self.value * (1 + MARGIN if self._low_is_good else 1 - MARGIN)

    def holds(self, value: float) -> bool:
        """Whether a figure is no worse than it may be."""
        return value <= self.bound if self._low_is_good else value >= self.bound

    def better(self, value: float) -> bool:
        """Whether a figure is better than the pinned one."""
        return value < self.value if self._low_is_good else value > self.value

    @property
    def _low_is_good(self) -> bool:
        return column_parts(self.column)[0].lower_is_better


class Pinned(msgspec.Struct, frozen=True):
    """The floors of one web."""

    digest: str
    floors: list[Floor]


Pins = dict[str, Pinned]
"""By the name of the web."""


class State(StrEnum):
    """What became of a floor."""

    HELD = "ok"
    WORSE = "WORSE"
    OTHER_WEB = "OTHER WEB"
    NOT_MEASURED = "NOT MEASURED"
    NOT_PINNED = "not pinned"

    @property
    def is_failure(self) -> bool:
        """Whether the gate is shut."""
        return self not in (State.HELD, State.NOT_PINNED)


@dataclass(frozen=True)
class FloorCheck:
    """One floor, or one web, that was looked at."""

    state: State
    web: str
    says: str

    def __str__(self) -> str:
        return f"{self.state:12} {self.web}: {self.says}"


def read_pins(path: Path) -> Pins:
    """The floors in a file; none when there is no file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Pins)
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise InputError(f"{path}: floors that cannot be read: {error}", "Take the file from the repository.") from None


def write_pins(path: Path, pins: Mapping[str, Pinned]) -> None:
    """Write floors so that each is one line, and a change of one is a change of a line."""
    webs = []
    for name, pinned in sorted(pins.items()):
        floors = ",\n".join(f"      {msgspec.json.encode(floor).decode()}" for floor in pinned.floors)
        webs.append(f'  "{name}": {{\n    "digest": "{pinned.digest}",\n    "floors": [\n{floors}\n    ]\n  }}')
    path.write_text("{\n" + ",\n".join(webs) + "\n}\n", "utf-8")


def check(summary: ExperimentSummary, pins: Mapping[str, Pinned]) -> list[FloorCheck]:
    """Compare results with the floors of their webs."""
    checks: list[FloorCheck] = []
    for web in summary.facts.webs:
        pinned = pins.get(web.name)
        if pinned is None:
            checks.append(FloorCheck(State.NOT_PINNED, web.name, "no floors yet; --pin sets them"))
        elif pinned.digest != web.digest:
            checks.append(FloorCheck(State.OTHER_WEB, web.name, _other_web(pinned.digest, web.digest)))
        else:
            checks += _check_web(web.name, pinned, measured(summary, web.name))
    return checks


def _check_web(web: str, pinned: Pinned, found: list[Floor]) -> Iterator[FloorCheck]:
    values = {_cell(floor): floor.value for floor in found}
    for floor in pinned.floors:
        value = values.pop(_cell(floor), None)
        where = f"{floor.task}, {floor.strategy}: {floor.column}"
        if value is None:
            yield FloorCheck(State.NOT_MEASURED, web, f"{where} is pinned at {floor.value:.3f}; --pin --lower drops it")
        else:
            state = State.HELD if floor.holds(value) else State.WORSE
            yield FloorCheck(state, web, f"{where} = {value:.3f} (pinned {floor.value:.3f}, bound {floor.bound:.3f})")
    for task, strategy, column in values:
        yield FloorCheck(State.NOT_PINNED, web, f"{task}, {strategy}: {column}; --pin sets it")


def measured(summary: ExperimentSummary, web: str) -> list[Floor]:
    """The figures of a web, as floors."""
    found = []
    for task in summary.facts.tasks:
        for strategy in summary.facts.strategies:
            for column in summary.facts.experiment.measures.table:
                values = list(summary.values(web, task, strategy, column).values())
                if values:
                    found.append(Floor(task, strategy, column, round(sum(values) / len(values), 6)))
    return found


def pin(summary: ExperimentSummary, pins: Mapping[str, Pinned], *, lower: bool = False) -> Pins:
    """The floors raised to what was measured, and set where there were none.

    With `lower` they are what was measured, whatever they were before; only so can a floor be lowered or dropped, or
    its web be replaced by another. Webs that were not measured keep theirs.
    """
    result = dict(pins)
    for web in summary.facts.webs:
        found, old = measured(summary, web.name), pins.get(web.name)
        if old is None or lower:
            result[web.name] = Pinned(web.digest, found)
            continue
        if old.digest != web.digest:
            raise InputError(f"{web.name}: {_other_web(old.digest, web.digest)}", "--pin --lower replaces its floors.")
        values = {_cell(floor): floor.value for floor in found}
        raised = [
            msgspec.structs.replace(floor, value=new) if (new := values.pop(_cell(floor), None)) is not None
            and floor.better(new) else floor
            for floor in old.floors
        ]  # fmt: skip
        result[web.name] = Pinned(web.digest, raised + [floor for floor in found if _cell(floor) in values])
    return result


def _cell(floor: Floor) -> tuple[str, str, str]:
    return floor.task, floor.strategy, floor.column


def _other_web(pinned: str, found: str) -> str:
    return f"has the digest {found[:12]}, its floors were measured on {pinned[:12]}: not compared"
