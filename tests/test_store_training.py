"""Documents to learn from, as the store gives them."""

from __future__ import annotations

from conftest import MakeTaught
from opilio.store import Store


def test_documents_without_the_texts_of_pages(make_taught: MakeTaught) -> None:
    """Without them all else is the same; a text that stands in the place of a page's is still there."""
    collection = make_taught(limits__max_pages=30)
    collection.crawl()
    topic = next(one["topic"] for one in collection.examples() if one["kind"] == "url" and one["there"])
    name = next(one["name"] for one in collection.examples() if one["topic"] == topic and one["there"])
    part = " ".join(collection.page_text(name)["text"].split()[:20])
    collection.trim_example(topic, name, part)
    with Store.open(collection.folder) as store:
        whole, lean = list(store.load_training()), list(store.load_training(page_texts=False))
    assert [record._replace(text=None) for record in whole] == [record._replace(text=None) for record in lean]
    texts = {record.name: (record.text, without.text) for record, without in zip(whole, lean, strict=True)}
    assert texts.pop(name) == (part, part)
    assert texts and all(text and without is None for text, without in texts.values() if text)
