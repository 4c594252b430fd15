"""What an expert may choose from for the filter of the classifier `oasis`."""

from __future__ import annotations

from pathlib import Path

from opilio.classify.oasis_file import write_proposal
from opilio.classify.oasis_proposal import proposals
from opilio.errors import InputError
from opilio.learn.training import gather
from opilio.settings import Settings
from opilio.store import Store


def propose(store: Store, settings: Settings, file: Path) -> int:
    """Write terms and collocations of the examples to a file; how many topics have any."""
    training = gather(store, settings)
    found = proposals(training, settings.oasis)
    if not found:
        raise InputError("no examples to make proposals from", "Crawl first, so that the examples are fetched.")
    write_proposal(file, found, training.hierarchy)
    return len(found)
