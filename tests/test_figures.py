"""One truth for all figures: whoever asks for pages, relevant pages, harvest and counts of topics gets the same."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from rich.console import Console

from conftest import MakeTaught
from opilio import Collection
from opilio.assistants.results import figures as assistant_figures
from opilio.cli import cli
from opilio.cli.display import found_words, log_fields, summary
from opilio.cli.panel import panel
from opilio.crawl import Status
from opilio.web.metrics import exposition
from opilio.web.publishing import publish
from web_portal import Portal

OFF_TOPIC = ""


def printed(*words: str) -> str:
    result = CliRunner().invoke(cli, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def panel_text(status: Status) -> str:
    console = Console(width=200, file=io.StringIO())
    console.print(panel(status, 200))
    return console.file.getvalue()


def counted_by_hand(collection: Collection) -> tuple[dict[str, Any], dict[str, tuple[int, int]]]:
    """From plain rows, without any view: the figures, and pages and relevant pages by topic with all below it."""
    rows = collection.sql("SELECT p.kcid, p.relevance FROM pages p").rows
    topics = {kcid: (path, name) for kcid, path, name in collection.sql("SELECT kcid, path, name FROM topics").rows}
    [[requests]] = collection.sql("SELECT count(*) FROM visits").rows
    [[crawled_ms]] = collection.sql("SELECT n FROM counters WHERE name = 'elapsed_ms'").rows
    relevant = sum(relevance >= 0.5 for _, relevance in rows)
    figures = {
        "pages": len(rows), "relevant": relevant, "requests": requests, "harvest": relevant / len(rows),
        "harvest_per_request": relevant / requests, "elapsed_s": crawled_ms / 1000,
        "harvest_per_s": relevant / (crawled_ms / 1000),
    }  # fmt: skip
    by_topic: Counter[str] = Counter()
    good: Counter[str] = Counter()
    for kcid, relevance in rows:
        is_taken = kcid in topics and (kcid != 0 or relevance >= 0.5)
        path = topics[kcid][0] if is_taken else ""
        parts = path.split(" / ") if path else []
        above = [topics[0][1], *(" / ".join(parts[:n]) for n in range(1, len(parts) + 1))] if is_taken else [OFF_TOPIC]
        by_topic.update(above)
        good.update(above if relevance >= 0.5 else [])
    names = [OFF_TOPIC, *(path or name for path, name in topics.values())]
    return figures, {name: (by_topic[name], good[name]) for name in names}


def test_every_place_shows_the_same_figures(make_taught: MakeTaught, tmp_path: Path) -> None:
    """After a crawl whose pages were judged again, and after another re-judging: the end of the crawl, `status`, the
    census and the list of topics by commands, Python and REST, the panel, logs, metrics and what assistants get, the
    portal, the published site, views and an export."""
    collection = make_taught(limits__max_pages=120, classify__calibrate=True, learn__mined_negatives=50)
    ended = collection.crawl()
    assert ended.eta_s is None, "what has ended ends at no time to come"
    same_everywhere(collection, tmp_path / "first", ended)
    [[before]] = collection.sql("SELECT relevant FROM figures").rows
    rejected = collection.sql("SELECT url FROM collection WHERE relevant AND depth > 0 ORDER BY url LIMIT 6").rows
    for [url] in rejected:
        collection.feedback(url, "irrelevant")
    collection.train()
    [[after]] = collection.sql("SELECT relevant FROM figures").rows
    assert after < before, "pages were judged otherwise"
    same_everywhere(collection, tmp_path / "second", collection.status())


def same_everywhere(collection: Collection, folder: Path, status: Status) -> None:
    """`status` is what the caller was given."""
    folder.mkdir()
    figures, topics = counted_by_hand(collection)
    place = str(collection.folder)
    # Python, and what the caller of a crawl got
    now = collection.status()
    for given in (status, now):
        assert {name: getattr(given, name) for name in figures} == figures
        assert found_words(given) in summary(given)
    assert summary(status).splitlines()[3:6] == summary(now).splitlines()[3:6], "relevant pages, model, recall"
    front = collection.portal()
    assert {name: front["crawl"][name] for name in figures} == figures
    # commands
    assert found_words(now) in printed("status", place)
    rates = f"{figures['harvest_per_request']:.1%} of requests, {figures['harvest_per_s']:.3g} a second, as judged now"
    assert f"harvest {figures['harvest']:.1%} of pages, {rates}" in panel_text(now)
    assert json.loads(printed("status", place, "--json")).items() >= figures.items()
    census = json.loads(printed("census", place, "--json"))
    listed = json.loads(printed("topics", "list", place, "--json"))
    assert (census["pages"], census["relevant"], census["untaken"]) == (
        figures["pages"], figures["relevant"], topics[OFF_TOPIC][0],
    )  # fmt: skip
    wanted = {name: counts for name, counts in topics.items() if name != OFF_TOPIC}
    for rows in (census["topics"], listed):
        assert {one["topic"]: (one["pages"], one["relevant"]) for one in rows} == wanted
    # SQL, and an export
    [view] = json.loads(printed("sql", place, "FROM figures", "--format", "json"))
    assert view.items() >= figures.items()
    shown = collection.sql("SELECT topic, pages, relevant FROM topic_figures").rows
    by_view = {(OFF_TOPIC if name == "OTHERS" else name): (n, good) for name, n, good in shown}
    assert {OFF_TOPIC: (0, 0)} | by_view == topics, "no row for pages off topic where there are none"
    [[pages, relevant]] = collection.sql("SELECT sum(pages), sum(relevant) FROM harvest").rows
    assert (pages, relevant) == (figures["pages"], figures["relevant"])
    collection.export(folder / "pages.jsonl", columns=["topic", "relevant"])
    exported = [json.loads(line) for line in (folder / "pages.jsonl").read_text().splitlines()]
    assert (len(exported), sum(row["relevant"] for row in exported)) == (figures["pages"], figures["relevant"])
    assert sum(row["topic"] == OFF_TOPIC for row in exported) == topics[OFF_TOPIC][0]
    # logs, metrics and assistants
    assert log_fields(now).items() >= figures.items()
    [line] = [line for line in exposition({"c": now}).splitlines() if line.startswith("opilio_harvest_per_second{")]
    assert float(line.split()[-1]) == figures["harvest_per_s"]
    assert assistant_figures(now, {}).items() >= figures.items()
    # REST and the portal
    with Portal(collection.folder) as portal:
        name = collection.folder.name
        assert portal.get(f"/api/c/{name}/status")[1].items() >= figures.items()
        [card] = portal.get("/api/collections")[1]
        assert (card["pages"], card["relevant"]) == (figures["pages"], figures["relevant"])
        html = {where: portal.get(f"/c/{name}/{where}")[1] for where in ("", "watch", "topic")}
        tops = {
            topic: portal.get(f"/c/{name}/topic", topic=topic)[1] for topic in wanted if topic != front["tree"]["name"]
        }
    publish(collection, folder / "site", name=name)
    said = f"{figures['pages']:,} pages, {figures['relevant']:,} of them relevant"
    rates = f"harvest {figures['harvest']:.1%} of the pages, {figures['harvest_per_request']:.1%} of"
    rates += f" {figures['requests']:,} requests, {figures['harvest_per_s']:.3g} a second, as judged now"
    for text in (html[""], (folder / "site" / "index.html").read_text()):
        assert f"{said}: {rates}" in " ".join(text.split())
    live = dict(re.findall(r'data-live="(\w+)">([^<]*)<', html["watch"]))
    assert (live["pages"], live["relevant"]) == (f"{figures['pages']:,}", f"{figures['relevant']:,}")
    assert live["harvest"] == f"{figures['harvest']:.1%}"
    assert live["harvest_per_request"] == f"{figures['harvest_per_request']:.1%}"
    assert live["harvest_per_s"] == f"{figures['harvest_per_s']:.3g}"
    for topic, text in {front["tree"]["name"]: html["topic"], **tops}.items():
        assert f"<p>{topics[topic][0]:,} pages, {topics[topic][1]:,} of them relevant" in text, topic


def test_a_running_crawl_shows_the_figures_of_its_database(make_taught: MakeTaught) -> None:
    """While batches are open, being written and re-judged, the figures are those of the rows, or ahead of them by what is
    to be written; the recent harvest is another figure, and is called so."""
    collection = make_taught(limits__max_pages=100, store__batch_s=0.2, store__batch_pages=10)
    seen: list[Status] = []
    ended = collection.crawl(on_tick=seen.append)
    pages = [status.pages for status in seen]
    assert pages == sorted(pages) and pages[-1] == ended.pages
    assert all(status.relevant <= status.pages <= status.requests for status in seen)
    assert seen[-1].harvest == ended.harvest == collection.status().harvest
    running = [status for status in seen if status.harvest_per_s is not None]
    assert running and all(one.harvest_per_s == one.relevant / one.elapsed_s for one in running)
    assert ended.harvest_per_s == collection.status().harvest_per_s
    assert seen[-1].recent_harvest is not None and collection.status().recent_harvest is None
