"""A BERT encoder as an ONNX graph, written from the files of a model (`config.json`, `model.safetensors`).

Models come as weights without a program, but onnxruntime runs programs. So this module writes one: it is the forward
pass of BERT (Devlin et al. 2019), with the weights in it. The inputs and the output have the names that exported models
use (`input_ids`, `attention_mask`, `token_type_ids`, `last_hidden_state`), so both kinds run in the same way.

A *quantised* graph has weights of 8 bits, with one scale for each output, and quantises what is multiplied with them at
run time. It takes less than half the time and a quarter of the memory, and its vectors have a cosine of about 0.99 with
the exact ones (docs/decisions/0016-sentence-encoder.md).

The file format is protocol buffers, of which a writer needs four kinds of fields; the package `onnx` is not needed.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Weights = dict[str, npt.NDArray[np.float32]]

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "last_hidden_state"

_IR_VERSION = 9
_OPSET = 20
"""The first version of the standard operators that has Gelu; onnxruntime 1.17 and later read it."""
_CONTRIB = "com.microsoft"
"""The domain of DynamicQuantizeMatMul, an operator of onnxruntime itself."""
_MAX_HEADER_BYTES = 100_000_000
_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2"}
_FLOAT, _INT64 = 1, 7
_TENSOR_TYPES = {"float32": _FLOAT, "int8": 3, "int64": _INT64}
_MASKED = -1e9
"""Added to the attention to a token that only fills up a batch."""


def write_graph(folder: Path, quantise: bool = True) -> bytes:
    """The ONNX file for the model in `folder`. ValueError, KeyError or OSError if it is not a BERT encoder."""
    config = json.loads((folder / "config.json").read_bytes())
    for key, known in (
        ("model_type", "bert"),
        ("hidden_act", "gelu"),
        ("position_embedding_type", "absolute"),
    ):
        if config.get(key, known) != known:
            raise ValueError(f"its {key} is {config[key]!r}, and only {known!r} is known")
    return _Graph(read_weights(folder / "model.safetensors"), config, quantise).file()


def read_weights(file: Path) -> Weights:
    """The tensors of a safetensors file, without the prefix `bert.` that some models have."""
    raw = file.read_bytes()
    header_bytes = int.from_bytes(raw[:8], "little")
    if header_bytes > min(_MAX_HEADER_BYTES, len(raw)):
        raise ValueError("not a safetensors file")
    weights: Weights = {}
    for name, tensor in json.loads(raw[8 : 8 + header_bytes]).items():
        if name == "__metadata__" or tensor["dtype"] not in _DTYPES:
            continue
        start, end = (8 + header_bytes + offset for offset in tensor["data_offsets"])
        values = np.frombuffer(raw[start:end], _DTYPES[tensor["dtype"]]).reshape(tensor["shape"])
        if tensor["dtype"] == "BF16":
            values = (values.astype(np.uint32) << 16).view(np.float32)
        weights[name.removeprefix("bert.")] = values.astype(np.float32)
    return weights


class _Graph:
    """The nodes and constants of the graph, in the order of the computation."""

    def __init__(self, weights: Weights, config: dict[str, Any], quantise: bool) -> None:
        self._weights, self._quantise = weights, quantise
        self._epsilon = float(config.get("layer_norm_eps", 1e-12))
        self._heads = int(config["num_attention_heads"])
        self._width = int(config["hidden_size"])
        self._nodes: list[bytes] = []
        self._constants: dict[str, bytes] = {}
        if self._width % self._heads:
            raise ValueError(f"{self._width} dimensions cannot be divided among {self._heads} heads")
        state, mask = self._embed(), self._mask()
        for layer in range(int(config["num_hidden_layers"])):
            state = self._layer(state, mask, f"encoder.layer.{layer}.")
        self._node("Identity", [state], [OUTPUT])

    def file(self) -> bytes:
        """The whole file."""
        inputs = [_value_info(name, _INT64, "batch", "tokens") for name in INPUTS]
        output = _value_info(OUTPUT, _FLOAT, "batch", "tokens", self._width)
        graph = b"".join(
            [
                *(_field(1, node) for node in self._nodes),
                _field(2, b"encoder"),
                *(_field(5, constant) for constant in self._constants.values()),
                *(_field(11, one) for one in inputs),
                _field(12, output),
            ]
        )
        opsets = [
            _field(1, domain) + _number(2, version) for domain, version in ((b"", _OPSET), (_CONTRIB.encode(), 1))
        ]
        return _number(1, _IR_VERSION) + _field(7, graph) + b"".join(_field(8, opset) for opset in opsets)

    def _embed(self) -> str:
        """The sum of the vectors of the token, its place and its part of the text."""
        words = self._rows("embeddings.word_embeddings.weight", INPUTS[0])
        types = self._node("Gather", [self._weight("embeddings.token_type_embeddings.weight"), INPUTS[2]])
        count = self._node("Shape", [INPUTS[0]], start=1)
        places = self._node(
            "Slice", [self._weight("embeddings.position_embeddings.weight"), self._integers("zero", 0), count]
        )
        total = self._node("Add", [self._node("Add", [words, types]), places])
        return self._normalise(total, "embeddings.LayerNorm")

    def _mask(self) -> str:
        """0 for tokens of the text and a very small number for others, to be added to attention scores."""
        mask = self._node("Unsqueeze", [INPUTS[1], self._integers("heads and queries", 1, 2)])
        missing = self._node("Sub", [self._constant("one", np.float32(1)), self._node("Cast", [mask], to=_FLOAT)])
        return self._node("Mul", [missing, self._constant("masked", np.float32(_MASKED))])

    def _layer(self, state: str, mask: str, name: str) -> str:
        attended = self._linear(self._attention(state, mask, name), f"{name}attention.output.dense")
        state = self._normalise(self._node("Add", [attended, state]), f"{name}attention.output.LayerNorm")
        inner = self._node("Gelu", [self._linear(state, f"{name}intermediate.dense")])
        outer = self._linear(inner, f"{name}output.dense")
        return self._normalise(self._node("Add", [outer, state]), f"{name}output.LayerNorm")

    def _attention(self, state: str, mask: str, name: str) -> str:
        """Multi-head attention. Queries, keys and values are one product, so that their input is quantised once."""
        parts = [f"{name}attention.self.{part}" for part in ("query", "key", "value")]
        size = self._width // self._heads
        weights = np.concatenate([self._weights[f"{part}.weight"] for part in parts])
        biases = np.concatenate([self._weights[f"{part}.bias"] for part in parts])
        scale = np.float32(size**-0.5)
        weights[: self._width] *= scale
        biases[: self._width] *= scale
        joined = self._product(state, f"{name}attention.self", weights, biases)
        split = self._node("Reshape", [joined, self._integers("split", 0, 0, 3, self._heads, size)])
        heads = self._node("Transpose", [split], perm=[2, 0, 3, 1, 4])  # part, batch, head, token, dimension
        queries, keys, values = (
            self._node("Gather", [heads, self._constant(f"part {n}", np.int64(n))]) for n in range(3)
        )
        scores = self._node("MatMul", [queries, self._node("Transpose", [keys], perm=[0, 1, 3, 2])])
        shares = self._node("Softmax", [self._node("Add", [scores, mask])], axis=-1)
        seen = self._node("Transpose", [self._node("MatMul", [shares, values])], perm=[0, 2, 1, 3])
        return self._node("Reshape", [seen, self._integers("joined", 0, 0, self._width)])

    def _linear(self, state: str, name: str) -> str:
        return self._product(state, name, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _product(self, state: str, name: str, weights: npt.NDArray[np.float32], biases: npt.NDArray[np.float32]) -> str:
        """Weights (outputs by inputs) times the state, plus the biases."""
        bias = self._constant(f"{name}.bias", biases)
        if not self._quantise:
            product = self._node("MatMul", [state, self._constant(f"{name}.weight", weights.T)])
            return self._node("Add", [product, bias])
        rounded, scales = _rounded(weights)
        inputs = [
            state,
            self._constant(f"{name}.weight", rounded.T),
            self._constant(f"{name}.scale", scales[:, 0]),
            "",  # the zero point of the weights is 0
            bias,
        ]
        return self._node("DynamicQuantizeMatMul", inputs, domain=_CONTRIB)

    def _rows(self, name: str, numbers: str) -> str:
        """The rows of a table; most of a model's bytes are in that of its words."""
        if not self._quantise:
            return self._node("Gather", [self._weight(name), numbers])
        rounded, scales = _rounded(self._weights[name])
        rows = self._node("Cast", [self._node("Gather", [self._constant(name, rounded), numbers])], to=_FLOAT)
        return self._node("Mul", [rows, self._node("Gather", [self._constant(f"{name}.scale", scales), numbers])])

    def _normalise(self, state: str, name: str) -> str:
        inputs = [state, self._weight(f"{name}.weight"), self._weight(f"{name}.bias")]
        return self._node("LayerNormalization", inputs, axis=-1, epsilon=self._epsilon)

    def _weight(self, name: str) -> str:
        return self._constant(name, self._weights[name])

    def _integers(self, name: str, *values: int) -> str:
        return self._constant(name, np.array(values, np.int64))

    def _constant(self, name: str, value: npt.NDArray[Any] | np.generic) -> str:
        if name not in self._constants:
            dims = b"".join(_number(1, size) for size in value.shape)
            kind = _number(2, _TENSOR_TYPES[value.dtype.name])
            self._constants[name] = dims + kind + _field(8, name.encode()) + _field(9, value.tobytes())
        return name

    def _node(
        self,
        operator: str,
        inputs: list[str],
        outputs: list[str] | None = None,
        domain: str = "",
        **attributes: int | float | list[int],
    ) -> str:
        """Add a node; returns the name of its first output."""
        outputs = outputs or [f"{operator} {len(self._nodes)}"]
        self._nodes.append(
            b"".join(
                [
                    *(_field(1, name.encode()) for name in inputs),
                    *(_field(2, name.encode()) for name in outputs),
                    _field(4, operator.encode()),
                    *(_field(5, _attribute(name, value)) for name, value in attributes.items()),
                    _field(7, domain.encode()),
                ]
            )
        )
        return outputs[0]


def _rounded(weights: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Weights as 8-bit integers, and the scale of each row as a column."""
    scales = (np.maximum(np.abs(weights).max(axis=1, keepdims=True), 1e-12) / 127).astype(np.float32)
    return np.rint(weights / scales).astype(np.int8), scales


def _attribute(name: str, value: int | float | list[int]) -> bytes:
    start = _field(1, name.encode())
    if isinstance(value, float):
        return start + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)
    if isinstance(value, int):
        return start + _number(3, value) + _number(20, 2)
    return start + b"".join(_number(8, one) for one in value) + _number(20, 7)


def _value_info(name: str, kind: int, *sizes: str | int) -> bytes:
    """An input or output: its name, the type of its numbers, and its sizes (a name for a size that varies)."""
    dims = (_number(1, size) if isinstance(size, int) else _field(2, size.encode()) for size in sizes)
    shape = b"".join(_field(1, dim) for dim in dims)
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, kind) + _field(2, shape)))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value & (1 << 64) - 1)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the top bit shows that more follow."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)
