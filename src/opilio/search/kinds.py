"""Short names of the types of pages, as `type:` and the portal have them."""

from __future__ import annotations

_NAMES = {
    "text/html": "html", "application/xhtml+xml": "html", "text/plain": "text", "application/pdf": "pdf",
    "application/postscript": "postscript", "application/rtf": "rtf", "text/rtf": "rtf",
    "application/msword": "doc", "application/vnd.ms-powerpoint": "ppt", "application/epub+zip": "epub",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.oasis.opendocument.text": "odt", "application/vnd.oasis.opendocument.presentation": "odp",
    "application/vnd.oasis.opendocument.spreadsheet": "ods", "text/markdown": "markdown", "application/gzip": "gzip",
    "application/zip": "zip", "application/x-tar": "tar",
}  # fmt: skip


def kind_of(content_type: str) -> str:
    """The short name of a content type; what has none is named by the part after the slash."""
    plain = content_type.partition(";")[0].strip().lower()
    return _NAMES.get(plain) or plain.rpartition("/")[2].removeprefix("x-") or "unknown"
