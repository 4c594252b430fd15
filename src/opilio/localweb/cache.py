"""What was built once is kept under the user's cache folder, keyed by everything it depends on.

A cache file holds plain data (MessagePack, compressed), so reading one never runs code. A file that cannot be read is
treated as missing; a folder that cannot be written costs time only.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import msgspec
import zstandard

from opilio.localweb.harvest import Doc
from opilio.localweb.sections import DISTRIBUTIONS
from opilio.localweb.web import LocalWeb

# Files kept in the folder; the longest unused go first.
MAX_FILES = 12
_LEVEL = 1  # a full web of 200 MB is read in 0.3 s and written in 0.5 s; higher levels win little

T = TypeVar("T")


@dataclass(frozen=True)
class Cache:
    """The cache files that are good for this Python, these packages and this version of the code."""

    folder: Path
    key: str

    @classmethod
    def of_this_machine(cls) -> Cache:
        """The cache under $XDG_CACHE_HOME or ~/.cache."""
        home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
        return cls(Path(home) / "opilio", _key())

    def read_web(self, name: str) -> LocalWeb | None:
        """The web kept under `name`."""
        file = self._file("web", name)
        web = _read(file, LocalWeb)
        return replace(web, cache_file=file) if web is not None else None

    def write_web(self, name: str, web: LocalWeb) -> Path | None:
        """Keep `web`; the file, or None when the folder cannot be written."""
        return self._write(self._file("web", name), dump(web))

    def read_docs(self, small: bool) -> list[Doc] | None:
        """The harvest kept, never an empty one."""
        return _read(self._file("docs", "small" if small else "full"), list[Doc]) or None

    def write_docs(self, docs: list[Doc], small: bool) -> None:
        """Keep a harvest."""
        data = zstandard.ZstdCompressor(level=_LEVEL).compress(msgspec.msgpack.encode(docs))
        self._write(self._file("docs", "small" if small else "full"), data)

    def _file(self, kind: str, name: str) -> Path:
        return self.folder / f"localweb-{kind}-{name}-{self.key}.zst"

    def _write(self, file: Path, data: bytes) -> Path | None:
        """Write beside and rename: a reader never sees half a file."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.folder, prefix=".localweb-", delete=False) as part:
                part.write(data)
            Path(part.name).replace(file)
            self._prune()
        except OSError:
            return None
        return file

    def _prune(self) -> None:
        files = sorted(self.folder.glob("localweb-*.zst"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[MAX_FILES:]:
            file.unlink(missing_ok=True)


def dump(web: LocalWeb) -> bytes:
    """A web as the bytes of a cache file."""
    return zstandard.ZstdCompressor(level=_LEVEL).compress(msgspec.msgpack.encode(replace(web, cache_file=None)))


def load(file: Path) -> LocalWeb | None:
    """The web in a cache file, or None when it is not one."""
    return _read(file, LocalWeb)


def _read(file: Path, kind: type[T]) -> T | None:
    try:
        data = zstandard.ZstdDecompressor().decompress(file.read_bytes())
        value = msgspec.msgpack.decode(data, type=kind)
    except (OSError, zstandard.ZstdError, msgspec.MsgspecError):
        return None
    with contextlib.suppress(OSError):
        os.utime(file)  # so that pruning takes the longest unused
    return value


def _key() -> str:
    digest = hashlib.sha256(f"{sys.version}\0{sys.platform}".encode())
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            digest.update(f"\0{name} {importlib.metadata.version(name)}".encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
