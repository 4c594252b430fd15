"""Operations by which collections forward URLs to each other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from opilio.crawl.forwarder import ACCEPTED, FORWARDED
from opilio.crawl.operations.client import OperationClient, caller_operation
from opilio.crawl.operations.context import Context, LiveCrawl
from opilio.crawl.operations.declaration import READS, WRITES, operation
from opilio.errors import SettingsError
from opilio.federation.offers import RECEIVED, admit, receive, receive_offline
from opilio.federation.peers import Offer
from opilio.store import Batch, Store

if TYPE_CHECKING:  # it takes a while to import
    from opilio.federation.forwarding import ForwardedCount

ROUND_S = 60.0


@operation(READS)
def peer_topics(at: Context) -> list[dict[str, Any]]:
    """What the topics are about, for the summary that other collections read."""
    from opilio.federation.profiles import topic_profiles  # noqa: PLC0415

    return topic_profiles(at.store)


@operation(WRITES)
def take_offers(at: Context, sender: str, offers: Sequence[Offer]) -> int:
    """Take URLs that another collection forwards; returns how many of them are new here.

    A running crawl queues them at once. Otherwise the next crawl does.
    """
    return receive_offline(at.store, sender, offers)


@take_offers.live
async def _(crawl: LiveCrawl, sender: str, offers: Sequence[Offer]) -> int:
    async with crawl.receiving:
        received = await crawl.read(receive, sender, offers)
    if received:
        crawl.engine.counters.add(RECEIVED, len(received))
        admit(crawl.engine.absorber, received)
    return len(received)


@caller_operation(WRITES)
def offer_to_peers(
    client: OperationClient, peers_file: Path | str | None = None, *, dry_run: bool = False
) -> dict[str, Any]:
    """Forward URLs that suit the topics of other collections; not while a crawl runs, which does this by itself.

    `peers_file` names the other collections; by default the file that the settings name. Returns warnings, and for each
    peer how many URLs were forwarded and how many of them were new there. With `dry_run` nothing is sent: it returns
    which URLs would be, and whether these are all.
    """
    from opilio.crawl import open_peer  # noqa: PLC0415
    from opilio.federation.forwarding import forwarding_to  # noqa: PLC0415

    file = peers_file or client.settings.federation.peers
    if not file:
        raise SettingsError("no peers to forward URLs to", "Name a file of peers: --peers FILE")
    with client.opened_soon() as store:
        delivery = forwarding_to(file, store, open_peer)
        while True:
            if dry_run:
                delivery.prepare(time.monotonic() + ROUND_S)
            else:
                _count(store, delivery.round(ROUND_S))
            if delivery.is_done or (dry_run and not delivery.has_more_to_compare):
                break
    few = [] if delivery.can_compare else [f"{client.folder} has too few pages to know what is usual among them"]
    return {
        "warnings": [*delivery.warnings, *few],
        "peers": [
            {
                "name": box.peer.name,
                "count": len(box.queued) if dry_run else box.forwarded,
                "is_all": delivery.has_seen_all(box),
                "new": box.new,
                "trouble": box.trouble,
                "urls": [msgspec.to_builtins(offer) for offer in box.queued] if dry_run else [],
            }
            for box in delivery.boxes
        ],
    }


def _count(store: Store, delivered: ForwardedCount) -> None:
    """Count these URLs like those that a crawl forwards."""
    if delivered.forwarded:
        batch, known = Batch(), store.load_counters()
        batch.counters[FORWARDED] = known.get(FORWARDED, 0) + delivered.forwarded
        batch.counters[ACCEPTED] = known.get(ACCEPTED, 0) + delivered.new
        store.write(batch)
