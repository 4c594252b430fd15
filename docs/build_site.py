"""The documentation as a site: `python docs/build_site.py`, or `make site`, writes it to the folder `site`.

First the two demo webs are crawled and published for the gallery (offline, about a minute), then MkDocs makes the
pages and fails on any link that leads nowhere. `--keep-gallery` takes the portals of an earlier call.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
GALLERY = BUILD / "gallery"
OPILIO = [sys.executable, "-m", "opilio"]


@dataclass(frozen=True, slots=True)
class Demo:
    """A demo web, how much of it is crawled, and the name of its portal."""

    name: str
    title: str
    max_pages: int
    pages_per_topic: int


DEMOS = (
    Demo("shore", "The shore at night", max_pages=220, pages_per_topic=30),
    Demo("documentation", "The documentation on this machine", max_pages=300, pages_per_topic=30),
)


def main() -> None:
    """Make the gallery unless it is to be kept, and build the site."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep-gallery", action="store_true", help="crawl only demos that have no portal yet")
    arguments = parser.parse_args()
    for demo in DEMOS:
        if not (arguments.keep_gallery and (GALLERY / f"{demo.name}.json").exists()):
            publish(demo)
    # Without --quiet, which would keep warnings from counting.
    print("Building the pages ...", flush=True)
    run([sys.executable, "-m", "mkdocs", "build", "--strict", "--clean"])
    print(f"The site is in {ROOT / 'site'}; to read it with its search: python -m http.server --bind 127.0.0.1 -d site")


def publish(demo: Demo) -> None:
    """Crawl a demo web and publish its collection, described in a file of its own beside it."""
    print(f"Crawling {demo.max_pages} pages of the demo web {demo.name!r} ...", flush=True)
    described = GALLERY / f"{demo.name}.json"
    described.unlink(missing_ok=True)
    shutil.rmtree(BUILD / "demo" / demo.name, ignore_errors=True)
    folder = Path("build/demo") / demo.name
    crawl = ["--folder", str(folder), "--web", demo.name, "--max-pages", str(demo.max_pages)]
    run([*OPILIO, "demo", *crawl, "--no-portal", "--quiet"], stdout=subprocess.DEVNULL)
    [collection] = [path.parent.relative_to(ROOT) for path in (ROOT / folder).glob("*/crawl.toml")]
    GALLERY.mkdir(parents=True, exist_ok=True)
    words = ["publish", str(collection), f"build/gallery/{demo.name}", "--name", demo.title]
    words += ["--pages-per-topic", str(demo.pages_per_topic)]
    published = json.loads(run([*OPILIO, *words, "--json"], stdout=subprocess.PIPE))
    command = f"opilio publish {collection.name} {demo.name}-site --pages-per-topic {demo.pages_per_topic}"
    described.write_text(json.dumps({**asdict(demo), "pages": published["pages"], "command": command}), "utf-8")


def run(command: list[str], stdout: int | None = None) -> str:
    """Run a command in the folder of the repository and return what it printed; its failure ends this program."""
    finished = subprocess.run(command, cwd=ROOT, stdout=stdout, text=True, check=False)
    if finished.returncode:
        raise SystemExit(f"failed with {finished.returncode}: {' '.join(command)}")
    return finished.stdout or ""


if __name__ == "__main__":
    main()
