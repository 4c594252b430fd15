"""Words a user gives, as the hash codes that documents carry."""

from __future__ import annotations

from opilio.analyze.terms import Vocabulary
from opilio.analyze.tokens import tokenize


def term_ids(text: str, language: str = "") -> list[int]:
    """The hash codes of the terms of `text`, in order and with repeats; stop words are no terms."""
    numbers = Vocabulary().numbers(tokenize(text), language) & 0xFFFFFFFF
    return [number for number in numbers.tolist() if number]
