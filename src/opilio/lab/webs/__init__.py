"""Recorded webs: answers of real servers in a folder, the same for every crawler.

The real web never gives the same answer twice, so crawlers are compared on webs that were *recorded*, with labels that
say what pages are about (`recorded.py`). `record` makes one (`recording.py`) from what there is (`sources.py`):
collections, WARC files, HTML files, labelled corpora. A corpus of one host can be spread over many.
`generated.py` makes a small labelled web that is the same on every machine.

A recorded web is replayed in two ways: inside the crawler's process, without network (`RecordedTransport`,
`transport.py`), or over HTTP on loopback from a process of its own, with any latency (`Serving`, `serving.py`). The
HTTP server itself (`server.py`), and how it is started and its log is read (`loopback.py`), are those of the local
web too.

Invariants: a URL of the web answers with what was recorded, any other with 404. A web never changes once it is in its
folder. Two webs with the same digest answer the same, byte for byte, and have the same labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opilio.process import loader

if TYPE_CHECKING:
    from opilio.lab.webs.recorded import RecordedWeb
    from opilio.lab.webs.serving import Serving
    from opilio.lab.webs.sources import record
    from opilio.lab.webs.transport import RecordedTransport

__all__ = ["RecordedTransport", "RecordedWeb", "Serving", "record"]

_MODULES = {
    "RecordedTransport": "transport",
    "RecordedWeb": "recorded",
    "Serving": "serving",
    "record": "sources",
}

__getattr__ = loader(__name__, _MODULES)
