"""Opilio, a focused crawler: from bookmarks, examples or a question to a topical collection of the web."""

__version__ = "0.1.0"
