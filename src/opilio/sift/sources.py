"""What is sifted: files, folders, patterns and addresses become a list of archives.

An archive is a WARC or WET file, or a WARC file in a WACZ file, on disk or in a storage that fsspec knows. What a file
is, its first bytes say; in folders only files with a usual ending are looked at.
"""

from __future__ import annotations

import glob
import io
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import msgspec

from opilio.errors import InputError, SettingsError, not_installed
from opilio.model import normalize
from opilio.settings import MIB
from opilio.sift.archives import GZIP_MAGIC

ENDINGS = (".warc", ".warc.gz", ".wet", ".wet.gz", ".wacz", ".arc.gz.warc")
"""Of files that are taken from folders."""
MAX_LIST_BYTES = 256 * MIB
_ZIP_MAGIC = b"PK\x03\x04"
_LISTS = "Give WARC, WET or WACZ files, folders of them, or text files with a URL on each line."


class ArchiveFile(msgspec.Struct, frozen=True, array_like=True):
    """A WARC or WET file."""

    name: str
    """Its path or URL; of one in a WACZ file, the path of this, `!` and its name there."""
    path: str
    member: str = ""
    """Its name in the WACZ file."""
    size: int = 0
    """In bytes; 0 when it is not known."""


class UrlList(NamedTuple):
    """A text file with URLs."""

    name: str
    urls: list[str]


class SiftSources(NamedTuple):
    """All that is to be sifted."""

    archives: list[ArchiveFile]
    lists: list[UrlList]
    problems: list[str]
    """Files that are none of these."""


def find_sources(given: Sequence[str]) -> SiftSources:
    """The archives and lists that the user means; an error when one is missing, or there is nothing at all."""
    found = SiftSources([], [], [])
    for name in given:
        for path in _paths(name):
            _add(found, path)
    if not found.archives and not found.lists:
        raise InputError("; ".join(found.problems) or "nothing to sift", _LISTS)
    unique = {archive.name: archive for archive in found.archives}
    return found._replace(archives=list(unique.values()))


def _paths(name: str) -> list[str]:
    """The files that a name stands for."""
    if _is_remote(name):
        return [name]
    path = Path(name).expanduser()
    if path.is_dir():
        return [str(file.absolute()) for file in sorted(path.rglob("*")) if file.name.lower().endswith(ENDINGS)]
    if path.is_file():
        return [str(path.absolute())]
    matches = [str(Path(match).absolute()) for match in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207
    files = [match for match in matches if Path(match).is_file()]
    if not files:
        raise InputError(f"{name}: no such file or folder", _LISTS)
    return files


def _is_remote(name: str) -> bool:
    return "://" in name


def _add(found: SiftSources, path: str) -> None:
    with opened(path) as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        start = file.read(4096)
        if start.startswith(_ZIP_MAGIC):
            _add_wacz(found, path, file)
        elif start.startswith((GZIP_MAGIC[:2], b"WARC/")):
            found.archives.append(ArchiveFile(path, path, size=size))
        elif (urls := _urls_in(file, size)) is not None:
            found.lists.append(UrlList(path, urls))
        else:
            found.problems.append(f"{path}: neither an archive nor a list of URLs")


def _add_wacz(found: SiftSources, path: str, file: BinaryIO) -> None:
    try:
        with zipfile.ZipFile(file) as packed:
            members = [
                one
                for one in packed.infolist()
                if one.filename.lower().endswith((".warc", ".warc.gz")) and one.file_size
            ]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        found.problems.append(f"{path}: a damaged ZIP file ({error})")
        return
    if not members:
        found.problems.append(f"{path}: a ZIP file without WARC files")
    found.archives.extend(ArchiveFile(f"{path}!{one.filename}", path, one.filename, one.file_size) for one in members)


def _urls_in(file: BinaryIO, size: int) -> list[str] | None:
    """The URLs of a list; None when the file is none. Empty lines, and lines that begin with #, do not count."""
    if size > MAX_LIST_BYTES:
        return None
    file.seek(0)
    try:
        lines = [line.strip() for line in file.read().decode().splitlines()]
    except UnicodeDecodeError:
        return None
    named = [line.split()[0] for line in lines if line and not line.startswith("#")]
    urls = list(dict.fromkeys(filter(None, map(normalize, named))))
    return urls if urls and 2 * len(urls) >= len(dict.fromkeys(named)) else None


@contextmanager
def opened(path: str, member: str = "") -> Iterator[BinaryIO]:
    """A file on disk or elsewhere, or a member of a ZIP file, to be read."""
    try:
        with _open_file(path) as file:
            if not member:
                yield file
                return
            with zipfile.ZipFile(file) as packed, packed.open(member) as inside:
                yield cast(BinaryIO, inside)
    except (OSError, zipfile.BadZipFile, KeyError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{path}: cannot be read: {error}", "Check the path, and whether it may be read.") from error


def _open_file(path: str) -> Any:
    if not _is_remote(path):
        return Path(path).open("rb")
    try:
        import fsspec  # noqa: PLC0415  (an optional library)
    except ImportError:
        raise not_installed("fsspec", f"sifting {path}", "cluster") from None
    try:
        return fsspec.open(path, "rb")
    except (ImportError, ValueError) as error:  # the library for this kind of storage is missing
        raise SettingsError(f"{path}: {error}", "Install what it names, or download the file first.") from None
