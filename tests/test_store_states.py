"""The states of URLs: what may change into what, in memory and by every statement of the store."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import opilio
from opilio.model import TRANSITIONS, IllegalTransition, Outcome, UrlState, UrlStates, may_become, stored_code
from opilio.store import Batch, Store, urls
from opilio.store.loader import STATES

WAITING, LEASED, FETCHED, FAILED, DROPPED = UrlState
ROWS = [
    (WAITING, None),
    (FETCHED, Outcome.OK),
    (FETCHED, Outcome.REDIRECT),
    (FAILED, Outcome.CONNECT_FAILED),
    (FAILED, Outcome.TLS_FAILED),
    (DROPPED, Outcome.LOCKED),
    (DROPPED, Outcome.ELSEWHERE),
    (DROPPED, Outcome.TOO_DEEP),
]
ALL = list(range(len(ROWS)))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A URL in each state, with each outcome that a statement asks for."""
    with Store.create(tmp_path) as made:
        batch = Batch()
        for oid, (state, outcome) in enumerate(ROWS):
            batch.urls.add(
                oid, f"http://a.test/{oid}", oid, 0, 1, 1, None, 0, state, outcome, 1, 0.5, 0.5, 0.0, 1e9, 1e9
            )
        made.write(batch)
        yield made


def changed(store: Store, sql: str, *values: object) -> set[tuple[UrlState, Outcome | None, UrlState]]:
    """What a statement changes: state and outcome before, state after."""
    store.query(sql, list(values), write=True)
    after = dict(store.query("SELECT oid, state FROM crawl").rows)
    return {(*ROWS[oid], UrlState(state)) for oid, state in after.items() if state != ROWS[oid][0]}


@pytest.mark.parametrize(("old", "new"), list(itertools.product(UrlState, UrlState)))
def test_only_changes_of_the_table_are_made(old: UrlState, new: UrlState) -> None:
    """`to` gives the new state when the table has the change, and refuses every other one."""
    assert may_become(old, new) == (new in TRANSITIONS[old])
    if may_become(old, new):
        assert old.to(new) is new
    else:
        with pytest.raises(IllegalTransition, match=f"{old.value} cannot become {new.value}"):
            old.to(new)


def test_what_the_table_forbids() -> None:
    """No page comes without a lease, no URL that is settled fails or is leased, and nothing becomes what it is."""
    assert [old for old in UrlState if may_become(old, FETCHED)] == [LEASED]
    assert [old for old in UrlState if may_become(old, LEASED)] == [WAITING]
    assert all(may_become(old, WAITING) for old in UrlState if old is not WAITING)
    assert not any(may_become(state, state) for state in UrlState)
    assert not any(may_become(old, new) for old in (FETCHED, FAILED, DROPPED) for new in (FETCHED, FAILED, DROPPED))


def test_the_states_of_a_crawl_refuse_a_forbidden_change() -> None:
    """A URL is leased before it is fetched; a refused change leaves its state as it was."""
    kept = UrlStates()
    for state in (WAITING, DROPPED):
        kept.append(state)
    with pytest.raises(IllegalTransition):
        kept.change(0, FETCHED)
    assert kept[0] is WAITING and kept.is_open(0)
    kept.change(0, LEASED)
    assert kept[0] is LEASED and kept.is_open(0)
    with pytest.raises(IllegalTransition):
        kept.change(0, LEASED)
    kept.change(0, FETCHED, has_page=True)
    assert kept[0] is FETCHED and kept.has_page(0) and not kept.is_open(0)
    with pytest.raises(IllegalTransition):
        kept.change(1, FETCHED)
    kept.change(1, WAITING)
    assert [kept[oid] for oid in range(len(kept))] == [FETCHED, WAITING]


def test_states_are_read_back_as_they_were_written() -> None:
    """A crawl that resumes has the states of the database; a fetched URL has a page only when one is stored."""
    kept = UrlStates()
    kept.extend(bytes(stored_code(state) for state in STATES))
    assert [kept[oid] for oid in range(len(kept))] == list(STATES)
    assert not any(kept.has_page(oid) for oid in range(len(kept)))
    for oid in range(len(kept)):
        kept.note_page(oid)
    assert [kept[oid] for oid in range(len(kept))] == list(STATES)
    assert [kept.has_page(oid) for oid in range(len(kept))] == [state is FETCHED for state in STATES]
    assert [kept.is_open(oid) for oid in range(len(kept))] == [state is WAITING for state in STATES]


@pytest.mark.parametrize(("old", "new"), [(WAITING, FETCHED), (FETCHED, DROPPED), (FAILED, FETCHED)])
def test_a_statement_for_a_forbidden_change_cannot_be_built(old: UrlState, new: UrlState) -> None:
    """It is refused when it is written, not when a collection is damaged."""
    with pytest.raises(IllegalTransition):
        urls.change_states((old,), new, where="true")


@pytest.mark.parametrize(("old", "new"), [(LEASED, WAITING), (WAITING, LEASED)])
def test_no_statement_speaks_of_leases(old: UrlState, new: UrlState) -> None:
    """The database never holds a lease: a crash makes a leased URL wait again."""
    with pytest.raises(ValueError, match="memory"):
        urls.change_states((old,), new, where="true")


def test_a_statement_leaves_other_states_alone(store: Store) -> None:
    """Whatever it is asked to change, only URLs in the states it is for change."""
    assert changed(store, urls.change_states((WAITING,), DROPPED, where="true")) == {(WAITING, None, DROPPED)}


def test_retrying_and_crawling_again(store: Store) -> None:
    """Failed URLs and those of hosts that were given up are requeued; by a recrawl, those whose page is stored."""
    assert changed(store, urls.RETRY_FAILED) == {
        (FAILED, Outcome.CONNECT_FAILED, WAITING),
        (FAILED, Outcome.TLS_FAILED, WAITING),
    }
    store.query("UPDATE crawl SET state = 'failed' WHERE oid IN (3, 4)", write=True)
    assert changed(store, urls.RECRAWL) == {(FETCHED, Outcome.OK, WAITING)}


def test_locks_and_claims(store: Store) -> None:
    """A lock drops what waits and nothing else; what is unlocked or claimed is what a lock or another part held."""
    assert changed(store, urls.DROP_LOCKED, ALL) == {(WAITING, None, DROPPED)}
    assert changed(store, urls.UNLOCK, ALL) == {(DROPPED, Outcome.LOCKED, WAITING)}
    assert changed(store, urls.CLAIM, ALL, [3] * len(ALL)) == {
        (DROPPED, Outcome.LOCKED, WAITING),
        (DROPPED, Outcome.ELSEWHERE, WAITING),
    }


def test_a_raised_limit_reopens_what_was_dropped(store: Store) -> None:
    """Only dropped URLs are reopened, however wide the condition is."""
    assert {old for old, _, _ in changed(store, urls.reopen("true"))} == {DROPPED}


def test_states_are_changed_nowhere_else() -> None:
    """No other SQL in the source sets `crawl.state`, but the fold that carries a crawl's own changes into the table, and
    the repair of a damaged database."""
    source = Path(opilio.__file__).parent
    setting = re.compile(r"UPDATE crawl SET (?:(?!WHERE).){0,300}?\bstate\s*=\s*'", re.S)
    found = {str(path.relative_to(source)) for path in source.rglob("*.py") if setting.search(path.read_text())}
    assert found == {"store/invariants.py", "store/salvage.py"}
