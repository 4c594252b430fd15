"""`opilio crawl`: crawl into a new collection, or continue a crawl."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from opilio.cli.display import (
    DURATION,
    SIZE,
    JsonLines,
    JsonLogLines,
    LogLines,
    Silence,
    dead_seed_lines,
    log_fields,
    print_json,
    summary,
)
from opilio.cli.log import log_event, log_format_option, logs_json, tell
from opilio.cli.portal import PORT, portal_alongside, stay
from opilio.cli.seeds import show_answer, show_found
from opilio.cluster.workers import check_ray, on_ray
from opilio.crawl import Collection, Status
from opilio.errors import CollectionError, InputError, OpilioError
from opilio.learn.asking import asks
from opilio.learn.hits import TAKEN_HITS
from opilio.learn.training_data import MIN_EXAMPLE_WORDS
from opilio.model import Outcome
from opilio.process import INTERRUPTED, exit_at_once, lighten_pyarrow
from opilio.settings import RENDER_MODES, SYSTEMS, FetchSettings, Settings, load, override, parse_assignment
from opilio.store.connection import FILE_NAME as DATABASE_NAME
from opilio.topics.inputs import bookmark_text, chosen_folders

if TYPE_CHECKING:  # it takes a while to import
    from opilio.seeds import ProviderAnswer

_SHORT = {
    "max_pages": "limits.max_pages",
    "max_time": "limits.max_time_s",
    "max_depth": "limits.max_depth",
    "max_bytes": "limits.max_bytes",
    "max_pages_per_host": "limits.max_pages_per_host",
    "system": "run.system",
    "classifier": "classify.classifier",
    "strategy": "frontier.strategy",
    "order_by": "frontier.order_by",
    "delay": "fetch.host_delay_s",
    "contact": "fetch.contact_url",
    "workers": "run.workers",
    "render": "render.mode",
    "keep_fresh": "revisit.keep_fresh",
}


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--bookmarks",
    type=click.Path(path_type=Path),
    help="Bookmark file of a browser (HTML): folders become topics, bookmarks become seeds and examples.",
)
@click.option(
    "--bookmark-folder", "bookmark_folders", multiple=True, metavar="NAME",
    help="Take only this folder of the bookmarks, with all in it; may be repeated. `opilio bookmarks FILE` lists them.",
)  # fmt: skip
@click.option(
    "--seeds", type=click.Path(path_type=Path),
    help="Where to start: a text file with one URL on each line, or saved search results (HTML).",
)  # fmt: skip
@click.option(
    "--seed-provider", "seed_providers", multiple=True, metavar="NAME=ADDRESS",
    help="Ask this service for pages to start from: searxng=https://..., opensearch=..., mediawiki=..., cdx=..., "
    "opilio=...; may be repeated. `opilio seeds --help` explains them.",
)  # fmt: skip
@click.option("--examples", type=click.Path(path_type=Path), help="Text file with URLs or files to learn from.")
@click.option("--topics", type=click.Path(path_type=Path), help="Taxonomy (YAML or TOML): topics with their examples.")
@click.option(
    "--query",
    default="",
    help="Words that describe the pages you want. Seeds are needed as well, or --seed-provider, which finds them.",
)
@click.option(
    "--description", default="",
    help="Sentences that describe the pages you want; from 30 words on they are a document to learn from.",
)  # fmt: skip
@click.option("--config", type=click.Path(path_type=Path), help="Settings file (TOML) for a new collection.")
@click.option("--max-pages", type=click.IntRange(0), help="Stop after this many pages.")
@click.option("--max-time", type=DURATION, help="Stop after this much crawling time: 90s, 15m, 8h.")
@click.option("--max-depth", type=click.IntRange(0), help="Follow links at most this far from a seed.")
@click.option("--max-bytes", type=SIZE, help="Stop after receiving this much: 500MB, 2GB.")
@click.option("--max-pages-per-host", type=click.IntRange(0), help="Store at most this many pages of one host.")
@click.option(
    "--system", type=click.Choice(list(SYSTEMS)), help="Run the system of a paper, with its defaults, not Opilio's own."
)
@click.option("--classifier", help="Classifier that judges pages: svm, bayes, cosine, oasis, keywords.")
@click.option("--strategy", help="Order of the frontier: evidence, best-first, breadth-first, bingo, bfs256, sql ...")
@click.option("--order-by", help='SQL order for --strategy sql: "numtries, relevance DESC, serverload".')
@click.option("--delay", type=DURATION, help="Time between two requests to one host: 2s.")
@click.option("--contact", help="URL in the User-Agent where site owners can reach you.")
@click.option(
    "--render", type=click.Choice(RENDER_MODES),
    help="Open pages in Chromium, so that scripts write their text: auto, those that are empty without JavaScript; "
    "always; never (the default). Needs the extra `render`.",
)  # fmt: skip
@click.option("--workers", type=int, help="Worker processes. 0: all CPUs but one; -1: everything in one process.")
@click.option(
    "--ray", "ray_address", metavar="ADDRESS",
    help="Run the workers on a Ray cluster: HOST:PORT of its head, or auto for the one this machine belongs to.",
)  # fmt: skip
@click.option("--set", "assignments", multiple=True, metavar="SECTION.KEY=VALUE", help="Any setting; may be repeated.")
@click.option(
    "--retry-failed", is_flag=True, help="Fetch URLs again that failed, also on hosts that were given up as bad."
)
@click.option("--recrawl", is_flag=True, help="Fetch stored pages again, with conditional requests.")
@click.option(
    "--keep-fresh/--no-keep-fresh", default=None,
    help="Go on when no URL is queued: visit stored pages again when they are due, the best hubs first.",
)  # fmt: skip
@click.option(
    "--portal",
    type=click.IntRange(0, 65535),
    is_flag=False,
    flag_value=PORT,
    metavar="[PORT]",
    help=f"Serve the portal during the crawl and afterwards until Ctrl-C (default port {PORT}; 0: any free port).",
)
@click.option("--no-questions", is_flag=True, help="Ask no questions about pages, now and later (learn.questions = 0).")
@click.option(
    "--yes", is_flag=True,
    help="With --query: take the 8 best hits as examples without asking, once 25 pages are stored (learn.hits = 8).",
)  # fmt: skip
@click.option("--quiet", "-q", is_flag=True, help="Print only the summary.")
@click.option("--json", "as_json", is_flag=True, help="Print progress and the summary as JSON lines.")
@log_format_option
def crawl(
    folder: Path, bookmarks: Path | None, bookmark_folders: tuple[str, ...], seeds: Path | None,
    examples: Path | None, topics: Path | None, query: str,
    description: str, config: Path | None, assignments: tuple[str, ...], seed_providers: tuple[str, ...],
    retry_failed: bool, recrawl: bool,
    portal: int | None, ray_address: str | None, no_questions: bool, yes: bool, quiet: bool, as_json: bool,
    **short: Any,
) -> None:  # fmt: skip
    """Crawl into the collection FOLDER: a new one, or one that exists.

    A new collection needs something to start from: --bookmarks, --topics, --examples, --seeds, a --query with
    --seed-provider, or several of them. To continue after a limit, Ctrl-C, a crash or kill -9, run the command again
    with the folder alone: nothing stored is lost, and no stored page is fetched again. Limits and settings given here
    are kept in FOLDER/crawl.toml; 0 removes a limit.

    \b
    opilio crawl birds --bookmarks bookmarks.html --max-pages 1000
    opilio crawl birds --portal                                      (and watch it in a browser)
    opilio crawl owls --query "barn owl nesting" --seeds start.txt --max-time 8h
    opilio crawl owls --query "barn owl nesting" --seeds results.html --yes  (learns from its best hits)
    opilio crawl owls --query "barn owl nesting" --seed-provider searxng=https://search.example.org
    opilio crawl birds --max-pages 5000
    opilio crawl owls --examples owls.txt --system bingo             (as in the paper)
    opilio crawl birds --ray 127.0.0.1:6379                          (workers on all machines of a Ray cluster)
    """
    with exit_at_once():
        lighten_pyarrow()
    changes = _changes_of(short)
    if no_questions:
        changes["learn.questions"] = 0
    if yes:
        changes["learn.hits"] = TAKEN_HITS
    changes.update(parse_assignment(text) for text in assignments)
    if seed_providers:
        changes["seeds.providers"] = seed_providers
    inputs: dict[str, Any] = {"bookmarks": bookmarks, "seeds": seeds, "examples": examples, "topics": topics}
    if bookmark_folders:
        if bookmarks is None:
            raise InputError("--bookmark-folder needs bookmarks", "Give --bookmarks FILE as well.")
        inputs["folders"] = chosen_folders(bookmark_text(bookmarks), bookmark_folders)
    if ray_address is not None:
        check_ray()
    collection = _open_or_create(folder, inputs, {"query": query, "description": description}, config, changes)
    workers = on_ray(ray_address, max(0, collection.settings.run.workers)) if ray_address is not None else None
    _warn_without_contact(collection.settings)
    dead: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        portal_process = stack.enter_context(portal_alongside(folder, portal)) if portal is not None else None
        asks_in = folder if asks(collection.settings) else None
        with make_display(quiet=quiet, as_json=as_json, asks_in=asks_in) as display:
            status = collection.crawl(
                on_tick=display.tick, retry_failed=retry_failed, recrawl=recrawl, workers=workers,
                at_end=lambda: dead.update(collection.dead_seeds()),
            )  # fmt: skip
        if as_json:
            print_json("end", status, dead_seeds=dead)
        elif logs_json():
            log_event("end", reason=status.reason, **log_fields(status))
        else:
            click.echo("\n".join([summary(status), *dead_seed_lines(str(folder), dead)]))
        _fail_when_cut_short(status)
        if portal_process is not None:
            stay(portal_process)
    if not status.stopped and (not status.pages or status.reached_nothing):
        raise CollectionError(*_why_nothing(folder, status, dead, collection.settings.fetch))
    if portal is None and not quiet and not as_json and not logs_json():
        _show_next_steps(folder)


def _changes_of(short: dict[str, Any]) -> dict[str, Any]:
    """What the options with names of their own set."""
    changes = {_SHORT[name]: value for name, value in short.items() if value is not None}
    if "limits.max_bytes" in changes:
        changes["limits.max_bytes"] = int(changes["limits.max_bytes"])
    if short.get("order_by") and not short.get("strategy"):
        changes["frontier.strategy"] = "sql"
    return changes


def _show_next_steps(folder: Path) -> None:
    place = quote(str(folder))
    click.echo(f"\nLook:  opilio serve {place}    (the portal, in a browser)\n       opilio search {place} WORDS")
    click.echo(f"       opilio status {place}\n       opilio export {place} pages.parquet")


def _fail_when_cut_short(status: Status) -> None:
    """End the command with an error when the crawl did not end by itself."""
    if status.interrupted:
        sys.exit(INTERRUPTED)
    if status.no_network:
        raise OpilioError(
            status.reason,
            "Nothing is lost. Check the connection and the addresses, then run the same command again to go on.",
        )


def _open_or_create(
    folder: Path, inputs: dict[str, Any], words: dict[str, str], config: Path | None, changes: dict[str, Any]
) -> Collection:
    given = {name: path for name, path in inputs.items() if path is not None}
    if not (folder / DATABASE_NAME).exists():
        settings = override(load(config) if config else Settings(), changes)
        if not given and not any(words.values()) and not settings.seeds.providers:
            raise InputError(
                f"{folder}: no collection there, and nothing to start one from",
                "Give --bookmarks FILE, --topics FILE, --examples FILE or --seeds FILE (with --query if you like).",
            )
        query, description = words["query"], words["description"]
        answers: list[ProviderAnswer] = []
        if settings.seeds.providers:
            _say_who_is_asked(settings)
        collection = Collection.create(
            folder, **given, query=query, description=description, system=settings.run.system, settings=settings,
            on_answer=answers.append,
        )  # fmt: skip
        for answer in answers:
            show_answer(answer.said, answer.trouble, answer.hint)
        count = len(description.split())
        if 0 < count < MIN_EXAMPLE_WORDS:
            tell("notice", f"the description has {count} words; from {MIN_EXAMPLE_WORDS} on it is learned from")
        return collection
    collection = Collection(folder)
    if config or any(words.values()):
        raise InputError(
            f"{folder}: --query, --description and --config are for a new collection",
            f"Edit {folder}/crawl.toml, or use --set. To add a text to learn from: "
            f"opilio topics add {quote(str(folder))} TOPIC text:...",
        )
    if given:
        added = collection.add(**given)
        if logs_json():
            log_event("seeds", collection=str(folder), added=added)
        else:
            click.echo(f"{added:,} new seeds", err=True)
    if changes:
        collection.change_settings(changes)
    if "seeds.providers" in changes and collection.settings.seeds.providers:
        _say_who_is_asked(collection.settings)
        show_found(collection.find_seeds())
    return collection


def _say_who_is_asked(settings: Settings) -> None:
    count = len(settings.seeds.providers)
    click.echo(f"asking {count:,} seed {'provider' if count == 1 else 'providers'} for start pages ...", err=True)


def _why_nothing(folder: Path, status: Status, dead: dict[str, Any], fetching: FetchSettings) -> tuple[str, str]:
    """What to say when a crawl stored nothing, or reached no server; and what to do about the most frequent reason."""
    place = quote(str(folder))
    if not status.pages and not dead["dead"]:
        return f"{folder}: no page was stored", f"`opilio status {place}` shows how far the crawl came."
    if status.pages:
        said, outcomes = "no server was reached", [Outcome.CONNECT_FAILED]
    else:
        names = ", ".join(f"{one['outcome']} {one['count']:,}" for one in dead["outcomes"])
        said = f"no page was stored; {dead['dead']:,} of {dead['seeds']:,} seeds failed: {names}"
        outcomes = [Outcome(one["outcome"]) for one in dead["outcomes"]]
    again = f"opilio crawl {place} --retry-failed"
    hints = {
        Outcome.NEEDS_JAVASCRIPT: f"To have scripts write these pages: opilio crawl {place} --render auto",
        Outcome.TLS_FAILED: f"To trust your own certificate authority: {again} --set fetch.ca_file=FILE; "
        "to trust any certificate: --set fetch.verify_tls=false",
        Outcome.PRIVATE_ADDRESS: f"For hosts of your own network: {again} --set fetch.allow_private_addresses=true",
    }
    if fetching.proxy and not fetching.proxy_resolves_names:
        hints[Outcome.DNS_FAILED] = (
            "The proxy is given only names that can be resolved here, so that addresses are checked. To leave both to "
            f"the proxy: {again} --set fetch.proxy_resolves_names=true"
        )
    if outcomes[0] in hints:
        return f"{folder}: {said}", hints[outcomes[0]]
    if outcomes[0].is_unreachable:
        return f"{folder}: {said}", f"Check the network and the addresses, then: {again}"
    return f"{folder}: {said}", f"Start from other pages as well: opilio crawl {place} --seeds FILE"


def _warn_without_contact(settings: Settings) -> None:
    if not settings.fetch.contact_url and not settings.fetch.connect_to:
        tell("warning", "no contact URL is set, so site owners cannot reach you; set one: --contact URL")


def make_display(*, quiet: bool, as_json: bool, asks_in: Path | None = None) -> Silence:
    """A live panel on a terminal, log lines when output is not a terminal, JSON lines or nothing on request.

    With `asks_in`, the folder of the collection, the panel shows the questions of the crawl and takes answers.
    """
    if as_json:
        return JsonLines()
    if quiet:
        return Silence()
    if logs_json():
        return JsonLogLines()
    if not sys.stderr.isatty():
        return LogLines()
    from opilio.cli.panel import Panels  # noqa: PLC0415  (rich takes long to load)

    return Panels(asks_in)
