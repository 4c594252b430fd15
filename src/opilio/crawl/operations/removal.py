"""The operation that removes pages for good (`opilio forget`): from the database, the WARC files and the index.

This has nothing to do with `crawl/forgetting.py`, by which a crawl may visit pages again.

The order is such that a removal may be killed at any moment and leaves a sound collection; `meta` says that it is not
finished, and the next removal finishes it:

1. the hosts are locked, so that nothing of them is fetched again;
2. the index is deleted, for it can be made again;
3. all rows are deleted in one transaction, which also notes what follows (`store/removal.py`);
4. WARC files are replaced one by one: the database forgets the records, then the file has tombstones in their place;
5. the database is written again without what deleted rows left behind;
6. the index is made again, and the note is deleted.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from shlex import quote
from typing import Any

from opilio.crawl.operations.browse import update_index
from opilio.crawl.operations.client import OperationClient, caller_operation, is_running
from opilio.crawl.operations.crawling import lock_host
from opilio.crawl.operations.declaration import LONG_TIMEOUT_S, WRITES, Meta, Route
from opilio.crawl.steering import name_of_host
from opilio.errors import CollectionBusy, InputError
from opilio.frontier import covering
from opilio.model import host_of, normalize
from opilio.model.url import host_name
from opilio.settings.files import hide_password
from opilio.store import Store, removal
from opilio.store.pages import known_spelling
from opilio.store.warc import warc_elsewhere, warc_files

WARC_FOLDER, INDEX_FOLDER = "warc", "index"


@dataclasses.dataclass(frozen=True)
class Removal:
    """What was removed, or would be."""

    urls: int = 0
    pages: int = 0
    examples: int = 0
    """Training documents among them: the models that learned from one are removed too."""
    records: int = 0
    """Records of WARC files that are tombstones now."""
    kept: tuple[str, ...] = ()
    """Places that may still have copies, which you have to delete yourself."""


@dataclasses.dataclass(frozen=True)
class _Targets:
    hosts: list[str]
    urls: list[str]

    def is_host(self, url: str) -> bool:
        """Whether a URL is of one of the hosts."""
        return bool(covering(host_name(host_of(url)), self.hosts))


def count_pages(client: OperationClient, targets: Sequence[str]) -> Removal:
    """What `remove_pages` would remove."""
    with client.opened(read_only=True) as store:
        chosen = _choose(store, _targets_of(store, targets))
        return Removal(chosen.urls, chosen.pages, chosen.examples, kept=_kept(client))


def remove_pages(client: OperationClient, targets: Sequence[str]) -> Removal:
    """Remove hosts and pages for good; without targets, finish a removal that was interrupted."""
    folder = client.folder
    if is_running(folder):
        raise CollectionBusy(f"{folder}: a crawl is running here", f"Stop it first: opilio stop {quote(str(folder))}")
    with client.opened_soon() as store:
        named = _targets_of(store, targets)
        if not targets and removal.unfinished(store) is None:
            raise InputError("nothing to forget", "Name a host or the URL of a page.")
    for host in named.hosts:
        client.call(lock_host, host)
    with client.opened_soon() as store:
        chosen = _choose(store, named)
        shutil.rmtree(folder / INDEX_FOLDER, ignore_errors=True)
        if targets:
            removal.remove_rows(store, chosen, named.hosts, named.is_host)
        records = _bury(client, store)
    removal.rewrite(folder, client.settings.store.memory_bytes)
    if client.settings.search.index:
        client.call(update_index)
    with client.opened_soon() as store:
        removal.finish(store)
    return Removal(chosen.urls, chosen.pages, chosen.examples, records, _kept(client))


def _targets_of(store: Store, targets: Sequence[str]) -> _Targets:
    """Hosts by their names, and URLs as the crawl knows them."""
    hosts, urls = [], []
    for target in targets:
        if "/" not in target.strip():
            hosts.append(name_of_host(target))
            continue
        url = normalize(target.strip() if "://" in target else f"http://{target.strip()}")
        known = known_spelling(store, url) if url else None
        if known is None:
            raise InputError(
                f"{target}: not known to this collection", "Give a URL that it has, or the name of a host."
            )
        urls.append(known)
    return _Targets(hosts, urls)


def _choose(store: Store, named: _Targets) -> removal.RemovalPlan:
    sids = [host.sid for host in store.load_hosts() if covering(host_name(host.host), named.hosts)]
    return removal.choose(store, sids, named.urls)


def _bury(client: OperationClient, store: Store) -> int:
    """Replace the records of all that was forgotten; how many."""
    left = removal.unfinished(store)
    assert left is not None
    hosts, urls = _Targets(left.hosts, []), removal.forgotten_urls(store) | set(left.pictures)

    def is_removed(raw: str) -> bool:
        url = normalize(raw)
        return url in urls or (url != "" and hosts.is_host(url))

    folders = [client.folder / WARC_FOLDER, warc_elsewhere(client.settings.store)]
    paths = [path for place in folders if place is not None for path in warc_files(place)]
    return sum(removal.bury(store, path, is_removed) for path in paths)


def _kept(client: OperationClient) -> tuple[str, ...]:
    """Where copies may be that are not the collection's any more."""
    kept = [str(path) for path in sorted(client.folder.glob("damaged-*"))]
    if "://" in client.settings.store.warc_url:
        kept.append(hide_password(client.settings.store.warc_url))
    return tuple(kept)


@caller_operation(
    WRITES,
    timeout_s=LONG_TIMEOUT_S,
    rest=Route("POST", "forget", "crawl"),
    about={
        "targets": Meta(
            description="Names of hosts, each with all below it, and URLs. None: finish what was interrupted."
        ),
        "dry_run": Meta(description="Only count what would be removed."),
    },
)
def forget(client: OperationClient, targets: Sequence[str], *, dry_run: bool = False) -> dict[str, Any]:
    """Remove hosts and pages for good: from the database, the index, the examples, the models and the WARC files.

    Their URLs stay known, so that they are not fetched again, and the hosts are locked. In the WARC files a tombstone
    takes the place of each record. Not while a crawl runs. Returns how many `urls`, stored `pages`, `examples` and WARC
    `records` were removed, and where you may have to delete copies yourself (`kept`).
    """
    found = count_pages(client, targets) if dry_run else remove_pages(client, targets)
    return dataclasses.asdict(found)
