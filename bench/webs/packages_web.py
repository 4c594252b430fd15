"""A web of Debian's packages, labelled by section: one that no strategy was tuned on.

    python -m bench.webs.packages_web packages.jsonl      # needs apt and its package lists: a minute, 20 MB are fetched
    opilio record FOLDER/packages --from packages.jsonl

Each package of some sections has a page with its description and with links to the packages it needs, recommends,
suggests, enhances or conflicts with, each followed by what that package is in a few words. Pages of tags and of
maintainers list theirs. Pages do not say the section, which is the label. There is no page of a section: that would be
the answer. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from urllib.parse import quote

SECTIONS = frozenset({
    "admin", "comm", "database", "devel", "editors", "education", "electronics", "fonts", "games", "gnome", "graphics",
    "hamradio", "httpd", "interpreters", "kde", "kernel", "mail", "math", "misc", "net", "news", "otherosfs", "python",
    "science", "shells", "sound", "tex", "text", "utils", "vcs", "video", "web", "x11", "xfce",
})  # fmt: skip
RELATIONS = ("Depends", "Recommends", "Suggests", "Enhances", "Conflicts")
SHOWN_TAGS = ("biology::", "devel::", "field::", "game::", "hardware::", "made-of::", "network::", "protocol::",
              "science::", "scope::", "sound::", "use::", "web::", "works-with::", "works-with-format::")  # fmt: skip
HOST = "http://packages.test"
HELPER = "/usr/lib/apt/apt-helper"


def apt(*arguments: str, lists: Path) -> str:
    """What a command of apt prints, with its lists in a folder of their own."""
    options = [f"-oDir::State::lists={lists}", "-oAcquire::Languages=en", "-oAPT::Sandbox::User="]
    command = [arguments[0], *options, *arguments[1:]]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def stanzas(lists: Path, kind: str) -> Iterator[dict[str, str]]:
    """The records of all lists of a kind, by field."""
    for file in apt("apt-get", "indextargets", "--format", "$(FILENAME)", f"Created-By: {kind}", lists=lists).split():
        if Path(file).exists():
            for stanza in apt(HELPER, "cat-file", file, lists=lists).split("\n\n"):
                yield dict(re.findall(r"^([\w-]+):[ ]?(.*(?:\n .*)*)", stanza, re.MULTILINE))


def read_packages(lists: Path) -> dict[str, dict[str, str]]:
    """The packages of the sections, each with its long description."""
    texts = {s["Package"]: s.get("Description-en", "") for s in stanzas(lists, "Translations") if "Package" in s}
    return {
        s["Package"]: {**s, "Text": texts.get(s["Package"], "")}
        for s in stanzas(lists, "Packages")
        if s.get("Section", "").rpartition("/")[2] in SECTIONS
    }


def package_page(name: str, package: dict[str, str], packages: dict[str, dict[str, str]]) -> str:
    """A package's page."""
    short, _, text = package["Text"].partition("\n")
    paragraphs = [" ".join(part.split()) for part in text.split("\n .\n")]
    parts = [f"<h1>{escape(name)}</h1><p><b>{escape(short)}</b></p>"]
    parts += [f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs if paragraph]
    for relation in RELATIONS:
        names = re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]+)", package.get(relation, ""))
        found = [other for other in dict.fromkeys(names) if other in packages and other != name]
        if found:
            parts.append(f"<h2>{relation}</h2>{listing(found, packages)}")
    tags = [tag for tag in tags_of(package) if tag.startswith(SHOWN_TAGS)]
    parts.append("<p>" + " ".join(f'<a href="{tag_url(tag)}">{escape(tag)}</a>' for tag in tags) + "</p>")
    maintainer = maintainer_of(package)
    parts.append(f'<p>Maintained by <a href="{maintainer_url(maintainer)}">{escape(maintainer)}</a></p>')
    return page(f"{name} - {short}", parts)


def listing(names: Iterable[str], packages: dict[str, dict[str, str]]) -> str:
    """Packages with links, each with its few words."""
    items = (f'<li><a href="{HOST}/{quote(n)}">{escape(n)}</a> {escape(few_words(packages[n]))}</li>' for n in names)
    return f"<ul>{''.join(items)}</ul>"


def few_words(package: dict[str, str]) -> str:
    return package["Text"].partition("\n")[0]


def page(title: str, parts: Iterable[str]) -> str:
    return (
        f"<!doctype html><html lang=en><head><title>{escape(title)}</title></head><body>{''.join(parts)}</body></html>"
    )


def tags_of(package: dict[str, str]) -> list[str]:
    return [tag.strip() for tag in package.get("Tag", "").replace("\n", " ").split(",") if tag.strip()]


def maintainer_of(package: dict[str, str]) -> str:
    return package.get("Maintainer", "nobody").partition("<")[0].strip().strip('"')


def tag_url(tag: str) -> str:
    return f"http://tags.packages.test/{quote(tag.replace('::', '/'))}"


def maintainer_url(name: str) -> str:
    return f"http://people.packages.test/{quote(name.lower().replace(' ', '-'), safe='')}"


def records(packages: dict[str, dict[str, str]]) -> Iterator[dict[str, object]]:
    """All pages of the web."""
    tagged, maintained = defaultdict(list), defaultdict(list)
    for name, package in packages.items():
        for tag in tags_of(package):
            if tag.startswith(SHOWN_TAGS):
                tagged[tag].append(name)
        maintained[maintainer_of(package)].append(name)
        topics = [package["Section"].rpartition("/")[2]]
        yield {"url": f"{HOST}/{quote(name)}", "html": package_page(name, package, packages), "topics": topics}
    for tag, names in tagged.items():
        yield {"url": tag_url(tag), "html": page(tag, [f"<h1>{escape(tag)}</h1>", listing(names, packages)])}
    for who, names in maintained.items():
        yield {"url": maintainer_url(who), "html": page(who, [f"<h1>{escape(who)}</h1>", listing(names, packages)])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="the JSON lines to write")
    file = parser.parse_args().file
    with tempfile.TemporaryDirectory() as folder:
        lists = Path(folder)
        (lists / "partial").mkdir()
        apt("apt-get", "update", lists=lists)
        packages = read_packages(lists)
    count = 0
    with file.open("w", encoding="utf-8") as out:
        for record in records(packages):
            count += 1
            out.write(json.dumps(record) + "\n")
    print(json.dumps({"pages": count, "packages": len(packages)}))


if __name__ == "__main__":
    main()
