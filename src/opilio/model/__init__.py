"""Records: the nouns that every stage of a page's journey speaks of.

A *URL* is known by its `oid`, a dense integer given when the URL is first seen, and recognised by its *key*, a 64-bit
hash of its normal form (`url.py`). The engine hands a URL to a worker as a *lease*; the worker answers with a *visit*:
what the fetch came to (an `Outcome`, `outcome.py`) and, for a page, the *document* made of its bytes (`page.py`) and
the *judgement* of it (`judgement.py`).

A URL is always in one of five states and changes only along the arrows drawn in `state.py`. Why a model was trained is
a fixed value, too (`training.py`).

Records are frozen and know nothing of network, disk or time. They are msgspec structs, so that a worker process can
send them to the engine in one compact message.
"""

from opilio.model.outcome import Outcome, OutcomeKind
from opilio.model.page import (
    RELEVANT,
    Document,
    Fetch,
    HostReport,
    Judgement,
    Lease,
    LeaseKind,
    Link,
    LinkKind,
    Region,
    Visit,
)
from opilio.model.state import TRANSITIONS, CrawlProgress, IllegalTransition, Phase, UrlState, may_become, sources_of
from opilio.model.training import TrainingCause, TrainingReason
from opilio.model.url import host_of, normalize, registered_domain, url_key

__all__ = [
    "RELEVANT",
    "TRANSITIONS",
    "CrawlProgress",
    "Document",
    "Fetch",
    "HostReport",
    "IllegalTransition",
    "Judgement",
    "Lease",
    "LeaseKind",
    "Link",
    "LinkKind",
    "Outcome",
    "OutcomeKind",
    "Phase",
    "Region",
    "TrainingCause",
    "TrainingReason",
    "UrlState",
    "Visit",
    "host_of",
    "may_become",
    "normalize",
    "registered_domain",
    "sources_of",
    "url_key",
]
