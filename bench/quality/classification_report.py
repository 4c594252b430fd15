"""Tables and plots of what classification.py measured.

Counts of the draws of a topic are added up first; figures are means over topics, each topic counting the same. A topic
for which nothing was accepted has no precision and is left out of that mean; its F1 is 0. Intervals hold 95 % of 2,000
means over topics drawn with replacement.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.quality.classification_cells import BY_F1, BY_MEAN, LINKED, SETS, SPACES, STRICT
from bench.quality.classification_data import OTHERS_TRUTH, VIEWS, is_final
from opilio.classify import decision

RESAMPLES = 2000
CLASSIFIERS = {
    "keywords": "keywords",
    "bayes, hard": "bayes hard",
    "bayes, soft": "bayes soft",
    "oasis, any metric": "oasis any",
    "oasis, undoubted": "oasis undoubted",
    "svm, terms": "svm terms",
    "svm, default": "meta mean default",  # what `auto` is without phases
}
RULES = (*decision.RULES, BY_F1, BY_MEAN)


class Scores(NamedTuple):
    """One topic: shares, precision NaN when nothing was accepted."""

    precision: float
    recall: float
    f1: float
    known_precision: float
    """Without the pages that must be refused."""


def read_results(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        with path.open() as file:
            yield from map(json.loads, file)


def scores_of(right: int, accepted: int, there: int, known: int) -> Scores:
    nothing = float("nan")
    return Scores(
        right / accepted if accepted else nothing,
        right / there if there else nothing,
        2 * right / max(1, accepted + there),
        right / known if known else nothing,
    )


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Of the mean, over topics drawn with replacement."""
    kept = np.array([value for value in values if not np.isnan(value)])
    if len(kept) < 2:
        return float("nan"), float("nan")
    drawn = np.random.default_rng(0).choice(kept, (RESAMPLES, len(kept))).mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def mean(values: Iterable[float]) -> float:
    kept = [value for value in values if not np.isnan(value)]
    return float(np.mean(kept)) if kept else float("nan")


class Report:
    """What the results say of the topics of one half."""

    def __init__(self, lines: Sequence[Mapping[str, Any]], *, final: bool) -> None:
        self.final = final
        self.cells = len(lines)
        self.sizes = sorted({line["size"] for line in lines})
        self.views = [view.name for view in VIEWS if any(line["view"] == view.name for line in lines)]
        sums: dict[tuple[str, int, str, str], Any] = defaultdict(lambda: np.zeros(4, int))
        for line in lines:
            for method, counts in line["counts"].items():
                for topic, numbers in counts.items():
                    sums[line["view"], line["size"], method, topic] += numbers
        self.scores: dict[tuple[str, int, str], dict[str, Scores]] = defaultdict(dict)
        self.refused: dict[tuple[str, int, str], float] = {}
        for (view, size, method, topic), (right, accepted, there, known) in sums.items():
            if topic == OTHERS_TRUTH:
                self.refused[view, size, method] = right / max(1, there)
            elif is_final(topic) is final:
                self.scores[view, size, method][topic] = scores_of(right, accepted, there, known)
        self.estimates = [
            {**one, "view": line["view"], "size": line["size"]}
            for line in lines
            for one in line["estimates"]
            if is_final(one["topic"]) is final
        ]

    def topics(self, method: str, size: int, view: str | None = None) -> list[Scores]:
        """By topic, of one corpus or of all."""
        views = [view] if view else self.views
        return [scores for name in views for _, scores in sorted(self.scores.get((name, size, method), {}).items())]

    def cell(self, method: str, size: int, view: str | None = None) -> str:
        """'precision / recall / F1' in percent, and half the interval of F1."""
        found = self.topics(method, size, view)
        if not found:
            return ""
        means = [_percent(mean([getattr(one, name) for one in found])) for name in ("precision", "recall", "f1")]
        low, high = interval([one.f1 for one in found])
        return f"{' / '.join(means)} ±{_percent((high - low) / 2)}"

    def gain(
        self, method: str, base: str, size: int, view: str | None = None, figure: str = "precision"
    ) -> list[float]:
        """By topic, how much more of a figure one method has than another, where both have it."""
        found = self.topics(method, size, view)
        pairs = zip(found, self.topics(base, size, view), strict=True) if found else ()
        return [getattr(one, figure) - getattr(other, figure) for one, other in pairs]

    def print_tables(self) -> None:
        print(f"# {'Final' if self.final else 'Development'} topics, {self.cells} experiments\n")
        for view in self.views:
            names = {topic for (name, _, _), found in self.scores.items() if name == view for topic in found}
            print(f"{view}: {len(names)} topics of this half: {', '.join(sorted(names))}")
        self._table("Classifiers", CLASSIFIERS)
        for view in self.views:
            self._table(f"Classifiers, {view}", CLASSIFIERS, view)
        self._refusals()
        self._table("Spaces", {name: f"svm {name}" for name in (*SPACES, "embeddings")})
        for suffix in (" all links", " trained as found"):
            self._table(f"Spaces{suffix}", {name: f"svm {name}{suffix}" for name in LINKED})
        for name, spaces in SETS.items():
            self._table(f"Rules over {name}: {', '.join(spaces)}", {rule: f"meta {rule} {name}" for rule in RULES})
        for name in ("links", "bingo"):
            methods = {rule: f"meta {rule} {name} all links" for rule in RULES}
            self._table(f"Rules over {name}, all links known", methods)
        self._table("As few pages", {name: name for name in (STRICT, "meta unanimous default")})
        self._claim()
        oasis = [f"oasis {kind}{rest}" for rest in ("", " passage_share 1.0") for kind in ("any", "undoubted")]
        self._table("OASIS", {name: name for name in (*oasis, "oasis any, directories")})
        self._xi_alpha()

    def _table(self, title: str, methods: Mapping[str, str], view: str | None = None) -> None:
        sizes = [size for size in self.sizes if any(self.topics(method, size, view) for method in methods.values())]
        if not sizes:
            return
        print(f"\n## {title}\n\n| | {' | '.join(map(str, sizes))} |\n|---|{'---|' * len(sizes)}")
        for name, method in methods.items():
            cells = [self.cell(method, size, view) for size in sizes]
            if any(cells):
                print(f"| {name} | {' | '.join(cells)} |")

    def _refusals(self) -> None:
        """Independent of the half: the pages belong to neither."""
        print(f"\n## Refused of what must be\n\n| | {' | '.join(f'{v}, {s}' for v, s in self._pairs())} |")
        print("|---|" + "---|" * len(self._pairs()))
        for name, method in {**CLASSIFIERS, "svm, unanimous": "meta unanimous default"}.items():
            shares = (self.refused.get((view, size, method), float("nan")) for view, size in self._pairs())
            print(f"| {name} | {' | '.join(map(_percent, shares))} |")

    def _pairs(self) -> list[tuple[str, int]]:
        return [(view, size) for view in self.views for size in self.sizes if (view, size, "keywords") in self.refused]

    def _claim(self) -> None:
        """BINGO: unanimous and weighted decisions raise precision from about 80 % to above 90 %."""
        rules = [f"meta {rule} {name}" for name in ("default", "links", "bingo") for rule in ("unanimous", "weighted")]
        rules.insert(1, STRICT)
        print("\n## Precision of the terms alone, and what rules add to it (95 % interval)\n")
        print(f"| corpus | examples | terms | {' | '.join(rules)} |\n|---|---|---|{'---|' * len(rules)}")
        for figure in ("precision", "known_precision"):
            print(f"| *{figure}* | | | {' | ' * (len(rules) - 1)} |")
            for view, size in [*((None, size) for size in self.sizes), *self._pairs()]:
                base = mean([getattr(one, figure) for one in self.topics("svm terms", size, view)])
                cells = [_gain(self.gain(rule, "svm terms", size, view, figure)) for rule in rules]
                print(f"| {view or 'all'} | {size} | {_percent(base)} | {' | '.join(cells)} |")

    def xi_alpha(self, size: int, space: str | None = None) -> dict[str, float]:
        """Estimates beside what was measured: with pages of the competing topics only, and with those to be refused."""
        found = [one for one in self.estimates if one["size"] == size and space in (None, one["space"])]
        rows = []
        for one in found:
            right, there = one["right"], one["there"]
            known, every = one["accepted_known"], one["accepted"]
            rows.append((*one["estimated"], _share(right, known), _share(right, every), _share(right, there)))
        table = np.array(rows, float).reshape(-1, 5)
        precise, recalled = table[:, 2] - table[:, 0], table[:, 4] - table[:, 1]
        return {
            "planes": len(rows),
            "estimated_precision": mean(table[:, 0]),
            "precision_known": mean(table[:, 2]),
            "precision_all": mean(table[:, 3]),
            "estimated_recall": mean(table[:, 1]),
            "recall": mean(table[:, 4]),
            "pessimistic_precision_share": mean(np.where(np.isnan(precise), np.nan, precise >= 0)),
            "pessimistic_recall_share": mean(recalled >= 0),
            "correlation_precision": _correlation(table[:, 0], table[:, 2]),
            "correlation_recall": _correlation(table[:, 1], table[:, 4]),
        }

    def _xi_alpha(self) -> None:
        spaces = [
            None,
            *(space for space in (*SPACES, "embeddings") if any(one["space"] == space for one in self.estimates)),
        ]
        keys = list(self.xi_alpha(self.sizes[0]))
        print(f"\n## xi-alpha\n\n| space | examples | {' | '.join(keys)} |\n|---|---|{'---|' * len(keys)}")
        for space in spaces:
            for size in self.sizes:
                figures = self.xi_alpha(size, space)
                print(f"| {space or 'all'} | {size} | {' | '.join(f'{figures[key]:.2f}' for key in keys)} |")

    def figures(self) -> dict[str, Any]:
        """All that the tables hold, as numbers."""
        methods = sorted({method for _, _, method in self.scores})
        result: dict[str, Any] = {"bench": "classification", "topics": "final" if self.final else "development"}
        for size in self.sizes:
            for method in methods:
                found = self.topics(method, size)
                low, high = interval([one.f1 for one in found])
                result.setdefault(method, {})[size] = {
                    **{name: round(mean([getattr(one, name) for one in found]), 3) for name in Scores._fields},
                    "f1_interval": [round(low, 3), round(high, 3)],
                }
        result["xi_alpha"] = {
            size: {name: None if np.isnan(value) else round(value, 3) for name, value in self.xi_alpha(size).items()}
            for size in self.sizes
        }
        return result

    def plot(self, folder: Path) -> None:
        """Two plots as SVG."""
        try:
            import matplotlib as mpl  # noqa: PLC0415 - not needed for figures
        except ImportError:
            print("no plots: matplotlib is not installed")
            return
        mpl.use("svg")
        mpl.rcParams.update({"svg.hashsalt": "opilio", "svg.fonttype": "none", "font.size": 9})
        folder.mkdir(parents=True, exist_ok=True)
        for name, draw in (
            ("classification-examples", self._plot_examples),
            ("classification-xi-alpha", self._plot_xi),
        ):
            _save(folder / f"{name}.svg", draw)

    def _plot_examples(self, plots: Any) -> None:
        panels = plots.subplots(1, 3, sharex=True)
        for panel, figure in zip(panels, ("precision", "recall", "f1"), strict=True):
            for name, method in {**CLASSIFIERS, "svm, unanimous": "meta unanimous default"}.items():
                values = [mean([getattr(one, figure) for one in self.topics(method, size)]) for size in self.sizes]
                panel.plot(self.sizes, values, marker="o", markersize=3, linewidth=1.2, label=name)
            panel.set(title="F1" if figure == "f1" else figure, xscale="log", ylim=(0, 1), xlabel="examples a topic")
            panel.set_xticks(self.sizes, map(str, self.sizes))
            panel.grid(alpha=0.3)
        plots.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)

    def _plot_xi(self, plots: Any) -> None:
        panels = plots.subplots(1, 2)
        for panel, place, name in zip(panels, (0, 1), ("precision", "recall"), strict=True):
            for size in self.sizes:
                found = [one for one in self.estimates if one["size"] == size and one["space"] == "terms"]
                below = "accepted_known" if place == 0 else "there"
                measured = [_share(one["right"], one[below]) for one in found]
                panel.scatter([one["estimated"][place] for one in found], measured, s=8, label=f"{size} examples")
            panel.plot([0, 1], [0, 1], color="gray", linewidth=0.8)
            panel.set(
                title=name, xlabel="estimated by xi-alpha", ylabel="measured", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02)
            )
            panel.grid(alpha=0.3)
        panels[0].legend(fontsize=7)


def _save(path: Path, draw: Callable[[Any], None]) -> None:
    from matplotlib.figure import Figure  # noqa: PLC0415 - not needed for figures

    plots = Figure(figsize=(9, 3.4), layout="constrained")
    draw(plots)
    plots.savefig(path, metadata={"Date": None})


def _percent(share: float) -> str:
    return "-" if np.isnan(share) else f"{share * 100:.0f}"


def _gain(values: Sequence[float]) -> str:
    if np.isnan(values).all():
        return "-"
    low, high = interval(values)
    return f"{mean(values) * 100:+.0f} ({low * 100:+.0f} to {high * 100:+.0f})"


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _correlation(one: Any, other: Any) -> float:
    both = ~np.isnan(one) & ~np.isnan(other)
    if both.sum() < 3 or one[both].std() == 0 or other[both].std() == 0:
        return float("nan")
    return float(np.corrcoef(one[both], other[both])[0, 1])
