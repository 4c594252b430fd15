"""What the site (`mkdocs.yml`) does beyond MkDocs, so that the same Markdown works here and on a code host.

- README.md, CHANGELOG.md, CONTRIBUTING.md and LICENSE become pages of the site, and links to them follow.
- A link to another file outside docs/, or to a folder, becomes the name of that file: the site has no address for it.
- The published portals in build/gallery (`build_site.py`) are files of the site, and the gallery links to them.
- Commands are highlighted: in a block marked `console`, a line without a prompt would be taken for output.
- A bar in the code of a table loses the backslash that it needs on a code host.

Mistakes are warnings, and `mkdocs build --strict` fails on them.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

try:
    from mkdocs.plugins import get_plugin_logger
    from mkdocs.structure.files import File, Files
except ImportError:  # the tests of links need no MkDocs
    Files = Any

ROOT = Path(__file__).resolve().parent.parent
GALLERY = ROOT / "build" / "gallery"
# Files outside docs/ that the site has, and under which name.
OUTSIDE = {
    "README.md": "introduction.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "license.txt",
    "src/opilio/web/static/opilio.svg": "assets/opilio.svg",
}
_SOURCES = {uri: name for name, uri in OUTSIDE.items()}
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_PORTAL = re.compile(r"<!-- portal: (\w+) -->")
_CODE = re.compile(r"`[^`]+`")
_FENCE = re.compile(r"^```(\w*)")


def on_files(files: Files, config: Any) -> Files:
    """Add the files outside docs/ and the published portals."""
    for name, uri in OUTSIDE.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / name)))
    for portal in portals():
        for path in sorted(path for path in (GALLERY / portal["name"]).rglob("*") if path.is_file()):
            uri = "gallery/" + path.relative_to(GALLERY).as_posix()
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links and blocks of a page as the site needs them, and the links into portals."""
    markdown = _PORTAL.sub(lambda mark: portal_link(mark[1]), markdown)
    source = _SOURCES.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return as_on_the_site(markdown, source, page.file.src_uri)


def portals() -> list[dict[str, Any]]:
    """The published portals that there are, as `build_site.py` describes them."""
    return [json.loads(path.read_text("utf-8")) for path in sorted(GALLERY.glob("*.json"))]


def portal_link(name: str) -> str:
    """A line that leads into a published portal."""
    for portal in portals():
        if portal["name"] == name:
            return f"[Open this portal](gallery/{name}/index.html): {portal['pages']} pages, by `{portal['command']}`."
    get_plugin_logger(__name__).warning("build/gallery has no portal %r: python docs/build_site.py makes it", name)
    return ""


def as_on_the_site(markdown: str, source: str, uri: str) -> str:
    """The text of the file `source` of the repository as the page `uri` of the site."""
    replaced = _replacement(source, uri)
    lines = []
    for line, code in _lines(markdown.split("\n")):
        text = line if code else _LINK.sub(replaced, line)
        if text.startswith("|") and not code:
            text = _CODE.sub(lambda found: found[0].replace("\\|", "|"), text)
        lines.append(text)
    return "\n".join(lines)


def _lines(lines: list[str]) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is code; blocks of commands without a prompt are marked as such."""
    fenced = False
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if fence and not fenced and fence[1] == "console" and not lines[number + 1].startswith("$ "):
            line = "```bash"  # noqa: PLW2901
        yield line, fenced or bool(fence)
        fenced = fenced != bool(fence)


def _replacement(source: str, uri: str) -> Callable[[re.Match[str]], str]:
    """What becomes of a link on the page `uri`, which is made from `source`."""

    def replaced(link: re.Match[str]) -> str:
        words, address = link[1], link[2]
        path, hash_, fragment = address.partition("#")
        if not path or "://" in address or address.startswith(("mailto:", "gallery/")):
            return link[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if target in OUTSIDE:
            new = OUTSIDE[target]
        elif target.startswith("docs/") and not (ROOT / target).is_dir():
            new = target.removeprefix("docs/")
        else:
            return words if words == target else f"{words} (<code>{html.escape(target)}</code>)"
        # A link inside a link (a picture that leads somewhere) has its own address.
        words = _LINK.sub(replaced, words)
        return f"[{words}]({posixpath.relpath(new, posixpath.dirname(uri) or '.')}{hash_}{fragment})"

    return replaced
