"""A new collection with what another one has learned: its topics, examples, models and settings, but no page."""

from __future__ import annotations

from pathlib import Path

from opilio.crawl import Collection
from opilio.crawl.collection import WARC_FOLDER
from opilio.errors import CollectionError
from opilio.settings import FILE_NAME
from opilio.settings.files import write_settings
from opilio.store import Store
from opilio.store.connection import FILE_NAME as DATABASE_NAME
from opilio.store.salvage import reading_file, take_learned


def begin_like(folder: Path, other: Path) -> Collection:
    """Make the collection `folder` with what the collection `other` has learned."""
    model = Collection(other)
    if (folder / DATABASE_NAME).exists():
        raise CollectionError(f"{folder}: holds a collection already", "Choose another folder.")
    memory_bytes = model.settings.store.memory_bytes
    try:
        (folder / WARC_FOLDER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CollectionError(f"{folder}: cannot make the folder: {error.strerror}", "Choose another.") from None
    try:
        with reading_file(other / DATABASE_NAME, memory_bytes) as copy:
            write_settings(folder, model.settings)
            with Store.create(folder, memory_bytes=memory_bytes) as store:
                take_learned(store, copy)
    except BaseException:  # half a collection would get in the way of the next try
        for file in [*folder.glob(f"{DATABASE_NAME}*"), folder / FILE_NAME]:
            file.unlink(missing_ok=True)
        raise
    return Collection(folder)
