"""SingleProbe, BulkProbe and the tree in memory give the same numbers."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayes_worlds import UNKNOWN, World, log, page, pages, worlds
from opilio import Collection
from opilio.classify.bayes import BayesTree
from opilio.errors import InputError, QueryError
from opilio.store import schema
from opilio.store.connection import connect
from opilio.store.probes import bulk_probe, bulk_relevance, chain, single_probe, write_model
from opilio.topics.hierarchy import ROOT, Hierarchy

# The statement of the paper's figure 3 for one node: no priors, not normalized, no chain rule.
FIGURE_3 = """
with
PARTIAL(did, kcid, lpr1) as
   (select did, TAXONOMY.kcid, sum(freq * (logtheta + logdenom))
    from STAT_c0, DOCUMENT, taxonomy_stat as TAXONOMY
    where TAXONOMY.pcid = $c0 and STAT_c0.tid = DOCUMENT.tid and STAT_c0.kcid = TAXONOMY.kcid
    group by did, TAXONOMY.kcid),
DOCLEN(did, len) as
   (select did, sum(freq) from DOCUMENT where tid in (select tid from STAT_c0) group by did),
COMPLETE(did, kcid, lpr2) as
   (select did, kcid, - len * logdenom from DOCLEN, taxonomy_stat where pcid = $c0)
select C.did, C.kcid, lpr2 + coalesce(lpr1, 0)
from COMPLETE as C left outer join PARTIAL as P on C.did = P.did and C.kcid = P.kcid
"""


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with our schema, in memory."""
    with duckdb.connect() as made:
        schema.create(made, schema.migrations())
        yield made


def fill(connection: duckdb.DuckDBPyConnection, documents: list[list[int]], hierarchy: Hierarchy) -> None:
    """Put documents (numbered from 0) and topics in the place of those that are there."""
    counts = [(did, tid, n) for did, tids in enumerate(documents) for tid, n in Counter(tids).items() if tid]
    dids, tids, freqs = zip(*counts, strict=True) if counts else ((), (), ())
    terms = {
        "oid": pa.array(dids, pa.int64()),
        "tid": pa.array(tids, pa.uint32()),
        "freq": pa.array(freqs, pa.uint16()),
    }
    nodes = hierarchy.nodes.values()
    parents = [None if node.kcid == ROOT else node.parent for node in nodes]
    topics = {
        "kcid": pa.array([node.kcid for node in nodes], pa.int16()),
        "pcid": pa.array(parents, pa.int16()),
        "name": [node.name for node in nodes],
        "path": [node.path for node in nodes],
        "type": [str(node.mark) for node in nodes],
    }
    for name, columns in (("terms", terms), ("topics", topics)):
        connection.execute(f"DELETE FROM {name}")
        connection.register("incoming", pa.table(columns))
        connection.execute(f"INSERT INTO {name} BY NAME FROM incoming")
        connection.unregister("incoming")


def by_page(table: pa.Table) -> dict[int, dict[int, float]]:
    found: dict[int, dict[int, float]] = {}
    for row in table.to_pylist():
        assert row["kcid"] not in found.setdefault(row["did"], {})
        found[row["did"]][row["kcid"]] = row["logpr"]
    return found


def same(one: dict[int, float], other: dict[int, float]) -> bool:
    return one.keys() == other.keys() and all(
        math.isclose(one[kcid], other[kcid], rel_tol=1e-9, abs_tol=1e-9) for kcid in one
    )


FLAT = World({0: -1, 1: 0, 2: 0}, {1}, [(1, [7, 7, 11], True), (1, [7, 900], True), (2, [900, 901], True)], [[902]])
DEEP = World(
    {0: -1, 1: 0, 2: 0, 3: 1, 4: 1, 5: 3, 6: 3},
    {5},
    [(5, [7, 7, 11], True), (6, [7, 900], True), (4, [901, 900], True), (2, [902, 11], True), (3, [903, 7], True)],
    [[903, 5_000_000]],
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=worlds(), documents=st.lists(pages, min_size=1, max_size=4))
def test_all_three_ways_agree(connection: duckdb.DuckDBPyConnection, world: World, documents: list[list[int]]) -> None:
    """For any tree and any pages, SQL gives the probabilities and the relevance of the equations, as memory does."""
    model = world.train()
    fill(connection, documents, model.hierarchy)
    write_model(connection, model.tables())
    dids = list(range(len(documents)))
    bulk = by_page(bulk_probe(connection, dids))
    relevance = bulk_relevance(connection, dids).to_pydict()
    assert sorted(bulk) == relevance["did"] == dids
    for did, tids in enumerate(documents):
        truth = {kcid: log(value) for kcid, value in world.probabilities(model, tids).items()}
        assert same(bulk[did], truth)
        assert same(single_probe(connection, did), truth)
        assert same(model.log_probabilities(page(tids)), truth)
        assert relevance["relevance"][did] == pytest.approx(model.judge(page(tids)).relevance, abs=1e-9)


def test_the_papers_statement_gives_the_same(connection: duckdb.DuckDBPyConnection) -> None:
    """Figure 3 as printed, run at each node and put together with priors and the chain rule, is what we compute."""
    model = DEEP.train()
    tids = [7, 7, 11, 900, 903, 902, UNKNOWN]
    fill(connection, [tids], model.hierarchy)
    write_model(connection, model.tables())
    priors = connection.execute("SELECT pcid, kcid, logprior FROM taxonomy_stat").fetchall()
    scores: dict[int, dict[int, float]] = {}
    for pcid, kcid, logprior in priors:
        sql = f"WITH STAT_c0 AS (SELECT * FROM stat WHERE pcid = {pcid}), {FIGURE_3.strip().removeprefix('with')}"
        found = {row[1]: row[2] for row in connection.execute(sql, {"c0": pcid}).fetchall()}
        scores.setdefault(pcid, {})[kcid] = logprior + found[kcid]
    assert same(chain(scores), by_page(bulk_probe(connection))[0])
    assert len(model.nodes) == 3


def test_pages_can_be_chosen(connection: duckdb.DuckDBPyConnection) -> None:
    """Some pages, all pages, and a page that has no terms; each page once, in order."""
    model = FLAT.train()
    fill(connection, [[7], [11, 900], [], [902]], model.hierarchy)
    write_model(connection, model.tables())
    every = bulk_probe(connection)
    assert sorted(by_page(every)) == [0, 1, 3]
    assert every["did"].to_pylist() == sorted(every["did"].to_pylist())
    some = by_page(bulk_probe(connection, [3, 1, 3]))
    assert sorted(some) == [1, 3]
    assert all(same(some[did], by_page(every)[did]) for did in some)
    assert bulk_relevance(connection, [2]).to_pylist() == [{"did": 2, "relevance": 0.0}]
    assert bulk_relevance(connection).num_rows == 3
    assert bulk_probe(connection, []).num_rows == 0


def test_a_page_without_known_words_has_no_relevance(connection: duckdb.DuckDBPyConnection) -> None:
    """As in memory, priors alone make nothing relevant, though its probabilities are those of the priors."""
    model = FLAT.train()
    fill(connection, [[UNKNOWN, 6_000_000]], model.hierarchy)
    write_model(connection, model.tables())
    assert bulk_relevance(connection)["relevance"].to_pylist() == [0.0]
    assert math.exp(by_page(bulk_probe(connection))[0][1]) == pytest.approx(0.5)


def test_marks_are_asked_of_the_table(connection: duckdb.DuckDBPyConnection) -> None:
    """What the user marks good in SQL counts at once; a good topic below a good one does not count twice."""
    model = DEEP.train()
    fill(connection, [[7, 11, 900]], model.hierarchy)
    write_model(connection, model.tables())

    def relevance() -> float:
        return float(bulk_relevance(connection)["relevance"][0].as_py())

    logpr = by_page(bulk_probe(connection))[0]
    assert relevance() == pytest.approx(math.exp(logpr[5]))
    connection.execute("UPDATE topics SET type = 'good' WHERE kcid IN (2, 6)")
    assert relevance() == pytest.approx(math.exp(logpr[5]) + math.exp(logpr[6]) + math.exp(logpr[2]))
    connection.execute("UPDATE topics SET type = 'good' WHERE kcid = 1")
    assert relevance() == pytest.approx(math.exp(logpr[1]) + math.exp(logpr[2]))
    connection.execute("UPDATE topics SET type = 'null'")
    assert relevance() == 0.0
    connection.execute("UPDATE topics SET type = 'good' WHERE kcid = 0")
    assert relevance() == pytest.approx(math.exp(logpr[1]) + math.exp(logpr[2]))


def test_a_model_replaces_the_one_before(connection: duckdb.DuckDBPyConnection) -> None:
    """Nothing of an older model is left, and `blob` holds what `stat` holds."""
    for world in (DEEP, FLAT):
        write_model(connection, world.train().tables())
    assert connection.execute("SELECT DISTINCT pcid FROM taxonomy_stat").fetchall() == [(0,)]
    stat = connection.execute("SELECT pcid, kcid, tid, logtheta FROM stat ORDER BY ALL").fetchall()
    unnested = "SELECT pcid, s.kcid, tid, s.logtheta FROM (SELECT pcid, tid, unnest(stat) AS s FROM blob) ORDER BY ALL"
    assert connection.execute(unnested).fetchall() == stat
    assert len(stat) == sum(len(node.known()[0]) for node in FLAT.train().nodes.values())


def test_no_model_is_said(connection: duckdb.DuckDBPyConnection) -> None:
    """Without a model in the tables there is an error of ours, and a next step."""
    connection.execute("DELETE FROM taxonomy_stat")
    for ask in (bulk_probe, bulk_relevance, lambda made: single_probe(made, 0)):
        with pytest.raises(QueryError, match="no Bayes tree"):
            ask(connection)


def test_probes_run_in_a_closed_read_only_snapshot(tmp_path: Path) -> None:
    """They work as `Store` runs queries: files, extensions and settings locked, in a transaction that only reads."""
    model = BayesTree.from_bytes(DEEP.train().to_bytes())
    made = connect(tmp_path / "collection.duckdb", memory_bytes=2**28, read_only=False)
    schema.create(made, schema.migrations())
    fill(made, [[7, 11], [902]], model.hierarchy)
    made.execute("BEGIN")
    write_model(made, model.tables())
    made.execute("COMMIT")
    reader = made.cursor()
    reader.execute("BEGIN TRANSACTION READ ONLY")
    assert same(by_page(bulk_probe(reader))[0], single_probe(reader, 0))
    assert bulk_relevance(reader, [0, 1]).num_rows == 2
    reader.execute("ROLLBACK")
    made.close()


def test_stored_pages_are_judged_the_same_in_the_database(crawled_taught: Path, tmp_path: Path) -> None:
    """All pages of a crawl: topic, relevance and confidence by BulkProbe are those of the tree in memory."""
    shutil.copytree(crawled_taught, tmp_path / "c")
    collection = Collection(tmp_path / "c")
    sql = """
        SELECT oid, last(kcid ORDER BY rowid), last(accepted ORDER BY rowid), last(relevance ORDER BY rowid),
               last(confidence ORDER BY rowid), last(agreed ORDER BY rowid) FROM judgements GROUP BY oid ORDER BY oid
    """
    found = {}
    for in_database in (False, True):
        collection.sql("UPDATE pages SET relevance = 0.25", write=True)
        collection.sql("DELETE FROM judgements", write=True)
        report = collection.classify(in_database=in_database)
        assert report["pages"] == collection.sql("SELECT count(*) FROM pages").rows[0][0] > 100
        assert report["relevant_before"] == 0 < report["relevant_after"]
        found[in_database] = collection.sql(sql).rows
        shown = collection.sql("SELECT p.oid, p.relevance FROM pages p ORDER BY p.oid").rows
        assert shown == [(row[0], row[3]) for row in found[in_database]]
    assert len(found[True]) == len(found[False]) > 100
    for one, other in zip(found[False], found[True], strict=True):
        assert other[:3] == one[:3] and other[5] == one[5]
        assert other[3:5] == pytest.approx(one[3:5], rel=1e-6, abs=1e-6)


def test_single_probe_judges_a_stored_page_as_in_memory(crawled_taught: Path, tmp_path: Path) -> None:
    """One page by SingleProbe: the judgement of memory; by its text if terms are missing; errors name what is wrong."""
    shutil.copytree(crawled_taught, tmp_path / "c")
    collection = Collection(tmp_path / "c")
    urls = [url for (url,) in collection.sql("SELECT url FROM collection ORDER BY oid LIMIT 12").rows]
    for url in urls:
        one, other = (collection.classify_page(url, in_database=way)["judgement"] for way in (False, True))
        assert one.pop("votes").keys() == other.pop("votes").keys()
        for name in ("relevance", "confidence"):
            assert one.pop(name) == pytest.approx(other.pop(name), rel=1e-6)
        assert one == other
    before = collection.classify_page(urls[0], in_database=False)
    collection.sql("DELETE FROM blob", write=True)
    assert collection.classify_page(urls[0], in_database=True) != before  # it is the database that judges
    collection.sql("DELETE FROM terms", write=True)
    assert collection.classify_page(urls[0], in_database=True) == before
    with pytest.raises(InputError, match="not a page of this collection"):
        collection.classify_page("http://nowhere.test/", in_database=True)


def test_pages_with_terms_left_out_are_judged_by_their_text(crawled_taught: Path, tmp_path: Path) -> None:
    """A page of which the database has no terms, or not all, gets the judgement that it has in memory."""
    shutil.copytree(crawled_taught, tmp_path / "c")
    collection = Collection(tmp_path / "c")
    collection.classify(in_database=False)
    before = collection.sql("SELECT oid, relevance FROM pages ORDER BY oid").rows
    collection.sql("DELETE FROM terms WHERE oid % 2 = 0", write=True)
    collection.sql("UPDATE terms SET freq = 65535 WHERE oid % 3 = 0", write=True)
    collection.classify(in_database=True)
    after = collection.sql("SELECT oid, relevance FROM pages ORDER BY oid").rows
    assert [pytest.approx(one, abs=1e-6) for one in before] == after


def test_only_a_bayes_tree_judges_in_the_database(crawled_taught: Path, tmp_path: Path) -> None:
    """Another classifier is refused, with what to do; without a model, too."""
    shutil.copytree(crawled_taught, tmp_path / "c")
    collection = Collection(tmp_path / "c")
    collection.change_settings({"classify.classifier": "oasis"})
    collection.train(rejudge=False)
    with pytest.raises(InputError, match="of the classifier oasis") as caught:
        collection.classify(in_database=True)
    assert "bayes" in caught.value.hint
    collection.sql("DELETE FROM models", write=True)
    with pytest.raises(InputError, match="no model yet"):
        collection.classify()
