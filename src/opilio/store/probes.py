"""The Bayes tree inside the database (Focus 2.1.3): the same numbers as `opilio.classify.bayes`, for stored pages.

The model lies in the tables of the paper's figure 1: `taxonomy_stat` has each topic that competes below a node, OTHERS
included; `stat` has log theta by node, topic and term; `blob` has the same with the topics of a node and term in one
row. Only what was counted in training is there: a term that is missing has log theta = -logdenom.

`single_probe` goes through one page term by term and looks each up in `blob` (figure 2).
`bulk_probe` judges all pages at once by joins (figure 3). The paper calls that node by node from the root down; here
the node is one more column, and all nodes are done in one pass over the terms: in two thirds of the time, measured with
20 and 100 topics. It is one statement that only reads.

A page has at most 2,000 distinct terms in the table `terms`, and none more than 65,535 times; for a longer one, memory
and database differ by the rest.

All functions take a connection to a database with our schema, and leave transactions to the caller.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from opilio.analyze.terms import MAX_COUNT, MAX_TERMS
from opilio.classify.bayes import ModelTables
from opilio.errors import QueryError

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy.typing as npt

    Dids = Sequence[int] | npt.NDArray[np.int64]

# Sorted, so that DuckDB can skip all row groups but one. It has no use for an index here: it looks into an index for
# conditions on a single column only, and a statement costs 0.3 ms with or without.
_FILL_BLOB = """
INSERT INTO blob
SELECT pcid, tid, list({'kcid': kcid, 'logtheta': logtheta} ORDER BY kcid)
FROM stat GROUP BY pcid, tid ORDER BY pcid, tid
"""
_PROBE = "SELECT stat FROM blob WHERE pcid = ? AND tid = ?"

# The names are those of the paper. What it leaves out: priors, pages without any feature of a node, normalizing, and
# the chain rule, for which `line` has each topic with all that lie above it, itself included.
_BULK_PROBE = """
WITH RECURSIVE
node AS MATERIALIZED (SELECT * FROM taxonomy_stat WHERE pcid IN (SELECT unnest($pcids::SMALLINT[]))),
asked AS MATERIALIZED ({asked}),
asked_document AS (SELECT did, tid, freq FROM document {only}),
partial AS (
    SELECT did, kcid, sum(freq * (logtheta + logdenom)) AS lpr1
    FROM stat JOIN asked_document USING (tid) JOIN node USING (pcid, kcid)
    GROUP BY did, kcid
),
feature AS (SELECT DISTINCT pcid, tid FROM stat SEMI JOIN node USING (pcid)),
doclen AS MATERIALIZED (
    SELECT did, pcid, sum(freq) AS len FROM asked_document JOIN feature USING (tid) GROUP BY did, pcid
),
complete AS (
    SELECT did, pcid, kcid, logprior - coalesce(len, 0) * logdenom AS lpr2
    FROM asked CROSS JOIN node LEFT JOIN doclen USING (did, pcid)
),
score AS MATERIALIZED (
    SELECT did, pcid, kcid, lpr2 + coalesce(lpr1, 0) AS lpr
    FROM complete LEFT OUTER JOIN partial USING (did, kcid)
),
greatest_score AS (SELECT did, pcid, max(lpr) AS greatest_lpr FROM score GROUP BY did, pcid),
total AS (
    SELECT did, pcid, greatest_lpr + ln(sum(exp(lpr - greatest_lpr))) AS log_total
    FROM score JOIN greatest_score USING (did, pcid)
    GROUP BY did, pcid, greatest_lpr
),
line AS (
    SELECT kcid, kcid AS above FROM node
    UNION ALL
    SELECT line.kcid, node.pcid FROM line JOIN node ON node.kcid = line.above
    WHERE node.pcid IN (SELECT kcid FROM node)
),
probed AS (
    SELECT did, line.kcid, sum(lpr - log_total) AS logpr
    FROM score JOIN total USING (did, pcid) JOIN line ON line.above = score.kcid
    GROUP BY did, line.kcid
)
"""
_PROBABILITIES = "SELECT did, kcid, logpr FROM probed ORDER BY did, kcid"
_RELEVANCE = """
SELECT did,
       CASE WHEN did IN (SELECT did FROM doclen WHERE pcid = $start)
            THEN least(1.0, coalesce(sum(exp(logpr)) FILTER (kcid IN (SELECT unnest($good::SMALLINT[]))), 0.0))
            ELSE 0.0
       END AS relevance
FROM probed GROUP BY did ORDER BY did
"""
_KNOWN = """
SELECT DISTINCT did FROM document
WHERE did IN (SELECT unnest($1::BIGINT[])) AND tid IN (SELECT tid FROM stat WHERE pcid = $2)
"""
_WHOLE = """
SELECT oid FROM terms WHERE oid IN (SELECT unnest($1::BIGINT[])) GROUP BY oid HAVING count(*) < $2 AND max(freq) < $3
"""
_ALL, _CHOSEN = "SELECT DISTINCT did FROM document", "SELECT DISTINCT did FROM chosen"

# A good root stands for the topics below it, as in opilio.classify.bayes.good_topics.
_GOOD = """
SELECT kcid FROM taxonomy_stat
WHERE kcid >= 0 AND (kcid IN (SELECT kcid FROM topics WHERE type = 'good')
                     OR pcid IN (SELECT kcid FROM topics WHERE type = 'good' AND pcid IS NULL))
ORDER BY kcid
"""


def write_model(connection: duckdb.DuckDBPyConnection, tables: ModelTables) -> None:
    """Replace the model in the database."""
    for name, columns in tables._asdict().items():
        connection.execute(f"DELETE FROM {name}")
        connection.register("incoming", pa.table(columns))
        connection.execute(f"INSERT INTO {name} BY NAME FROM incoming ORDER BY pcid, kcid")
        connection.unregister("incoming")
    connection.execute("DELETE FROM blob")
    connection.execute(_FILL_BLOB)


def single_probe(connection: duckdb.DuckDBPyConnection, did: int) -> dict[int, float]:
    """log Pr[c | d] of all topics and OTHERS for one page, by a look-up for each node and term."""
    scores: dict[int, dict[int, float]] = {}
    logdenom: dict[int, float] = {}
    for kcid, pcid, logprior, denominator in _taxonomy(connection):
        scores.setdefault(pcid, {})[kcid] = logprior
        logdenom[kcid] = denominator
    terms = connection.execute("SELECT tid, freq FROM document WHERE did = ?", [did]).fetchall()
    [probe] = connection.extract_statements(_PROBE)
    for pcid, children in scores.items():
        for tid, freq in terms:
            for row in connection.execute(probe, [pcid, tid]).fetchall():  # one, or none when it is no feature
                logtheta = {child["kcid"]: child["logtheta"] for child in row[0]}
                for kcid in children:
                    children[kcid] += freq * logtheta.get(kcid, -logdenom[kcid])
    return chain(scores)


def chain(scores: Mapping[int, Mapping[int, float]]) -> dict[int, float]:
    """log Pr[c | d] from the scores (the logarithm of prior times likelihood) of the children of each node."""
    start = _start({kcid: pcid for pcid, children in scores.items() for kcid in children})
    found = {start: 0.0}
    waiting = [start]
    while waiting:
        pcid = waiting.pop()
        children = scores[pcid]
        greatest = max(children.values())
        log_total = greatest + math.log(math.fsum(math.exp(score - greatest) for score in children.values()))
        found.update({kcid: found[pcid] + score - log_total for kcid, score in children.items()})
        waiting.extend(children.keys() & scores.keys())
    del found[start]
    return found


def bulk_probe(connection: duckdb.DuckDBPyConnection, dids: Dids | None = None) -> pa.Table:
    """log Pr[c | d] as rows (did, kcid, logpr) of all topics and OTHERS; for the pages `dids`, or all with terms."""
    pcids = {pcid for _, pcid, _, _ in _taxonomy(connection)}
    return _ask(connection, _PROBABILITIES, dids, {"pcids": sorted(pcids)})


def known_pages(connection: duckdb.DuckDBPyConnection, dids: Dids) -> set[int]:
    """Those of the pages `dids` that have a feature of the first node. On all others the classifier abstains."""
    start = _start({kcid: pcid for kcid, pcid, _, _ in _taxonomy(connection)})
    rows = connection.execute(_KNOWN, [list(dids), start]).fetchall()
    return {did for (did,) in rows}


def whole_pages(connection: duckdb.DuckDBPyConnection, dids: Dids) -> set[int]:
    """Those of the pages `dids` of which the table `terms` has every term with its full count, and at least one."""
    return {did for (did,) in connection.execute(_WHOLE, [list(dids), MAX_TERMS, MAX_COUNT]).fetchall()}


def bulk_relevance(connection: duckdb.DuckDBPyConnection, dids: Dids | None = None) -> pa.Table:
    """R(d) as rows (did, relevance); 0 for a page of which no term is a feature of the first node.

    Which topics are good is read from the table `topics`: no need to train again after the user marked others. Only the
    nodes above good topics are read.
    """
    parents = {kcid: pcid for kcid, pcid, _, _ in _taxonomy(connection)}
    marked = {row[0] for row in connection.execute(_GOOD).fetchall()}
    lines = {kcid: _above(kcid, parents) for kcid in sorted(marked)}
    good = [kcid for kcid, line in lines.items() if not marked & set(line)]  # one below another is part of it
    path = {_start(parents)}.union(*(lines[kcid] for kcid in good))
    return _ask(connection, _RELEVANCE, dids, {"pcids": sorted(path), "good": good, "start": _start(parents)})


def _taxonomy(connection: duckdb.DuckDBPyConnection) -> list[tuple[int, int, float, float]]:
    rows = connection.execute("SELECT kcid, pcid, logprior, logdenom FROM taxonomy_stat").fetchall()
    if not rows:
        raise QueryError(
            "there is no Bayes tree in the database",
            "Train one: classifier = 'bayes' in the section [classify], then crawl on.",
        )
    return rows


def _start(parents: Mapping[int, int]) -> int:
    """The one node that is below no other; `parents` has that of each topic."""
    [start] = set(parents.values()) - parents.keys()
    return start


def _above(kcid: int, parents: Mapping[int, int]) -> list[int]:
    found = []
    while kcid in parents:
        kcid = parents[kcid]
        found.append(kcid)
    return found


def _ask(connection: duckdb.DuckDBPyConnection, sql: str, dids: Dids | None, values: dict[str, Any]) -> pa.Table:
    """The answer of BulkProbe and `sql` for the pages `dids`, or all."""
    asked, only = (_ALL, "") if dids is None else (_CHOSEN, "SEMI JOIN chosen USING (did)")
    if dids is not None:
        connection.register("chosen", pa.table({"did": pa.array(dids, pa.int64())}))
    try:
        return connection.sql(_BULK_PROBE.format(asked=asked, only=only) + sql, params=values).to_arrow_table()
    finally:
        if dids is not None:
            connection.unregister("chosen")
