"""Statements that change the states of URLs in the database. All are built from the one table of transitions.

A crawl changes states in memory and writes them with its batches. What is below changes many URLs at once, from outside
a crawl or on the user's behalf. Each statement names the states it changes from: a change that `TRANSITIONS` does not
have raises `IllegalTransition` when the statement is built, and rows in other states are left alone.
"""

from __future__ import annotations

from opilio.model import Outcome, UrlState

FIRST_PRIORITY = 1e6
"""Brings a URL into memory among the first; there the strategy gives it a priority of its own."""


def change_states(old: tuple[UrlState, ...], new: UrlState, sets: str = "", *, source: str = "", where: str) -> str:
    """The statement that takes URLs from one of the states `old` to `new`.

    `sets` are further assignments, `source` is what follows FROM, `where` chooses among the URLs in those states.
    """
    words = []
    for state in old:
        state.to(new)
        words.append(f"'{_stored(state).value}'")
    assignments = f"state = '{_stored(new).value}'" + (f", {sets}" if sets else "")
    from_ = f" FROM {source}" if source else ""
    return f"UPDATE crawl SET {assignments}{from_} WHERE crawl.state IN ({', '.join(words)}) AND ({where})"


def _stored(state: UrlState) -> UrlState:
    if state is UrlState.LEASED:
        raise ValueError("leases live in memory: the database never holds one")
    return state


RETRY_FAILED = change_states(
    (UrlState.FAILED, UrlState.DROPPED),
    UrlState.WAITING,
    "numtries = 0, not_before = NULL",
    where=f"state = '{UrlState.FAILED}' OR outcome = '{Outcome.BAD_HOST}'",
)
"""Requeues what failed, and what was dropped because its host was given up."""

RECRAWL = change_states(
    (UrlState.FETCHED,),
    UrlState.WAITING,
    "numtries = 0",
    where=f"outcome IN ('{Outcome.OK}', '{Outcome.NOT_MODIFIED}')",
)
"""Requeues the URLs whose page is stored."""

CLAIM = change_states(
    (UrlState.DROPPED,),
    UrlState.WAITING,
    f"outcome = NULL, topic = g.topic, depth = 0, relevance = 1.0, priority = {FIRST_PRIORITY}",
    source="(SELECT unnest(?::BIGINT[]) AS oid, unnest(?::SMALLINT[]) AS topic) g",
    where=f"g.oid = crawl.oid AND outcome = '{Outcome.ELSEWHERE}'",
)
"""Requeues URLs that were left to another part of a divided collection: their oids, and the topic of each."""

DROP_LOCKED = change_states(
    (UrlState.WAITING,),
    UrlState.DROPPED,
    f"outcome = '{Outcome.LOCKED}', not_before = NULL",
    where="oid IN (SELECT unnest(?::BIGINT[]))",
)
"""Drops URLs of hosts that were locked, by their oids."""

UNLOCK = change_states(
    (UrlState.DROPPED,),
    UrlState.WAITING,
    f"outcome = CASE WHEN oid IN (SELECT oid FROM pages) THEN '{Outcome.OK}' END",
    where=f"outcome = '{Outcome.LOCKED}' AND oid IN (SELECT unnest(?::BIGINT[]))",
)
"""Requeues URLs that a lock dropped, by their oids."""


def reopen(where: str) -> str:
    """The statement that requeues those of the dropped URLs that a condition chooses."""
    return change_states((UrlState.DROPPED,), UrlState.WAITING, "outcome = NULL", where=where)
