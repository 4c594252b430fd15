"""A collection as a peer of a federation: opened in its folder, or asked through the portal of another server."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from opilio.crawl.collection import Collection
from opilio.crawl.operations.browse import with_index
from opilio.errors import InputError, OpilioError, QueryError
from opilio.federation.peers import Offer, Peer, PeerAnswer, PeerEntry, PeerError, PeerRefusal, PeerSummary
from opilio.federation.remote_peer import RemotePeer

if TYPE_CHECKING:  # it takes a while to import
    from opilio.search.index import IndexReader

SUMMARY_FILE = "summary.msgpack"
"""In the folder of the index, and deleted with it."""
FORM = 1
"""Format of the file. A file of another format is rebuilt."""
MIN_AGE_S = 60.0
"""During a crawl the index changes all the time; a summary is kept at least this long, ..."""
MAX_GROWTH = 0.1
"""... unless the collection has grown by more than this share."""


class SharedCollection(Collection):
    """A collection as a federation sees it."""

    def summarize(self, known: PeerSummary | None = None) -> PeerSummary:
        """Its summary: the one made lately, or a new one if the collection has changed; `known` if it is the same."""
        with _LOCKS.of(self.folder):
            summary = with_index(self._client, self._summary)
        return known if known is not None and known.version == summary.version else summary

    def reply(
        self,
        question: str,
        *,
        weights: Mapping[str, float] | None = None,
        filters: Sequence[tuple[str, str]] = (),
        most: int = 50,
        cut: bool = True,
    ) -> PeerAnswer:
        """Its best pages for a question, with what their scores are made of (`federation.answers` explains `cut`)."""

        def find(reader: IndexReader) -> PeerAnswer:
            from opilio.federation.answers import answer  # noqa: PLC0415

            return answer(reader, question, weights=weights, filters=filters, most=most, cut=cut)

        return with_index(self._client, find)

    def take_feedback(self, url: str, topic: str, *, relevant: bool) -> str:
        """Accept feedback on a page from a user elsewhere; returns a sentence for that user."""
        return str(self.feedback(url, "relevant" if relevant else "irrelevant", topic or None)["said"])

    def _summary(self, reader: IndexReader) -> PeerSummary:
        from opilio.federation.profiles import profiles_from  # noqa: PLC0415
        from opilio.federation.summary import make_summary  # noqa: PLC0415
        from opilio.search.columns import FILE_NAME  # noqa: PLC0415
        from opilio.search.index import FOLDER  # noqa: PLC0415

        place = self.folder / FOLDER
        state = (place / FILE_NAME).stat()
        version = f"{FORM}-{state.st_mtime_ns:x}-{state.st_size:x}"
        kept, age_s = _load(place / SUMMARY_FILE)
        if kept is not None:
            has_grown = abs(len(reader.columns) - kept.pages) > MAX_GROWTH * kept.pages
            if kept.version == version or (0 <= age_s < MIN_AGE_S and not has_grown):
                return kept
        topics = self.peer_topics()
        made = make_summary(reader, self.folder.name, version, profiles_from(topics))
        _save(place / SUMMARY_FILE, made)
        return made


def _load(file: Path) -> tuple[PeerSummary | None, float]:
    """The stored summary, and its age; None when there is none that can be used."""
    try:
        kept = msgspec.msgpack.decode(file.read_bytes(), type=PeerSummary)
        age_s = time.time() - file.stat().st_mtime
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None, 0.0
    return (kept if kept.version.startswith(f"{FORM}-") else None), age_s


def _save(file: Path, summary: PeerSummary) -> None:
    """Store a summary, if there is room: without a stored one it is made each time."""
    new = file.with_name(f"{file.name}.new")
    with contextlib.suppress(OSError):
        new.write_bytes(msgspec.msgpack.encode(summary))
        new.replace(file)


class _Locks:
    """One lock for each folder: two readers of the same summary must not both make it."""

    def __init__(self) -> None:
        self._locks: dict[Path, threading.Lock] = {}
        self._guard = threading.Lock()

    @contextlib.contextmanager
    def of(self, folder: Path) -> Iterator[None]:
        """Hold the lock of a folder."""
        with self._guard:
            lock = self._locks.setdefault(folder.absolute(), threading.Lock())
        with lock:
            yield


_LOCKS = _Locks()


class LocalPeer:
    """A collection on this machine."""

    def __init__(self, name: str, folder: Path | str) -> None:
        self.name = name
        self._folder = Path(folder)
        self._collection: SharedCollection | None = None  # reading the settings takes longer than many a question

    @property
    def place(self) -> str:
        """Its folder."""
        return str(self._folder)

    def summary(self, known: PeerSummary | None = None) -> PeerSummary:
        """Its summary; `known` itself when nothing has changed since."""
        with self._opened() as collection:
            return collection.summarize(known)

    def ask(
        self,
        question: str,
        *,
        weights: Mapping[str, float] | None,
        filters: Sequence[tuple[str, str]],
        most: int,
        timeout_s: float,
    ) -> PeerAnswer:
        """Its best `most` pages for a question. It ignores the timeout: the caller waits no longer than it wants to."""
        with self._opened() as collection:
            return collection.reply(question, weights=weights, filters=filters, most=most, cut=False)

    def feedback(self, url: str, topic: str, *, relevant: bool) -> str:
        """Tell it whether one of its pages is relevant to a topic ('': its own); returns a sentence for the user."""
        with self._opened() as collection:
            return collection.take_feedback(url, topic, relevant=relevant)

    def offer(self, sender: str, offers: Sequence[Offer]) -> int:
        """Offer URLs; returns how many of them were new to it."""
        with self._opened() as collection:
            return collection.take_offers(sender, offers)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[SharedCollection]:
        try:
            if self._collection is None:
                self._collection = SharedCollection(self._folder)
            yield self._collection
        except (InputError, QueryError) as error:  # the latter by way of a crawl that runs
            raise PeerRefusal(f"{self.name} ({self.place}): {error.message}", error.hint) from error
        except OpilioError as error:
            raise PeerError(f"{self.name} ({self.place}): {error.message}", error.hint) from error
        except OSError as error:
            raise PeerError(f"{self.name} ({self.place}): its folder cannot be used: {error.strerror}") from error


def open_peer(entry: PeerEntry) -> Peer:
    """The peer that an entry of the file names. It is not contacted yet."""
    return RemotePeer(entry.name, entry.at, entry.token) if entry.is_remote else LocalPeer(entry.name, entry.at)
