"""Readers of stored texts: what they remember, and what they forget."""

from __future__ import annotations

import msgspec
import pytest

from opilio.analyze import Analyzer
from opilio.features import classifier_input
from opilio.features.classifier_input import ClassifierInput, TextReader
from opilio.settings import RobotsSettings, StoreSettings, TrapSettings

LONG = " ".join(f"owl{n} vole" for n in range(200))


def test_a_text_is_split_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that remembers gives the same stems as one that does not, and splits a long text once a language."""
    split: list[str] = []
    tokenize = classifier_input.tokenize
    monkeypatch.setattr(classifier_input, "tokenize", lambda text: split.append(text) or tokenize(text))
    reader = TextReader(2**20)
    found = [reader.stems(LONG, language).tolist() for language in ("en", "en", "de")]
    assert len(split) == 2
    assert found == [TextReader().stems(LONG, language).tolist() for language in ("en", "en", "de")]


def test_the_text_read_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader holds as many bytes of stems as it may, of the texts that were read last."""
    split: list[str] = []
    tokenize = classifier_input.tokenize
    texts = [f"{LONG} {word}" for word in ("one", "two", "three")]
    reader = TextReader(2 * TextReader().stems(texts[0]).nbytes)
    monkeypatch.setattr(classifier_input, "tokenize", lambda text: split.append(text[-5:]) or tokenize(text))
    for place in (0, 1, 0, 2, 0, 1):
        reader.stems(texts[place])
    assert [text.split()[-1] for text in split] == ["one", "two", "three", "two"]


def test_names_are_those_of_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are named by their own stems and those of their anchors, also after the reader has forgotten others."""
    monkeypatch.setattr(classifier_input, "_MAX_NAMES", 3)
    reader = TextReader(2**20)
    first = reader.read("", "owls hunt voles", "en", anchors=["barn owls"])
    assert sorted(reader.names([first]).values()) == ["barn", "hunt", "owl", "vole"]
    second = reader.read("", "tides turn", "en")
    assert sorted(reader.names([second]).values()) == ["tide", "turn"]


def test_anchor_texts_are_read_at_once() -> None:
    """The stems of many anchor texts are those of each, without other words, and a 0 after each, also after one
    without any."""
    anchors = ["barn owls", "the of", "", "Schleiereulen -- and voles", "click here"]
    found = TextReader().read("", "owls", "en", anchors=anchors).anchors.tolist()
    expected = [(*filter(None, TextReader().stems(anchor, "en").tolist()), 0) for anchor in anchors]
    assert found == [stem for link in expected for stem in link]
    assert found.count(0) == len(anchors)


def test_what_a_worker_has_split_is_not_split_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stems of a page that came with its document are used for its text, and are named when they are asked for."""
    html = f"<title>Owls and voles</title><p>{LONG}</p>".encode()
    document = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings()).analyze(html, "text/html", "http://a.test/")
    assert document is not None
    expected = TextReader().read(document.title, document.text, document.language)
    reader, split = TextReader(2**20), list[str]()
    reader.remember(document)
    tokenize = classifier_input.tokenize
    monkeypatch.setattr(classifier_input, "tokenize", lambda text: split.append(text) or tokenize(text))
    item = reader.read(document.title, document.text, document.language)
    assert item.stems.tolist() == expected.stems.tolist()
    assert not split
    assert {"owl0", "vole"} <= set(reader.names([item]).values())
    reader.remember(msgspec.structs.replace(document, stems=b""))  # of a crawl that learns nothing
    assert reader.read(document.title, document.text, document.language).stems.tolist() == expected.stems.tolist()


def test_a_page_is_read_again_in_the_language_that_its_worker_found() -> None:
    """A page whose language its worker could not tell is not taken for German when it is judged again, though all of
    its text, menus included, may look like it: it has the same stems both times."""
    menu = "Über uns, Kontakt und Impressum: hier finden Sie die Anschriften unserer Gesellschaften. " * 5
    html = f"<nav><p>{menu}</p></nav><main><p>{'qxv zkw pfj ' * 60}</p></main>".encode()
    document = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings()).analyze(html, "text/html", "http://a.test/")
    assert document is not None and document.language == ""
    again = TextReader().read(document.title, document.text, document.language)
    assert again.stems.tolist() == ClassifierInput.of(document, "http://a.test/").stems.tolist()
    detected = TextReader().read(document.title, document.text)
    assert detected.language == "de" and detected.stems.tolist() != again.stems.tolist()
