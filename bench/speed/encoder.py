"""What a sentence encoder costs: CPU milliseconds a text, one thread, by length and batch.

    python -m bench.speed.encoder [--quick] [--model FOLDER] [--exact]

FOLDER is a model as `classify.encoder` takes it; without it, that of the package is measured. Where there is none, a
model of the same size (six layers, 384 dimensions) with weights drawn by lot is made: it takes the same time. The last
line is JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path

import numpy as np

from opilio.errors import SettingsError
from opilio.features.encoder import SentenceEncoder, find_encoder
from opilio.features.word_vectors import INSTALLED

WIDTH, INNER, LAYERS, HEADS, PLACES, WORDS = 384, 1536, 6, 12, 512, 30_522
SECONDS = 4.0


def made_model(folder: Path) -> Path:
    """Weights drawn by lot, in the files of a model."""
    draw = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (WORDS, WIDTH),
        "embeddings.position_embeddings.weight": (PLACES, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        start = f"encoder.layer.{layer}."
        linear = {f"attention.self.{part}": (WIDTH, WIDTH) for part in ("query", "key", "value")}
        linear |= {"attention.output.dense": (WIDTH, WIDTH), "intermediate.dense": (INNER, WIDTH)}
        linear |= {"output.dense": (WIDTH, INNER)}
        for name, shape in linear.items():
            shapes |= {f"{start}{name}.weight": shape, f"{start}{name}.bias": shape[:1]}
        norms += [f"{start}attention.output.LayerNorm", f"{start}output.LayerNorm"]
    for name in norms:
        shapes |= {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}
    header, body = {}, b""
    for name, shape in shapes.items():
        data = (draw.standard_normal(shape) * 0.05).astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + body)
    config = {"model_type": "bert", "hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS}
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": PLACES}))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"word{number}" for number in range(WORDS - 4))]
    (folder / "vocab.txt").write_text("\n".join(words))
    return folder


def texts_of(tokens: int, count: int) -> list[str]:
    lot = random.Random(tokens)
    words = ("the", "of", "bird", "water", "house", "music", "river", "state", "war", "city", "law", "team")
    return [" ".join(lot.choices(words, k=2 * tokens)) for _ in range(count)]


def cost_ms(made: SentenceEncoder, tokens: int, batch: int, seconds: float) -> float:
    """CPU milliseconds a text: the best of several runs."""
    texts, best, end = texts_of(tokens, batch), float("inf"), time.perf_counter() + seconds
    while best == float("inf") or time.perf_counter() < end:
        start = time.process_time()
        made.encode(texts, tokens, tokens * batch)
        best = min(best, (time.process_time() - start) / batch * 1000)
    return round(best, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="128 word pieces only, half a second each")
    parser.add_argument("--model", default=INSTALLED)
    parser.add_argument("--exact", action="store_true", help="weights of 32 bits")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        try:
            files = find_encoder(options.model)
        except SettingsError as error:
            print(f"{error}: a model of the same size is made")
            files = find_encoder(str(made_model(Path(place))))
        start = time.process_time()
        made = SentenceEncoder(files, not options.exact)
        opened_s = round(time.process_time() - start, 2)
        ms: dict[str, dict[int, float]] = {}
        for tokens in (128,) if options.quick else (16, 64, 128, 256):
            row = {batch: cost_ms(made, tokens, batch, 0.5 if options.quick else SECONDS) for batch in (1, 8, 32)}
            print(f"{tokens} word pieces: " + ", ".join(f"{value} ms in batches of {n}" for n, value in row.items()))
            ms[str(tokens)] = row
    tokens_per_s = round(128 / min(ms["128"].values()) * 1000)
    print(json.dumps({"ms_per_text": ms, "tokens_per_s": tokens_per_s, "opened_s": opened_s, "exact": options.exact}))


if __name__ == "__main__":
    main()
