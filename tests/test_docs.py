"""The documentation is true: generated pages are current, links resolve, commands parse, SQL runs, examples run."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import opilio
from opilio.cli import cli
from opilio.settings import Settings, from_table, override, parse_assignment
from opilio.store import Store

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(opilio.__file__).parent.parent)}
_SHELL = {"|", ">", ">>", "&", "&&", ";"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path, *languages: str) -> list[str]:
    """The fenced blocks of a page that are in one of `languages`."""
    return [text for language, text in _FENCED.findall(path.read_text("utf-8")) if language in languages]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every `opilio` command line on any page, with the page it stands on."""
    for path in PAGES:
        text = path.read_text("utf-8")
        for language, block in _FENCED.findall(text):
            for line in block.replace("\\\n", " ").splitlines():
                found = re.match(r"(\$ )?opilio ([a-z].*)", line.strip())
                if found and (found[1] or language == "console") and not found[2].startswith("--"):
                    yield name_of(path), words_of(found[2])


def words_of(line: str) -> list[str]:
    """The words of a command line as the shell gives them to the program: no comment, nothing behind a pipe."""
    words: list[str] = []
    for word in shlex.split(line, comments=True):
        if word in _SHELL:
            break
        words.append(word)
    return words


COMMANDS = [pytest.param(words, id=f"{page}: {' '.join(words)[:60]}") for page, words in commands()]


def parse(words: list[str]) -> click.Context:
    """A command line as click understands it; fails on an unknown command, option or value."""
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None, f"no command {words[0]}"
    return command.make_context(words[0], list(words[1:]))


def test_reference_pages_are_current() -> None:
    """docs/reference is what the code says today; `python docs/generate.py` brings it up to date."""
    program = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    checked = subprocess.run(program, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_resolve(path: Path) -> None:
    """Each relative link names a file that exists, and each fragment a heading of it."""
    text = re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL)
    for link in _LINK.findall(text):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        file, _, fragment = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), f"{name_of(path)}: {link} does not exist"
        if fragment:
            assert fragment in headings(target), f"{name_of(path)}: {link}: no such heading"


def headings(path: Path) -> set[str]:
    """The fragments of a page's headings, as code hosts make them."""
    found = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def linked_pages(path: Path) -> set[Path]:
    """The pages of the documentation that a page links to."""
    files = {link.partition("#")[0] for link in _LINK.findall(path.read_text("utf-8")) if "://" not in link}
    return {target for file in files if (target := (path.parent / file).resolve()).suffix == ".md"}


def reachable_from(start: Path) -> set[str]:
    """The names of all pages that following links from a page leads to."""
    reached: set[Path] = set()
    pending = [start]
    while pending:
        path = pending.pop()
        if path not in reached:
            reached.add(path)
            pending += linked_pages(path)
    return {name_of(path) for path in reached}


def test_every_page_can_be_reached() -> None:
    """Following links from the README leads to every page of the documentation."""
    assert not {name_of(path) for path in PAGES} - reachable_from(ROOT / "README.md")


def test_the_index_reaches_every_page_of_docs() -> None:
    """Following links from docs/index.md leads to every page under docs, and the index itself names each of them."""
    index, docs = ROOT / "docs" / "index.md", ROOT / "docs"
    pages = {path for path in PAGES if docs in path.parents}
    assert not {name_of(path) for path in pages} - reachable_from(index)
    assert not {name_of(path) for path in pages - {index} - linked_pages(index)}


def test_the_readme_is_short_and_names_the_commands() -> None:
    """The README has at most 900 words and shows how to run the demo and the tests."""
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.split()) <= 900
    assert all(command in text for command in ("make demo", "make test"))


def test_there_are_commands_to_check() -> None:
    """The tests below have something to check, in the README, the tutorial and the guides."""
    pages = {page for page, _ in commands()}
    assert {"README.md", "docs/tutorial.md", "docs/guides/crawling.md"} <= pages
    assert len(COMMANDS) > 60


@pytest.mark.parametrize("words", COMMANDS)
def test_commands_parse(words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each command line of the documentation names a command and options that exist, with values they take."""
    monkeypatch.chdir(tmp_path)  # no folder of ours is there by chance
    context = parse(words)
    changes = dict(parse_assignment(text) for text in context.params.get("assignments", ()))
    assert isinstance(override(Settings(), changes), Settings)


def test_sql_and_orders_on_command_lines_run(tmp_path: Path) -> None:
    """Each statement, condition and order on a command line is one that a collection answers."""
    asked = 0
    with Store.create(tmp_path) as store:
        for _, words in commands():
            if "relevnce" in " ".join(words):
                continue  # shown as a mistake
            given = parse(words).params
            statement, order = given.get("statement"), given.get("order") or given.get("order_by")
            if statement and statement != "-":
                store.query(statement, write=bool(given["write"]))
            if order:
                store.check_order_by(order)
            if given.get("where"):
                store.query(f"SELECT {given['columns'] or '*'} FROM collection WHERE {given['where']}")
            asked += bool(statement) + bool(order)
    assert asked > 20


@pytest.mark.parametrize("path", [path for path in PAGES if blocks(path, "toml")], ids=name_of)
def test_toml_is_settings(path: Path) -> None:
    """Each TOML block is settings as crawl.toml takes them, an entry point of a plug-in, or a file of peers."""
    import tomllib

    for block in blocks(path, "toml"):
        table = tomllib.loads(block)
        if not table.keys() & {"project", "peer"}:
            assert isinstance(from_table(table), Settings)


@pytest.mark.parametrize("path", [path for path in GUIDES if blocks(path, "python")], ids=name_of)
def test_examples_of_guides_run(path: Path, tmp_path: Path) -> None:
    """The Python blocks of a guide, one after the other in an empty folder, run to their end."""
    program = tmp_path / "example.py"
    code = "\n".join(blocks(path, "python"))
    program.write_text(code + "\n", "utf-8")
    ran = subprocess.run(
        [sys.executable, program.name],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout if "print(" in code else True


def test_the_readme_example_is_python() -> None:
    """The README's Python example compiles, and calls what there is."""
    from opilio import Collection

    [code] = blocks(ROOT / "README.md", "python")
    compile(code, "README.md", "exec")
    for method in re.findall(r"\bbirds\.(\w+)\(", code):
        assert callable(getattr(Collection, method))
