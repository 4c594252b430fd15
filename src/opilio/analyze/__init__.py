"""Analysis: from the bytes of a page to a `Document`, which has everything that later stages need to know about it.

Invariants, however broken or hostile the bytes are:

- analysis never raises, never recurses with the nesting of the page, and takes time linear in its size;
- every string can be encoded as UTF-8; whitespace is collapsed, and lines separate blocks;
- every link is in normal form, points to another page, and appears once for each anchor text;
- the same text gives the same terms, content hash and sketch, in every process and on every run.

`Analyzer` (`analyzer.py`) determines the format of a page and picks its *reader* (`formats.py`, where further formats
plug in). A reader turns bytes into *content*: title, text and links (`content.py`). The reader of HTML (`html.py`) has
the page parsed and rendered as text (`markup.py`, the seam to the parser library) and reads the
rendered text line by line (`layout.py`): visible text, main text, and for each link its anchor text, the text around
it and its region. Addresses are resolved by `targets.py`. `pictures.py` recognises pictures, `shells.py` empty pages
whose text a script would write. `markdown.py` renders a page as Markdown instead, for people and language models; a
crawl does not need it.

The analyzer then adds what all formats share: language (`language.py`), terms (`terms.py`) and the sketch that finds
near duplicates (`sketch.py`).

HTML and plain text are read in the worker. Everything else (`documents/`: PDF, office files, books, archives) is read
in a separate process, which may hang or crash without harm: `Extractor` (`extractor.py`) is its client,
`extraction_process.py` the process. These readers collect text and links in a `Draft` (`draft.py`). `FileReader`
(`files.py`) reads files on disk, whatever their format.

A format that cannot be read is not an error: `Analyzer.analyze` returns None for it, an extractor a `Failure` with the
reason.

The engine only compares sketches, so the names below are loaded on first use.
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
    """Load the module of a public name on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
