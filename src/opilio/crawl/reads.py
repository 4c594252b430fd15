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
    "compare_models": "opilio.learn:compare_models",
}


def reader(name: str) -> Callable[..., Any]:
    """The function behind a name."""
    module, _, function = READS[name].partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found
