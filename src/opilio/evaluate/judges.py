"""Who judges pages in an experiment, made from the examples of a task.

A page is judged by its own words alone: what links say of a page would differ from crawl to crawl, and so a judgement
would not be one to share. It is made when a crawl first fetches the page, and kept for all crawls of the same topic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

from opilio.classify import CLASSIFIERS, Example, TrainingSet
from opilio.evaluate.analysed import Analysed
from opilio.evaluate.experiment import TRUTH, Experiment, Judge
from opilio.evaluate.tasks import Topic
from opilio.features.evidence import Evidence, TextReader
from opilio.model import Document, Judgement
from opilio.topics import default_others
from opilio.topics.hierarchy import ABOVE_ROOT, ROOT, Hierarchy, Mark, Node

Judging = Callable[[int], Judgement]


def make_judge(experiment: Experiment, judge: Judge, analysed: Analysed, topic: Topic) -> Judging:
    """A judge of pages by their numbers, for one topic. Raises InputError when the examples do not suffice."""
    if judge.kind == TRUTH:
        about = {*topic.examples, *topic.targets}
        yes, no = Judgement(ROOT, True, 1.0, 1.0), Judgement()
        return lambda page: yes if page in about else no
    training = training_of(judge, analysed, topic, experiment.seed)
    trained = CLASSIFIERS.get(judge.kind).train(training, experiment.judge_settings(judge))
    known: dict[int, Judgement] = {}

    def judge_page(page: int) -> Judgement:
        found = known.get(page)
        if found is None:
            document = analysed.documents[page]
            found = known[page] = trained.judge(_evidence(document)) if document is not None else Judgement()
        return found

    return judge_page


def training_of(judge: Judge, analysed: Analysed, topic: Topic, seed: int) -> TrainingSet:
    """The examples of the topic against OTHERS."""
    node = Node(ROOT, ABOVE_ROOT, topic.label, "", Mark.GOOD)
    negatives = _examples(analysed, negatives_of(judge, analysed, topic, seed), positive=False)
    return TrainingSet(
        hierarchy=Hierarchy([node]),
        examples=tuple(_examples(analysed, topic.examples, positive=True)),
        others=(*(_common_sense() if judge.others else ()), *negatives),
        terms=analysed.terms,
        keywords={ROOT: topic.keywords},
    )


def _examples(analysed: Analysed, pages: tuple[int, ...], *, positive: bool) -> Iterator[Example]:
    for page in pages:
        document = analysed.documents[page]
        if document is not None:
            yield Example(ROOT if positive else ABOVE_ROOT, _evidence(document), positive, analysed.web.urls[page])


def negatives_of(judge: Judge, analysed: Analysed, topic: Topic, seed: int) -> tuple[int, ...]:
    """Pages that do not have the label, drawn by lot: the same for each seed set, strategy and machine."""
    about = {*topic.examples, *topic.targets}
    urls = analysed.web.urls
    pages = [page for page, document in enumerate(analysed.documents) if document is not None and page not in about]
    pages.sort(key=lambda page: hashlib.sha256(f"{seed}\0{topic.label}\0negative\0{urls[page]}".encode()).digest())
    return tuple(pages[: judge.negatives])


def _evidence(document: Document) -> Evidence:
    # No address either: on a web of few hosts, folders would tell what words should.
    return Evidence.of(document, "")


_common: list[Example] = []


def _common_sense() -> list[Example]:
    """The documents of OTHERS that come with Opilio, read once in a process."""
    if not _common:
        reader = TextReader()
        for document in default_others():
            evidence = reader.read(document.title, document.text, document.language)
            _common.append(Example(ABOVE_ROOT, evidence, positive=False, name=document.title))
    return _common
