"""Clusters of a topic's pages, to be offered as subtopics (BINGO 3.6).

Pages are vectors of tf*idf weights with the idf of the whole collection, of length 1; clusters come of k-means over a
sample of them, and every page of the topic belongs to the cluster whose centre points most nearly its way. Only terms
that at least a few pages have and not most of them count: a word that stands everywhere in a topic divides nothing.

The number of clusters is given, or that of the least impurity (`impurity_bits`): how many bits it takes to tell, page
by page, which terms it has, when its cluster is known, and what telling the clusters costs. Without the second part the
most clusters would always be the purest.

Clusters become subtopics: one topic each, learned from its most central pages (BINGO 3.6).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opilio.analyze.terms import Vocabulary, tokenize
from opilio.errors import InputError
from opilio.learn.feedback import take
from opilio.learn.training_data import apply
from opilio.store import Store
from opilio.topics import add_topic, find_topic, hierarchy_of
from opilio.topics.hierarchy import ROOT

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]
    Labels = npt.NDArray[np.int64]

SAMPLE_PAGES = 5000
"""k-means sees so many pages of a topic; the others are given to the nearest centre."""
MAX_TERMS = 3000
MIN_TERM_PAGES, MAX_TERM_SHARE = 3, 0.5
K_MAX = 10
STARTS, SEED = 4, 7
CENTRAL_PAGES, LABEL_TERMS, NAME_WORDS = 10, 8, 3
_COUNTED_PAGES = 100_000
"""Document frequencies are counted in at most so many pages, spread evenly."""
_MAX_ROWS = 2**24

_OIDS = """
    SELECT oid FROM pages WHERE kcid IN (SELECT unnest($1::SMALLINT[])) AND relevance >= 0.5
    ORDER BY hash(oid), oid LIMIT $2
"""
_COUNT = "SELECT count(*) FROM pages WHERE kcid IN (SELECT unnest($1::SMALLINT[])) AND relevance >= 0.5"
_TERMS = "SELECT oid, tid, freq FROM terms WHERE oid IN (SELECT unnest($1::BIGINT[])) ORDER BY oid, tid"
_FREQUENCIES = """
    SELECT tid, count(*) FROM terms WHERE oid % $2 = 0 AND tid IN (SELECT unnest($1::UINTEGER[])) GROUP BY tid
"""
_STEMS = "SELECT tid, min(term) FROM lexicon WHERE tid IN (SELECT unnest($1::UINTEGER[])) GROUP BY tid"
_PAGES = """
    SELECT p.oid, c.url, coalesce(p.title, ''), coalesce(p.language, ''),
           left(coalesce(nullif(p.main_text, ''), p.text, ''), 5000)
    FROM pages p JOIN crawl c USING (oid) WHERE p.oid IN (SELECT unnest($1::BIGINT[]))
"""
_EXAMPLES = """
    SELECT c.oid, t.name FROM training t JOIN crawl c ON c.url = t.name
    WHERE t.kcid = $1 AND t.positive AND t.kind = 'url'
"""


class Sample(NamedTuple):
    """Pages as vectors of length 1."""

    oids: list[int]
    tids: npt.NDArray[np.uint32]
    """The terms, one for each column."""
    idf: Numbers
    rows: Any
    """A sparse matrix."""


class Fit(NamedTuple):
    """What k-means made of a sample."""

    labels: Labels
    centres: Numbers
    """Of length 1, a row for each cluster."""


def find_clusters(store: Store, topic: str, k: int = 0, k_max: int = K_MAX) -> dict[str, Any]:
    """The clusters of the pages of a topic and of all below it, the largest first; `k` 0 chooses their number."""
    records = store.load_topics()
    record = find_topic(records, topic)
    kcids = sorted(hierarchy_of(records).below(record.kcid))
    [[pages]] = store.query(_COUNT, [kcids]).rows
    _check(topic, pages, k, k_max)
    sample = _sample(store, [oid for (oid,) in store.query(_OIDS, [kcids, SAMPLE_PAGES], max_rows=SAMPLE_PAGES).rows])
    most = min(k_max, sample.rows.shape[0] // 2)
    if sample.rows.shape[1] < 2 or most < max(2, k):
        raise InputError(f"the pages of {topic!r} have too few words in common", "Crawl on, or look at another topic.")
    tried = {size: fit(sample.rows, size) for size in ([k] if k else range(2, most + 1))}
    bits = {size: impurity_bits(sample.rows, found.labels, size) for size, found in tried.items()}
    chosen = min(bits, key=lambda size: bits[size])
    members = _assign(store, sample, tried[chosen].centres, kcids)
    return {
        "topic": record.path or record.name, "pages": pages, "k": chosen, "chosen": not k, "k_max": most,
        "sampled": len(sample.oids), "bits_by_k": {str(size): round(float(found), 2) for size, found in bits.items()},
        "left_out": pages - sum(len(found.oids) for found in members),
        "clusters": _told(store, sample, tried[chosen].centres, members, record.kcid),
    }  # fmt: skip


def _check(topic: str, pages: int, k: int, k_max: int) -> None:
    if not (k == 0 or 2 <= k <= k_max):
        raise InputError(f"{k} clusters cannot be made", f"Give a number from 2 to {k_max}, or 0 to have one chosen.")
    if pages < max(4, 2 * k):
        raise InputError(f"{topic!r} has {pages} relevant pages", "Too few to find clusters in: crawl on.")


def fit(rows: Any, k: int) -> Fit:
    """k-means; the same for the same pages."""
    from sklearn.cluster import KMeans  # noqa: PLC0415

    means = KMeans(k, n_init=STARTS, random_state=SEED, max_iter=50).fit(rows)
    centres = np.asarray(means.cluster_centers_, np.float64)
    lengths = np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
    return Fit(np.asarray(means.labels_, np.int64), centres / lengths)


def impurity_bits(rows: Any, labels: Labels, k: int) -> float:
    """Bits for each page to tell which terms it has: the entropy of each term in each cluster, and the clusters' cost.

    A term that m of the n pages of a cluster have takes n times the entropy of m/n; m itself takes log2(n + 1). Which
    cluster a page is of takes the entropy of the sizes. So another cluster must save more than it costs.
    """
    present = rows.copy()
    present.data[:] = 1.0
    total, sizes = 0.0, np.bincount(labels, minlength=k).astype(np.float64)
    for cluster, pages in enumerate(sizes):
        if pages:
            counts = np.asarray(present[labels == cluster].sum(axis=0)).ravel()
            total += pages * float(_entropy(counts / pages).sum()) + len(counts) * float(np.log2(pages + 1))
            total -= pages * float(np.log2(pages / len(labels)))
    return total / len(labels)


def _entropy(share: Numbers) -> Numbers:
    inside = np.clip(share, 1e-12, 1 - 1e-12)
    return np.asarray(-(inside * np.log2(inside) + (1 - inside) * np.log2(1 - inside)), np.float64)


def _sample(store: Store, oids: list[int]) -> Sample:
    from scipy import sparse  # noqa: PLC0415

    found = [piece for piece in store.stream(_TERMS, [oids]) if piece.num_rows]
    columns = [np.concatenate([piece.column(n).to_numpy() for piece in found]) if found else np.zeros(0, np.int64)
               for n in range(3)]  # fmt: skip
    tids, column, pages_with = np.unique(columns[1], return_inverse=True, return_counts=True)
    may = (pages_with >= MIN_TERM_PAGES) & (pages_with <= max(MIN_TERM_PAGES, MAX_TERM_SHARE * len(oids)))
    idf = _idf(store, tids[may])
    weight = np.zeros(len(tids))
    weight[may] = idf
    values = (1.0 + np.log(np.maximum(columns[2], 1))) * weight[column]
    strength = np.bincount(column, values, minlength=len(tids))
    kept = np.sort(np.argsort(-strength, kind="stable")[:MAX_TERMS])
    kept = kept[may[kept]]
    place = np.full(len(tids), -1)
    place[kept] = np.arange(len(kept))
    known, row = np.unique(columns[0], return_inverse=True)
    inside = place[column] >= 0
    matrix = sparse.csr_matrix(
        (values[inside], (row[inside], place[column][inside])), shape=(len(known), len(kept)), dtype=np.float64
    )
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    filled = lengths > 0
    rows = sparse.diags(1.0 / lengths[filled]) @ matrix[filled]
    return Sample(known[filled].tolist(), tids[kept].astype(np.uint32), weight[kept], rows.tocsr())


def _idf(store: Store, tids: npt.NDArray[Any]) -> Numbers:
    pages = store.count_rows("pages")
    step = max(1, -(-pages // _COUNTED_PAGES))
    counted = dict(store.query(_FREQUENCIES, [tids.tolist(), step], max_rows=_MAX_ROWS).rows)
    frequency = np.array([counted.get(tid, 1) for tid in tids.tolist()], np.float64)
    return np.asarray(np.log(1.0 + (pages / step) / np.maximum(frequency, 1.0)), np.float64)


class Members(NamedTuple):
    """The pages of a cluster, the most central first."""

    oids: list[int]
    cosines: list[float]


def _assign(store: Store, sample: Sample, centres: Numbers, kcids: list[int]) -> list[Members]:
    """Give every page of the topic to the centre that it is most alike; the database multiplies."""
    k = len(centres)
    names = [f"w{n}" for n in range(k)]
    words = ", ".join(f"unnest(${n + 3}::DOUBLE[]) AS {name}" for n, name in enumerate(("idf", *names)))
    sums = ", ".join(f"sum((1 + ln(t.freq)) * w.idf * w.{name})" for name in names)
    sql = f"""
        WITH w AS (SELECT unnest($2::UINTEGER[]) AS tid, {words}),
        mine AS (SELECT oid FROM pages WHERE kcid IN (SELECT unnest($1::SMALLINT[])) AND relevance >= 0.5)
        SELECT t.oid, sqrt(sum(((1 + ln(t.freq)) * w.idf) ** 2)) AS length, {sums}
        FROM terms t JOIN w USING (tid) WHERE t.oid IN (SELECT oid FROM mine) GROUP BY t.oid ORDER BY t.oid
    """
    given = [kcids, sample.tids.tolist(), sample.idf.tolist(), *(row.tolist() for row in centres)]
    found = [piece for piece in store.stream(sql, given) if piece.num_rows]
    table = np.concatenate([np.column_stack([c.to_numpy() for c in piece.columns[1:]]) for piece in found])
    oids = np.concatenate([piece.column(0).to_numpy() for piece in found])
    cosines = table[:, 1:] / np.maximum(table[:, :1], 1e-12)
    nearest = np.argmax(cosines, axis=1)
    members = []
    for cluster in range(k):
        mine = np.flatnonzero(nearest == cluster)
        order = mine[np.argsort(-cosines[mine, cluster], kind="stable")]
        members.append(Members(oids[order].tolist(), cosines[order, cluster].tolist()))
    return members


def _told(store: Store, sample: Sample, centres: Numbers, members: list[Members], kcid: int) -> list[dict[str, Any]]:
    """The clusters as a user reads them."""
    others = [np.max(np.delete(centres, n, axis=0), axis=0) for n in range(len(centres))]
    best = [
        np.argsort(-(centre - other), kind="stable")[:LABEL_TERMS]
        for centre, other in zip(centres, others, strict=True)
    ]
    central = [found.oids[:CENTRAL_PAGES] for found in members]
    chosen = sorted({oid for oids in central for oid in oids})
    pages = {row[0]: row[1:] for row in store.query(_PAGES, [chosen], max_rows=_MAX_ROWS).rows}
    tids = sorted({int(sample.tids[n]) for columns in best for n in columns})
    words = dict(store.query(_STEMS, [tids], max_rows=_MAX_ROWS).rows) | _words([p[2:] for p in pages.values()], tids)
    examples = dict(store.query(_EXAMPLES, [kcid], max_rows=_MAX_ROWS).rows)
    told = []
    for columns, found, oids in zip(best, members, central, strict=True):
        if not found.oids:
            continue
        terms = [words[int(sample.tids[n])] for n in columns if int(sample.tids[n]) in words]
        told.append(
            {
                "name": ", ".join(terms[:NAME_WORDS]) or "unnamed", "terms": terms, "pages": len(found.oids),
                "homogeneity": round(float(np.mean(found.cosines)), 4),
                "central": [
                    {"url": pages[oid][0], "title": pages[oid][1], "cosine": round(cosine, 4)}
                    for oid, cosine in zip(oids, found.cosines, strict=False) if oid in pages
                ],
                "examples": [examples[oid] for oid in found.oids if oid in examples],
            }
        )  # fmt: skip
    return sorted(told, key=lambda cluster: -cluster["pages"])


def _words(texts: Sequence[tuple[str, str]], tids: list[int]) -> dict[int, str]:
    """For each stem the word that the pages write most often."""
    wanted, vocabulary = set(tids), Vocabulary()
    counted: dict[int, Counter[str]] = {}
    for language, text in texts:
        words = tokenize(text)
        numbers = (vocabulary.numbers(words, language) & 0xFFFFFFFF).tolist() if words else []
        for word, tid in zip(words, numbers, strict=True):
            if tid in wanted:
                counted.setdefault(tid, Counter())[word.decode("utf-8", "replace")] += 1
    return {tid: min(counts, key=lambda word: (-counts[word], word)) for tid, counts in counted.items()}


_OID = "SELECT p.oid FROM crawl c JOIN pages p USING (oid) WHERE c.url = $1"
_FREE = "SELECT 1 + greatest(coalesce(max(kcid), 0), (SELECT coalesce(max(kcid), 0) FROM judgements)) FROM topics"


def split_topic(store: Store, topic: str, clusters: Sequence[Mapping[str, Any]]) -> list[str]:
    """Make a subtopic of each cluster; returns their paths.

    A cluster has a `name` and `central` pages, as `find_clusters` tells them, and may have `examples`: documents of the
    topic that are in it and become the subtopic's. Below a good topic all are wanted as it is. When the topic is the
    root of a collection without other topics, they are good in its place.
    """
    records = store.load_topics()
    above = find_topic(records, topic)
    names = [" ".join(str(cluster.get("name", "")).split()) for cluster in clusters]
    if len(set(map(str.casefold, names))) < len(names) or not all(names) or not names:
        raise InputError("each subtopic needs a name of its own", "Give every cluster that you choose another name.")
    is_alone = above.kcid == ROOT and len(records) == 1
    [[free]] = store.query(_FREE).rows
    changes, made = [], []
    for name in names:  # all are checked before anything is written
        known = {record.kcid for record in records}
        change = add_topic(records, above.path, name, good=is_alone, first_kcid=free)
        records = change.applied_to(records)
        changes.append(change)
        made += [record for record in change.changed if record.kcid not in known]
    for change in changes:
        apply(store, change)
    hierarchy = hierarchy_of(records)
    for subtopic, cluster in zip(made, clusters, strict=True):
        for url in dict.fromkeys([*(page["url"] for page in cluster.get("central", ())), *cluster.get("examples", ())]):
            rows = store.query(_OID, [url]).rows
            if rows:
                take(store, hierarchy, subtopic.kcid, url, rows[0][0])
    return [subtopic.path for subtopic in made]
