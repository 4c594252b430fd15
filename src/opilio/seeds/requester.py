"""The requests of seed providers: politely, within limits, and with errors that say what to do."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict

import ada_url

from opilio.fetch.transport import Response, Transport
from opilio.model import Lease, LeaseKind, Outcome, host_of
from opilio.seeds.provider import ProviderError, ProviderReply
from opilio.settings import Settings

MAX_REQUESTS = 20
"""Of one provider for one question, redirects included."""
MAX_REDIRECTS = 5
_HINTS = {
    Outcome.PRIVATE_ADDRESS: "If this service is in your own network: --set fetch.allow_private_addresses=true",
    Outcome.DNS_FAILED: "Check the address, and the network.",
    Outcome.CONNECT_FAILED: "Check that the service runs, and its port.",
    Outcome.TLS_FAILED: "To trust your own certificate authority: --set fetch.ca_file=FILE",
    Outcome.TIMED_OUT: "Try again later, or raise fetch.read_timeout_s, fetch.total_timeout_s and seeds.timeout_s.",
    Outcome.TOO_LARGE: "Ask for fewer pages (seeds.max_per_provider), or raise seeds.max_bytes.",
    Outcome.TOO_MANY_REQUESTS: "Wait a while, ask for fewer pages (seeds.max_per_provider), or use a service of your "
    "own.",
    Outcome.SERVER_ERROR: "Try again later.",
}


class Turns:
    """Lets each host have one request at a time, with the usual delay after it."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._free_s: dict[str, float] = {}

    async def fetch(self, transport: Transport, lease: Lease) -> Response:
        """Make a request when it is the turn of its host."""
        host = host_of(lease.url)
        async with self._locks[host]:
            await asyncio.sleep(max(0.0, self._free_s.get(host, 0.0) - time.monotonic()))
            try:
                return await transport.fetch(lease)
            finally:
                self._free_s[host] = time.monotonic() + self.delay_s


class Requester:
    """Makes the requests of one provider (`Request`)."""

    def __init__(self, transport: Transport, turns: Turns, settings: Settings) -> None:
        self._transport, self._turns, self._settings = transport, turns, settings
        self._count = 0

    async def __call__(self, url: str) -> ProviderReply:
        """The answer to a request; redirects are followed."""
        try:
            target = ada_url.normalize_url(url).partition("#")[0]
        except ValueError:
            target = ""
        if not target.startswith(("http://", "https://")):
            raise ProviderError(f"{url[:200]!r} is not an http(s) address", "Correct the address of the provider.")
        for _ in range(MAX_REDIRECTS + 1):
            self._count += 1
            if self._count > MAX_REQUESTS:
                raise ProviderError(
                    f"needed more than {MAX_REQUESTS} requests", "Ask for fewer pages: seeds.max_per_provider"
                )
            response = await self._turns.fetch(self._transport, Lease(0, target, LeaseKind.SEEDS))
            if response.fetch.outcome is Outcome.OK:
                return ProviderReply(target, response.body, response.fetch.content_type)
            if response.fetch.outcome is not Outcome.REDIRECT:
                raise self._error(response)
            target = response.fetch.redirect_url
        raise ProviderError("redirects too often", "Use the address that it redirects to in a browser.")

    def _error(self, response: Response) -> ProviderError:
        fetch = response.fetch
        outcome, hint = fetch.outcome, _HINTS.get(fetch.outcome, "Check the address of the provider.")
        if outcome is Outcome.PRIVATE_ADDRESS:
            message = f"is not asked: {fetch.detail}"
        elif outcome is Outcome.TOO_LARGE:
            message = f"sends more than seeds.max_bytes = {self._settings.seeds.max_bytes:,} bytes"
        elif fetch.status:
            message = f"answers with status {fetch.status}"
            if fetch.retry_after_s:
                message += f" and asks to wait {fetch.retry_after_s:.0f} s"
            if outcome in (Outcome.BROKEN, Outcome.BAD_ENCODING, Outcome.BOMB, Outcome.BAD_REDIRECT):
                message += f" ({fetch.detail})"
        else:
            message = f"cannot be reached: {fetch.detail or outcome}"
        return ProviderError(message, hint, status=fetch.status)
