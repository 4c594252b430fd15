"""Which actor has a host: plain decisions, no waiting.

A host stays with the actor that has leases of it under way, even one that is lost, until the last of them is back: so
no two actors ask it at once. When it has none under way, it goes to the one of the ready actors that rendezvous hashing
gives it: the same as ever, unless that one is gone, and an actor that is new takes its share from all others evenly.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import xxhash

MAX_REMEMBERED = 100_000


class Numbered(Protocol):
    """Somebody who can be told apart from others by a number."""

    @property
    def number(self) -> int:
        """A number that no other has."""
        ...


Who = TypeVar("Who", bound=Numbered)


class Placing(Generic[Who]):
    """Gives hosts to those who are ready."""

    def __init__(self) -> None:
        self._ready: dict[int, Who] = {}
        self._under_way: dict[str, tuple[Who, int]] = {}
        self._chosen: dict[str, Who] = {}  # by hashing; asked for with every lease

    def add(self, who: Who) -> None:
        """Give hosts to `who` too from now on."""
        self._ready[who.number] = who
        self._chosen.clear()

    def remove(self, who: Who) -> None:
        """Give no further hosts to `who`; those with leases under way stay there until `ended`."""
        if self._ready.pop(who.number, None) is not None:
            self._chosen.clear()

    @property
    def ready(self) -> int:
        """How many there are to give hosts to."""
        return len(self._ready)

    def of(self, host: str) -> Who | None:
        """Who has a host; None when nobody is ready."""
        if host in self._under_way:
            return self._under_way[host][0]
        if host not in self._chosen:
            if not self._ready:
                return None
            if len(self._chosen) >= MAX_REMEMBERED:
                self._chosen.clear()
            name = host.encode()
            number = max(self._ready, key=lambda number: (xxhash.xxh3_64_intdigest(name, seed=number), number))
            self._chosen[host] = self._ready[number]
        return self._chosen[host]

    def begun(self, host: str, who: Who) -> None:
        """A lease of a host was given to `who`."""
        self._under_way[host] = who, self._under_way.get(host, (who, 0))[1] + 1

    def ended(self, host: str) -> None:
        """A lease of a host came back."""
        who, count = self._under_way.pop(host)
        if count > 1:
            self._under_way[host] = who, count - 1
