"""The directory metric of `oasis`: a page is relevant if a relevant one was found in its directory (OASIS 4).

It counts only for a page that no other metric accepts, and such a page vouches for no other. The engine has the memory
of relevant directories, and applies it to every page that comes: so what one worker finds counts for the pages of all.
Pages that were stored before their directory was known are re-judged in the background
(`rejudging.rejudge_directories`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from opilio.model import RELEVANT, Judgement
from opilio.settings import Settings

DIRECTORY = "directory"
"""The name of the metric in votes and in `agreed`."""
OASIS = "oasis"
"""The classifier that has this metric, and a variable part."""
MAX_DIRECTORIES = 50_000
"""Directories in memory, about 10 MB; those in which a relevant page was found longest ago are forgotten."""


def uses_directories(settings: Settings) -> bool:
    """Whether the metric is in use. A page that only its directory speaks for is not undoubted."""
    classify = settings.classify
    return classify.classifier == OASIS and settings.oasis.directories and not classify.only_undoubted


def directory_of(url: str) -> str:
    """A URL up to the last slash of its path."""
    path = url.partition("?")[0]
    slash = path.rfind("/")
    return path[: slash + 1] if slash > path.find("//") + 1 else f"{path}/"


def accepted_by_directory(said: Judgement, kcid: int) -> Judgement:
    """The judgement of a page that only its directory speaks for; `kcid` is the topic of the relevant page there."""
    votes = {**said.votes, DIRECTORY: 1.0}
    return msgspec.structs.replace(
        said, topic=kcid, accepted=True, relevance=RELEVANT, votes=votes, agreed=[DIRECTORY], undoubted=False
    )


class RelevantDirectories:
    """The directories in which other metrics have found a relevant page, each with the topic of the latest."""

    def __init__(self, known: Mapping[str, int] | None = None) -> None:
        """`known` are directories of stored pages, the latest last."""
        self._topics = dict(known or {})
        self._new = set(self._topics)

    @property
    def has_new(self) -> bool:
        """Whether directories became known since `take_new`."""
        return bool(self._new)

    def take_new(self) -> dict[str, int]:
        """The directories that became known since the last call, with their topics."""
        new, self._new = self._new, set()
        return {directory: self._topics[directory] for directory in new if directory in self._topics}

    def judge(self, url: str, said: Judgement) -> Judgement:
        """What becomes of a judgement by a model; the directory of a relevant page is remembered."""
        if not said.model_version:  # words of the topics judge until there is a model
            return said
        directory = directory_of(url)
        if said.accepted:
            if said.is_relevant and DIRECTORY not in said.agreed:
                self._remember(directory, said.topic)
            return said
        kcid = self._topics.get(directory)
        return said if kcid is None else accepted_by_directory(said, kcid)

    def _remember(self, directory: str, kcid: int) -> None:
        if self._topics.pop(directory, None) is None:
            self._new.add(directory)
        self._topics[directory] = kcid
        if len(self._topics) > MAX_DIRECTORIES:
            del self._topics[next(iter(self._topics))]
