"""What can be read from a collection by name, by a socket too: functions of a store, loaded when they are asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

READS: Mapping[str, str] = {
    # judgements and what is taught
    "topics": "opilio.crawl.lessons:list_topics",
    "explain": "opilio.learn:explain",
    "census": "opilio.learn:take_census",
    "distill": "opilio.distill:list_best",
    "page_text": "opilio.learn:page_text",
    "models": "opilio.learn:list_models",
    "refused_models": "opilio.learn.models:list_refused",
    "compare_models": "opilio.learn:compare_models",
    # feedback, clusters, reviews
    "pending": "opilio.learn.training_changes:pending_changes",
    "examples": "opilio.crawl.lessons:list_examples",
    "compare_topics": "opilio.learn.models:compare_topics",
    "clusters": "opilio.search.clusters:find_clusters",
    "review": "opilio.search.review:look",
    "verdicts": "opilio.search.review:list_verdicts",
    # watching
    "series": "opilio.crawl.history:series",
    "hosts": "opilio.crawl.history:list_hosts",
    # SQL
    "answer": "opilio.store.answers:answer",
    "tables": "opilio.store.answers:list_tables",
    # browsing
    "portal": "opilio.search.browsing:portal",
    "topic_pages": "opilio.search.browsing:topic_pages",
    "page": "opilio.search.pages:page",
    "pages": "opilio.search.pages:pages",
    "neighbours": "opilio.search.pages:neighbours",
    # federation
    "peer_topics": "opilio.federation.profiles:topic_profiles",
}


def reader(name: str) -> Callable[..., Any]:
    """The function behind a name."""
    module, _, function = READS[name].partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found
