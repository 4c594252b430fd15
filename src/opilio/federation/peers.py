"""Peers: the protocol that every peer follows, the records that they exchange, and the file that names them."""

from __future__ import annotations

import difflib
import os
import re
import stat
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import msgspec

from opilio.errors import InputError, OpilioError

MAX_NAME_CHARS = 80
MAX_TOPIC_CHARS = 6_200
"""A topic's path: at most 30 names of 200 characters, and the separators between them."""
FACETS = ("topic", "host", "type", "lang")
_KEYS = ("name", "at", "token", "token_env", "token_file")
_HINT = "docs/guides/federation.md shows a file of peers."


class PeerError(OpilioError):
    """A peer that did not answer, or that did not let us in."""


class PeerRefusal(PeerError):
    """A peer that answered, and refused: asking it the same again would not help."""


class WordStatistics(msgspec.Struct, array_like=True, frozen=True):
    """One word of a summary: what is needed to estimate how many pages of a collection would score high."""

    pages: int
    """Pages that have the word in the field in which most have it."""
    mean: float
    """Mean of what it adds to their scores, without the weight of the word (idf)."""
    variance: float
    titles: int = 0
    """Pages that have it in their titles, ..."""
    anchors: int = 0
    """... and pages to which links with it lead."""


class TopicProfile(msgspec.Struct, frozen=True):
    """One wanted topic of a collection, by which a crawler elsewhere can tell what would suit it."""

    path: str
    description: str
    pages: int
    terms: dict[str, float]
    """Its characteristic stems; the squares of their weights add up to 1."""
    typical: float
    """Three quarters of the topic's pages are at least this like the profile (cosine)."""


class PeerSummary(msgspec.Struct, frozen=True):
    """What a collection says about itself."""

    name: str
    version: str
    """Changes with the collection: a reader with the same version need not fetch the summary again."""
    pages: int
    mean_words: float
    """Words in a page, on average."""
    topics: list[TopicProfile]
    words: dict[str, WordStatistics]
    rare: bytes = b""
    """A Bloom filter of the words that `words` leaves out (`summary.py`); empty when it has them all."""
    relevance: tuple[float, float] = (0.0, 0.0)
    """Mean and variance of the relevance of the pages."""
    facets: dict[str, dict[str, int]] = {}
    """Pages by topic (path, all below it included), host, type and language ..."""
    cut: list[str] = []
    """... and which of these name the most frequent values only."""
    lengths: dict[str, float] = {}
    """Words in each field of the index, on average."""


class PeerHit(msgspec.Struct, frozen=True):
    """One page of an answer."""

    result: dict[str, Any]
    """As `Collection.search` describes it."""
    words: dict[str, float]
    """How often each word of the question occurs in each field of the page: {'stems:owl': 3.0} (`search.matching`)."""
    lengths: dict[str, float] = {}
    """Words in these fields of the page."""
    marks: list[str] = []
    """Recognise a copy of the page: the hash of its text, then the bands of its sketch."""
    text: str | None = None
    """Its text, from a peer on this machine: snippets are cut from it when it is shown. None: `result` has them."""


class PeerAnswer(msgspec.Struct, frozen=True):
    """A peer's answer to a question."""

    total: int
    pages: list[PeerHit]
    facets: dict[str, list[dict[str, Any]]] = {}
    took_ms: float = 0.0
    pages_indexed: int = 0
    """All its pages, as its index counts them, ..."""
    frequencies: dict[str, int] = {}
    """... those that have a word of the question in a field ({'stems:owl': 17}), ..."""
    lengths: dict[str, float] = {}
    """... and words in each field, on average."""
    at_least: bool = False
    """Whether there are more than `total`."""


class Offer(msgspec.Struct, frozen=True):
    """A URL that suits another collection's topic."""

    url: str
    topic: str
    relevance: float
    """How well it suits the topic, as estimated by the sender: 0..1."""
    title: str = ""


class Peer(Protocol):
    """A collection of the federation. Every method may take a while, and raises PeerError when it cannot be done."""

    @property
    def name(self) -> str:
        """What the federation calls it."""
        ...

    @property
    def place(self) -> str:
        """Its folder or its address, as users know it."""
        ...

    def summary(self, known: PeerSummary | None = None) -> PeerSummary:
        """Its summary; `known` itself when nothing has changed since."""
        ...

    def ask(
        self,
        question: str,
        *,
        weights: Mapping[str, float] | None,
        filters: Sequence[tuple[str, str]],
        most: int,
        timeout_s: float,
    ) -> PeerAnswer:
        """Its best `most` pages for a question."""
        ...

    def feedback(self, url: str, topic: str, *, relevant: bool) -> str:
        """Tell it whether one of its pages is relevant to a topic ('': its own); returns a sentence for the user."""
        ...

    def offer(self, sender: str, offers: Sequence[Offer]) -> int:
        """Offer URLs; returns how many of them were new to it."""
        ...


# -- the file


@dataclass(frozen=True)
class PeerEntry:
    """One peer as the file names it."""

    name: str
    at: str
    """A folder, or the address of a collection that another server shows: http://host:8765/c/birds."""
    token: str = field(default="", repr=False)

    @property
    def is_remote(self) -> bool:
        """Whether it is another server's."""
        return self.at.startswith(("http://", "https://"))


def read_peers(path: Path | str, warn: Callable[[str], object] = warnings.warn) -> list[PeerEntry]:
    """The peers that a file (TOML) names. Folders and token files are relative to the file.

        [[peer]]
        name = "birds"
        at = "../birds"

        [[peer]]
        name = "ships"
        at = "https://ships.example/c/ships"
        token_env = "SHIPS_TOKEN"        # or token_file = "ships.token", or token = "..."

    `warn` receives a sentence when a file with a token can be read by others.
    """
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}", _HINT) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}", _HINT) from None
    rows = table.pop("peer", [])
    if table or not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: it must consist of [[peer]] tables, at least one", _HINT)
    entries = [_entry(path, number, row, warn) for number, row in enumerate(rows, 1)]
    names = [entry.name for entry in entries]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path}: two peers are called {twice!r}", "Give each a name of its own.")
    if any("token" in row for row in rows):
        _warn_if_open(path, warn)
    return entries


def _entry(path: Path, number: int, row: dict[str, Any], warn: Callable[[str], object]) -> PeerEntry:
    where = f"{path}, [[peer]] {number}"
    for key, value in row.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(_KEYS)}."
            raise InputError(f"{where}: unknown key {key!r}", hint)
        if not isinstance(value, str) or not value.strip():
            raise InputError(f"{where}: {key} has to be a text in quotation marks", _HINT)
        if "\0" in value:
            raise InputError(f"{where}: {key} has a NUL character", _HINT)
    for key in ("name", "at"):
        if key not in row:
            raise InputError(f"{where}: {key} is missing", _HINT)
    name, at = row["name"].strip(), row["at"].strip()
    if len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise InputError(f"{where}: the name is too long, or has characters that cannot be shown", _HINT)
    where = f"{path}, peer {name!r}"
    if "://" not in at:
        if len(row) > 2:
            raise InputError(f"{where}: a folder needs no token", "Leave the token out.")
        return PeerEntry(name, str(_relative_to(where, path.parent, at).absolute()))
    return PeerEntry(name, check_address(at, f"{where}: "), _token(where, path.parent, row, warn))


def _relative_to(where: str, folder: Path, text: str) -> Path:
    """A path relative to the file."""
    try:
        return folder / Path(text).expanduser()
    except RuntimeError:  # so the library says it
        raise InputError(f"{where}: {text}: there is no such home", "Give the whole path.") from None


def check_address(at: str, where: str = "") -> str:
    """The address of a published collection; when it is none, InputError, which names `where`."""
    hint = "It ends in /c/ and the name of a collection: https://host:8765/c/birds"
    try:
        parts = urlsplit(at)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if not fits or parts.query or parts.fragment or parts.username is not None or not at.isprintable() or " " in at:
        raise InputError(f"{where}{_shown(at)!r} is not the address of a collection", hint)
    above, _, name = parts.path.rstrip("/").rpartition("/")
    if not name or not above.endswith("/c") or not unquote(name).isprintable():
        what = "is not the address of a collection: it does not end in /c/ and a name"
        raise InputError(f"{where}{_shown(at)!r} {what}", hint)
    return at.rstrip("/")


def _shown(at: str) -> str:
    """An address without what may be a secret: errors are shown in notices, and to others."""
    scheme, _, rest = re.split("[?#]", at, maxsplit=1)[0].partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _token(where: str, folder: Path, row: dict[str, Any], warn: Callable[[str], object]) -> str:
    given = [key for key in _KEYS[2:] if key in row]
    if len(given) != 1:
        raise InputError(f"{where}: give one of {', '.join(_KEYS[2:])}", "`opilio serve` prints the token.")
    value = str(row[given[0]]).strip()
    if given[0] == "token_env":
        token = os.environ.get(value, "").strip()
        if not token:
            raise InputError(f"{where}: the environment has no {value}", f"export {value}=TOKEN")
    elif given[0] == "token_file":
        file = _relative_to(where, folder, value)
        try:
            token = file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{where}: {file} cannot be read: {error}", "It has to hold the token.") from None
        _warn_if_open(file, warn)
    else:
        token = value
    return check_token(where, token)


def check_token(where: str, token: str) -> str:
    """The token; InputError when it cannot be one."""
    if not token.isascii() or not token.isprintable() or " " in token or not token:
        raise InputError(f"{where}: that cannot be a token", "`opilio serve` prints it, after the # of the address.")
    return token


def _warn_if_open(file: Path, warn: Callable[[str], object]) -> None:
    if file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        warn(f"{file} contains a token and may be read by others: chmod 600 {file}")
