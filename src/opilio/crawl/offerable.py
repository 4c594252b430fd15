"""What other collections hand over to this one: to the crawl that runs, or to the next."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from opilio.crawl.asking import Askable
from opilio.crawl.control import ASK_TIMEOUT_S
from opilio.crawl.forwarder import ACCEPTED, FORWARDED
from opilio.errors import SettingsError
from opilio.federation.offers import receive_offline
from opilio.federation.peers import Offer
from opilio.store import Batch, Store

if TYPE_CHECKING:  # it takes a while to import
    from opilio.federation.forwarding import ForwardedCount

ROUND_S = 60.0


def _count(store: Store, delivered: ForwardedCount) -> None:
    """Count what was handed over by hand, too."""
    if delivered.forwarded:
        batch, known = Batch(), store.load_counters()
        batch.counters[FORWARDED] = known.get(FORWARDED, 0) + delivered.forwarded
        batch.counters[ACCEPTED] = known.get(ACCEPTED, 0) + delivered.new
        store.write(batch)


class Offerable(Askable):
    """What concerns URLs that collections hand each other."""

    def take_offers(self, sender: str, offers: Sequence[Offer]) -> int:
        """Take URLs that another collection hands over; how many of them are new here.

        A crawl that runs lets them wait at once. Otherwise the next one takes them up.
        """
        plain = [msgspec.to_builtins(offer) for offer in offers]
        return int(
            self._ask_or_open(
                "take_offers", lambda store: receive_offline(store, sender, plain), ASK_TIMEOUT_S, read_only=False,
                sender=sender, offers=plain,
            )
        )  # fmt: skip

    def offer_to_peers(self, peers_file: Path | str | None = None, *, dry_run: bool = False) -> dict[str, Any]:
        """Hand over to other collections what suits their topics; not while a crawl runs, which does so by itself.

        `peers_file` names them; without it, the file that the settings name. Returns for each how many URLs were handed
        over, and how many were new there (with `dry_run`, only which would be, and whether these are all), and
        warnings.
        """
        from opilio.crawl import open_peer  # noqa: PLC0415
        from opilio.federation.forwarding import forwarding_to  # noqa: PLC0415

        file = peers_file or self.settings.federation.peers
        if not file:
            raise SettingsError("no peers to hand anything over to", "Name a file of peers: --peers FILE")
        with self._store() as store:
            delivery = forwarding_to(file, store, open_peer)
            while True:
                if dry_run:
                    delivery.prepare(time.monotonic() + ROUND_S)
                else:
                    _count(store, delivery.round(ROUND_S))
                if delivery.is_done or (dry_run and not delivery.has_more_to_compare):
                    break
        few = [] if delivery.can_compare else [f"{self.folder} has too few pages to tell what is usual among them"]
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
