"""The links of a page as columns: the same links come out as went in, also from the database."""

from __future__ import annotations

from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from opilio.model import Link, LinkKind, Links, Region
from opilio.store import Batch, Store

texts = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=12)
link = st.builds(
    Link,
    url=st.sampled_from(["http://a.test/", "http://b.test/owls?q=1"]),
    key=st.integers(0, 2**64 - 1),
    anchor=texts,
    context=texts,
    region=st.sampled_from(Region),
    position=st.integers(0, 2**31 - 1),
    kind=st.sampled_from(LinkKind),
    nofollow=st.booleans(),
)


@given(st.lists(link, max_size=8), st.data())
def test_columns_hold_the_links(links: list[Link], data: st.DataObject) -> None:
    """Whatever the links are, empty texts included: iterating, indexing and selecting give the same objects, also after
    a journey to another process."""
    columns = Links.of(links)
    assert list(columns) == links and len(columns) == len(links)
    assert [columns[at] for at in range(len(links))] == links
    assert columns.key_list() == [one.key for one in links]
    places = data.draw(st.lists(st.sampled_from(range(len(links))), unique=True)) if links else []
    assert columns.take(sorted(places)) == Links.of(links[at] for at in sorted(places))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(columns), type=Links) == columns


def test_line_ends_do_not_split_a_link() -> None:
    """A reader of somebody else may leave line ends in a text; they become spaces, and every link keeps its own."""
    links = [Link("http://a.test/", 1, "two\nlines", "around\r\nit", Region.MAIN, 0)] * 2
    assert [(one.anchor, one.context) for one in Links.of(links)] == [("two lines", "around it")] * 2


@given(st.lists(st.lists(link, max_size=4), min_size=1, max_size=4))
def test_the_database_gets_every_link(tmp_path_factory, pages: list[list[Link]]) -> None:  # type: ignore[no-untyped-def]
    """The rows of the table are those of the links, page by page; a page without links has none."""
    batch = Batch()
    for oid, links in enumerate(pages):
        batch.links.put(oid, 3, range(100, 100 + len(links)), [7] * len(links), Links.of(links))
    folder: Path = tmp_path_factory.mktemp("links")
    with Store.create(folder) as store:
        store.write(batch)
        found = store.query(
            "SELECT oid_src, oid_dst, sid_src, sid_dst, anchor, context, region, position, kind, nofollow FROM links"
        ).rows
    assert found == [
        (oid, 100 + at, 3, 7, one.anchor, one.context, one.region, one.position, one.kind, one.nofollow)
        for oid, links in enumerate(pages)
        for at, one in enumerate(links)
    ]
