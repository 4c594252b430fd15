"""The documentation as a site: every page is in its navigation, links outside docs/ work, and MkDocs accepts it."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent


@pytest.fixture
def hooks() -> ModuleType:
    """docs/site_hooks.py, which is no package."""
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "site_hooks.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def configuration() -> dict[str, Any]:
    """mkdocs.yml, without the one tag that only MkDocs knows."""
    text = re.sub(r"!!python/\S+", "", (ROOT / "mkdocs.yml").read_text("utf-8"))
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def pages_of(nav: Any) -> list[str]:
    """The pages of a navigation, in order."""
    if isinstance(nav, str):
        return [nav]
    return [page for one in (nav.values() if isinstance(nav, dict) else nav) for page in pages_of(one)]


def test_the_navigation_has_every_page_once(hooks: ModuleType) -> None:
    """All of docs/ and the pages made of files outside it; none twice, and none that does not exist."""
    named = pages_of(configuration()["nav"])
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    outside = {uri for uri in hooks.OUTSIDE.values() if uri.endswith(".md")}
    assert sorted(named) == sorted(written | outside)


def test_nothing_is_loaded_from_elsewhere() -> None:
    """No web fonts, no address that the project does not have, and no style sheet or script of another host."""
    settings = configuration()
    assert settings["theme"]["font"] is False
    assert not settings["site_url"]
    assert "://" not in str(settings.get("extra_css", "")) + str(settings.get("extra_javascript", ""))


@pytest.mark.parametrize(
    ("source", "uri", "text", "expected"),
    [
        ("README.md", "introduction.md", "[a](docs/guides/x.md#y)", "[a](guides/x.md#y)"),
        ("CHANGELOG.md", "changelog.md", "[a](docs/img/p.png) [b](LICENSE)", "[a](img/p.png) [b](license.txt)"),
        ("docs/index.md", "index.md", "[a](../README.md)", "[a](introduction.md)"),
        ("docs/guides/x.md", "guides/x.md", "[a](../../CHANGELOG.md#b)", "[a](../changelog.md#b)"),
        ("docs/guides/x.md", "guides/x.md", "[t](../../src/a.py)", "t (<code>src/a.py</code>)"),
        ("docs/guides/x.md", "guides/x.md", "[d](../img)", "d (<code>docs/img</code>)"),
        ("docs/a.md", "a.md", "[x](https://e.test/) [y](#z) `c`", "[x](https://e.test/) [y](#z) `c`"),
        ("docs/a.md", "a.md", "```text\n[a](../README.md)\n```", "```text\n[a](../README.md)\n```"),
        ("docs/a.md", "a.md", "```console\nopilio demo\n```", "```bash\nopilio demo\n```"),
        ("docs/a.md", "a.md", r"| `a \| b` | c \| d |", r"| `a | b` | c \| d |"),
        ("docs/a.md", "a.md", "```console\n$ pip\n```", "```console\n$ pip\n```"),
    ],
)
def test_links_as_on_the_site(hooks: ModuleType, source: str, uri: str, text: str, expected: str) -> None:
    """A link of a code host leads to the same page on the site; what the site lacks becomes a name; code is left."""
    assert hooks.as_on_the_site(text, source, uri) == expected


def test_mkdocs_accepts_the_site(tmp_path: Path) -> None:
    """The strict build succeeds, loads nothing from other hosts, and fails when a link leads nowhere."""
    pytest.importorskip("mkdocs", reason="the extra `site` is not installed")
    pytest.importorskip("material", reason="the extra `site` is not installed")
    root = tmp_path / "copy"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "docs", root / "docs", ignore=ignored)
    for name in ("mkdocs.yml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"):
        shutil.copy(ROOT / name, root / name)
    (root / "src/opilio/web/static").mkdir(parents=True)
    shutil.copy(ROOT / "src/opilio/web/static/opilio.svg", root / "src/opilio/web/static/opilio.svg")
    for name in ("shore", "documentation"):
        (root / "build/gallery" / name).mkdir(parents=True)
        (root / "build/gallery" / name / "index.html").write_text(f"<h1>{name}</h1>")
        described = json.dumps({"name": name, "pages": 3, "command": "opilio publish"})
        (root / "build/gallery" / f"{name}.json").write_text(described)

    def build() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)

    built = build()
    assert built.returncode == 0, built.stdout + built.stderr
    assert 'href="gallery/shore/index.html">Open this portal</a>' in (root / "site/gallery.html").read_text("utf-8")
    assert (root / "site/gallery/shore/index.html").read_text() == "<h1>shore</h1>"
    for page in (root / "site").rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=\"?(\w+:)?//", page.read_text("utf-8"))
        assert not loaded, f"{page.name} loads from another host"
    with (root / "docs/faq.md").open("a", encoding="utf-8") as file:
        file.write("\n[nowhere](guides/crawling.md#no-such-heading)\n")
    assert build().returncode != 0
