"""The house: imports point one way, and every package tells its story."""

import ast
import importlib
import re
from pathlib import Path

import opilio

ROOT = Path(opilio.__file__).parent
ORDER = [
    "errors", "process", "registry", "settings", "model", "topics", "frontier", "fetch", "seeds", "render", "analyze", "features", "classify", "store",
    "distill", "learn", "search", "export", "federation", "crawl", "parts", "sift", "cluster", "integrations", "lab", "evaluate", "localweb", "web", "standing", "assistants", "cli", "__main__",
]  # fmt: skip
MODULES = sorted(ROOT.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = ["opilio", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path) -> set[str]:
    """Every module of ours that a file imports, in functions and for types too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {name for name in names if name.startswith("opilio.")}


def test_imports_point_one_way() -> None:
    """No package imports one that comes after it on a page's journey."""
    wrong = []
    for path in MODULES:
        own = module_name(path).split(".")
        if len(own) < 2:
            continue  # the facade, opilio/__init__.py
        for name in imported_modules(path):
            other = name.split(".")[1]
            if other in ORDER and ORDER.index(other) > ORDER.index(own[1]):
                wrong.append(f"{'.'.join(own)} imports {name}")
    assert not wrong


def test_no_import_cycles() -> None:
    """No module can reach itself by imports, type-only and in-function imports included."""
    known = {module_name(path): path for path in MODULES}
    edges = {
        name: {
            target
            for target in imported_modules(path)
            if target in known and target != name and not name.startswith(target + ".")
        }
        for name, path in known.items()
    }
    done: set[str] = set()

    def walk(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"import cycle: {' -> '.join((*above, name))}"
        if name in done:
            return
        for target in edges[name]:
            walk(target, (*above, name))
        done.add(name)

    for name in edges:
        walk(name, ())


def test_every_package_tells_its_story() -> None:
    """Each package has a docstring of more than one sentence."""
    short = [
        module_name(path)
        for path in MODULES
        if path.name == "__init__.py"
        and path.parent != ROOT
        and len((importlib.import_module(module_name(path)).__doc__ or "").split(". ")) < 2
    ]
    assert not short


def test_every_package_has_its_place() -> None:
    """A package that is not in the order of the journey would escape the tests above."""
    packages = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("__")}
    modules = {path.stem for path in ROOT.glob("*.py") if not path.name.startswith("__")}
    assert packages | modules <= set(ORDER)


SQL = re.compile(r"\b(SELECT |INSERT INTO |DELETE FROM |UPDATE \w+ SET )")
SQL_ELSEWHERE = {
    "opilio.distill.focus": "the distiller of Focus is an algorithm in SQL",
    "opilio.parts": "dividing and joining collections maps one database onto others, table by table",
    "opilio.cli": "examples in help texts, and the questions of the demo",
    "opilio.assistants.tools": "an example in the description of a tool",
    "opilio.lab": "experiments query collections as a user does",
    "opilio.crawl.collection": "an example in the docstring",
    "opilio.distill.back_links": "files of back-links are read by DuckDB, outside of any collection",
}
"""Modules, or packages, outside the store that have SQL, and why."""


def test_sql_is_written_in_the_store() -> None:
    """Statements stand in the store's package, where the schema is; whoever needs rows calls a function there."""
    found = set()
    for path in MODULES:
        name = module_name(path)
        if name.startswith("opilio.store"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.search(node.value):
                found.add(name)
    unknown = {name for name in found if not any(f"{name}.".startswith(f"{known}.") for known in SQL_ELSEWHERE)}
    assert not unknown
    unused = [known for known in SQL_ELSEWHERE if not any(f"{name}.".startswith(f"{known}.") for name in found)]
    assert not unused, "remove from the list"


def test_names_that_are_loaded_on_first_use_exist() -> None:
    """`learn.train` and the like are found when they are used; type checkers cannot see a misspelled one."""
    wrong = []
    for path in MODULES:
        tree = ast.parse(path.read_text())
        packages = {
            alias.asname or alias.name: importlib.import_module(f"opilio.{alias.name}")
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "opilio"
            for alias in node.names
            if (ROOT / alias.name / "__init__.py").exists()
        }
        wrong += [
            f"{module_name(path)}: {node.value.id}.{node.attr}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            if node.value.id in packages and not hasattr(packages[node.value.id], node.attr)
        ]
    assert not wrong
