"""A web of real HTML from Debian's documentation packages, for benchmarks, where apt is at hand.

    python -m bench.webs.debian_web      download and unpack the packages into the cache folder, then say what they hold

Packages are downloaded with `apt-get download` (nothing is installed) and unpacked below the user's cache folder. The
folders are spread over 60 hosts, the pages of very large ones too; links from host to host are made absolute,
everything else stays as it is.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path
from urllib.parse import quote, unquote

from opilio.lab.local_web import LocalWeb, WebPage

PACKAGES = ["apache2-doc", "cmake-doc", "git-doc", "libstdc++-12-doc", "postgresql-doc-15", "python-scipy-doc",
            "python-sklearn-doc", "python3.11-doc", "sqlite3-doc"]  # fmt: skip
MAX_PAGE_BYTES = 400_000
HOSTS = 60
PAGES_PER_FOLDER = 300
START = "http://directory.test/"
_HREF = re.compile(rb"""(\bhref\s*=\s*)(["'])([^"'#:]+)(#[^"']*)?\2""", re.IGNORECASE)


def folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "opilio" / "debian-docs"


def download() -> list[str]:
    """Fetch and unpack what is not there yet; the packages that are there."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return []
    there = []
    for package in PACKAGES:
        target = folder() / package
        if not target.exists():
            debs = folder() / "debs"
            debs.mkdir(parents=True, exist_ok=True)
            subprocess.run(["apt-get", "download", "-qq", package], cwd=debs, check=False, stderr=subprocess.DEVNULL)
            for deb in debs.glob(f"{package}_*.deb"):
                subprocess.run(["dpkg-deb", "-x", str(deb), str(target)], check=True)
        if target.exists():
            there.append(package)
    return there


def build_debian_web() -> LocalWeb | None:
    """The packages as a web of many hosts; None when they cannot be had."""
    files: dict[str, Path] = {}
    for package in download():
        root = folder() / package / "usr/share/doc"
        for path in sorted(root.rglob("*.html")):
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= MAX_PAGE_BYTES:
                files[path.relative_to(root).as_posix()] = path
    if len(files) < 5000:
        return None
    sizes = Counter(posixpath.dirname(name) for name in files)
    urls = {name: f"http://{host_of(name, sizes)}/{quote(name)}" for name in files}
    pages = {
        urls[name]: WebPage(urls[name], rewrite(path.read_bytes(), name, urls), "", name)
        for name, path in files.items()
    }
    some = sorted(urls.items())[:: max(1, len(urls) // 400)]
    links = "".join(f'<li><a href="{url}">{name}</a>' for name, url in some)
    pages[START] = WebPage(START, f"<title>Directory</title><ul>{links}</ul>".encode(), "", "Directory")
    hosts = sorted({url.split("/")[2] for url in pages})
    robots = {f"http://{host}/robots.txt": ("text/plain", b"User-agent: *\nDisallow: /private/\n") for host in hosts}
    return LocalWeb(pages, {}, robots, {}, frozenset(), hosts, [], {})


def host_of(name: str, sizes: Counter[str]) -> str:
    """The host of a page: that of its folder, or one of its own choice when the folder is very large."""
    parent = posixpath.dirname(name)
    return f"h{zlib.crc32((name if sizes[parent] > PAGES_PER_FOLDER else parent).encode()) % HOSTS}.test"


def rewrite(body: bytes, name: str, urls: dict[str, str]) -> bytes:
    """Make links to pages on other hosts absolute; links within a host stay relative."""
    base = posixpath.dirname(name)
    own = urls[name].split("/")[2]

    def absolute(match: re.Match[bytes]) -> bytes:
        target = posixpath.normpath(posixpath.join(base, unquote(match[3].decode("utf-8", "replace"))))
        url = urls.get(target)
        if url is None or url.split("/")[2] == own:
            return match[0]
        return match[1] + match[2] + url.encode() + (match[4] or b"") + match[2]

    return _HREF.sub(absolute, body)


if __name__ == "__main__":
    web = build_debian_web()
    if web is None:
        sys.exit("the packages cannot be had here")
    sizes = [len(page.body) for page in web.pages.values()]
    print(f"{len(web.pages)} pages on {len(web.hosts)} hosts, {sum(sizes) / len(sizes) / 1000:.1f} kB a page")
