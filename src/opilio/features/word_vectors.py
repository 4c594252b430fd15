"""Word vectors: read from the files of a model, prepared once, then mapped into memory.

A model is a matrix with a row for each *piece*, and the list of pieces. A piece is a word or a part of one, which a
mark shows: `▁word` or `Ġword` starts a word (unmarked pieces continue one), or `##ing` continues one (unmarked pieces
start one). A model without marks has only whole words.

Preparation does everything that is the same for all pages. In every format we read, pieces are sorted by frequency, so
Zipf's law gives the probability p of each. From it follow its weight, a / (a + p) (smooth inverse frequency, SIF), and
the vector of an average text, which is subtracted; so is the direction in which rows differ most, which reflects style
rather than subject. The rest, times the weight, is the prepared row: the vector of a page is the sum of these.

Prepared rows are stored as float32 in a .npy file in the user's cache folder. All processes map the same file, so it is
in memory once. (As float16 it would be half the size but take ten times as long to add up.) Nothing is unpickled.

`stem_vectors` gives the vectors by the hash codes of stems, the form in which the words of links are known.
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
from opilio.errors import SettingsError, install_command, not_installed
from opilio.frontier.link_words import WordVectors

if TYPE_CHECKING:
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]

INSTALLED = "installed"
"""Used in place of a folder: the model of the extra `opilio[embeddings]`."""
MAX_PIECES = 200_000
"""Pieces read from a model: the most frequent. Each costs a worker about 130 bytes, and a row in the shared file."""
SMOOTHING = 1e-3
"""a of SIF: more probable pieces weigh less. 1e-2 ... 1e-4 work as well (docs/decisions/0009-embeddings.md)."""

_VERSION = 1
"""Version of the preparation; part of the cache key."""
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
    """The files of a model. A text file (word2vec, GloVe) or JSON file contains its pieces."""

    rows: Path
    pieces: Path | None = None


@dataclass(frozen=True, eq=False)
class Table:
    """A prepared model. The same files give the same object, so it can be the key of a cache."""

    pieces: Sequence[str]
    rows: Matrix
    """A row for each piece; read-only, shared between processes."""


def locate(model: str) -> Files:
    """The files of a model, given its folder or file; of the extra if `model` is ''."""
    return find(Path(model).expanduser()) if model else find_installed()


def load(model: str) -> Table:
    """The table of a model, given its folder or file; of the extra if `model` is ''."""
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
        kept = _read_prepared(folder) or (pieces, rows)  # if the folder cannot be written, the rows stay in memory
    return Table(*kept)


def find_installed() -> Files:
    """The files of the model of the extra. Its package is not imported."""
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise not_installed(
            _PACKAGE,
            "every use of word vectors without a model of your own",
            "embeddings",
            "Or give the folder of one.",
        )
    root = Path(spec.submodule_search_locations[0])
    files = Files(root / _PACKAGE_ROWS, root / _PACKAGE_PIECES)
    if not files.rows.is_file() or not (files.pieces and files.pieces.is_file()):
        raise SettingsError(f"{root}: this version of {_PACKAGE} has no model", install_command("embeddings"))
    return files


def find(model: Path) -> Files:
    """The files of the user's model: a folder, or a single file (word2vec, GloVe, JSON)."""
    if model.is_file():
        return Files(model)
    if not model.is_dir():
        raise SettingsError(f"word vectors: {model} does not exist", _GUIDE)
    tables = [*sorted(model.glob("*.safetensors")), *sorted(model.glob("*.npy"))]
    if len(tables) > 1:
        raise SettingsError(f"{model}: several tables: {', '.join(file.name for file in tables)}", _GUIDE)
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
    """The pieces of a model and their rows, as in its files."""
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
    """The pieces that can occur in a word, without duplicates, with weighted and centred rows."""
    start, inside = marks_of(pieces)
    marks = tuple(filter(None, (start, inside)))
    kept: dict[str, int] = {}
    for number, piece in enumerate(pieces):
        mark = next((mark for mark in marks if piece.startswith(mark)), "")
        if piece[len(mark) :].isalnum():
            kept.setdefault(piece, number)
    if not kept:
        raise ValueError("it contains no words")
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
    """The marks of pieces that start a word and of pieces that continue one; None: there are none of the latter."""
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
    except (OSError, ValueError, EOFError):  # EOFError: numpy's error for an empty file
        return None
    return (pieces, rows) if rows.ndim == 2 and len(rows) == len(pieces) else None


def _keep(folder: Path, pieces: Sequence[str], rows: Matrix) -> None:
    """Write to a temporary folder and rename it: readers never see half a table. Of two writers the first wins."""
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
    """Pieces from a file with one per line, or from the vocabulary of a tokenizer.json: a table, or a list of pairs."""
    if file.suffix != ".json":
        return file.read_text("utf-8").removesuffix("\n").split("\n")
    vocabulary = json.loads(file.read_bytes())["model"]["vocab"]
    if isinstance(vocabulary, list):
        return [str(piece) for piece, _ in vocabulary]
    numbered = {int(number): str(piece) for piece, number in vocabulary.items()}
    return [numbered.get(number, "") for number in range(min(max(numbered, default=-1) + 1, MAX_PIECES))]


def _read_matrix(file: Path, least_rows: int) -> npt.NDArray[Any]:
    """The array in a .npy file, or the smallest table in a safetensors file that has a row for each piece."""
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
        raise ValueError(f"its numbers are {tensor['dtype']}; known: {', '.join(_DTYPES)}")
    offset, shape = 8 + header_bytes + tensor["data_offsets"][0], tuple(tensor["shape"])
    values = np.memmap(file, _DTYPES[tensor["dtype"]], "r", offset, shape)
    return (values.astype(np.uint32) << 16).view(np.float32) if tensor["dtype"] == "BF16" else values


def _read_text(file: Path) -> tuple[list[str], Matrix]:
    """A text file with a piece and its numbers on each line; word2vec has a first line with the sizes."""
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
    """The parts of a JSON file that are read: words, the most frequent first, and their numbers."""

    dimensions: int
    vectors: dict[str, msgspec.Raw]


def _read_json(file: Path) -> tuple[list[str], Matrix]:
    """A JSON object with `dimensions`, and `vectors` with a list of at least that many numbers for each word."""
    packed = msgspec.json.decode(file.read_bytes(), type=_Packed)
    pieces = list(packed.vectors)[:MAX_PIECES]
    rows = [json.loads(bytes(packed.vectors[piece]))[: packed.dimensions] for piece in pieces]
    if any(len(row) != packed.dimensions for row in rows):
        raise ValueError(f"a word has fewer than {packed.dimensions} numbers")
    return pieces, np.array(rows, np.float32)


def stem_vectors(model: str, language: str = "") -> WordVectors:
    """The vectors of a model (folder, file or `installed`), by the stems of a language."""
    return _of(load(_path(model)), language)


def check_vectors(model: str) -> None:
    """Raise SettingsError if there are no such vectors. They are not read."""
    if model:
        locate(_path(model))


def _path(model: str) -> str:
    return "" if model == INSTALLED else model


@lru_cache(maxsize=2)
def _of(table: Table, language: str) -> WordVectors:
    """The pieces that are whole words; of words with the same stem, the most frequent one."""
    start, inside = marks_of(table.pieces)
    first: dict[str, int] = {}
    for number, piece in enumerate(table.pieces):
        if piece.startswith(start) and not (inside and piece.startswith(inside)):
            first.setdefault(piece[len(start) :].lower(), number)
    stems = Vocabulary().numbers([word.encode() for word in first], language).astype(np.uint32)
    rows = np.fromiter(first.values(), np.int64, len(first))
    is_term = stems > 0
    known, places = np.unique(stems[is_term], return_index=True)  # the first word of each stem
    return WordVectors(known, rows[is_term][places], table.rows)
