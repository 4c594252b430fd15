"""What embeddings are worth on the local web: few examples a topic, against terms; and what a page costs.

    python -m bench.quality.embeddings [--quick] [MODEL ...]

MODEL is a folder or file as `classify.embedding_model` takes it; the model of the extra is measured where it is
installed. Every page of the local web has the name of its topic and all names of its host in its menus, so that any
classifier is right on the visible text. So only main texts are judged, the examples of a topic (5 or 20, drawn ten
times) come from one of its hosts, and only pages of its other hosts are judged: by a linear SVM and by the nearest
mean. Needs scikit-learn. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np
from scipy.sparse import csr_matrix, hstack
from sklearn.metrics import f1_score
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from opilio.analyze import Analyzer
from opilio.analyze.terms import term_ids, tokenize
from opilio.errors import SettingsError
from opilio.features.classifier_input import ClassifierInput
from opilio.features.embeddings import Embeddings
from opilio.features.spaces import make_space
from opilio.lab import local_web
from opilio.settings import ClassifySettings, RobotsSettings, StoreSettings, TrapSettings

EXAMPLES = (5, 20)
DRAWS = 10
PAGES_PER_HOST = 40
TIMED_WORDS = 500
TIMED_ROUNDS = 5


class Page(NamedTuple):
    topic: str
    host: str
    item: ClassifierInput


def pages_of(size: local_web.Size) -> list[Page]:
    """Main texts, some of each host, of the topics that have two or more hosts with enough of them."""
    web = local_web.build(size)
    analyzer = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings())
    hosts: dict[tuple[str, str], list[str]] = defaultdict(list)
    for page in web.pages.values():
        if page.topic and page.url not in web.copies:
            hosts[page.topic, urlsplit(page.url).hostname or ""].append(page.url)
    enough = {key: urls for key, urls in hosts.items() if len(urls) >= max(EXAMPLES)}
    several = Counter(topic for topic, _ in enough)
    found = []
    for (topic, host), urls in enough.items():
        for url in random.Random(0).sample(urls, min(len(urls), PAGES_PER_HOST)) if several[topic] > 1 else ():
            document = analyzer.analyze(web.pages[url].body, "text/html; charset=utf-8", url)
            text = document.main_text if document is not None else ""
            stems = np.array(term_ids(text, "en"), np.uint32)
            found.append(Page(topic, host, ClassifierInput(stems, text=text)))
    return found


def term_matrix(items: Sequence[ClassifierInput]) -> csr_matrix:
    """(1 + ln tf) * idf, with document frequencies of the whole web."""
    vectors = [make_space("terms", ClassifySettings()).vector(item) for item in items]
    ids, columns = np.unique(np.concatenate([vector.ids for vector in vectors]), return_inverse=True)
    rows = np.repeat(np.arange(len(vectors)), [len(vector.ids) for vector in vectors])
    counts = np.concatenate([vector.values for vector in vectors])
    idf = np.log((1 + len(vectors)) / (1 + np.bincount(columns))) + 1
    shape = (len(vectors), len(ids))
    return normalize(csr_matrix(((1 + np.log(counts)) * idf[columns], (rows, columns)), shape=shape))


def embedding_matrix(space: Embeddings, items: Sequence[ClassifierInput]) -> csr_matrix:
    vectors = [space.vector(item) for item in items]
    dimensions = max(len(vector.values) for vector in vectors)
    return csr_matrix([v.values if len(v.values) else np.zeros(dimensions) for v in vectors])


def by_svm(train: csr_matrix, topics: np.ndarray, test: csr_matrix) -> np.ndarray:
    return LinearSVC(C=1.0, class_weight="balanced", random_state=0).fit(train, topics).predict(test)


def by_mean(train: csr_matrix, topics: np.ndarray, test: csr_matrix) -> np.ndarray:
    names = np.unique(topics)
    means = normalize(np.vstack([np.asarray(train[topics == name].mean(axis=0)) for name in names]))
    return names[np.asarray(test @ means.T).argmax(axis=1)]


def split(pages: Sequence[Page], examples: int, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the examples, all of a topic from one host, and of the pages on other hosts."""
    rng = np.random.default_rng(draw)
    places: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, page in enumerate(pages):
        places[page.topic][page.host].append(number)
    train, test = [], []
    for by_host in places.values():
        seen = rng.choice(sorted(by_host))
        train += rng.choice(by_host[seen], examples, replace=False).tolist()
        test += [number for host, numbers in by_host.items() if host != seen for number in numbers]
    return np.array(train), np.array(test)


def quality(matrix: csr_matrix, pages: Sequence[Page]) -> dict[str, list[float]]:
    """Macro F1 and its standard error over the draws, for each number of examples and way to decide."""
    topics = np.array([page.topic for page in pages])
    result = {}
    for name, decide in (("svm", by_svm), ("mean", by_mean)):
        for examples in EXAMPLES:
            scores = []
            for draw in range(DRAWS):
                train, test = split(pages, examples, draw)
                found = decide(matrix[train], topics[train], matrix[test])
                scores.append(f1_score(topics[test], found, average="macro"))
            error = np.std(scores, ddof=1) / np.sqrt(DRAWS)
            result[f"{name}{examples}"] = [round(float(np.mean(scores)), 3), round(float(error), 3)]
    return result


def cost_ms(work: Callable[[ClassifierInput], object], items: Sequence[ClassifierInput]) -> float:
    """CPU milliseconds a page of 500 words, the best of some rounds after one that fills the caches."""
    best = float("inf")
    for _ in range(TIMED_ROUNDS + 1):
        start = time.process_time()
        for item in items:
            work(item)
        best = min(best, (time.process_time() - start) / len(items) * 1000)
    return round(best, 3)


def page_of_500_words(items: Sequence[ClassifierInput]) -> list[ClassifierInput]:
    """Pages of exactly so many words, from the texts of the web."""
    words = " ".join(item.text for item in items).split()
    texts = [" ".join(words[at : at + TIMED_WORDS]) for at in range(0, len(words) - TIMED_WORDS, TIMED_WORDS)]
    return [ClassifierInput(items[0].stems, text=text) for text in texts[:300]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a web of 5,000 pages")
    parser.add_argument("models", nargs="*", help="further models")
    arguments = parser.parse_args()
    pages = pages_of(5000 if arguments.quick else "full")
    items = [page.item for page in pages]
    timed = page_of_500_words(items)
    terms = term_matrix(items)
    result: dict[str, object] = {"pages": len(pages), "topics": len({page.topic for page in pages})}
    result["tokenize_ms"] = cost_ms(lambda item: tokenize(item.text), timed)
    result["terms"] = quality(terms, pages)
    print(f"{len(pages)} pages on {result['topics']} topics\nterms: {result['terms']}", flush=True)
    for model in ["", *arguments.models]:
        try:
            start = time.perf_counter()
            space = Embeddings(ClassifySettings(embedding_model=model))
            opened_s = round(time.perf_counter() - start, 2)
        except SettingsError as error:
            print(f"left out: {error}; {error.hint}")
            continue
        matrix = embedding_matrix(space, items)
        row = {
            "alone": quality(matrix, pages),
            "with terms": quality(hstack([terms, matrix]).tocsr(), pages),
            "ms_per_page": cost_ms(space.vector, timed),
            "opened_s": opened_s,
        }
        result[model or "extra"] = row
        print(f"{model or 'the extra'}: {row}", flush=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
