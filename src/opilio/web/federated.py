"""What users say of pages, kept until the collection that it is for can be told.

One small file for each word, in a folder of the server's: what is kept survives the server, and two servers may share
the folder. A later word about the same page takes the place of an earlier one.

The collections behind a query server: what is known of them, how they answer, and what they are still to be told.
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


class SpooledFeedback(msgspec.Struct, frozen=True):
    """What somebody said of a page, for one collection."""

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
        """Whether it is time for the next try; also when a clock that was wrong has put that off for longer than is."""
        return not now_s < self.next_s <= now_s + MAX_DELAY_S

    def put_off(self, now_s: float, trouble: str) -> SpooledFeedback:
        """The same after a try in vain: the next comes later."""
        delay_s = min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(self.tries, 30))
        return msgspec.structs.replace(self, tries=self.tries + 1, next_s=now_s + delay_s, trouble=trouble)


class Spool:
    """The words that wait. May be used from several threads."""

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
        """Keep a word, in place of an earlier one about the same page."""
        with self._guard:
            path = self._path(word)
            if not path.exists() and sum(1 for _ in self._files()) >= MAX_KEPT:
                raise CollectionError("too much feedback waits already", "Let the collections that are away come back.")
            try:
                _write(path, msgspec.json.encode(word))
            except OSError as error:
                what = f"feedback cannot be kept: {error.strerror}"
                raise CollectionError(what, "Make room in the folder --state.") from None

    def put_off(self, word: SpooledFeedback, trouble: str) -> None:
        """Keep a word that was told in vain, unless something else was said of the page meanwhile."""
        kept = _read(self._path(word))
        if kept == word if word.tries else kept is None or kept.said_s <= word.said_s:
            self.keep(word.put_off(time.time(), trouble))

    def drop(self, word: SpooledFeedback) -> None:
        """Forget a word, and earlier ones about the same page: it was told, or never will be."""
        with self._guard:
            kept = _read(self._path(word))
            if kept is not None and kept.said_s <= word.said_s:
                self._path(word).unlink(missing_ok=True)

    def holds(self, word: SpooledFeedback) -> bool:
        """Whether nothing was said of the page since."""
        return _read(self._path(word)) == word

    def waiting(self) -> list[SpooledFeedback]:
        """All that wait, oldest first. What is too old, or not ours, is left out."""
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
    beside = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _read(path: Path) -> SpooledFeedback | None:
    """The word in a file; None when there is none, or something else."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=SpooledFeedback)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


EVERY_S = 60.0
"""Between two looks at what the collections say of themselves; one that does not answer is asked later and later."""
REMEMBERED = 50
"""Of so many questions it is remembered how a collection answered."""
AT_ONCE = 8
MAX_TOPICS = 200
SCHEMES = ("http://", "https://")


class Lately:
    """How one collection answered lately."""

    def __init__(self) -> None:
        self.heard_s = 0.0
        self.trouble = ""
        self._answers: deque[float | None] = deque(maxlen=REMEMBERED)

    def add(self, took_ms: float | None) -> None:
        """It took so long to answer; None: it did not."""
        self._answers.append(took_ms)

    def figures(self) -> dict[str, Any]:
        """For people and programs."""
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
    """Asks the collections, listens to what they say of themselves, and tells them what users say of their pages."""

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
        """What the collections are called."""
        return list(self._peers)

    def start(self, wait_s: float = 0.0) -> None:
        """Begin to listen; return when all were heard of, or did not answer, or after a while."""
        self._thread.start()
        self._has_looked.wait(wait_s)

    def close(self) -> None:
        """Listen no more."""
        self._ends.set()

    def search(self, question: str, **request: Any) -> dict[str, Any]:
        """Ask those that are likely to answer; like `FederatedSearch.search`."""
        answer = self.search_all.search(question, **request)
        for peer in answer["peers"]:
            peer["place"], peer["error"] = self._shown(peer["name"]), self._plainly(peer["name"], peer["error"])
            if peer["chosen"]:
                self._lately[peer["name"]].add(peer["took_ms"] if peer["answered"] else None)
        return answer

    def _shown(self, name: str) -> str:
        """Where a collection is, for those who search: the folders of this machine are none of their business."""
        place = self._peers[name].place
        return place if place.startswith(SCHEMES) else ""

    def _plainly(self, name: str, text: str) -> str:
        """What went wrong with a collection, in the same spirit."""
        place = self._peers[name].place
        text = text.replace(f" ({place})", "")
        return text if place.startswith(SCHEMES) else text.replace(f"{place}: ", "").replace(place, name)

    def collections(self) -> list[dict[str, Any]]:
        """What each says of itself, and how it answered lately."""
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
        """In how many seconds a collection in trouble is asked again what it says of itself."""
        return round(max(0.0, self._looks_s - time.monotonic(), self.search_all.next_try_s(name)), 1)

    def page_in(self, name: str, url: str) -> str:
        """Where the portal of a collection shows one of its pages; '' when no server shows it."""
        place = self._shown(name)
        return f"{place}/page?url={quote(url, safe='')}" if place else ""

    # -- what users say

    def knows(self, name: str) -> bool:
        """Whether a collection of that name is here."""
        return name in self._peers

    def feedback(self, pages: Sequence[tuple[str, str, str]], *, relevant: bool) -> list[dict[str, Any]]:
        """Tell collections what a user says of their pages, given as name, URL and topic; what each did with it."""
        now_s = time.time()
        words = [
            SpooledFeedback(name, self._peers[name].place, url, topic, relevant, now_s) for name, url, topic in pages
        ]
        with ThreadPoolExecutor(AT_ONCE, "feedback") as pool:
            return list(pool.map(self._tell, words))

    def _tell(self, word: SpooledFeedback) -> dict[str, Any]:
        """Tell one collection; what cannot be told now is kept."""
        said = {"collection": word.collection, "url": word.url, "done": False, "kept": False}
        try:
            answer = self._peers[word.collection].feedback(word.url, word.topic, relevant=word.relevant)
        except PeerRefusal as error:
            self.spool.drop(word)
            return said | {"said": self._reason(word, f"{error.message}. {error.hint}").rstrip(". ")}
        except PeerError as error:
            return said | self._put_off(word, error.message)
        self.spool.drop(word)  # an earlier one, about the same page
        return said | {"done": True, "said": answer}

    def _put_off(self, word: SpooledFeedback, trouble: str) -> dict[str, Any]:
        """Keep a word for later, if there is room."""
        reason = self._reason(word, trouble)
        try:
            self.spool.put_off(word, trouble)
        except CollectionError as error:
            return {"said": f"{reason}; {error.message}"}
        return {"kept": True, "said": f"{reason}; it is kept, and told later"}

    def _reason(self, word: SpooledFeedback, text: str) -> str:
        """Why a collection was not told, without its name, which stands before it."""
        return self._plainly(word.collection, text).removeprefix(word.collection).lstrip(": ").strip()

    def tell_kept(self, now_s: float) -> int:
        """Tell what was kept and is due; how many words were told."""
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

    # -- listening

    def _listen(self) -> None:
        while not self._ends.is_set():
            began_s = time.monotonic()
            self._safely(self.look)
            self._has_looked.set()
            self._safely(lambda: self.tell_kept(time.time()))
            pause_s = max(self.every_s, time.monotonic() - began_s)  # slow ones are not asked all the time
            self._looks_s = time.monotonic() + pause_s
            self._ends.wait(pause_s)

    def look(self) -> None:
        """Ask all what they say of themselves now, but for those that have failed to say it lately."""
        troubles = self.search_all.refresh(heard=self._hear)
        for name, lately in self._lately.items():
            lately.trouble = self._plainly(name, troubles.get(name, ""))

    def _hear(self, name: str) -> None:
        self._lately[name].heard_s, self._lately[name].trouble = time.time(), ""  # others may take long still

    def _safely(self, act: Callable[[], object]) -> None:
        """What goes wrong once must not end the listening."""
        try:
            act()
        except Exception as error:  # a defect of ours, or a full disk: shown with each collection
            for lately in self._lately.values():
                lately.trouble = describe_error(error)


def _topics(summary: PeerSummary) -> list[dict[str, Any]]:
    """What a collection is about: the topics that it wants, those with the most pages first."""
    counted = summary.facets.get("topic", {})
    found = [
        {"path": topic.path, "pages": counted.get(topic.path, topic.pages)} for topic in summary.topics[:MAX_TOPICS]
    ]
    return sorted(found, key=lambda topic: (-int(topic["pages"]), str(topic["path"])))


def described(words: Sequence[tuple[str, str]]) -> str:
    """The pages of a result, as the form on it sends them back."""
    return msgspec.json.encode([{"collection": name, "url": url} for name, url in words]).decode()
