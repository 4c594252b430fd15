"""One HTML file that shows an experiment: findings, figures, tables and all that is needed to repeat it.

It is self-contained: pictures and style are inside, there are no scripts, and its content policy lets nothing be
loaded. Everything that comes from webs and files is escaped.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

import msgspec

from opilio.errors import install_command
from opilio.lab.experiments import plots
from opilio.lab.experiments.results import ExperimentFacts
from opilio.lab.experiments.scores import MEASURES, column_parts
from opilio.lab.experiments.statistics import Mean
from opilio.lab.experiments.summary import BaselineVerdict, ExperimentSummary, Finding

STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6875; --line: #dde3e9; --ground: #f5f7f9;
  --card: #fff; --good: #0b7a4b; --good-ground: #e4f5ec;
  --bad: #b3401c; --bad-ground: #fbeae4; --accent: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e5eaf0; --soft: #9aa7b4; --line: #333d48; --ground: #14191f;
  --card: #1c232b;
  --good: #6fd3a5; --good-ground: #15352a; --bad: #f2a284; --bad-ground: #3d221a; --accent: #6fb7e6; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 1340px; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.3rem; margin: 0 0 1rem; }
h3 { font-size: 1.05rem; margin: 1.2rem 0 .4rem; } h4 { margin: 1rem 0 .2rem; }
.question { font-size: 1.15rem; color: var(--soft); margin: 0 0 1rem; max-width: 60rem; }
.chips { display: flex; flex-wrap: wrap; gap: .4rem; margin: 0 0 1.5rem; padding: 0; }
.chips span { border: 1px solid var(--line); background: var(--card); border-radius: 99px; padding: .1rem .7rem;
  font-size: .85rem; }
section, main > details { background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 1.4rem 1.5rem; margin: 0 0 1.4rem; }
figure { margin: 0 0 1.2rem; background: #fff; border-radius: 8px; padding: .6rem; text-align: center; }
figure img { max-width: 100%; height: auto; }
figcaption { color: #5b6875; font-size: .85rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap;
  vertical-align: top; }
thead th { color: var(--soft); font-weight: 600; white-space: normal; vertical-align: bottom; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--card); }
tbody th { font-weight: 600; text-align: left; }
td small { display: block; color: var(--soft); font-size: .75rem; } th i { color: var(--soft); font-weight: 400; }
.better { color: var(--good); background: var(--good-ground); }
.worse { color: var(--bad); background: var(--bad-ground); }
details { margin-top: 1rem; } summary { cursor: pointer; color: var(--accent); font-weight: 600; }
dt { font-weight: 600; margin-top: .4rem; } dd { margin: 0; color: var(--soft); }
pre { overflow-x: auto; background: var(--ground); padding: .8rem; border-radius: 8px; font-size: .8rem; }
.digest { font-family: ui-monospace, monospace; font-size: .7rem; white-space: normal; word-break: break-all; }
.note { color: var(--soft); font-size: .85rem; margin: .6rem 0 0; }
.missing { color: var(--soft); font-style: italic; }
@media print { body { background: #fff; } section { break-inside: avoid-page; border: none; padding: 0; } }
"""


REPORT_FILE, TABLES_FILE, FIGURES_FOLDER = "report.html", "tables.md", "figures"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_SIGNS = {Finding.BETTER: "▲", Finding.WORSE: "▼", Finding.NOT_SHOWN: "·", Finding.TOO_FEW: "?"}
_HOW_TO_READ = """
<p>Figures are means over topics with a 95 % bootstrap interval. Strategies are compared with <b>{baseline}</b> on the
same topics: ▲ better, ▼ worse, · no difference shown, ? too few topics. A difference counts as shown when its 95 %
interval leaves out zero and its p value (paired permutation test, raised by Holm's method for all strategies of a
column) is below 0.05. <code>@100</code> means after 100 pages, or of the 100 best pages; without it, at the end.</p>
"""


def write_report(summary: ExperimentSummary, folder: Path) -> Path:
    """Write the report, its figures (PNG and SVG) and its tables as Markdown; without matplotlib, no figures."""
    pictures: dict[tuple[str, str], bytes] = {}
    if plots.can_plot():
        (folder / FIGURES_FOLDER).mkdir(exist_ok=True)
        for web, task in summary.sections:
            name = f"{web}-{task}".replace(" ", "-").replace("/", "-")
            pictures[web, task] = plots.draw(summary, web, task, "svg")
            (folder / FIGURES_FOLDER / f"{name}.svg").write_bytes(pictures[web, task])
            (folder / FIGURES_FOLDER / f"{name}.png").write_bytes(plots.draw(summary, web, task, "png"))
    (folder / TABLES_FILE).write_text(markdown(summary), "utf-8")
    path = folder / REPORT_FILE
    path.write_text(html(summary, pictures), "utf-8")
    return path


# -- Markdown


def markdown(summary: ExperimentSummary) -> str:
    """The tables, for pages of documentation."""
    lines = [f"# {summary.facts.experiment.title or summary.facts.experiment.name}", ""]
    columns = summary.facts.experiment.measures.table
    for web, task in summary.sections:
        lines += [f"## {web}, {task}", "", f"| strategy | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
        for strategy in summary.facts.strategies:
            cells = [_mean_text(summary.mean(web, task, strategy, column), column) for column in columns]
            lines.append(f"| {strategy.replace('|', '/')} | {' | '.join(cells)} |")
        lines += ["", *(f"- {verdict}" for verdict in _verdicts(summary, web, task)), ""]
    return "\n".join(lines)


def _verdicts(summary: ExperimentSummary, web: str, task: str) -> Iterator[BaselineVerdict]:
    for column in summary.facts.experiment.measures.table:
        yield from summary.verdicts(web, task, column).values()


def _mean_text(mean: Mean | None, column: str) -> str:
    if mean is None:
        return "-"
    digits = column_parts(column)[0].decimals
    found = mean.interval
    return f"{found.value:.{digits}f} ({found.low:.{digits}f} to {found.high:.{digits}f})"


# -- HTML


def html(summary: ExperimentSummary, pictures: dict[tuple[str, str], bytes]) -> str:
    """The report."""
    experiment = summary.facts.experiment
    title = escape(experiment.title or experiment.name)
    body = "\n".join(
        [
            f"<header><h1>{title}</h1><p class=question>{escape(experiment.question)}</p>",
            f"{_chips(summary.facts)}</header>",
            _at_a_glance(summary),
            _how_to_read(summary.facts),
            *(_section(summary, web, task, pictures.get((web, task))) for web, task in summary.sections),
            _what_was_run(summary.facts),
        ]
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="referrer" content="no-referrer">'
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body><main>\n{body}\n</main></body></html>\n"
    )


def _chips(facts: ExperimentFacts) -> str:
    topics = sum(len(web.topics) for web in facts.webs)
    chips = [
        f"{facts.runs:,} crawls", f"{len(facts.strategies)} strategies", f"{topics} topics",
        f"{len(facts.webs)} webs", f"Opilio {facts.opilio_version}",
    ]  # fmt: skip
    if facts.commit:
        chips.append(f"commit {facts.commit}")
    return f"<p class=chips>{''.join(f'<span>{escape(chip)}</span>' for chip in chips)}</p>"


def _at_a_glance(summary: ExperimentSummary) -> str:
    """In how many columns each strategy is better or worse than the baseline, web by web and task by task."""
    rows = []
    for strategy in summary.facts.strategies:
        if strategy == summary.facts.baseline:
            continue
        cells = [f"<th>{escape(strategy)}</th>"]
        for web, task in summary.sections:
            found = Counter(v.finding for v in _verdicts(summary, web, task) if v.comparison.name == strategy)
            better, worse = found[Finding.BETTER], found[Finding.WORSE]
            kind = "better" if better > worse else "worse" if worse > better else "none"
            counts = " ".join(f"{_SIGNS[finding]} {found[finding]}" for finding in Finding if found[finding])
            cells.append(f'<td class="{kind}">{counts or "-"}</td>')
        rows.append(cells)
    if not rows:
        return ""
    header = ["strategy", *(f"{web}, {task}" for web, task in summary.sections)]
    words = (
        f"In how many columns of the tables below a strategy is shown to be better ▲ or worse ▼ than "
        f"<b>{escape(summary.facts.baseline)}</b>, or neither: · not shown, ? too few topics to tell."
    )
    return f"<section><h2>At a glance</h2>{_table(header, rows)}<p class=note>{words}</p></section>"


def _how_to_read(facts: ExperimentFacts) -> str:
    measures = facts.experiment.measures
    used = dict.fromkeys(column_parts(column)[0].name for column in (*measures.curves, *measures.table))
    says = "".join(
        f"<dt>{escape(name)}{' (lower is better)' if MEASURES[name].lower_is_better else ''}</dt>"
        f"<dd>{escape(MEASURES[name].says)}</dd>"
        for name in used
    )
    words = _HOW_TO_READ.format(baseline=escape(facts.baseline))
    return f"<details><summary>How to read this</summary>{words}<dl>{says}</dl></details>"


def _section(summary: ExperimentSummary, web: str, task: str, picture: bytes | None) -> str:
    if picture is None:
        command = escape(install_command("evaluate"), quote=False)
        figure = f"<p class=missing>No figures: matplotlib is not installed ({command}).</p>"
    else:
        source = "data:image/svg+xml;base64," + base64.b64encode(picture).decode()
        text = escape(plots.caption(summary, web, task))
        figure = f'<figure><img src="{source}" alt="{text}"><figcaption>{text}</figcaption></figure>'
    baseline = escape(summary.facts.baseline)
    return (
        f"<section><h2>{escape(f'{web}, {task}')}</h2>{figure}{_means(summary, web, task)}"
        f"<details><summary>All comparisons with {baseline}</summary>{_comparisons(summary, web, task)}</details>"
        f"<details><summary>Topic by topic</summary>{_by_topic(summary, web, task)}</details></section>"
    )


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are HTML already, each with its tags."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _means(summary: ExperimentSummary, web: str, task: str) -> str:
    columns = summary.facts.experiment.measures.table
    rows = []
    for strategy in summary.facts.strategies:
        cells = [f"<th>{escape(strategy)}{' <i>baseline</i>' if strategy == summary.facts.baseline else ''}</th>"]
        for column in columns:
            mean, digits = summary.mean(web, task, strategy, column), column_parts(column)[0].decimals
            if mean is None:
                cells.append("<td>-</td>")
                continue
            verdict = summary.verdicts(web, task, column).get(strategy)
            kind, sign = ("none", "") if verdict is None else (verdict.finding.name.lower(), _SIGNS[verdict.finding])
            found = mean.interval
            tip = escape(str(verdict)) if verdict is not None else ""
            cells.append(
                f'<td class="{kind}" title="{tip}"><b>{found.value:.{digits}f}</b> {sign}'
                f"<small>{found.low:.{digits}f} to {found.high:.{digits}f}</small></td>"
            )
        rows.append(cells)
    return _table(["strategy", *columns], rows)


def _comparisons(summary: ExperimentSummary, web: str, task: str) -> str:
    rows = []
    for verdict in _verdicts(summary, web, task):
        found, gap, digits = verdict.comparison, verdict.comparison.difference, verdict.measure.decimals
        rows.append(
            [
                f"<th>{escape(found.measure)}</th><th>{escape(found.name)}</th>",
                f"<td>{gap.value:+.{digits}f}</td><td>{gap.low:+.{digits}f} to {gap.high:+.{digits}f}</td>",
                f"<td>{found.wins} / {found.losses} / {found.ties}</td>",
                f"<td>{found.p:.2g}</td><td>{verdict.holm_p:.2g}</td>",
                f"<td class={verdict.finding.name.lower()}>{_SIGNS[verdict.finding]} {verdict.finding}</td>",
            ]
        )
    header = [
        "measure",
        "strategy",
        "difference",
        "95 % interval",
        "topics higher / lower / equal",
        "p",
        "p (Holm)",
        "finding",
    ]
    return _table(header, rows)


def _by_topic(summary: ExperimentSummary, web: str, task: str) -> str:
    column = summary.facts.experiment.measures.table[-1]
    digits = column_parts(column)[0].decimals
    values = {name: summary.values(web, task, name, column) for name in summary.facts.strategies}
    topics = sorted({topic for found in values.values() for topic in found})
    rows = [
        [f"<th>{escape(topic)}</th>", *(f"<td>{_value(found.get(topic), digits)}</td>" for found in values.values())]
        for topic in topics
    ]
    return f"<p>{escape(column)}</p>" + _table(["topic", *values], rows)


def _value(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _what_was_run(facts: ExperimentFacts) -> str:
    webs = _table(
        ["web", "pages", "hosts", "budget (pages)", "topics", "digest (SHA-256)"],
        (
            [
                f"<th>{escape(web.name)}</th><td>{web.pages:,}</td><td>{web.hosts:,}</td><td>{web.budget_pages:,}</td>",
                f"<td>{len(web.topics)}</td><td class=digest>{escape(web.digest)}</td>",
            ]
            for web in facts.webs
        ),
    )
    skipped = "".join(
        f"<li>{escape(f'{one.web}, {one.task}, {one.topic}, repeat {one.repeat}: {one.why}')}</li>"
        for one in facts.skipped
    )
    settings = "".join(
        f"<h4>{escape(name)}</h4><pre>{escape(toml or 'defaults')}</pre>" for name, toml in facts.settings.items()
    )
    table = escape(json.dumps(msgspec.to_builtins(facts.experiment), indent=2, ensure_ascii=False))
    left_out = f"<h3>Left out</h3><ul>{skipped}</ul>" if skipped else ""
    return (
        f"<section><h2>What was run</h2>{webs}{left_out}"
        f"<details><summary>Settings of each strategy</summary>{settings}</details>"
        f"<details><summary>The experiment in full</summary><pre>{table}</pre></details></section>"
    )
