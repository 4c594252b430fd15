"""Operations that find further pages to start from."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from opilio.crawl.operations.client import OperationClient, caller_operation
from opilio.crawl.operations.context import Context, LiveCrawl
from opilio.crawl.operations.declaration import READS, WRITES, Meta, Route, operation
from opilio.errors import InputError
from opilio.learn import training_data
from opilio.topics import Seed, find_topic
from opilio.topics.tree import words_of

EXAMPLE = "For example: --seed-provider searxng=https://search.example.org"


@caller_operation(
    WRITES,
    rest=Route("POST", "seeds", "crawl"),
    about={
        "query": Meta(description="Words to ask for; by default those of the collection, or the name of the topic."),
        "topic": Meta(description="The topic that the pages are for; by default the root."),
        "providers": Meta(description="Seed providers as name=address; by default those of the settings."),
    },
)
def find_seeds(
    client: OperationClient, query: str = "", topic: str = "", providers: Sequence[str] = ()
) -> dict[str, Any]:
    """Ask seed providers for pages to start from, and add those that are new; a running crawl queues them at once.

    Returns `new`, how many were added, and `answers`: for each provider how many pages it found, and its trouble.
    """
    from opilio import seeds  # noqa: PLC0415  (it loads the client)

    settings = client.settings
    asked = list(providers) or list(settings.seeds.providers)
    if not asked:
        raise InputError(f"{client.folder}: no seed provider to ask", EXAMPLE)
    kcid, usual = client.call(_question_about, topic)
    words = query.strip() or ("" if topic else settings.seeds.query) or usual
    answers = seeds.find_seeds(words, settings, providers=asked)
    new = client.call(_add_found_seeds, seeds.seeds_of(answers, kcid))
    shown = [
        {"provider": one.provider, "pages": len(one.pages), "trouble": one.trouble, "hint": one.hint, "said": one.said}
        for one in answers
    ]
    return {"query": words, "new": new, "answers": shown}


@operation(READS)
def _question_about(at: Context, topic: str) -> tuple[int, str]:
    """The number of a topic, and the words to ask for: its name. The root has them if it was made from a query."""
    record = find_topic(at.store.load_topics(), topic)
    words = words_of(record.name)
    is_question = record.pcid is not None or record.keywords[: len(words)] == words
    return record.kcid, record.name if is_question else ""


@operation(WRITES)
def _add_found_seeds(at: Context, seeds: Sequence[Seed]) -> int:
    """Add seeds that providers found; returns how many are new. The next crawl begins with them."""
    return len(training_data.add_found_seeds(at.store, seeds))


@_add_found_seeds.live
async def _(crawl: LiveCrawl, seeds: Sequence[Seed]) -> int:
    async with crawl.receiving:
        new = await crawl.read(training_data.add_found_seeds, seeds)
    absorber, now_s = crawl.engine.absorber, time.time()
    for seed in new:
        if absorber.is_new(seed.url):
            absorber.frontier.add_topic(seed.kcid)
            absorber.offer(seed.url, parent=-1, depth=0, relevance=1.0, topic=seed.kcid, now_s=now_s)
    return len(new)
