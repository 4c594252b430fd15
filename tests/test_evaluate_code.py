"""Runs are kept by a digest over the code that made them: all of that code, and code that exists."""

import ast
from pathlib import Path

import opilio
from opilio.lab.experiments.analysed import READING_CODE, digest_of_code
from opilio.lab.experiments.plan import CRAWL_CODE, SIMULATION_CODE

ROOT = Path(opilio.__file__).parent
WITHOUT_EFFECT = {
    "errors.py", "registry.py", "process", "settings",  # the values of settings are in the key themselves
    "store", "distill",  # a simulation has no database; what it shares with one are records
    "lab/webs",  # the digest of a web is in the key
    "crawl/messages.py",  # nothing is sent
    "learn/remedies.py",  # of notices, which nobody reads
    "crawl/pictures.py", "crawl/background.py",  # a simulation fetches no pictures
}  # fmt: skip


def is_covered(path: Path, parts: set[str]) -> bool:
    """Whether a file is one of the parts, or in one."""
    name = path.relative_to(ROOT).as_posix()
    return any(name == part or name.startswith(part + "/") for part in parts)


def imported(path: Path) -> set[Path]:
    """The modules of ours that a module imports when it is run."""
    tree = ast.parse(path.read_text())
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node not in for_types and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    found = {ROOT.parent / name.replace(".", "/") for name in names if name.startswith("opilio.")}
    return {path for name in found for path in (name.with_suffix(".py"), name / "__init__.py") if path.is_file()}


def test_what_is_named_exists() -> None:
    """A module that was renamed or removed must not stay in the lists."""
    for part in (*READING_CODE, *SIMULATION_CODE, *CRAWL_CODE):
        assert (ROOT / part).exists(), part


def test_all_that_simulates_is_named() -> None:
    """Whatever the simulator imports, directly or not, is in the digest, unless it cannot change a run."""
    covered = set(SIMULATION_CODE) | WITHOUT_EFFECT
    seen: set[Path] = set()
    to_do = {ROOT / "lab/experiments/simulate.py"}
    while to_do:
        path = to_do.pop()
        seen.add(path)
        if not is_covered(path, WITHOUT_EFFECT):
            to_do |= imported(path) - seen
    missing = {path.relative_to(ROOT).as_posix() for path in seen if not is_covered(path, covered)}
    assert {name for name in missing if not name.endswith("__init__.py")} == set()


def test_the_digest_sees_every_file() -> None:
    """Modules of packages inside packages count, and so does the order of the parts."""
    assert digest_of_code(("analyze",)) != digest_of_code(("analyze/documents",))
    assert len({digest_of_code((part,)) for part in SIMULATION_CODE}) == len(SIMULATION_CODE)
