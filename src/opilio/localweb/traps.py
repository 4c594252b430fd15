"""trap.test: a few small pages that never end. Each page is computed from its URL, so the trap costs us nothing."""

from __future__ import annotations

import hashlib
from html import escape
from urllib.parse import parse_qs, urlsplit

from opilio.localweb.exchange import Exchange, Wire


class Trap:
    """Calendars, folders inside themselves, session ids and growing query strings."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    async def answer(self, exchange: Exchange, wire: Wire) -> None:
        """A page of the trap that the path belongs to."""
        target = urlsplit(exchange.path)
        if target.path == "/calendar":
            links = self._calendar(target.query)
        elif target.path.startswith("/session"):
            links = self._sessions(exchange.path)
        elif target.path.startswith("/query"):
            links = self._queries(target.query)
        else:
            links = self._folders(target.path)
        items = "\n".join(f'<li><a href="{escape(href)}">{escape(href)}</a></li>' for href in links)
        title = f"Trap {self._digest(exchange.path)}"
        await wire.answer(200, f"<!DOCTYPE html>\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n{items}\n</ul>\n")

    def _digest(self, text: str) -> str:
        return hashlib.blake2b(f"{self.seed} {text}".encode(), digest_size=8).hexdigest()

    def _calendar(self, query: str) -> list[str]:
        fields = parse_qs(query)
        year, month = (_number(fields.get(name, [""])[0]) for name in ("y", "m"))
        months = [year * 12 + month - 1 + step for step in (-12, -1, 1, 12)]
        days = [f"/calendar?y={year}&m={month}&d={day}" for day in range(1, 29)]
        return [f"/calendar?y={count // 12}&m={count % 12 + 1}" for count in months] + days

    def _sessions(self, path: str) -> list[str]:
        return [f"/session/{page}?sid={self._digest(f'{path} {page}')}" for page in range(8)]

    def _queries(self, query: str) -> list[str]:
        start = f"{query}&" if query else ""
        return [f"/query?{start}f{len(query)}={value}" for value in range(4)]

    def _folders(self, path: str) -> list[str]:
        folder = path if path.endswith("/") else path + "/"
        return [f"{folder}{name}/" for name in ("a", "b")]


def _number(text: str) -> int:
    return int(text[:6]) if text[:6].isdecimal() else 2024
