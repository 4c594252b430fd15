"""The collections behind a query server: what is known of them, how they answer, and feedback to deliver.

Feedback on a page goes to every collection that returned it. If a collection cannot be reached, its feedback is spooled
until it can: one small file for each page, in a folder of the server. So it survives the server, and two servers may
share the folder. Later feedback on the same page replaces earlier feedback.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from opilio.errors import CollectionError, describe_error
from opilio.federation.peers import Peer, PeerError, PeerRefusal, PeerSummary
from opilio.federation.search import FederatedSearch

MAX_KEPT = 10_000
MAX_AGE_S = 30 * 86_400.0
FIRST_DELAY_S, MAX_DELAY_S = 30.0, 3600.0
EVERY_S = 60.0
"""Time between two requests for the summary of a collection; after failures the interval grows."""
REMEMBERED = 50
"""How many answers of a collection count for its figures."""
AT_ONCE = 8
MAX_TOPICS = 200
SCHEMES = ("http://", "https://")


# -- feedback to deliver


class SpooledFeedback(msgspec.Struct, frozen=True):
    """Feedback on a page, for one collection."""

    collection: str
    place: str
    url: str
    topic: str
    relevant: bool
    said_s: float
    tries: int = 0
    next_s: float = 0.0
    trouble: str = ""

    def is_due(self, now_s: float) -> bool:
        """Whether it is time for the next try; also when a wrong clock has postponed it for too long."""
        return not now_s < self.next_s <= now_s + MAX_DELAY_S

    def put_off(self, now_s: float, trouble: str) -> SpooledFeedback:
        """The same after a failed try; the next one comes later."""
        delay_s = min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(self.tries, 30))
        return msgspec.structs.replace(self, tries=self.tries + 1, next_s=now_s + delay_s, trouble=trouble)


class Spool:
    """The spooled feedback. May be used from several threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._guard = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise CollectionError(
                f"{folder}: feedback cannot be kept there: {error.strerror}", "Give another folder: --state FOLDER"
            ) from None

    def keep(self, word: SpooledFeedback) -> None:
        """Keep feedback; it replaces earlier feedback on the same page."""
        with self._guard:
            path = self._path(word)
            if not path.exists() and sum(1 for _ in self._files()) >= MAX_KEPT:
                raise CollectionError(
                    "too much feedback is spooled already", "Make the collections reachable that do not answer."
                )
            try:
                _write(path, msgspec.json.encode(word))
            except OSError as error:
                what = f"feedback cannot be kept: {error.strerror}"
                raise CollectionError(what, "Free some disk space for the folder --state.") from None

    def put_off(self, word: SpooledFeedback, trouble: str) -> None:
        """Keep feedback that could not be delivered, unless there is newer feedback on the page."""
        kept = _read(self._path(word))
        if kept == word if word.tries else kept is None or kept.said_s <= word.said_s:
            self.keep(word.put_off(time.time(), trouble))

    def drop(self, word: SpooledFeedback) -> None:
        """Delete feedback, and earlier feedback on the page: it was delivered, or never will be."""
        with self._guard:
            kept = _read(self._path(word))
            if kept is not None and kept.said_s <= word.said_s:
                self._path(word).unlink(missing_ok=True)

    def holds(self, word: SpooledFeedback) -> bool:
        """Whether this is still the latest feedback on the page."""
        return _read(self._path(word)) == word

    def waiting(self) -> list[SpooledFeedback]:
        """All spooled feedback, oldest first; without what is too old or cannot be read."""
        words = [word for word in map(_read, self._files()) if word is not None]
        oldest_s = time.time() - MAX_AGE_S
        for word in words:
            if word.said_s < oldest_s:
                self.drop(word)
        return sorted((word for word in words if word.said_s >= oldest_s), key=lambda word: word.said_s)

    def _files(self) -> list[Path]:
        return list(self._folder.glob("*.json"))

    def _path(self, word: SpooledFeedback) -> Path:
        about = msgspec.json.encode([word.collection, word.place, word.url])
        return self._folder / f"{hashlib.sha256(about).hexdigest()[:32]}.json"


def _write(path: Path, data: bytes) -> None:
    """Write a file as a whole, or not at all."""
    temporary = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _read(path: Path) -> SpooledFeedback | None:
    """The feedback in a file; None when there is none, or something else."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=SpooledFeedback)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


# -- the collections


class Lately:
    """How one collection answered lately."""

    def __init__(self) -> None:
        self.heard_s = 0.0
        self.trouble = ""
        self._answers: deque[float | None] = deque(maxlen=REMEMBERED)

    def add(self, took_ms: float | None) -> None:
        """Count an answer that took this long; None: there was no answer."""
        self._answers.append(took_ms)

    def figures(self) -> dict[str, Any]:
        """The figures, for people and programs."""
        answers = list(self._answers)
        took = [one for one in answers if one is not None]
        return {
            "heard_s": self.heard_s,
            "trouble": self.trouble,
            "asked": len(answers),
            "failures": len(answers) - len(took),
            "median_ms": statistics.median(took) if took else None,
        }


class Federation:
    """Searches the collections, keeps their summaries up to date, and delivers feedback to them."""

    def __init__(self, peers: Sequence[Peer], state: Path, every_s: float = EVERY_S) -> None:
        self.every_s = every_s
        self.search_all = FederatedSearch(peers, silent_s=every_s)
        self.spool = Spool(state / "feedback")
        self._peers = {peer.name: peer for peer in peers}
        self._lately = {name: Lately() for name in self._peers}
        self._looks_s = 0.0
        self._ends = threading.Event()
        self._has_looked = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="federation", daemon=True)

    @property
    def names(self) -> list[str]:
        """The names of the collections."""
        return list(self._peers)

    def start(self, wait_s: float = 0.0) -> None:
        """Begin to fetch summaries; returns when each collection has answered or failed, or after `wait_s`."""
        self._thread.start()
        self._has_looked.wait(wait_s)

    def close(self) -> None:
        """Stop fetching summaries."""
        self._ends.set()

    def search(self, question: str, **request: Any) -> dict[str, Any]:
        """Search the collections that are likely to have good pages (see `FederatedSearch.search`)."""
        answer = self.search_all.search(question, **request)
        for peer in answer["peers"]:
            peer["place"], peer["error"] = self._shown(peer["name"]), self._plainly(peer["name"], peer["error"])
            if peer["chosen"]:
                self._lately[peer["name"]].add(peer["took_ms"] if peer["answered"] else None)
        return answer

    def _shown(self, name: str) -> str:
        """The address of a collection for users; folders of this machine are not shown."""
        place = self._peers[name].place
        return place if place.startswith(SCHEMES) else ""

    def _plainly(self, name: str, text: str) -> str:
        """An error of a collection without its folder."""
        place = self._peers[name].place
        text = text.replace(f" ({place})", "")
        return text if place.startswith(SCHEMES) else text.replace(f"{place}: ", "").replace(place, name)

    def collections(self) -> list[dict[str, Any]]:
        """The summary of each collection, and how it answered lately."""
        summaries, waiting = self.search_all.summaries, self.spool.waiting()
        found = []
        for name, peer in self._peers.items():
            summary, figures = summaries.get(name), self._lately[name].figures()
            found.append(
                {
                    "name": name,
                    "place": self._shown(name),
                    "known": summary is not None,
                    "pages": 0 if summary is None else summary.pages,
                    "topics": [] if summary is None else _topics(summary),
                    **figures,
                    "next_try_s": self._next_try_s(name) if figures["trouble"] else None,
                    "kept": sum(word.collection == name and word.place == peer.place for word in waiting),
                }
            )
        return found

    def _next_try_s(self, name: str) -> float:
        """In how many seconds a collection that failed is tried again."""
        return round(max(0.0, self._looks_s - time.monotonic(), self.search_all.next_try_s(name)), 1)

    def page_in(self, name: str, url: str) -> str:
        """The address of a page in the portal of its collection; '' when no server shows it."""
        place = self._shown(name)
        return f"{place}/page?url={quote(url, safe='')}" if place else ""

    # -- feedback

    def knows(self, name: str) -> bool:
        """Whether a collection of that name is here."""
        return name in self._peers

    def feedback(self, pages: Sequence[tuple[str, str, str]], *, relevant: bool) -> list[dict[str, Any]]:
        """Deliver feedback on pages, given as name of the collection, URL and topic; what each collection did."""
        now_s = time.time()
        words = [
            SpooledFeedback(name, self._peers[name].place, url, topic, relevant, now_s) for name, url, topic in pages
        ]
        with ThreadPoolExecutor(AT_ONCE, "feedback") as pool:
            return list(pool.map(self._tell, words))

    def _tell(self, word: SpooledFeedback) -> dict[str, Any]:
        """Deliver feedback to one collection; spool it if that is not possible now."""
        said = {"collection": word.collection, "url": word.url, "done": False, "kept": False}
        try:
            answer = self._peers[word.collection].feedback(word.url, word.topic, relevant=word.relevant)
        except PeerRefusal as error:
            self.spool.drop(word)
            return said | {"said": self._reason(word, f"{error.message}. {error.hint}").rstrip(". ")}
        except PeerError as error:
            return said | self._put_off(word, error.message)
        self.spool.drop(word)  # earlier feedback on the same page
        return said | {"done": True, "said": answer}

    def _put_off(self, word: SpooledFeedback, trouble: str) -> dict[str, Any]:
        """Spool feedback for later, if there is room."""
        reason = self._reason(word, trouble)
        try:
            self.spool.put_off(word, trouble)
        except CollectionError as error:
            return {"said": f"{reason}; {error.message}"}
        return {"kept": True, "said": f"{reason}; it is kept, and sent later"}

    def _reason(self, word: SpooledFeedback, text: str) -> str:
        """Why feedback was not delivered, without the name of the collection, which stands before it."""
        return self._plainly(word.collection, text).removeprefix(word.collection).lstrip(": ").strip()

    def tell_kept(self, now_s: float) -> int:
        """Deliver spooled feedback that is due; how many deliveries succeeded."""
        count, away = 0, set[str]()
        for word in self.spool.waiting():
            peer = self._peers.get(word.collection)
            if peer is None or peer.place != word.place or not word.is_due(now_s) or word.collection in away:
                continue
            if not self.spool.holds(word):
                continue
            outcome = self._tell(word)
            count += bool(outcome["done"])
            if outcome["kept"]:
                away.add(word.collection)
        return count

    # -- summaries

    def _listen(self) -> None:
        while not self._ends.is_set():
            began_s = time.monotonic()
            self._safely(self.look)
            self._has_looked.set()
            self._safely(lambda: self.tell_kept(time.time()))
            pause_s = max(self.every_s, time.monotonic() - began_s)  # slow collections are not asked all the time
            self._looks_s = time.monotonic() + pause_s
            self._ends.wait(pause_s)

    def look(self) -> None:
        """Fetch the summaries of all collections, except those that failed lately."""
        troubles = self.search_all.refresh(heard=self._hear)
        for name, lately in self._lately.items():
            lately.trouble = self._plainly(name, troubles.get(name, ""))

    def _hear(self, name: str) -> None:
        self._lately[name].heard_s, self._lately[name].trouble = time.time(), ""  # others may still take long

    def _safely(self, act: Callable[[], object]) -> None:
        """One error must not end the thread."""
        try:
            act()
        except Exception as error:  # a defect of ours, or a full disk: shown with each collection
            for lately in self._lately.values():
                lately.trouble = describe_error(error)


def _topics(summary: PeerSummary) -> list[dict[str, Any]]:
    """The wanted topics of a collection, those with the most pages first."""
    counted = summary.facets.get("topic", {})
    found = [
        {"path": topic.path, "pages": counted.get(topic.path, topic.pages)} for topic in summary.topics[:MAX_TOPICS]
    ]
    return sorted(found, key=lambda topic: (-int(topic["pages"]), str(topic["path"])))


def described(words: Sequence[tuple[str, str]]) -> str:
    """The pages of a result, as the form on it sends them back."""
    return msgspec.json.encode([{"collection": name, "url": url} for name, url in words]).decode()
