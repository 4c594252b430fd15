"""What an assistant may start: how large a crawl, how many at a time, and where on the web."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opilio.errors import InputError
from opilio.fetch.addresses import is_local_name, is_public, parse_address
from opilio.frontier import covering
from opilio.model import host_of
from opilio.model.url import host_name
from opilio.settings import Settings, parse_assignment

MINUTE_S = 60.0
_BY_HAND = "Its owner can start it: opilio crawl FOLDER."


@dataclass(frozen=True)
class AssistantLimits:
    """The limits of one server; the assistant cannot change them."""

    max_pages: int = 500
    """Pages that one crawl may add to a collection."""
    total_pages: int = 5000
    """Pages that all crawls together may add, as long as the server runs."""
    max_crawls: int = 1
    """Crawls at a time, those that somebody else started included."""
    max_time_s: float = 60 * MINUTE_S
    """Time that one crawl may take."""
    allow_hosts: tuple[str, ...] = ()
    """Domains that may be fetched from, subdomains included. Empty: all of the public web."""
    new_in: Path | None = None
    """Folder in which new collections are made. None: the assistant makes none."""
    read_only: bool = False
    """Nothing is changed and no crawl is started."""
    assignments: tuple[str, ...] = ()
    """Settings of new collections (`section.key=value`), as whoever starts the server has chosen them."""

    def check_seeds(self, urls: Sequence[str]) -> None:
        """Refuse URLs in the private network, and outside of the hosts that are allowed."""
        for url in urls:
            name = host_name(host_of(url))
            address = parse_address(name)
            if is_local_name(name) or (address is not None and not is_public(address)):
                raise InputError(f"{url}: not on the public web", "Name pages of public web sites.")
            if self.allow_hosts and not covering(name, self.allow_hosts):
                allowed = ", ".join(self.allow_hosts)
                raise InputError(f"{url}: this host is not allowed here", f"Allowed are: {allowed}.")

    def check_settings(self, settings: Settings) -> None:
        """Refuse to continue a crawl whose settings lift a guard, or lead out of the hosts that are allowed."""
        lifted = {
            "fetch.allow_private_addresses": settings.fetch.allow_private_addresses,
            "fetch.proxy_resolves_names": settings.fetch.proxy_resolves_names,
            "robots.obey": not settings.robots.obey,
            "fetch.host_delay_s": settings.fetch.host_delay_s < Settings().fetch.host_delay_s,
            "fetch.connect_to": bool(settings.fetch.connect_to),
        }
        chosen = {parse_assignment(assignment)[0] for assignment in self.assignments}
        for name, is_lifted in lifted.items():
            if is_lifted and name not in chosen:
                raise InputError(f"the setting {name} of this collection is its owner's business", _BY_HAND)
        only = settings.scope.only_domains
        if self.allow_hosts and not (only and all(covering(name, self.allow_hosts) for name in only)):
            raise InputError("this collection fetches from hosts that are not allowed here", _BY_HAND)
