"""Join the databases of several collections into a new one: what is the same becomes one row, and nothing is lost.

URLs are the same by their keys, hosts by their names. Of several states of a URL the strongest counts: fetched, failed,
waiting, dropped, in this order, and `elsewhere` only if no source knows more; among equals the latest. Of a page that
several have, the one visited last counts, with its links and terms; all visits and judgements stay. The rows are moved
by SQL, table by table (`rules.py`); `merge.py` has decided before how topics and models are numbered, and which WARC
files are renamed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import pyarrow as pa

from opilio.model import RELEVANT
from opilio.parts.building import Scratch, example_texts, keep_measured
from opilio.parts.divide import StepProgress
from opilio.parts.rules import ELSEWHERE, RULES
from opilio.topics import TopicRecord


@dataclass(frozen=True)
class SourceCollection:
    """A collection that is to be joined, and the numbers that its rows get."""

    folder: Path
    kcids: Mapping[int, int]
    """For every topic number in its rows, OTHERS included."""
    versions: Mapping[int, int]
    """For every model version in its rows."""
    warcs: Mapping[str, str] = field(default_factory=dict)
    """WARC files that are renamed."""
    keeps_models: bool = True
    gives_model: bool = False
    """Whether the tables of the newest model come from it."""


class KnownModel(NamedTuple):
    """What distinguishes a model from others."""

    version: int
    created: datetime
    classifier: str
    digest: str


@dataclass(frozen=True)
class Carried:
    """The numbers that the rows of a collection carry, and what they stand for."""

    topics: list[TopicRecord]
    kcids: frozenset[int]
    models: list[KnownModel]
    versions: frozenset[int]
    name: str = ""
    """Of its folder."""
    tells_root: bool = False
    """Whether its root has keywords or examples, as in a collection that was made from a question."""


_TOPICS = """
    SELECT kcid, pcid, name, path, type, coalesce(keywords, []), coalesce(description, '') FROM source.topics
    ORDER BY kcid
"""
_MODELS = "SELECT version, created, classifier, md5(model) FROM source.models ORDER BY version"
_KCIDS = """
    SELECT topic FROM source.crawl UNION SELECT kcid FROM source.pages UNION SELECT kcid FROM source.judgements
    UNION SELECT kcid FROM source.topics UNION SELECT kcid FROM source.seeds UNION SELECT kcid FROM source.training
    UNION SELECT kcid FROM source.lessons UNION SELECT kcid FROM source.reviews UNION SELECT kcid FROM source.questions
    UNION SELECT kcid FROM source.labels
    UNION SELECT kcid FROM source.link_scores UNION SELECT kcid FROM source.notices
    UNION SELECT kcid FROM source.review_decisions
"""
_VERSIONS = """
    SELECT model_version FROM source.pages UNION SELECT model_version FROM source.judgements
    UNION SELECT version FROM source.models
"""
_TELLS_ROOT = """
    SELECT count(*) > 0 FROM (
        SELECT kcid FROM source.topics WHERE pcid IS NULL AND len(keywords) > 0
        UNION ALL SELECT t.kcid FROM source.training t JOIN source.topics r ON r.kcid = t.kcid WHERE r.pcid IS NULL)
"""
_TABLES = """
    CREATE TABLE seen (
        key UBIGINT, source INTEGER, oid BIGINT, sid INTEGER, rank INTEGER, lastvisited TIMESTAMP, found TIMESTAMP);
    CREATE TABLE seen_hosts (host VARCHAR, source INTEGER, sid INTEGER);
    CREATE TABLE seen_pages (new BIGINT, source INTEGER, visited TIMESTAMP);
    CREATE TABLE last_lessons (kcid SMALLINT, name VARCHAR, taught TIMESTAMP, has_it BOOLEAN);
    CREATE TABLE had_counters (name VARCHAR, n HUGEINT);
    CREATE TABLE had_hosts (sid INTEGER, pages HUGEINT, bytes HUGEINT, requests HUGEINT)
"""
_SEE_URLS = f"""
    INSERT INTO seen
    SELECT key, $1, oid, sid,
           CASE WHEN outcome = '{ELSEWHERE}' THEN 0
                ELSE list_position(['dropped', 'waiting', 'failed', 'fetched'], state::VARCHAR) END,
           lastvisited, found
    FROM source.crawl
"""
_SEE_HOSTS = "INSERT INTO seen_hosts SELECT host, $1, sid FROM source.hosts"
_URLS = """
    CREATE TABLE urls AS
    SELECT key, arg_max(source, (rank, coalesce(epoch_us(lastvisited), 0), -source)) AS giver, max(rank) = 0 AS absent,
           count(*) FILTER (rank > 0) > 1 AS shared
    FROM seen GROUP BY key ORDER BY min(found) NULLS LAST, min((source, oid))
"""
_HOSTS = "CREATE TABLE hosts AS SELECT host FROM seen_hosts GROUP BY host ORDER BY min((source, sid))"
_SEE_PAGES = """
    INSERT INTO seen_pages
    SELECT u.rowid, $1, p.visited
    FROM source.pages p JOIN seen m ON m.oid = p.oid JOIN urls u ON u.key = m.key WHERE m.source = $1 AND u.shared
"""
_PAGE_GIVERS = """
    CREATE TABLE page_givers AS
    SELECT new, arg_max(source, (epoch_us(visited), -source)) AS source FROM seen_pages GROUP BY new
"""
_SOURCE_HOSTS = """
    CREATE OR REPLACE TABLE source_hosts AS
    SELECT m.sid AS old, h.rowid::INTEGER AS new FROM seen_hosts m JOIN hosts h ON h.host = m.host WHERE m.source = $1
"""
_NUMBERS = """
    CREATE OR REPLACE TABLE numbers AS
    SELECT m.oid AS old, u.rowid AS new, h.new AS sid, u.giver = $1 AS gives,
           NOT u.absent AND coalesce(p.source, u.giver) = $1 AS gives_page, u.shared, u.absent
    FROM seen m JOIN urls u ON u.key = m.key JOIN source_hosts h ON h.old = m.sid
    LEFT JOIN page_givers p ON p.new = u.rowid
    WHERE m.source = $1 ORDER BY m.oid
"""
# What sources that share pages have counted twice is subtracted again.
_COUNTED = f"""
    SELECT m.name, n.n FROM measured m JOIN (
        SELECT 'pages' AS measure, count(*) AS n FROM {{0}}.pages
        UNION ALL SELECT 'relevant', count(*) FROM {{0}}.pages WHERE relevance >= {RELEVANT}
        UNION ALL SELECT 'requests', count(*) FROM {{0}}.visits
        UNION ALL SELECT 'bytes', coalesce(sum(received_bytes), 0) FROM {{0}}.visits
    ) n USING (measure)
    UNION ALL
    SELECT 'outcome:' || outcome, count(*) FROM {{1}} WHERE state <> 'waiting' AND outcome <> '{ELSEWHERE}' GROUP BY 1
"""
_COUNTED_BY_HOST = """
    SELECT c.sid, count(*) AS pages, 0 AS bytes, 0 AS requests FROM {0}.pages p JOIN {1} c ON c.oid = p.oid GROUP BY 1
    UNION ALL
    SELECT c.sid, 0, sum(coalesce(v.received_bytes, 0)), count(*)
    FROM {0}.visits v JOIN {1} c ON c.oid = v.oid GROUP BY 1
    UNION ALL
    SELECT -1 - oid, 0, 0, count(*) FROM {0}.visits WHERE kind = 'host' GROUP BY 1
"""
_COUNT = f"""
    INSERT INTO had_counters {_COUNTED.format("source", "source.crawl")};
    INSERT INTO had_hosts SELECT h.new, c.pages, c.bytes, c.requests
    FROM ({_COUNTED_BY_HOST.format("source", "source.crawl")}) c JOIN source_hosts h ON h.old = c.sid
"""
_COUNT_JOINED = f"""
    INSERT INTO had_counters SELECT name, -n FROM ({_COUNTED.format("joined", "staged_crawl")});
    INSERT INTO had_hosts SELECT sid, -pages, -bytes, -requests
    FROM ({_COUNTED_BY_HOST.format("joined", "staged_crawl")})
"""
_EXCESS = """
    CREATE TABLE excess AS SELECT name, sum(n)::BIGINT AS n FROM had_counters GROUP BY name;
    CREATE TABLE host_excess AS
    SELECT sid, sum(pages)::BIGINT AS pages, sum(bytes)::BIGINT AS bytes, sum(requests)::BIGINT AS requests
    FROM had_hosts GROUP BY sid
"""
# Where the page of an example is stored, the copy of its text that dividing made is not needed.
_DROP_COPIES = f"""
    UPDATE joined.training SET text = NULL FROM ({example_texts("joined")}) e
    WHERE training.kind = 'url' AND e.name = training.name AND training.text = e.text
"""


class Joining:
    """Collections that are about to be joined: attached, so that no crawl starts in them. A context manager."""

    def __init__(self, folders: Sequence[Path], scratch: Scratch) -> None:
        self._folders = folders
        self._scratch = scratch
        self._attached = ExitStack()

    def __enter__(self) -> Joining:
        with self._attached as stack:
            for number, folder in enumerate(self._folders):
                stack.enter_context(self._scratch.reading(folder, f"source_{number}"))
            self._attached = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._attached.close()

    def carried(self, number: int) -> Carried:
        """What the numbers in one of them stand for."""
        return Carried(
            [TopicRecord(*row) for row in self._run(number, _TOPICS)],
            frozenset(kcid for (kcid,) in self._run(number, _KCIDS) if kcid is not None),
            [KnownModel(*row) for row in self._run(number, _MODELS)],
            frozenset(version for (version,) in self._run(number, _VERSIONS) if version is not None),
            self._folders[number].absolute().name,
            self._run(number, _TELLS_ROOT) == [(True,)],
        )

    def join(
        self,
        target: Path,
        sources: Sequence[SourceCollection],
        topics: Sequence[TopicRecord],
        measured: Mapping[str, str],
        on_progress: StepProgress,
    ) -> None:
        """Make the database of the new collection in `target`."""
        steps = 1 + len(sources) * len(RULES) + 1
        scratch = self._scratch
        on_progress("numbering", 0, steps)
        is_shared = self._number(len(sources), measured)
        with scratch.making(target, "joined"):
            _write_topics(scratch, topics)
            for table, rule in RULES.items():
                if rule.staged:
                    scratch.run(
                        f"CREATE TABLE staged_{table} AS SELECT *, 0::BIGINT AS place FROM joined.{table} LIMIT 0"
                    )
            for number, source in enumerate(sources):
                self._choose(number, source)
                for place, (table, rule) in enumerate(RULES.items()):
                    on_progress(f"{source.folder.name}: {table}", 1 + number * len(RULES) + place, steps)
                    if rule.join:
                        self._run(number, rule.join)
                if is_shared:
                    self._run(number, _COUNT)
            if is_shared:
                scratch.run(_COUNT_JOINED)
            scratch.run(_EXCESS)
            for rule in RULES.values():
                if rule.finish:
                    scratch.run(rule.finish)
            scratch.run(_DROP_COPIES)
            on_progress("done", steps, steps)

    def _number(self, count: int, measured: Mapping[str, str]) -> bool:
        """Give all URLs and hosts their new numbers; whether two collections have a URL in common."""
        scratch = self._scratch
        scratch.run(_TABLES)
        keep_measured(scratch, measured)
        for number in range(count):
            self._run(number, _SEE_URLS, number)
            self._run(number, _SEE_HOSTS, number)
        scratch.run(_URLS)
        scratch.run(_HOSTS)
        is_shared = scratch.run("SELECT count(*) > 0 FROM urls WHERE shared") == [(True,)]
        if is_shared:
            for number in range(count):
                self._run(number, _SEE_PAGES, number)
        scratch.run(_PAGE_GIVERS)
        return is_shared

    def _choose(self, number: int, source: SourceCollection) -> None:
        """Make the tables about one source."""
        scratch = self._scratch
        scratch.run(_SOURCE_HOSTS, number)
        scratch.run(_NUMBERS, number)
        _keep_map(scratch, "kcids", source.kcids, pa.int16())
        _keep_map(scratch, "versions", source.versions, pa.int32())
        _keep_map(scratch, "warcs", source.warcs, pa.string())
        scratch.run(
            f"CREATE OR REPLACE TABLE here AS SELECT {number}::BIGINT AS source, "
            f"{source.keeps_models} AS keeps_models, {source.gives_model} AS gives_model"
        )

    def _run(self, number: int, statements: str, *values: object) -> list[tuple[Any, ...]]:
        """Execute SQL in which `source` stands for one of the collections."""
        return self._scratch.run(statements.replace("source.", f"source_{number}."), *values)


def _keep_map(scratch: Scratch, name: str, numbers: Mapping[Any, Any], kind: pa.DataType) -> None:
    scratch.keep(name, {"old": pa.array(list(numbers), kind), "new": pa.array(list(numbers.values()), kind)})


def _write_topics(scratch: Scratch, topics: Sequence[TopicRecord]) -> None:
    fields = ("kcid", "pcid", "name", "path", "type", "keywords", "description")
    kinds = (pa.int16(), pa.int16(), pa.string(), pa.string(), pa.string(), pa.list_(pa.string()), pa.string())
    columns = zip(fields, kinds, strict=True)
    scratch.keep("new_topics", {name: pa.array([getattr(t, name) for t in topics], kind) for name, kind in columns})
    scratch.run("INSERT INTO joined.topics BY NAME SELECT * FROM new_topics")
