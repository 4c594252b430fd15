"""From what there is to a recorded web: which kind of source a path is, and what is taken from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from opilio.errors import InputError
from opilio.evaluate.file_sources import corpus_answers, has_html, html_answers, is_corpus
from opilio.evaluate.recording import Answer, recording
from opilio.evaluate.spreading import Spread
from opilio.evaluate.warc_source import WarcFiles
from opilio.evaluate.web import RecordedWeb, is_web
from opilio.model import RELEVANT, normalize
from opilio.store import Store
from opilio.store.connection import FILE_NAME as DATABASE_NAME

WARC_SUFFIXES = (".warc", ".warc.gz")
JUDGED, FOLDERS = "judged", "folders"
PROGRESS_EVERY_S = 0.1
_JUDGED_TOPICS = "SELECT url, topic FROM collection WHERE topic <> '' AND relevance >= ?"


@dataclass(frozen=True)
class Options:
    """What is done to the answers on their way."""

    base_url: str = ""
    """Where the files of a folder without a map stand."""
    labels: str = ""
    """`judged`: label pages of a collection by the topics they were judged to be of; `folders`: files by folder."""
    spread_hosts: int = 0
    """Spread the pages of the first host over so many hosts."""
    drop: tuple[str, ...] = ()
    """URL patterns (with * and ?) that are left out, so that they answer 404."""


@dataclass
class Report:
    """What became of a recording besides the web."""

    web: RecordedWeb
    dropped: int = 0
    skipped: int = 0
    lost_revisits: int = 0
    damaged: list[str] = field(default_factory=list)


def record(
    target: Path | str,
    sources: Sequence[Path | str],
    *,
    base_url: str = "",
    labels: str = "",
    spread_hosts: int = 0,
    drop: Sequence[str] = (),
    on_progress: Callable[[int], object] = lambda urls: None,
) -> Report:
    """Make a recorded web in the folder `target` of all `sources`; stopped, it leaves nothing behind.

    A source is a collection, a WARC file or a folder of them, a file of JSON lines or a folder of them (`url`, `html`,
    `topics`; redirects `from`, `to`), a folder of HTML files, or a recorded web. Where two sources answer for the same
    URL, the later answer by date counts, else that of the later source; labels add up.
    """
    options = Options(base_url, labels, spread_hosts, tuple(drop))
    paths = [Path(source) for source in sources]
    found = [_Source(path, options) for path in paths]  # a wrong one is found before the work begins
    spread = Spread(spread_hosts) if spread_hosts > 1 else None
    dropped, shown_s = 0, 0.0
    with recording(Path(target)) as recorder:
        for source in found:
            for answer in source.answers():
                if _matches(answer.url, options.drop):
                    dropped += 1
                    continue
                for placed in spread.answers(answer) if spread else (answer,):
                    recorder.add(placed)
                if time.monotonic() - shown_s > PROGRESS_EVERY_S:
                    shown_s = time.monotonic()
                    on_progress(len(recorder))
        web = recorder.finish([path.name for path in paths])
        report = Report(web, dropped, recorder.skipped)
    for source in found:
        report.lost_revisits += source.warc.lost_revisits
        report.damaged += map(str, source.warc.damaged)
    return report


def _matches(url: str, patterns: tuple[str, ...]) -> bool:
    return bool(patterns) and any(fnmatchcase(normalize(url) or url, pattern) for pattern in patterns)


class _Source:
    """One source, of whatever kind it is."""

    def __init__(self, path: Path, options: Options) -> None:
        self._path, self._options = path, options
        self.warc = WarcFiles(())
        self._read = self._reader()

    def answers(self) -> Iterator[Answer]:
        """All it has to say."""
        return self._read()

    def _reader(self) -> Callable[[], Iterator[Answer]]:
        path = self._path
        if path.is_file():
            return self._file_reader(path)
        if not path.is_dir():
            raise InputError(f"{path}: no such file or folder", "Name what the web is to be recorded from.")
        if is_web(path):
            return self._web
        files = [file for file in sorted(path.iterdir()) if file.is_file()]
        if (path / DATABASE_NAME).is_file():
            self.warc = WarcFiles(sorted((path / "warc").glob("*.warc.gz")))
            if not self.warc.paths:
                raise InputError(f"{path}: the collection has no WARC files", "Crawl with store.warc = true.")
            return self._collection
        warcs = [file for file in files if file.name.endswith(WARC_SUFFIXES)]
        if warcs:
            self.warc = WarcFiles(warcs)
            return self.warc.answers
        corpora = [file for file in files if is_corpus(file)]
        if corpora:
            return lambda: (answer for file in corpora for answer in corpus_answers(file))
        if has_html(path):
            options = self._options
            return lambda: html_answers(path, options.base_url, options.labels == FOLDERS)
        raise InputError(
            f"{path}: nothing to record in this folder",
            "It should be a collection, or hold WARC files, JSON lines (.jsonl, .jsonl.zst) or HTML files.",
        )

    def _file_reader(self, path: Path) -> Callable[[], Iterator[Answer]]:
        if path.name.endswith(WARC_SUFFIXES):
            self.warc = WarcFiles([path])
            return self.warc.answers
        if is_corpus(path):
            return lambda: corpus_answers(path)
        raise InputError(
            f"{path}: not a kind of file that can be recorded", "Known: .warc, .warc.gz, .jsonl, .jsonl.zst, folders."
        )

    def _collection(self) -> Iterator[Answer]:
        labels = _judged_topics(self._path) if self._options.labels == JUDGED else {}
        for answer in self.warc.answers():
            yield answer._replace(topics=labels.get(normalize(answer.url), ()))

    def _web(self) -> Iterator[Answer]:
        web = RecordedWeb.open(self._path)
        for n, url in enumerate(web.urls):
            yield Answer(url, web.head(n), web.body(n), web.topics(n))


def _judged_topics(folder: Path) -> dict[str, tuple[str, ...]]:
    """The topic of each page that was judged relevant."""
    with Store.open(folder, read_only=True) as store:
        return {
            url: (topic,)
            for piece in store.stream(_JUDGED_TOPICS, [RELEVANT])
            for url, topic in zip(*(column.to_pylist() for column in piece.columns), strict=True)
        }
