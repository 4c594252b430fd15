"""`opilio crawl`: its options, and the start of its workers. `crawl_run.py` does the rest.

Workers are forked before anything is imported that they do not need: databases, the engine, what it learns with.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from opilio.cli.display import DURATION, SIZE
from opilio.cli.log import log_format_option
from opilio.cli.portal import PORT
from opilio.crawl.worker_pool import fork_early
from opilio.errors import InputError
from opilio.process import exit_at_once, importing
from opilio.settings import FILE_NAME, RENDER_MODES, SYSTEMS, Settings, load, override, parse_assignment

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
    changes = _changes_of(short)
    if no_questions:
        changes["learn.questions"] = 0
    changes.update(parse_assignment(text) for text in assignments)
    if seed_providers:
        changes["seeds.providers"] = seed_providers
    if bookmark_folders and bookmarks is None:
        raise InputError("--bookmark-folder needs bookmarks", "Give --bookmarks FILE as well.")
    with exit_at_once(), importing():
        if ray_address is None:
            _fork_workers(folder, config, changes)
        from opilio.cli.crawl_run import run_crawl  # noqa: PLC0415  (workers need none of what it imports)
    run_crawl(
        folder, {"bookmarks": bookmarks, "seeds": seeds, "examples": examples, "topics": topics},
        {"query": query, "description": description}, config, changes, bookmark_folders=bookmark_folders,
        retry_failed=retry_failed, recrawl=recrawl, portal=portal, ray_address=ray_address, takes_hits=yes,
        quiet=quiet, as_json=as_json,
    )  # fmt: skip


def _changes_of(short: dict[str, Any]) -> dict[str, Any]:
    """What the options with names of their own set."""
    changes = {_SHORT[name]: value for name, value in short.items() if value is not None}
    if "limits.max_bytes" in changes:
        changes["limits.max_bytes"] = int(changes["limits.max_bytes"])
    if short.get("order_by") and not short.get("strategy"):
        changes["frontier.strategy"] = "sql"
    return changes


def _fork_workers(folder: Path, config: Path | None, changes: dict[str, Any]) -> None:
    """Fork as many worker processes as the settings say, while this process is small."""
    own = folder / FILE_NAME
    file = own if own.is_file() else config
    count = override(load(file) if file is not None else Settings(), changes).run.workers
    if count >= 0:
        fork_early(count)
