"""Chains of links: the same as a list for each URL, however links come and go."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from opilio.frontier.link_memory import Chains

OIDS = 14
bunches = st.lists(
    st.one_of(
        st.lists(st.tuples(st.integers(0, OIDS - 1), st.booleans()), max_size=30).map(lambda links: ("add", links)),
        st.sets(st.integers(0, OIDS - 1), max_size=3).map(lambda oids: ("drop", sorted(oids))),
        st.integers(0, 20).map(lambda count: ("cut", count)),
    ),
    max_size=8,
)


@settings(max_examples=200)
@given(bunches)
def test_links_are_found_again(happened: list) -> None:  # type: ignore[type-arg]
    """Links that lead on are found by their places among those remembered, older ones are forgotten, dropped ones gone;
    with few URLs as with many."""
    chains = Chains()
    chains.grow(OIDS)
    links: list[tuple[int, bool]] = []
    for what, given_ in happened:
        if what == "add":
            targets = np.array([oid for oid, _ in given_], np.int64)
            chains.add(targets, np.flatnonzero([leads_on for _, leads_on in given_]))
            links += given_
        elif what == "drop":
            chains.drop(np.array(given_, np.int64))
            links = [(oid, leads_on and oid not in given_) for oid, leads_on in links]
        else:
            count = min(given_, len(links))
            chains.cut(count)
            links = links[count:]
    for oids in (np.arange(OIDS), np.arange(3)):
        places, which = chains.follow(oids)
        assert sorted(zip(oids[which].tolist(), places.tolist(), strict=True)) == sorted(
            (oid, place) for place, (oid, leads_on) in enumerate(links) if leads_on and oid in oids
        )
        assert (np.diff(which) >= 0).all()
        assert chains.has(oids).tolist() == [any(o == oid and on for o, on in links) for oid in oids.tolist()]
