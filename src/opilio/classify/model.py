"""A model: a trained classifier with its version, as it is stored and sent to workers."""

from __future__ import annotations

from typing import Self

import msgspec

from opilio.classify.judge import CLASSIFIERS, Explanation, Judge
from opilio.features.evidence import Evidence
from opilio.model import Judgement


class _Packed(msgspec.Struct, array_like=True):
    version: int
    classifier: str
    learned: bytes


_decoder = msgspec.msgpack.Decoder(_Packed)


class Model:
    """A classifier that signs its judgements with its version."""

    def __init__(self, version: int, classifier: str, judge: Judge) -> None:
        self.version = version
        self.classifier = classifier
        self.judge_alone = judge

    def judge(self, evidence: Evidence) -> Judgement:
        """What the classifier says, signed."""
        return msgspec.structs.replace(self.judge_alone.judge(evidence), model_version=self.version)

    def explain(self, evidence: Evidence) -> Explanation:
        """The same judgement, with its reasons."""
        explanation = self.judge_alone.explain(evidence)
        signed = msgspec.structs.replace(explanation.judgement, model_version=self.version)
        return Explanation(signed, explanation.steps)

    def to_bytes(self) -> bytes:
        """The model as one message."""
        return msgspec.msgpack.encode(_Packed(self.version, self.classifier, self.judge_alone.to_bytes()))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The model that gave `data`."""
        packed = _decoder.decode(data)
        return cls(packed.version, packed.classifier, CLASSIFIERS.get(packed.classifier).from_bytes(packed.learned))
