"""The records that all stages of a page's journey share.

A *URL* has an `oid`, a dense integer assigned when the URL is first seen, and a *key*, the 64-bit hash of its normal
form (`url.py`). The engine gives a URL to a worker as a *lease*; the worker returns a *visit* (`visit.py`): the *fetch*
with its outcome (`outcome.py`) and, for a page, the *document* extracted from its bytes and the *judgement* on it.

A URL is always in one of five states and changes only along the transitions in `state.py`. The reason why a model was
trained is a fixed value too (`training.py`). What a crawl has found is counted in `Figures` (`state.py`).

Records are immutable and know nothing of network, disk or time. They are msgspec structs, so that a worker process can
send them to the engine in one compact message.
"""

from opilio.model.outcome import Outcome, OutcomeKind
from opilio.model.state import (
    TRANSITIONS,
    CrawlProgress,
    Figures,
    IllegalTransition,
    Phase,
    UrlState,
    UrlStates,
    may_become,
    stored_code,
)
from opilio.model.training import TrainingCause, TrainingReason
from opilio.model.url import host_of, normalize, registered_domain, url_key
from opilio.model.visit import (
    RELEVANT,
    Document,
    Fetch,
    HostReport,
    Judgement,
    Lease,
    LeaseKind,
    Link,
    LinkKind,
    Links,
    Picture,
    Region,
    Right,
    Subrequest,
    Visit,
)

__all__ = [
    "RELEVANT",
    "TRANSITIONS",
    "CrawlProgress",
    "Document",
    "Fetch",
    "Figures",
    "HostReport",
    "IllegalTransition",
    "Judgement",
    "Lease",
    "LeaseKind",
    "Link",
    "LinkKind",
    "Links",
    "Outcome",
    "OutcomeKind",
    "Phase",
    "Picture",
    "Region",
    "Right",
    "Subrequest",
    "TrainingCause",
    "TrainingReason",
    "UrlState",
    "UrlStates",
    "Visit",
    "host_of",
    "may_become",
    "normalize",
    "registered_domain",
    "stored_code",
    "url_key",
]
