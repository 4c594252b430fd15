"""Curves as pictures: one figure for each web and task, one panel for each measure. Needs matplotlib."""

from __future__ import annotations

import io
import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from opilio.errors import not_installed
from opilio.lab.experiments.scores import MEASURES, Axis, Measure
from opilio.lab.experiments.summary import ExperimentSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito: colours that people with colour blindness can tell apart; markers and lines help too.
_COLOURS = ("#000000", "#0072B2", "#56B4E9", "#009E73", "#D55E00", "#CC79A7", "#E69F00", "#777777")
_MARKERS = "osv^D*Pxh"  # one more than colours: the ninth curve is not like the first
_LINES = ("-", "-", "-", "-", "-", "--", "-.", ":", "--", ":", "--", ":", "--", ":", ":", "--")
_ERRORS_EVERY = 4
_LABELS = {
    Axis.PAGES: "pages fetched",
    Axis.REQUESTS: "requests made",
    Axis.TOP: "number of best pages",
    Axis.BEST: "number of most confident pages",
    Axis.MODELS: "model",
    Axis.LINKS: "links from the start set",
}
_FINE = re.compile(rb"\b[1-9]\d*\.\d{3,}\b")  # numbers of an SVG finer than a hundredth of a point, a third of its size
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "opilio",  # the same picture, the same bytes
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
}


def can_plot() -> bool:
    """Whether matplotlib is there."""
    return find_spec("matplotlib") is not None


def draw(summary: ExperimentSummary, web: str, task: str, form: str = "svg") -> bytes:
    """The figure of a web and task as `svg` or `png`."""
    if not can_plot():
        raise not_installed("matplotlib", "a report with figures", "evaluate")
    import matplotlib as mpl  # noqa: PLC0415  (half a second, and not everybody has it)

    with mpl.rc_context(_STYLE):
        figure = _figure(summary, web, task)
        target = io.BytesIO()
        metadata: dict[str, Any] = {"Date": None, "Creator": None} if form == "svg" else {"Software": None}
        figure.savefig(target, format=form, dpi=100, metadata=metadata)
        return (
            _FINE.sub(lambda found: b"%.2f" % float(found[0]), target.getvalue())
            if form == "svg"
            else target.getvalue()
        )


def _figure(summary: ExperimentSummary, web: str, task: str) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    measures = [MEASURES[name] for name in summary.facts.experiment.measures.curves]
    columns = min(2, len(measures))
    rows = -(-len(measures) // columns)
    figure = Figure(figsize=(4.9 * columns, 3.1 * rows + 0.7), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.1, w_pad=0.1)  # type: ignore[union-attr,call-arg]
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, measure in zip(panels, measures, strict=False):
        _panel(axes, summary, web, task, measure)
    handles, labels = panels[0].get_legend_handles_labels()
    spare = panels[len(measures) :]
    for axes in spare:
        axes.set_axis_off()
    if len(spare):
        spare[0].legend(handles, labels, loc="center", frameon=False, fontsize=10)
    else:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)), frameon=False)
    return figure


def _panel(axes: Axes, summary: ExperimentSummary, web: str, task: str, measure: Measure) -> None:
    if measure.axis is Axis.LINKS:
        _histogram(axes, summary, web, task, measure)
        return
    for i, strategy in enumerate(summary.facts.strategies):
        curve = summary.curve(web, task, strategy, measure.name)
        every = _ERRORS_EVERY if len(curve.points) > 2 * _ERRORS_EVERY else 1
        axes.errorbar(
            curve.points, curve.means, yerr=curve.standard_errors, label=strategy,
            color=_COLOURS[i % len(_COLOURS)], marker=_MARKERS[i % len(_MARKERS)], linestyle=_LINES[i % len(_LINES)],
            markersize=3.5, linewidth=1.2, elinewidth=0.8, errorevery=(i % every, every),
            markevery=(i % every, every),
        )  # fmt: skip
    direction = f" ({'lower' if measure.lower_is_better else 'higher'} is better)" if measure.is_quality else ""
    axes.set_title(measure.name + direction, fontsize=10)
    axes.set_xlabel(_LABELS.get(measure.axis, ""))
    axes.set_xlim(left=0)
    if not measure.lower_is_better:
        axes.set_ylim(bottom=0)
    else:
        axes.invert_yaxis()


def _histogram(axes: Axes, summary: ExperimentSummary, web: str, task: str, measure: Measure) -> None:
    """Bars side by side; the last is for all that are farther away."""
    names = summary.facts.strategies
    width = 0.8 / len(names)
    points: list[int] = []
    for i, strategy in enumerate(names):
        curve = summary.curve(web, task, strategy, measure.name)
        points = curve.points
        places = [point + (i - (len(names) - 1) / 2) * width for point in points]
        axes.bar(
            places, curve.means, width, yerr=curve.standard_errors, label=strategy,
            color=_COLOURS[i % len(_COLOURS)], error_kw={"elinewidth": 0.8},
        )  # fmt: skip
    axes.set_xticks(points, [*map(str, points[:-1]), f"{points[-1]}+"] if points else [])
    axes.set_title(measure.name, fontsize=10)
    axes.set_xlabel(_LABELS[measure.axis])


def caption(summary: ExperimentSummary, web: str, task: str) -> str:
    """What the figure shows."""
    measure = summary.facts.experiment.measures.curves[0]
    topics = summary.curve(web, task, summary.facts.strategies[0], measure).topics
    return f"{web}, {task}: means over {topics} topics; bars are one standard error."
