"""The space `embeddings`: models of every format, the average against brute force, the cache, and what goes wrong."""

import json
import math
import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opilio
from opilio.errors import SettingsError
from opilio.features import word_vectors
from opilio.features.classifier_input import NO_STEMS, ClassifierInput
from opilio.features.embeddings import EMBEDDING, MAX_WORDS, Embeddings, WordRows, words_of
from opilio.features.spaces import SPACES, make_space
from opilio.settings import ClassifySettings

WORDS = ["the", "bird", "heron", "egret", "python", "code", "java", "moon"]
PIECES = ["[PAD]", "the", "bird", "her", "egret", "python", "##on", "##s", "code", "!", "中", "##a"]
DIMENSIONS = 6


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test touches the user's cache, and each test starts without what another one opened."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    word_vectors._load.cache_clear()
    words_of.cache_clear()
    return tmp_path / "cache" / "opilio"


def numbers(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, DIMENSIONS)).astype(np.float32)


def npy_model(folder: Path, pieces: list[str], rows: np.ndarray) -> Path:
    folder.mkdir()
    np.save(folder / "vectors.npy", rows)
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", "utf-8")
    return folder


def safetensors(path: Path, tensors: dict[str, tuple[str, np.ndarray]]) -> None:
    """A file in the layout that safetensors documents: length, JSON header, bytes."""
    header: dict[str, object] = {"__metadata__": {"format": "np"}}
    body = b""
    for name, (dtype, array) in tensors.items():
        data = array.tobytes()
        header[name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def space(model: Path) -> Embeddings:
    return Embeddings(ClassifySettings(embedding_model=str(model)))


def page(text: str, title: str = "") -> ClassifierInput:
    return ClassifierInput(NO_STEMS, title=title, text=text)


def brute_force(pieces: list[str], rows: np.ndarray, words: list[tuple[list[str], int]]) -> list[float] | None:
    """The vector by the definition in plain Python: `words` are lists of pieces with their counts."""
    kept = [p for p in pieces if p.removeprefix("##").isalnum()]
    raw = {p: [float(x) for x in rows[pieces.index(p)]] for p in kept}
    zipf = {p: 1 / (rank + 2.7) for rank, p in enumerate(kept, 1)}
    whole = sum(zipf.values())
    p_of = {p: value / whole for p, value in zipf.items()}
    weight = {p: 1e-3 / (1e-3 + p_of[p]) for p in kept}
    mass = sum(p_of[p] * weight[p] for p in kept)
    mean = [sum(p_of[p] * weight[p] * raw[p][d] for p in kept) / mass for d in range(DIMENSIONS)]
    centred = {p: [raw[p][d] - mean[d] for d in range(DIMENSIONS)] for p in kept}
    spread = sum(p_of[p] * np.outer(centred[p], centred[p]) for p in kept)
    common = np.linalg.svd(spread)[0][:, 0]
    total = np.zeros(DIMENSIONS)
    for parts, count in words:
        for part in parts:
            row = np.array(centred[part])
            total += math.sqrt(count) / len(parts) * weight[part] * (row - (row @ common) * common)
    return list(total / np.linalg.norm(total)) if words and np.linalg.norm(total) > 0 else None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([*WORDS, "unknown", "zzz"]), max_size=30),
    st.sampled_from(["", "Heron", "moon code"]),
    st.integers(0, 3),
)
def test_vector_is_the_weighted_average(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], title: str, seed: int
) -> None:
    """For any text, the vector is what the definition gives, worked out one number at a time."""
    rows = numbers(len(WORDS), seed)
    made = space(npy_model(tmp_path_factory.mktemp("m") / "model", WORDS, rows)).vector(page(" ".join(words), title))
    counts = Counter([*title.lower().split(), *words])
    expected = brute_force(WORDS, rows, [([w], n) for w, n in counts.items() if w in WORDS])
    if expected is None:
        assert not len(made.ids) and not len(made.values)
    else:
        np.testing.assert_allclose(made.values, expected, atol=1e-4)
        assert np.linalg.norm(made.values) == pytest.approx(1)
        assert made.values.dtype == np.float64 and made.ids.dtype == np.uint64
        assert made.ids.tolist() == [d | 3 << 32 for d in range(DIMENSIONS)]


def test_words_are_cut_into_pieces(tmp_path: Path) -> None:
    """A word unknown as a whole counts as the mean of its longest pieces; a piece that ends in nothing is skipped."""
    rows = numbers(len(PIECES), 5)
    made = space(npy_model(tmp_path / "model", PIECES, rows))
    expected = brute_force(PIECES, rows, [(["her", "##on", "##s"], 2), (["bird"], 1), (["bird", "##s"], 1)])
    np.testing.assert_allclose(made.vector(page("herons bird herons birds")).values, expected, atol=1e-4)
    only_bird = made.vector(page("bird")).values
    np.testing.assert_allclose(made.vector(page("birdqq!")).values, only_bird)
    assert not len(made.vector(page("qqq ! []")).ids)


@pytest.mark.parametrize(
    ("pieces", "word", "expected"),
    [
        (["the", "moon"], "moon", ["moon"]),
        (["the", "moon"], "moons", []),
        (["the", "egret", "##s"], "égrets", ["egret", "##s"]),
        (["the", "café", "##s"], "café", ["café"]),
        (["▁the", "▁Moon", "s", "▁moo"], "moon", ["▁Moon"]),
        (["▁the", "▁NASA", "s"], "nasa", ["▁NASA"]),
        (["▁moo", "n", "ns", "s"], "moons", ["▁moo", "ns"]),
        (["▁moo", "中", "国"], "中国", ["中", "国"]),
        (["moo", "##n", "中", "国"], "中国", ["中", "国"]),
        (["Ġmoo", "n"], "moon", ["Ġmoo", "n"]),
        (["moo", "##n"], "n", ["##n"]),
        (["▁moo", "n"], "n" * 31, []),
    ],
)
def test_pieces_of_a_word(pieces: list[str], word: str, expected: list[str]) -> None:
    """Marks of all kinds, capitals, accents and scripts without spaces find the pieces that stand for a word."""
    words = WordRows(word_vectors.Table(pieces, numbers(len(pieces))))
    assert [pieces[row] for row in words[word.encode()]] == expected


@settings(max_examples=100)
@given(st.text(max_size=40), st.sampled_from([PIECES, WORDS, ["▁moo", "n", "ß", "▁É"]]))
def test_any_word_has_rows_of_the_table(word: str, pieces: list[str]) -> None:
    """Whatever a page holds for a word, looking it up ends, gives rows that exist, and the same again."""
    words = WordRows(word_vectors.Table(pieces, numbers(len(pieces))))
    rows = words[word.encode("utf-8", "replace")]
    assert all(0 <= row < len(pieces) for row in rows)
    assert words[word.encode("utf-8", "replace")] == rows


def test_remembered_words_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crawl of endless made-up words does not fill the memory, and words are still found after it."""
    monkeypatch.setattr("opilio.features.embeddings._MAX_REMEMBERED", 10)
    words = WordRows(word_vectors.Table(WORDS, numbers(len(WORDS))))
    for number in range(100):
        assert words[b"made%d" % number] == ()
        assert len(words) <= 10
    assert words[b"x" * 61] == () and b"x" * 61 not in words
    assert words[b"moon"] == (WORDS.index("moon"),)


def test_all_formats_give_the_same_vectors(tmp_path: Path) -> None:
    """One table as .npy, safetensors (three kinds of numbers), word2vec and GloVe text, with vocab.txt or JSON."""
    rows = numbers(len(WORDS)).astype(np.float16).astype(np.float32)
    rows = (rows.view(np.uint32) & 0xFFFF0000).view(np.float32)  # exact in every kind of number tried here
    expected = space(npy_model(tmp_path / "npy", WORDS, rows)).vector(page("heron moon")).values
    bfloat16 = (rows.view(np.uint32) >> 16).astype(np.uint16)
    for dtype, array in (("F32", rows), ("F64", rows.astype(np.float64)), ("BF16", bfloat16)):
        folder = tmp_path / dtype
        folder.mkdir()
        others = {"small.weight": ("F32", numbers(3)), "big": ("F32", numbers(50)), "norm": ("F32", numbers(1)[0])}
        safetensors(folder / "model.safetensors", {**others, "embeddings": (dtype, array)})
        vocabulary = dict(zip(WORDS, range(len(WORDS)), strict=True))
        (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))
        np.testing.assert_allclose(space(folder).vector(page("heron moon")).values, expected, atol=1e-5)
    unigram = npy_model(tmp_path / "unigram", [], rows)
    (unigram / "vocab.txt").unlink()
    (unigram / "tokenizer.json").write_text(json.dumps({"model": {"vocab": [[word, -1.5] for word in WORDS]}}))
    np.testing.assert_allclose(space(unigram).vector(page("heron moon")).values, expected, atol=1e-5)
    lines = [" ".join([word, *map(repr, row.tolist())]) for word, row in zip(WORDS, rows, strict=True)]
    (tmp_path / "glove.txt").write_text("\n".join(lines))
    np.testing.assert_allclose(space(tmp_path / "glove.txt").vector(page("heron moon")).values, expected, atol=1e-5)
    (tmp_path / "word2vec").mkdir()
    (tmp_path / "word2vec" / "any.vec").write_text(f"{len(WORDS)} {DIMENSIONS}\n" + "\n".join(lines) + "\n\n")
    np.testing.assert_allclose(space(tmp_path / "word2vec").vector(page("heron moon")).values, expected, atol=1e-5)


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"vectors.npy": b"no", "vocab.txt": b"moon"},
        {"vectors.npy": b"", "vocab.txt": b"moon"},
        {"model.safetensors": b"\xff" * 20, "vocab.txt": b"moon"},
        {"model.safetensors": b"\x02\0\0\0\0\0\0\0{}", "vocab.txt": b"moon"},
        {"model.safetensors": b"\x02\0\0\0\0\0\0\0[]", "vocab.txt": b"moon"},
        {"model.safetensors": b"\x02\0\0\0\0\0\0\0{}", "tokenizer.json": b'{"model": {"vocab": 3}}'},
        {"model.safetensors": b"\x02\0\0\0\0\0\0\0{}", "tokenizer.json": b"{}"},
        {"model.safetensors": b"", "other.safetensors": b"", "vocab.txt": b"moon"},
        {"a.txt": b"moon 1 2 3\nsun 1 2 x"},
        {"a.txt": b"moon 1 2 3\nsun 1 2"},
        {"a.txt": b"moon 1 2 3\nsun 1 2 nan"},
        {"a.txt": b""},
        {"a.txt": b"! 1 2 3\n? 3 4 5"},
        {"a.txt": b"moon 1 2 3", "b.txt": b"moon 1 2 3"},
    ],
)
def test_a_bad_model_is_named(tmp_path: Path, files: dict[str, bytes], own_cache: Path) -> None:
    """Files that are not a model end in an error that names them and says where help is, and leave no cache."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    with pytest.raises(SettingsError, match="mine") as raised:
        space(folder)
    assert "docs/guides/embeddings.md" in raised.value.hint
    assert not list(own_cache.glob("*"))


def test_a_table_of_the_wrong_size_is_refused(tmp_path: Path) -> None:
    """A vocabulary longer than the table, a table that is a list, and numbers that are none are not guessed at."""
    with pytest.raises(SettingsError, match="8 pieces"):
        space(npy_model(tmp_path / "short", WORDS, numbers(7)))
    with pytest.raises(SettingsError, match="8 pieces"):
        space(npy_model(tmp_path / "flat", WORDS, numbers(8)[:, 0]))
    holed = numbers(8)
    holed[3, 3] = np.nan
    with pytest.raises(SettingsError, match="no numbers"):
        space(npy_model(tmp_path / "holed", WORDS, holed))
    with pytest.raises(SettingsError, match="does not exist"):
        space(tmp_path / "nowhere")


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    """A .npy file with objects in it, which numpy could only read by running what it says, is refused."""
    folder = npy_model(tmp_path / "model", ["moon"], numbers(1))
    np.save(folder / "vectors.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(SettingsError, match="not an embedding model"):
        space(folder)


def test_prepared_rows_are_mapped_and_reused(tmp_path: Path, own_cache: Path) -> None:
    """The second process maps the file of the first and judges alike; a changed model is prepared anew."""
    folder = npy_model(tmp_path / "model", WORDS, numbers(8))
    first = space(folder).vector(page("heron moon")).values
    [kept] = own_cache.iterdir()
    assert sorted(file.name for file in kept.iterdir()) == ["pieces.txt", "rows.npy"]
    word_vectors._load.cache_clear()
    before = (kept / "rows.npy").stat().st_mtime_ns
    again = space(folder)
    assert isinstance(again._rows, np.memmap) and not again._rows.flags.writeable
    np.testing.assert_array_equal(again.vector(page("heron moon")).values, first)
    assert (kept / "rows.npy").stat().st_mtime_ns == before
    np.save(folder / "vectors.npy", numbers(8, seed=9))
    os.utime(folder / "vectors.npy", ns=(1, 1))
    assert not np.allclose(space(folder).vector(page("heron moon")).values, first)
    assert len(list(own_cache.iterdir())) == 2


@pytest.mark.parametrize("damage", ["cut", "empty", "lost", "shorter"])
def test_a_damaged_cache_is_made_anew(tmp_path: Path, own_cache: Path, damage: str) -> None:
    """Half a file, an empty one, a missing one and a vocabulary that does not fit are replaced, not believed."""
    folder = npy_model(tmp_path / "model", WORDS, numbers(8))
    first = space(folder).vector(page("heron moon")).values
    [kept] = own_cache.iterdir()
    rows = kept / "rows.npy"
    if damage == "cut":
        rows.write_bytes(rows.read_bytes()[:-50])
    elif damage == "empty":
        rows.write_bytes(b"")
    elif damage == "lost":
        rows.unlink()
    else:
        (kept / "pieces.txt").write_text("moon")
    word_vectors._load.cache_clear()
    np.testing.assert_array_equal(space(folder).vector(page("heron moon")).values, first)
    assert [path.name for path in own_cache.iterdir()] == [kept.name]
    assert len(np.load(rows)) == len(WORDS)


def test_a_cache_that_cannot_be_written_costs_memory_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a file where the folder should be, the space works all the same."""
    folder = npy_model(tmp_path / "model", WORDS, numbers(8))
    expected = space(folder).vector(page("heron moon")).values
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    word_vectors._load.cache_clear()
    np.testing.assert_array_equal(space(folder).vector(page("heron moon")).values, expected)


def test_many_processes_prepare_at_once(tmp_path: Path, own_cache: Path) -> None:
    """Workers that start together on an empty cache agree on the vector and leave one table and nothing half done."""
    folder = npy_model(tmp_path / "model", WORDS, numbers(8))
    code = (
        "from opilio.features.embeddings import *; from opilio.features.classifier_input import NO_STEMS;"
        f"print(Embeddings(ClassifySettings(embedding_model={str(folder)!r})).vector("
        "ClassifierInput(NO_STEMS, text='heron moon')).values.tolist())"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(opilio.__file__).parent.parent)}
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(3)
    ]
    answers = {process.communicate(timeout=60)[0] for process in running}
    assert len(answers) == 1 and json.loads(answers.pop()) == space(folder).vector(page("heron moon")).values.tolist()
    assert len(list(own_cache.iterdir())) == 1


def test_only_the_beginning_of_a_text_counts(tmp_path: Path) -> None:
    """A book costs what its first words cost: what stands after them changes nothing."""
    made = space(npy_model(tmp_path / "model", WORDS, numbers(8)))
    start = "heron " * MAX_WORDS
    np.testing.assert_array_equal(made.vector(page(start + "moon " * 9)).values, made.vector(page(start)).values)


def test_names_cover_the_vector(tmp_path: Path) -> None:
    """Each feature of a vector has a name, and no number is one of another kind."""
    made = space(npy_model(tmp_path / "model", WORDS, numbers(8)))
    item = page("heron")
    names = made.names(item, {})
    assert set(made.vector(item).ids.tolist()) == set(names)
    assert names[EMBEDDING | 5] == "embedding 5"
    assert all(number >> 32 == 3 for number in names)


def test_the_space_is_known_by_name(tmp_path: Path) -> None:
    """The registry makes it from the settings; it is dense, so it is not mixed with counted spaces."""
    folder = npy_model(tmp_path / "model", WORDS, numbers(8))
    made = make_space("embeddings", ClassifySettings(embedding_model=str(folder)))
    assert made.name == "embeddings" and made.dense
    with pytest.raises(SettingsError, match="dense"):
        make_space("terms+embeddings", ClassifySettings(embedding_model=str(folder)))


def test_without_the_extra_it_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking for the space without a model says what to install; there is no silent replacement."""
    monkeypatch.setattr(word_vectors, "_PACKAGE", "no_such_package_here")
    with pytest.raises(SettingsError) as raised:
        SPACES.get("embeddings")(ClassifySettings())
    assert "pip install 'opilio[embeddings]'" in raised.value.hint


def test_an_extra_without_its_model_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of that name that lacks the files is told from one that is not installed."""
    monkeypatch.setattr(word_vectors, "_PACKAGE", "email")
    with pytest.raises(SettingsError, match="has no model"):
        Embeddings(ClassifySettings())


def test_naming_the_space_imports_nothing_heavy() -> None:
    """Registering the space imports neither the extra's package nor a learning library."""
    code = "import sys, opilio.features.embeddings as e; print({'wordllama', 'tokenizers', 'sklearn', 'scipy'} & {*sys.modules})"
    environment = {**os.environ, "PYTHONPATH": str(Path(opilio.__file__).parent.parent)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert ran.stdout.strip() == "set()"


@pytest.mark.skipif(find_spec("wordllama") is None, reason="the extra opilio[embeddings] is not installed")
def test_the_installed_model_knows_english() -> None:
    """With the extra, pages on one subject lie closer than pages on two, though they share no word."""
    made = Embeddings(ClassifySettings())
    texts = [
        "The grey heron wades in shallow lakes and hunts fish",
        "Wetland birds such as egrets feed along rivers",
        "Compiler optimisation of functional programming languages",
    ]
    heron, egret, compiler = (made.vector(page(text)).values for text in texts)
    assert len(heron) == 256
    assert heron @ egret > heron @ compiler + 0.2
    assert "wordllama" not in sys.modules
