"""A run of `opilio crawl`, from the inputs to what is shown at the end."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from opilio.cli.display import (
    JsonLines,
    JsonLogLines,
    LogLines,
    Silence,
    dead_seed_lines,
    log_fields,
    print_json,
    summary,
)
from opilio.cli.log import log_event, logs_json, tell
from opilio.cli.portal import portal_alongside, stay
from opilio.cli.seeds import show_answer, show_found
from opilio.cluster.workers import check_ray, on_ray
from opilio.crawl import Collection, Status
from opilio.errors import CollectionError, InputError, OpilioError
from opilio.learn.asking import asks
from opilio.learn.hits import TAKEN_HITS
from opilio.learn.training_data import MIN_EXAMPLE_WORDS
from opilio.model import Outcome
from opilio.process import INTERRUPTED, exit_at_once, lighten_pyarrow
from opilio.settings import FetchSettings, Settings, load, override
from opilio.store.connection import FILE_NAME as DATABASE_NAME
from opilio.topics.inputs import bookmark_text, chosen_folders

if TYPE_CHECKING:  # it takes a while to import
    from opilio.seeds import ProviderAnswer


def run_crawl(
    folder: Path, files: dict[str, Path | None], words: dict[str, str], config: Path | None, changes: dict[str, Any], *,
    bookmark_folders: tuple[str, ...], retry_failed: bool, recrawl: bool, portal: int | None, ray_address: str | None,
    takes_hits: bool, quiet: bool, as_json: bool,
) -> None:  # fmt: skip
    """Do what the command says: `files` and `words` are what to start from, `changes` the settings that it names."""
    with exit_at_once():
        lighten_pyarrow()
    if takes_hits:
        changes = {"learn.hits": TAKEN_HITS, **changes}
    inputs: dict[str, Any] = dict(files)
    bookmarks = files["bookmarks"]
    if bookmark_folders and bookmarks is not None:
        inputs["folders"] = chosen_folders(bookmark_text(bookmarks), bookmark_folders)
    if ray_address is not None:
        check_ray()
    collection = _open_or_create(folder, inputs, words, config, changes)
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
