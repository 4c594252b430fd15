"""Watching and steering a crawl while it runs."""

from __future__ import annotations

from typing import Any

from opilio.crawl.asking import Askable
from opilio.crawl.control import ASK_TIMEOUT_S, ask
from opilio.crawl.steering import name_of_host, relock_at_rest
from opilio.errors import CollectionError, InputError
from opilio.frontier import ScopeFilter, covering
from opilio.model import Outcome
from opilio.settings import ScopeSettings, Settings, override
from opilio.settings.files import changing, write_settings
from opilio.store import Store

POINTS = 300


class Steerable(Askable):
    """What a user sees of a crawl that runs, and steers it with."""

    # -- steering

    def pause(self) -> bool:
        """Let the crawl that runs ask for nothing new until `resume`; False when none runs. It ends with the crawl."""
        return ask(self.folder, "pause") is not None

    def resume(self) -> bool:
        """Let a paused crawl go on; False when none runs."""
        return ask(self.folder, "resume") is not None

    def lock_host(self, host: str) -> int:
        """Never ask a host again, nor any below it, in this crawl and later ones; how many of its URLs were dropped."""
        name = name_of_host(host)
        with changing(self.folder) as settings:
            locked = settings.scope.locked_domains
            if covering(name, locked):
                return 0
            return self._relock(settings, (*locked, name), f"{name} locked")["dropped"]

    def unlock_host(self, host: str) -> int:
        """Let a host be asked again; how many URLs that its lock dropped wait again."""
        name = name_of_host(host)
        with changing(self.folder) as settings:
            locked = settings.scope.locked_domains
            by = covering(name, locked)
            if not by:
                raise InputError(
                    f"{name} is not locked", "`opilio settings FOLDER` shows what is: scope.locked_domains."
                )
            if by != name:
                raise InputError(f"{name} is locked as a part of {by}", f"Unlock that: opilio host unlock FOLDER {by}")
            free = tuple(one for one in locked if one != name)
            return self._relock(settings, free, f"{name} unlocked")["taken_up"]

    def _relock(self, settings: Settings, locked: tuple[str, ...], said: str) -> dict[str, int]:
        """Lock these domains and no others; the crawl hears of it before anybody else may change them."""
        self.settings = override(settings, {"scope.locked_domains": list(locked)}, "lock")
        write_settings(self.folder, self.settings)

        def relock(store: Store) -> dict[str, int]:
            return relock_at_rest(store, self.settings.scope)

        return dict(
            self._ask_or_open("relock", relock, ASK_TIMEOUT_S, read_only=False, domains=list(locked), said=said)
        )

    def boost_host(self, host: str, factor: float) -> int:
        """Let a host, and all below it, have their turn sooner while the crawl runs; 1 takes it back.

        Its URLs count for `factor` times their priority, those found later too; under an order in SQL they come first.
        Returns how many of them wait.
        """
        answer = ask(self.folder, "boost", host=name_of_host(host), factor=factor)
        if answer is None:
            raise CollectionError(
                f"no crawl runs in {self.folder}", "A boost is for a crawl that runs: start it, then boost the host."
            )
        return int(answer["waiting"])

    # -- watching

    def series(self, points: int = POINTS) -> dict[str, Any]:
        """The history of the crawl, all runs together, in at most so many points: what the charts are drawn from.

        `harvest` by pages fetched, with the share of the largest topics; `speed` by seconds of crawling; `marks`:
        phases, models, notices and runs, and where on both axes they stand.
        """
        return dict(self._read("series", points=points))

    def hosts(self, top: int = 15) -> list[dict[str, Any]]:
        """The hosts that gave most, those that fail, those with most URLs waiting: at most `top` of each."""
        scope = ScopeFilter(ScopeSettings(locked_domains=self.settings.scope.locked_domains))
        return [
            {**host, "locked": scope.rejection(host["host"]) is Outcome.LOCKED} for host in self._read("hosts", top=top)
        ]

    # -- SQL

    def answer(self, sql: str, max_rows: int = 1000) -> dict[str, Any]:
        """The answer to a query in plain values, for pages and programs: at most so many rows, and a minute of time.

        `columns`, their `kinds` (number, time or text), `rows`, and `truncated`: whether there were more.
        """
        return dict(self._read("answer", sql=sql, max_rows=max_rows))

    def tables(self) -> list[dict[str, Any]]:
        """The tables and views with their columns, and what each of them means."""
        return list(self._read("tables"))
