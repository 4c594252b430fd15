"""From bytes to a `Document`: everything later stages want to know of a page, so that none of them parses it again.

What holds for every document made here, however broken or hostile the bytes were:

- analysing never raises, never recurses with the page's nesting, and takes time linear in the page's size;
- every string can be encoded as UTF-8; whitespace is folded, lines separate blocks;
- every link is in normal form, points to another page, and appears once with the same anchor text;
- the same text gives the same terms, the same content hash and the same sketch, in every process and on every run.

The way of a page: `Analyzer` (`analyzer.py`) picks a *reader* by MIME type (`formats.py`, where further formats plug
in). A reader turns bytes into *content*: title, text, links (`content.py`). The reader of HTML (`html.py`) has the
markup parsed and rendered in one go (`markup.py`, the only module that knows the parser library), with marks in the
rendered text where links begin and end. `layout.py` reads the marked text line by line: it yields the visible text, the
main text, and for each link its anchor, the words around it and the region it stands in. `targets.py` resolves the
addresses, `directives.py` what the page asks of crawlers.

The analyzer then adds what is common to all formats: language (`language.py`), words (`tokens.py`), terms
(`terms.py`) and the sketch by which near duplicates find each other (`sketch.py`).

HTML and plain text are read in the worker. All else (PDF, office files, books, archives: `kinds.py` tells what bytes
are) is read in a process of its own, which may hang or crash without harm: `Extractor` (`extractor.py`) asks,
`extraction_process.py` answers. There, each format has its module; what several of them need is in `package.py` (zip
and XML), `fields.py` (Word's links), `draft.py` (text and links as they are found) and `joining.py` (many parts, one
content). `reading.py` keeps account of what was unfolded. `FileReader` (`files.py`) reads files on disk either way.

A format we cannot read is not an error: `Analyzer.analyze` returns None for it, an extractor a `Failure` with the
reason.

The engine compares sketches and parses nothing; so the names below are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opilio.analyze.analyzer import Analyzer
    from opilio.analyze.content import Content, Failure, Source
    from opilio.analyze.extractor import Extractor
    from opilio.analyze.files import FileReader
    from opilio.analyze.formats import DOCUMENTS, FORMATS, DocumentReader, FormatReader
    from opilio.analyze.sketch import bands, jaccard

__all__ = [
    "DOCUMENTS",
    "FORMATS",
    "Analyzer",
    "Content",
    "DocumentReader",
    "Extractor",
    "Failure",
    "FileReader",
    "FormatReader",
    "Source",
    "bands",
    "jaccard",
]

_MODULES = {
    "Analyzer": "analyzer",
    "Content": "content",
    "DOCUMENTS": "formats",
    "DocumentReader": "formats",
    "Extractor": "extractor",
    "FORMATS": "analyzer",
    "Failure": "content",
    "FileReader": "files",
    "FormatReader": "formats",
    "Source": "content",
    "bands": "sketch",
    "jaccard": "sketch",
}


def __getattr__(name: str) -> Any:
    """Load the module of a public name when it is first asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
