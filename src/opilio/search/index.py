"""The words of the pages: a tantivy index, in a folder that can be deleted and rebuilt.

Each page is one document. These fields are searched:

- `title`, `text` (all that is visible), `url`: as written, without case and accents; for phrases, prefixes and words
  that are misspelled;
- `title_stems`, `stems` (the text without boilerplate), `anchor` (what links to the page say): stems, for words.

So every word of a page can be found, and menus, which name everything on every page, hardly count in the ranking.
What is shown comes from `packed`: the address, the title, a text and the term vector, in one stored field.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import tantivy

from opilio.analyze.terms import tokenize
from opilio.search.columns import FILE_NAME, Columns

FOLDER = "index"
WORDS = "words"
LOCK = "lock"
META = "meta.json"
MAX_WORD_BYTES = 60
WRITER_BYTES = 32 * 2**20
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


class TermVector(msgspec.Struct, array_like=True, gc=False):
    """The terms of a page: the first of what is stored of it, so that it can be read alone."""

    numbers: bytes
    """int32, ascending."""
    counts: bytes
    """How often each is in the page, uint16."""


class Packed(TermVector, array_like=True, gc=False):
    """What is stored of a page."""

    url: str
    title: str
    text: str
    """What snippets are cut from."""


_ENCODE, _DECODE = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Packed).decode
_DECODE_VECTOR = msgspec.msgpack.Decoder(TermVector).decode
NOTHING = Packed(b"", b"", "", "", "")


class DamagedIndex(Exception):
    """The files of the index cannot be read. It is rebuilt."""


@contextlib.contextmanager
def panics() -> Iterator[None]:
    """Turn a panic of the library, which is no `Exception`, into one: it comes from files that make no sense."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise DamagedIndex(str(error)) from error
        raise


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Raise `DamagedIndex`, whatever goes wrong when files of the index are read."""
    try:
        with panics():
            yield
    except (ValueError, OSError, RuntimeError, msgspec.DecodeError) as error:
        raise DamagedIndex(str(error)) from error


@contextlib.contextmanager
def index_lock(folder: Path) -> Iterator[bool]:
    """Hold the index of a collection for writing; False when another process does. A killed process holds nothing."""
    (folder / FOLDER).mkdir(exist_ok=True)
    with (folder / FOLDER / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def analyzer(*, stems: bool) -> Any:
    """How text becomes words: runs of letters and digits, without case and accents; or the stems of them."""
    made = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for step in (tantivy.Filter.remove_long(MAX_WORD_BYTES), tantivy.Filter.lowercase(), tantivy.Filter.ascii_fold()):
        made = made.filter(step)
    return (made.filter(tantivy.Filter.stemmer("english")) if stems else made).build()


def spaced(text: str) -> str:
    """The text with blanks between its words, also where its script has none (Chinese, Japanese)."""
    if text.isascii() or not _UNSPACED.search(text):
        return text
    return b" ".join(tokenize(text)).decode()


def _schema() -> Any:
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("oid", indexed=True, fast=True)
    builder.add_integer_field("key", indexed=True)
    for name in ("title", "text", "url"):
        builder.add_text_field(name, tokenizer_name="words")
    for name in ("title_stems", "stems"):
        builder.add_text_field(name, tokenizer_name="stems", index_option="freq")
    builder.add_text_field("anchor", tokenizer_name="stems")
    builder.add_bytes_field("packed", stored=True)
    return builder.build()


SCHEMA = _schema()


def signed(key: int) -> int:
    """The 64-bit key of a URL as it is in the index."""
    return key - 2**64 if key >= 2**63 else key


def _opened(folder: Path) -> Any:
    index = tantivy.Index.open(str(folder / WORDS))
    index.register_tokenizer("words", analyzer(stems=False))
    index.register_tokenizer("stems", analyzer(stems=True))
    return index


def open_words(folder: Path) -> tuple[Any, Columns]:
    """The index in `folder` to write to, rebuilt when there is none that can be used. The caller has the turn."""
    place = folder / FOLDER
    columns = Columns.load(place)
    if columns is not None:
        with contextlib.suppress(DamagedIndex), reading():
            return _opened(place), columns
    (place / FILE_NAME).unlink(missing_ok=True)  # first: words without columns count for nothing
    shutil.rmtree(place / WORDS, ignore_errors=True)
    (place / WORDS).mkdir()
    tantivy.Index(SCHEMA, path=str(place / WORDS))
    return _opened(place), Columns()


def index_defects(folder: Path) -> list[str]:
    """What is wrong with the files of an index, in words: each file is compared with its own checksum."""
    place = folder / FOLDER
    columns = Columns.load(place)
    defects = [] if columns is not None else [f"{FILE_NAME} cannot be read"]
    files = [path for path in sorted((place / WORDS).glob("*")) if path.suffix != ".json" and path.stat().st_size]
    defects += [f"{path.name} does not match its checksum" for path in files if not _has_right_checksum(path)]
    try:
        with reading(), tempfile.TemporaryDirectory() as scratch:
            tantivy.Index(SCHEMA, path=scratch)
            empty, found = (json.loads((at / META).read_bytes()) for at in (Path(scratch), place / WORDS))
            if any(empty[name] != found[name] for name in ("schema", "index_settings")):
                defects.append(f"{META} does not describe an index of ours")
            searcher = _opened(place).searcher()
            if columns is not None and searcher.num_docs != len(columns):
                defects.append(f"it has the words of {searcher.num_docs:,} pages, and columns of {len(columns):,}")
    except (DamagedIndex, KeyError, TypeError, AttributeError) as error:
        defects.append(f"it cannot be opened: {error}")
    return defects


def _has_right_checksum(path: Path) -> bool:
    """Whether the bytes of a file of tantivy's match the checksum in its footer."""
    data = path.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    try:
        return bool(json.loads(data[-8 - size : -8])["crc"] == zlib.crc32(data[: -8 - size]))
    except (ValueError, KeyError, TypeError):
        return False


def discard_index(folder: Path) -> None:
    """Have the index rebuilt by the next update."""
    (folder / FOLDER / FILE_NAME).unlink(missing_ok=True)


@contextlib.contextmanager
def _no_collecting() -> Iterator[None]:
    """Pause garbage collection: a hundred thousand hits would start it hundreds of times, 40 ms in all."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@dataclass(frozen=True)
class IndexReader:
    """An index as it was at one moment."""

    searcher: Any
    columns: Columns

    def find(self, query: Any, limit: int) -> tuple[list[Any], Any, Any, int]:
        """The best hits: their addresses, oids and scores, and how many there are in all."""
        with reading(), _no_collecting():
            found = self.searcher.search(query, limit=limit)
            hits = found.hits
            addresses = list(map(itemgetter(1), hits))
            oids = np.array(self.searcher.fast_field_values("oid", addresses), np.int64)
            return addresses, oids, np.fromiter(map(itemgetter(0), hits), np.float64, len(hits)), int(found.count)

    def packed(self, address: Any) -> Packed:
        """What is stored of a page."""
        with reading():
            return _DECODE(self.searcher.doc(address)["packed"][0])

    def vector(self, address: Any) -> TermVector:
        """The terms of a page alone."""
        with reading():
            return _DECODE_VECTOR(self.searcher.doc(address)["packed"][0])

    def address(self, field: str, value: int) -> Any | None:
        """The page with this oid or key."""
        with reading():
            hits = self.searcher.search(tantivy.Query.term_query(SCHEMA, field, value), limit=1, count=False).hits
        return hits[0][1] if hits else None


def pack(url: str, title: str, text: str, numbers: Any, counts: bytes) -> bytes:
    """What is stored of a page, as bytes."""
    return _ENCODE(Packed(numbers.astype("<i4").tobytes(), counts, url, title, text))


class Readers:
    """The indexes that were opened lately, kept open: an index is opened in milliseconds, not in microseconds."""

    def __init__(self, most: int = 8) -> None:
        self._most = most
        self._open: dict[Path, tuple[Any, IndexReader]] = {}

    def get(self, folder: Path) -> IndexReader | None:
        """The index of a collection as it is now; None when there is none that can be used."""
        place = (folder / FOLDER).absolute()
        try:
            state = (place / FILE_NAME).stat()
        except OSError:
            self._open.pop(place, None)
            return None
        mark = (state.st_ino, state.st_mtime_ns, state.st_size)
        kept = self._open.pop(place, None)
        if kept is None or kept[0] != mark:
            columns = Columns.load(place)
            if columns is None:
                return None
            with reading():
                kept = (mark, IndexReader(_opened(place).searcher(), columns))
        self._open[place] = kept  # the latest is the last
        for old in list(self._open)[: -self._most]:
            self._open.pop(old, None)
        return kept[1]


_READERS = Readers()


def open_reader(folder: Path) -> IndexReader | None:
    """The index of a collection as it is now; None when there is none that can be used."""
    return _READERS.get(folder)
