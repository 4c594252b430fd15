"""The stems behind all features are those of Porter's algorithm (1980), as his paper and rules give them."""

from __future__ import annotations

import pytest
import xxhash

from opilio.analyze.terms import Vocabulary, term_ids

# Rule by rule; the words of one line meet the same step of the algorithm.
STEMS = """
    caresses caress, ponies poni, ties ti, caress caress, cats cat
    feed feed, agreed agre, plastered plaster, bled bled, motoring motor, sing sing
    conflated conflat, troubled troubl, sized size, hopping hop, tanned tan, falling fall, hissing hiss, fizzed fizz
    failing fail, filing file
    happy happi, sky sky
    relational relat, conditional condit, rational ration, valenci valenc, hesitanci hesit, digitizer digit
    conformabli conform, radically radic, differently differ, vileli vile, analogousli analog
    vietnamization vietnam, predication predic, operator oper, feudalism feudal, decisiveness decis, hopefulness hope
    callousness callous, formality formal, sensitivity sensit, sensibility sensibl
    triplicate triplic, formative form, formalize formal, electricity electr, electrical electr, hopeful hope
    goodness good
    revival reviv, allowance allow, inference infer, airliner airlin, gyroscopic gyroscop, adjustable adjust
    defensible defens, irritant irrit, replacement replac, adjustment adjust, dependent depend, adoption adopt
    homologou homolog, communism commun, activate activ, angularity angular, homologous homolog, effective effect
    bowdlerize bowdler
    probate probat, rate rate, cease ceas, controlling control, rolling roll
    mining mine, knowledge knowledg, patterns pattern, genetic genet, discovery discoveri, clustering cluster
    databases databas, generalizations gener, oscillators oscil
"""
PAIRS = [tuple(pair.split()) for line in STEMS.strip().splitlines() for pair in line.split(",")]


@pytest.mark.parametrize(("word", "stem"), PAIRS)
def test_stem_of_word(word: str, stem: str) -> None:
    """A word's hash code is that of its stem, for pages and for keywords, and the lexicon is told the stem."""
    code = xxhash.xxh32_intdigest(stem.encode())
    assert term_ids(word.upper(), "en") == term_ids(word) == [code]
    vocabulary = Vocabulary()
    assert vocabulary.terms(vocabulary.numbers([word.encode()], "en")).new == [(code, stem)]
