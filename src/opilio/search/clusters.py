"""Clusters of a topic's pages, to be offered as subtopics (BINGO 3.6).

Pages are vectors of tf*idf weights with the idf of the whole collection, of length 1; clusters come of k-means over a
sample of them, and every page of the topic belongs to the cluster whose centre it has the greatest cosine with. Only
terms that at least a few pages have and not most of them count: a word that is everywhere in a topic divides nothing.

The number of clusters is given, or the one of the least impurity (`impurity_bits`): how many bits it takes to say, page
by page, which terms it has, when its cluster is known, and what saying the clusters costs. Without the second part the
most clusters would always be the purest.

A cluster becomes a subtopic (`split_topic`) that is learned from the cluster's most central pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opilio.analyze.terms import FUNCTION_WORDS
from opilio.errors import InputError
from opilio.learn.feedback import make_example
from opilio.learn.training_data import apply
from opilio.store import Store
from opilio.store.pages import oid_of, relevant_of, short_texts
from opilio.store.terms import cosines, document_frequencies_of, term_columns, whole_words
from opilio.store.topics import next_kcid
from opilio.store.training import example_pages
from opilio.topics import add_topic, find_topic, hierarchy_of
from opilio.topics.hierarchy import ROOT

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]
    Labels = npt.NDArray[np.int64]

SAMPLE_PAGES = 5000
"""k-means sees this many pages of a topic; the others are given to the nearest centre."""
MAX_TERMS = 3000
MIN_TERM_PAGES, MAX_TERM_SHARE = 3, 0.5
K_MAX = 10
STARTS, SEED = 4, 7
CENTRAL_PAGES, LABEL_TERMS, NAME_WORDS = 10, 8, 3
_READ_CHARS = 5000
"""Of a text, for the spelling of labels."""


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


def find_clusters(
    store: Store, topic: str, k: int = 0, k_max: int = K_MAX, among: Sequence[int] | None = None
) -> dict[str, Any]:
    """The clusters of the relevant pages of a topic and of all below it, the largest first; `k` 0 chooses their number.

    `among` names the pages by their oids instead, such as the results of a search.
    """
    records = store.load_topics()
    record = find_topic(records, topic)
    oids = relevant_of(store, sorted(hierarchy_of(records).below(record.kcid))) if among is None else list(among)
    pages, name = len(oids), record.path or record.name
    _check(f"{name!r} has {pages} relevant pages" if among is None else f"{pages} pages were found", pages, k, k_max)
    sample = _sample(store, oids[:SAMPLE_PAGES])
    most = min(k_max, sample.rows.shape[0] // 2)
    if sample.rows.shape[1] < 2 or most < max(2, k):
        raise InputError(f"the pages of {name!r} have too few words in common", "Crawl on, or look at another topic.")
    tried = {size: fit(sample.rows, size) for size in ([k] if k else range(2, most + 1))}
    bits = {size: impurity_bits(sample.rows, found.labels, size) for size, found in tried.items()}
    chosen = min(bits, key=lambda size: bits[size])
    members = _assign(store, sample, tried[chosen].centres, oids)
    return {
        "topic": name, "pages": pages, "k": chosen, "chosen": not k, "k_max": most,
        "sampled": len(sample.oids), "bits_by_k": {str(size): round(float(found), 2) for size, found in bits.items()},
        "left_out": pages - sum(len(found.oids) for found in members),
        "clusters": _described(store, sample, tried[chosen].centres, members, record.kcid),
    }  # fmt: skip


def _check(said: str, pages: int, k: int, k_max: int) -> None:
    if not (k == 0 or 2 <= k <= k_max):
        raise InputError(f"{k} clusters cannot be made", f"Give a number from 2 to {k_max}, or 0 to have one chosen.")
    if pages < max(4, 2 * k):
        raise InputError(said, "Too few to find clusters in: crawl on.")


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

    columns = term_columns(store, oids)
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
    pages, counted = document_frequencies_of(store, tids.tolist())
    frequency = np.array([counted.get(tid, 1) for tid in tids.tolist()], np.float64)
    return np.asarray(np.log(1.0 + pages / np.maximum(frequency, 1.0)), np.float64)


class Members(NamedTuple):
    """The pages of a cluster, the most central first."""

    oids: list[int]
    cosines: list[float]


def _assign(store: Store, sample: Sample, centres: Numbers, pages: list[int]) -> list[Members]:
    """Give every page to the centre that it is most similar to."""
    oids, similarities = cosines(store, pages, sample.tids.tolist(), sample.idf.tolist(), centres.tolist())
    nearest = np.argmax(similarities, axis=1)
    members = []
    for cluster in range(len(centres)):
        mine = np.flatnonzero(nearest == cluster)
        order = mine[np.argsort(-similarities[mine, cluster], kind="stable")]
        members.append(Members(oids[order].tolist(), similarities[order, cluster].tolist()))
    return members


def _described(
    store: Store, sample: Sample, centres: Numbers, members: list[Members], kcid: int
) -> list[dict[str, Any]]:
    """The clusters as a user reads them."""
    others = [np.max(np.delete(centres, n, axis=0), axis=0) for n in range(len(centres))]
    best = [
        np.argsort(-(centre - other), kind="stable")[:LABEL_TERMS]
        for centre, other in zip(centres, others, strict=True)
    ]
    central = [found.oids[:CENTRAL_PAGES] for found in members]
    chosen = sorted({oid for oids in central for oid in oids})
    pages = short_texts(store, chosen, _READ_CHARS)
    tids = sorted({int(sample.tids[n]) for columns in best for n in columns})
    words = whole_words(store, tids)
    examples = example_pages(store, kcid)
    described = []
    for columns, found, oids in zip(best, members, central, strict=True):
        if not found.oids:
            continue
        terms = [words[int(sample.tids[n])] for n in columns if int(sample.tids[n]) in words]
        terms = [word for word in terms if word not in FUNCTION_WORDS]
        described.append(
            {
                "name": ", ".join(terms[:NAME_WORDS]) or "unnamed", "terms": terms, "pages": len(found.oids),
                "homogeneity": round(float(np.mean(found.cosines)), 4),
                "central": [
                    {"url": pages[oid].url, "title": pages[oid].title, "cosine": round(cosine, 4)}
                    for oid, cosine in zip(oids, found.cosines, strict=False) if oid in pages
                ],
                "examples": [examples[oid] for oid in found.oids if oid in examples],
                "oids": found.oids,
            }
        )  # fmt: skip
    return sorted(described, key=lambda cluster: -cluster["pages"])


def split_topic(store: Store, topic: str, clusters: Sequence[Mapping[str, Any]]) -> list[str]:
    """Make a subtopic of each cluster; returns their paths.

    A cluster has a `name` and `central` pages, as `find_clusters` gives them, and may have `examples`: documents of the
    topic that are in it and become the subtopic's. Below a good topic all are wanted as it is. When the topic is the
    root of a collection without other topics, they are good in its place.
    """
    records = store.load_topics()
    above = find_topic(records, topic)
    names = [" ".join(str(cluster.get("name", "")).split()) for cluster in clusters]
    if len(set(map(str.casefold, names))) < len(names) or not all(names) or not names:
        raise InputError("each subtopic needs a name of its own", "Give every cluster that you choose another name.")
    is_alone = above.kcid == ROOT and len(records) == 1
    free = next_kcid(store)
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
            oid = oid_of(store, url)
            if oid is not None:
                make_example(store, hierarchy, subtopic.kcid, url, oid)
    return [subtopic.path for subtopic in made]
