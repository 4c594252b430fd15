"""Tables of word vectors: read from a model's files, prepared once, and mapped into memory from then on.

A model is a matrix with a row for each *piece*, and the list of pieces. A piece is a word or a part of one; which of
the two is told by a mark: `▁word` or `Ġword` starts a word (the others go on), or `##ing` goes on with one (the others
start). A model without marks knows whole words only.

Preparing a table does all that is the same for every page. Pieces stand in the order of their frequency in every format
we read, so Zipf's law gives the probability of each. From it follow its weight, a / (a + p) (smooth inverse frequency,
SIF), and the vector that text on nothing in particular has, which is subtracted; so is the one direction in which rows
differ most, which tells style rather than subject. What is left, times the weight, is the prepared row: a page's vector
is a plain sum of them.

Prepared rows are a .npy file of float32 under the user's cache folder. All processes map the same file, so the machine
holds it once. (Half the size as float16 would cost ten times the time to add up.) Nothing is unpickled.

Word vectors by the hash codes of stems, as the words of links are known.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from opilio.analyze.terms import Vocabulary
from opilio.errors import SettingsError
from opilio.frontier.link_words import WordVectors

if TYPE_CHECKING:
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]

MAX_PIECES = 200_000
"""Read of a model: the most frequent. Each costs a worker about 130 bytes, and the shared file its row."""
SMOOTHING = 1e-3
"""a of SIF: pieces more probable than this weigh less. 1e-2 ... 1e-4 do as well (docs/decisions/0009-embeddings.md)."""

_VERSION = 1
"""Of the way rows are prepared; part of the cache's key."""
_ZIPF_OFFSET = 2.7
_MAX_HEADER_BYTES = 100_000_000
_PACKAGE = "wordllama"
_PACKAGE_ROWS = "weights/l2_supercat_256.safetensors"
_PACKAGE_PIECES = "tokenizers/l2_supercat_tokenizer_config.json"
_START_MARKS = ("▁", "Ġ")
_INSIDE_MARK = "##"
_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2"}
_NOT_TABLES = ("package.json", "package-lock.json")
_GUIDE = "docs/guides/embeddings.md says which files a model consists of."


class Files(NamedTuple):
    """Where a model lies. A text file (word2vec, GloVe) or one of JSON has its pieces inside."""

    rows: Path
    pieces: Path | None = None


@dataclass(frozen=True, eq=False)
class Table:
    """A prepared model. It is the same object for the same files, so what is learned about it can be kept with it."""

    pieces: Sequence[str]
    rows: Matrix
    """A row for each piece; read-only, shared between processes."""


def locate(model: str) -> Files:
    """The files of a model's folder or file; without one, those of the extra."""
    return find(Path(model).expanduser()) if model else find_installed()


def load(model: str) -> Table:
    """The table of a model's folder or file; without one, that of the extra."""
    files = locate(model)
    stats = [file.stat() for file in files if file is not None]
    stamp = "\0".join(f"{stat.st_size} {stat.st_mtime_ns}" for stat in stats)
    return _load(files, stamp)


@lru_cache(maxsize=4)
def _load(files: Files, stamp: str) -> Table:
    key = hashlib.sha256(f"{_VERSION}\0{files.rows.resolve()}\0{files.pieces}\0{stamp}".encode()).hexdigest()[:16]
    folder = cache_folder() / f"embeddings-{key}"
    kept = _read_prepared(folder)
    if kept is None:
        try:
            pieces, rows = prepare(*read(files))
        except ValueError as error:
            raise SettingsError(f"{files.rows}: not an embedding model: {error}", _GUIDE) from None
        _keep(folder, pieces, rows)
        kept = _read_prepared(folder) or (pieces, rows)  # a folder that cannot be written costs memory only
    return Table(*kept)


def find_installed() -> Files:
    """The files of the model that the extra brings. Nothing of its package is imported."""
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SettingsError(
            "no word vectors are installed, which the space 'embeddings' and [frontier] word_vectors need",
            "pip install 'opilio[embeddings]', or name a folder of your own.",
        )
    root = Path(spec.submodule_search_locations[0])
    files = Files(root / _PACKAGE_ROWS, root / _PACKAGE_PIECES)
    if not files.rows.is_file() or not (files.pieces and files.pieces.is_file()):
        raise SettingsError(f"{root}: this version of {_PACKAGE} brings no model", "pip install 'opilio[embeddings]'")
    return files


def find(model: Path) -> Files:
    """The files of a model of the user's: a folder, or a file that has all in it (word2vec, GloVe, JSON)."""
    if model.is_file():
        return Files(model)
    if not model.is_dir():
        raise SettingsError(f"word vectors: {model} does not exist", _GUIDE)
    tables = [*sorted(model.glob("*.safetensors")), *sorted(model.glob("*.npy"))]
    if len(tables) > 1:
        raise SettingsError(f"{model}: which is the table? {', '.join(file.name for file in tables)}", _GUIDE)
    pieces = next((file for name in ("vocab.txt", "tokenizer.json") if (file := model / name).is_file()), None)
    if tables and pieces:
        return Files(tables[0], pieces)
    texts = [file for file in sorted([*model.glob("*.txt"), *model.glob("*.vec")]) if file.name != "vocab.txt"]
    if not tables and len(texts) == 1:
        return Files(texts[0])
    packed = [file for file in sorted(model.glob("*.json")) if file.name not in _NOT_TABLES]
    if not tables and not texts and len(packed) == 1:
        return Files(packed[0])
    raise SettingsError(f"{model}: no embedding model found in this folder", _GUIDE)


def read(files: Files) -> tuple[list[str], Matrix]:
    """The pieces of a model and their rows, as its files have them."""
    try:
        if files.pieces is None:
            return _read_json(files.rows) if files.rows.suffix == ".json" else _read_text(files.rows)
        pieces = _read_pieces(files.pieces)[:MAX_PIECES]
        rows = np.asarray(_read_matrix(files.rows, len(pieces))[: len(pieces)], np.float32)
    except (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise SettingsError(f"{files.rows}: not an embedding model: {error}", _GUIDE) from None
    if rows.ndim != 2 or len(rows) != len(pieces) or not rows.size or not np.isfinite(rows).all():
        shape = " x ".join(map(str, rows.shape))
        raise SettingsError(f"{files.rows}: {len(pieces)} pieces, but the table is {shape} or has no numbers", _GUIDE)
    return pieces, rows


def prepare(pieces: Sequence[str], rows: Matrix) -> tuple[list[str], Matrix]:
    """The pieces that can occur in a word, the first of each, with weighted and centred rows."""
    start, inside = marks_of(pieces)
    marks = tuple(filter(None, (start, inside)))
    kept: dict[str, int] = {}
    for number, piece in enumerate(pieces):
        mark = next((mark for mark in marks if piece.startswith(mark)), "")
        if piece[len(mark) :].isalnum():
            kept.setdefault(piece, number)
    if not kept:
        raise ValueError("no words in it")
    probability = 1 / (np.arange(1, len(kept) + 1) + _ZIPF_OFFSET)
    probability /= probability.sum()
    weight = SMOOTHING / (SMOOTHING + probability)
    prepared = rows[list(kept.values())]
    prepared -= np.average(prepared, axis=0, weights=probability * weight).astype(np.float32)
    spread = (prepared * probability[:, None].astype(np.float32)).T @ prepared
    common = np.linalg.eigh(spread.astype(np.float64)).eigenvectors[:, -1].astype(np.float32)
    prepared -= np.outer(prepared @ common, common)
    prepared *= weight[:, None].astype(np.float32)
    return list(kept), prepared


def marks_of(pieces: Sequence[str]) -> tuple[str, str | None]:
    """What stands before a piece that starts a word, and before one that goes on; None: there are none of these."""
    enough = len(pieces) / 100
    for mark in _START_MARKS:
        if sum(piece.startswith(mark) for piece in pieces) > enough:
            return mark, ""
    return "", _INSIDE_MARK if sum(piece.startswith(_INSIDE_MARK) for piece in pieces) > enough else None


def cache_folder() -> Path:
    """Where prepared tables are kept: under $XDG_CACHE_HOME or ~/.cache. It may be deleted at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "opilio"


def _read_prepared(folder: Path) -> tuple[list[str], Matrix] | None:
    try:
        pieces = (folder / "pieces.txt").read_text("utf-8").split("\n")
        rows: Matrix = np.load(folder / "rows.npy", mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):  # numpy has its own word for an empty file
        return None
    return (pieces, rows) if rows.ndim == 2 and len(rows) == len(pieces) else None


def _keep(folder: Path, pieces: Sequence[str], rows: Matrix) -> None:
    """Write beside and rename: a reader never sees half a table. Of two writers the first wins; both wrote the same."""
    with contextlib.suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".embeddings-"))
        try:
            (part / "pieces.txt").write_text("\n".join(pieces), "utf-8")
            np.save(part / "rows.npy", rows, allow_pickle=False)
            if folder.exists() and _read_prepared(folder) is None:
                shutil.rmtree(folder)
            part.rename(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _read_pieces(file: Path) -> list[str]:
    """One piece a line, or a tokenizer.json with its vocabulary as a table of numbers or as a list of pairs."""
    if file.suffix != ".json":
        return file.read_text("utf-8").removesuffix("\n").split("\n")
    vocabulary = json.loads(file.read_bytes())["model"]["vocab"]
    if isinstance(vocabulary, list):
        return [str(piece) for piece, _ in vocabulary]
    numbered = {int(number): str(piece) for piece, number in vocabulary.items()}
    return [numbered.get(number, "") for number in range(min(max(numbered, default=-1) + 1, MAX_PIECES))]


def _read_matrix(file: Path, least_rows: int) -> npt.NDArray[Any]:
    """The array of a .npy file; of a safetensors file, the smallest table that has a row for each piece."""
    if file.suffix == ".npy":
        return np.load(file, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    with file.open("rb") as stream:
        header_bytes = int.from_bytes(stream.read(8), "little")
        if header_bytes > min(_MAX_HEADER_BYTES, file.stat().st_size):
            raise ValueError("not a safetensors file")
        tensors: dict[str, Any] = json.loads(stream.read(header_bytes))
    tables = [
        (tensor["shape"][0], name)
        for name, tensor in tensors.items()
        if name != "__metadata__" and len(tensor["shape"]) == 2 and tensor["shape"][0] >= least_rows
    ]
    if not tables:
        raise ValueError(f"no table in it has the {least_rows} rows of the vocabulary")
    tensor = tensors[min(tables)[1]]
    if tensor["dtype"] not in _DTYPES:
        raise ValueError(f"numbers of the kind {tensor['dtype']}; known: {', '.join(_DTYPES)}")
    offset, shape = 8 + header_bytes + tensor["data_offsets"][0], tuple(tensor["shape"])
    values = np.memmap(file, _DTYPES[tensor["dtype"]], "r", offset, shape)
    return (values.astype(np.uint32) << 16).view(np.float32) if tensor["dtype"] == "BF16" else values


def _read_text(file: Path) -> tuple[list[str], Matrix]:
    """A piece and its numbers a line, with spaces between; word2vec has a first line with the sizes."""
    pieces: list[str] = []
    rows: list[Matrix] = []
    dimensions = 0
    with file.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            words = line.rstrip().rsplit(" ", dimensions or -1)
            if len(words) < 2 or (number == 1 and len(words) == 2):
                continue
            dimensions = dimensions or len(words) - 1
            try:
                row = np.array(words[1:], np.float32)
            except ValueError:
                row = np.zeros(0, np.float32)
            if len(row) != dimensions or not np.isfinite(row).all():
                raise SettingsError(f"{file}, line {number}: not a word and {dimensions} numbers", _GUIDE)
            pieces.append(words[0])
            rows.append(row)
            if len(pieces) == MAX_PIECES:
                break
    if not rows:
        raise SettingsError(f"{file}: not word vectors in text form", _GUIDE)
    return pieces, np.stack(rows)


class _Packed(msgspec.Struct):
    """What we read of a JSON file: words, the most frequent first, and their numbers."""

    dimensions: int
    vectors: dict[str, msgspec.Raw]


def _read_json(file: Path) -> tuple[list[str], Matrix]:
    """An object with `dimensions`, and `vectors` that has a list of at least so many numbers for each word."""
    packed = msgspec.json.decode(file.read_bytes(), type=_Packed)
    pieces = list(packed.vectors)[:MAX_PIECES]
    rows = [json.loads(bytes(packed.vectors[piece]))[: packed.dimensions] for piece in pieces]
    if any(len(row) != packed.dimensions for row in rows):
        raise ValueError(f"some word has fewer than {packed.dimensions} numbers")
    return pieces, np.array(rows, np.float32)


INSTALLED = "installed"
"""Instead of a folder: the model that the extra brings."""


def stem_vectors(model: str, language: str = "") -> WordVectors:
    """The vectors of a model's folder or file, or of the extra (`installed`), by the stems of a language."""
    return _of(load(_path(model)), language)


def check_vectors(model: str) -> None:
    """Raise SettingsError when there are no such vectors; they are not read for that."""
    if model:
        locate(_path(model))


def _path(model: str) -> str:
    return "" if model == INSTALLED else model


@lru_cache(maxsize=2)
def _of(table: Table, language: str) -> WordVectors:
    """Of the pieces of a model those that are whole words, and of words with the same stem the most frequent."""
    start, inside = marks_of(table.pieces)
    first: dict[str, int] = {}
    for number, piece in enumerate(table.pieces):
        if piece.startswith(start) and not (inside and piece.startswith(inside)):
            first.setdefault(piece[len(start) :].lower(), number)
    stems = Vocabulary().numbers([word.encode() for word in first], language).astype(np.uint32)
    rows = np.fromiter(first.values(), np.int64, len(first))
    is_term = stems > 0
    known, places = np.unique(stems[is_term], return_index=True)  # the first of each
    return WordVectors(known, rows[is_term][places], table.rows)
