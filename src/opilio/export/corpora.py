"""Corpora of texts: a dataset in Parquet by parts, JSON Lines for retrieval, and a folder of Markdown files."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet

from opilio.analyze.markdown import front_matter
from opilio.export.chunks import Chunk, chunks_of
from opilio.export.documents import GROUP, ID, MARKDOWN, QUALITY, RESERVED, SPLIT, Documents
from opilio.export.splits import PARTS
from opilio.store.pages import rights_of
from opilio.topics.tree import SEPARATOR

DATASET_COLUMNS = (
    ID, "url", "title", "description", "main_text", "language", "topic", "relevance", "visited", "domain", RESERVED,
    "rights", *QUALITY, GROUP, SPLIT,
)  # fmt: skip
RAG_COLUMNS = (ID, "url", "title", "description", "language", "topic", "relevance", "visited", "domain", MARKDOWN)
PAGE_COLUMNS = (
    ID,
    "url",
    "title",
    "description",
    "language",
    "topic",
    "relevance",
    "visited",
    "rights",
    MARKDOWN,
    *QUALITY,
)
MAX_SLUG_CHARS = 60
_NOT_SLUG = re.compile(r"[^a-z0-9]+")
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(10))})
"""Names that no folder can have on Windows."""

Tell = Callable[[int], None]


def write_parts(folder: Path, documents: Documents, tell: Tell, *, title: str) -> int:
    """Write one Parquet file for each part that has pages, and a card; the column of the text is named `text`."""
    counts = dict.fromkeys(PARTS, 0)
    names = ["text" if name == "main_text" else name for name in documents.columns]
    with ExitStack() as stack:
        writers: dict[str, pyarrow.parquet.ParquetWriter] = {}
        for piece in documents.pieces():
            named = pa.RecordBatch.from_arrays(piece.columns, names=names)
            for part in PARTS:
                some = named.filter(pa.compute.equal(named.column(SPLIT), part))
                if not some.num_rows:
                    continue
                if part not in writers:
                    path = folder / f"{part}.parquet"
                    writer = pyarrow.parquet.ParquetWriter(path, some.schema, compression="zstd")
                    writers[part] = stack.enter_context(writer)
                writers[part].write_batch(some)
                counts[part] += some.num_rows
            tell(sum(counts.values()))
    (folder / "README.md").write_text(_card(title, counts, documents.left_out), "utf-8")
    return sum(counts.values())


def _card(title: str, counts: dict[str, int], left_out: int) -> str:
    """A card as hubs of datasets show it; the head names the files of the parts for `datasets`."""
    shown = " ".join(title.split())
    files = [{"split": part, "path": f"{part}.parquet"} for part, count in counts.items() if count]
    head = front_matter({"pretty_name": shown, "configs": [{"config_name": "default", "data_files": files}]})
    rows = "\n".join(f"| {part} | {count:,} |" for part, count in counts.items())
    return (
        f"{head}\n# {shown}\n\nPages collected with Opilio, one row each. Sites are divided among the parts by a hash "
        f"of their domain: no site is in two.\n\n| part | pages |\n| --- | ---: |\n{rows}\n\n"
        f"{left_out:,} pages were left out because they reserve their use for text and data mining or AI. The texts "
        "belong to their authors; the columns `rights` and `reserved` have what pages and sites say about their use.\n"
    )


def rag_lines(piece: pa.RecordBatch, chunk_words: int, overlap_words: int) -> Iterator[bytes]:
    """Pages as lines of JSON for retrieval: `id`, `text`, `metadata`. Values of metadata are never nested."""
    encode = msgspec.json.Encoder().encode
    for row in piece.to_pylist():
        metadata = {
            "source": row["url"], "title": row["title"] or "", "description": row["description"] or "",
            "language": row["language"] or "", "topic": row["topic"], "relevance": row["relevance"],
            "date": f"{row['visited'].replace(microsecond=0).isoformat()}Z", "domain": row["domain"] or "",
            "document": row[ID],
        }  # fmt: skip
        if not chunk_words:
            yield encode({"id": row[ID], "text": row[MARKDOWN], "metadata": metadata}) + b"\n"
            continue
        chunk: Chunk
        for number, chunk in enumerate(chunks_of(row[MARKDOWN], chunk_words, overlap_words)):
            about = {**metadata, "headings": chunk.headings, "chunk": number}
            yield encode({"id": f"{row[ID]}-{number}", "text": chunk.text, "metadata": about}) + b"\n"


def write_markdown(folder: Path, documents: Documents, tell: Tell) -> int:
    """Write a Markdown file for each page, in folders by topic. No foreign text becomes a name as it is."""
    done = 0
    for piece in documents.pieces():
        for row in piece.to_pylist():
            place = folder.joinpath(*(_folder_name(name) for name in row["topic"].split(SEPARATOR) if name))
            place.mkdir(parents=True, exist_ok=True)
            name = "-".join(filter(None, [slug(row["title"] or ""), row[ID]]))
            text = f"{front_matter(_facts(row))}\n{row[MARKDOWN]}\n"
            (place / f"{name}.md").write_bytes(text.encode("utf-8", "replace"))
        done += piece.num_rows
        tell(done)
    return done


def _facts(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "url": row["url"],
        "id": row[ID],
        "title": row["title"],
        "description": row["description"],
        "date": f"{row['visited'].replace(microsecond=0).isoformat()}Z",
        "language": row["language"],
        "topic": row["topic"],
        "confidence": None if row["relevance"] is None else round(row["relevance"], 4),
        "quality": {name: row[name] for name in QUALITY if row[name] is not None},
        "rights": rights_of(row["rights"]),
    }


def slug(text: str) -> str:
    """A text as part of a file name: letters without accents, digits and hyphens; '' if it has none of these."""
    plain = unicodedata.normalize("NFKD", text[:400]).encode("ascii", "ignore").decode().lower()
    return _NOT_SLUG.sub("-", plain).strip("-")[:MAX_SLUG_CHARS].strip("-")


def _folder_name(name: str) -> str:
    found = slug(name) or "topic"
    return f"{found}-topic" if found in _DEVICES else found
