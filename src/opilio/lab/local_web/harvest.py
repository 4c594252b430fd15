"""Reading the documentation of installed packages, in child processes.

Importing a package may print, warn, or in the worst case end the process, so it never happens in the caller's: each
package is read by a child process whose output is discarded. A child that dies costs its own package, nothing more.

A reference is written down by the *real* name of what it points at (where it was defined), as the child of one package
cannot know under which name the child of another publishes it; `weave` brings both together.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import io
import os
import pkgutil
import re
import signal
import subprocess
import sys
import tempfile
import time
import types
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from opilio.lab.local_web.sections import STDLIB, Section
from opilio.process import Channel, end_with_parent, start

# A docstring shorter than this makes an entry in its module's page, not a page of its own.
MIN_DOC_CHARS = 60
MIN_METHOD_DOC_CHARS = 160
MAX_DOC_CHARS = 40_000
MAX_SOURCE_LINES = 60
CHILD_TIMEOUT_S = 180.0

_SKIPPED_MODULES = re.compile(
    r"(^|\.)(_\w*|tests?|testing_\w*|conftest|__main__|this|antigravity|idlelib|turtledemo|\w+_tests?)$"
)
_PYDOC_TOPICS = "pydoc_data.topics"
_RULE = re.compile(r"^\s*([-=~^*#])\1{2,}\s*$")
_ROLE = re.compile(r"(?::[a-z:]+:)?`+~?([^`]*)`+")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Doc(msgspec.Struct, frozen=True):
    """One documented object, under the name its section publishes it by."""

    name: str
    kind: str  # module, class, function, method or topic
    host: str
    module: str
    text: str
    real_name: str = ""
    signature: str = ""
    source: str = ""
    bases: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    entries: tuple[tuple[str, str], ...] = ()  # members too briefly documented for a page: (name, summary)


def harvest(sections: Iterable[Section]) -> list[Doc]:
    """The documentation of all sections whose packages are installed, in the order of the sections."""
    groups: dict[str, list[Section]] = {}
    for section in sections:
        groups.setdefault(section.package, []).append(section)
    installed = {name: group for name, group in groups.items() if name == STDLIB or _is_installed(name)}
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        return [doc for docs in pool.map(_read_in_child, installed.values()) for doc in docs]


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _child_environment(folder: str) -> dict[str, str]:
    """Of the caller's environment only what finds Python and its libraries; a home that vanishes with the child."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT") if name in os.environ}
    return kept | {
        "HOME": folder,
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONWARNINGS": "ignore",
    }


def _read_in_child(sections: list[Section]) -> list[Doc]:
    with tempfile.TemporaryDirectory(prefix="opilio-harvest-") as folder:
        child = start(
            "opilio.lab.local_web.harvest:send_docs",
            *(section.host for section in sections),
            environment=_child_environment(folder),
            folder=Path(folder),
            output=subprocess.DEVNULL,
            errors=subprocess.DEVNULL,
        )
        try:
            answer = child.channel.receive(time.monotonic() + CHILD_TIMEOUT_S)
            return msgspec.msgpack.decode(answer, type=list[Doc]) if answer else []
        except (OSError, msgspec.DecodeError):
            return []
        finally:
            child.close()


def read_sections(sections: Iterable[Section]) -> list[Doc]:
    """Import the sections' modules here and read them; only ever called in a child."""
    seen_objects: dict[int, Any] = {}
    seen_texts: set[str] = set()
    docs: list[Doc] = []
    for section in sections:
        for module_name in dict.fromkeys(_expand(section.modules)):
            if module_name == _PYDOC_TOPICS:
                docs += _language_topics(section)
            elif (module := _import(module_name)) is not None:
                docs += _ModuleReader(module, module_name, section, seen_objects, seen_texts).read()
    return docs


def _expand(patterns: Iterable[str]) -> Iterator[str]:
    for pattern in patterns:
        name = pattern.rstrip("*")
        yield name
        if name != pattern and (package := _import(name)) is not None:
            yield from _submodules(package, name)


def _submodules(package: types.ModuleType, name: str) -> Iterator[str]:
    for info in sorted(pkgutil.iter_modules(getattr(package, "__path__", None) or []), key=lambda found: found.name):
        full = f"{name}.{info.name}"
        if _SKIPPED_MODULES.search(full):
            continue
        yield full
        if info.ispkg and (inner := _import(full)) is not None:
            yield from _submodules(inner, full)


def _import(name: str) -> types.ModuleType | None:
    if _SKIPPED_MODULES.search(name) and name != "_thread":
        return None
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit):  # whatever a foreign module raises while it is imported
        return None


def _language_topics(section: Section) -> list[Doc]:
    """The language reference that `help()` shows: one long text for each topic."""
    module = _import(_PYDOC_TOPICS)
    topics: dict[str, str] = getattr(module, "topics", {})
    kept = dict.fromkeys(sorted(topics, key=lambda name: (topics[name], name)))
    unique = {topics[name]: name for name in kept}
    docs = [
        Doc(f"language.{name}", "topic", section.host, "language", text[:MAX_DOC_CHARS])
        for text, name in sorted(unique.items(), key=lambda item: item[1])
    ]
    about = inspect.getdoc(module) or "The Python language reference, as the help command shows it."
    return [Doc("language", "module", section.host, "language", about), *docs] if docs else []


class _ModuleReader:
    """Reads one module: its own page, then a page for each public object that is documented well enough."""

    def __init__(
        self,
        module: types.ModuleType,
        name: str,
        section: Section,
        seen_objects: dict[int, Any],
        seen_texts: set[str],
    ) -> None:
        self.module, self.name, self.section = module, name, section
        self.seen_objects, self.seen_texts = seen_objects, seen_texts
        self.found: list[Doc] = []

    def read(self) -> list[Doc]:
        entries: list[tuple[str, str]] = []
        for name, value in self._public_objects():
            text = _text_of(value)
            if text:
                self._read_object(name, value, text, entries)
        text = _text_of(self.module)
        if not self.found and len(text) < MIN_DOC_CHARS:
            return []
        uses = tuple(sorted({v.__name__ for v in vars(self.module).values() if isinstance(v, types.ModuleType)}))
        page = Doc(
            self.name,
            "module",
            self.section.host,
            self.name,
            text,
            self.module.__name__,
            uses=uses,
            entries=tuple(entries),
        )
        return [page, *self.found]

    def _public_objects(self) -> Iterator[tuple[str, Any]]:
        namespace = vars(self.module)
        declared = getattr(self.module, "__all__", None)
        top = self.name.partition(".")[0]
        for name in sorted(str(n) for n in (declared if isinstance(declared, (list, tuple)) else namespace)):
            value = namespace.get(name)
            if name.startswith("_") or value is None or isinstance(value, types.ModuleType) or not callable(value):
                continue
            home = str(getattr(value, "__module__", None) or self.name)
            is_own = home in (self.name, "builtins", f"_{self.name}") or (
                declared is not None and (self.section.package == STDLIB or home.partition(".")[0].lstrip("_") == top)
            )
            if is_own and id(value) not in self.seen_objects:
                self.seen_objects[id(value)] = value  # kept alive, so that no other object gets this id
                yield name, value

    def _read_object(self, name: str, value: Any, text: str, entries: list[tuple[str, str]]) -> None:
        full = f"{self.name}.{name}"
        methods: list[Doc] = []
        method_entries: list[tuple[str, str]] = []
        if inspect.isclass(value):
            methods, method_entries = self._methods(full, value)
        is_brief = len(text) < MIN_DOC_CHARS and not methods
        if is_brief or text in self.seen_texts:
            entries.append((name, summary(text)))
            self.found += methods
            return
        self.seen_texts.add(text)
        kind = "class" if inspect.isclass(value) else "function"
        doc = self._doc(full, kind, value, text, tuple(method_entries))
        self.found += [doc, *methods]

    def _methods(self, full: str, cls: type) -> tuple[list[Doc], list[tuple[str, str]]]:
        docs: list[Doc] = []
        entries: list[tuple[str, str]] = []
        for name, raw in sorted(vars(cls).items()):
            value = getattr(raw, "__func__", raw)
            if name.startswith("_") or not (callable(value) or isinstance(value, property)):
                continue
            text = _text_of(value)
            if not text:
                continue
            if len(text) < MIN_METHOD_DOC_CHARS or text in self.seen_texts:
                entries.append((name, summary(text)))
                continue
            self.seen_texts.add(text)
            docs.append(self._doc(f"{full}.{name}", "method", value, text, ()))
        return docs, entries

    def _doc(self, full: str, kind: str, value: Any, text: str, entries: tuple[tuple[str, str], ...]) -> Doc:
        bases = tuple(_real_name(base) for base in getattr(value, "__bases__", ()) if base is not object)
        return Doc(
            full,
            kind,
            self.section.host,
            self.name,
            text,
            _real_name(value),
            signature_of(value),
            _source_of(value),
            bases,
            _uses_of(value),
            entries,
        )


def summary(text: str) -> str:
    """The first sentence of a docstring, on one line."""
    kept = "\n".join(line for line in text.strip().splitlines() if not _RULE.match(line))
    paragraph = _ROLE.sub(r"\1", " ".join(kept.strip().split("\n\n", 1)[0].split()))
    return re.split(r"(?<=[.!?])\s", paragraph, maxsplit=1)[0][:160]


def _text_of(value: Any) -> str:
    try:
        text = value.__doc__
        if not isinstance(text, str) or (not isinstance(value, type) and text is type(value).__doc__):
            return ""
        return without_chance(inspect.cleandoc(text))[:MAX_DOC_CHARS].strip()
    except Exception:  # descriptors and lazy objects of foreign packages may raise anything
        return ""


def without_chance(text: str) -> str:
    """A docstring without what differs from one import to the next: addresses, and samples drawn for an example."""
    lines: list[str] = []
    output_starts = 0
    for line in _ADDRESS.sub("", text).splitlines():
        if "# may vary" in line and not line.lstrip().startswith(">>>"):
            lines[output_starts:] = ["..."]
            continue
        lines.append(line)
        if not line.strip() or line.lstrip().startswith((">>>", "...")):
            output_starts = len(lines)
    return "\n".join(lines)


def _real_name(value: Any) -> str:
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    return f"{module}.{name}" if isinstance(module, str) and isinstance(name, str) else ""


def signature_of(value: Any) -> str:
    """The signature, with plain default values only."""
    try:
        signature = inspect.signature(value)
        shown = [p.replace(default=_shown_default(p.default)) for p in signature.parameters.values()]
        return _ADDRESS.sub("", str(signature.replace(parameters=shown)))[:400]
    except Exception:  # C functions without a signature, and whatever default values do in their repr
        return ""


class _Omitted:
    """Stands for a default value that is not shown."""

    def __repr__(self) -> str:
        return "..."


def _shown_default(value: Any) -> Any:
    """A default value as long as it is plain: the text of others depends on this machine (`os.environ` is one)."""
    is_plain = value is None or isinstance(value, (bool, int, float)) or value in ((), inspect.Parameter.empty)
    is_short_text = isinstance(value, (str, bytes)) and len(value) <= 40 and os.sep not in str(value)
    return value if is_plain or is_short_text else _Omitted()


def _source_of(value: Any) -> str:
    """The code without its docstring: what "view source" shows on a documentation site."""
    if inspect.isclass(value):
        return ""
    try:
        source = inspect.cleandoc("\n" + inspect.getsource(inspect.unwrap(getattr(value, "fget", value) or value)))
        node = ast.parse(source).body[0]
        lines = source.splitlines()
        body = getattr(node, "body", [])
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            del lines[body[0].lineno - 1 : body[0].end_lineno]
        return "\n".join(lines[:MAX_SOURCE_LINES])
    except Exception:  # no source, or source that is not what runs
        return ""


def _uses_of(value: Any) -> tuple[str, ...]:
    """Real names of the modules, classes and functions the code of `value` calls by a global name."""
    code, names = getattr(value, "__code__", None), getattr(value, "__globals__", None)
    if not isinstance(code, types.CodeType) or not isinstance(names, dict):
        return ()
    used = (names.get(name) for name in code.co_names)
    found = {u.__name__ if isinstance(u, types.ModuleType) else _real_name(u) for u in used if u is not None}
    return tuple(sorted(found - {""}))


def send_docs(channel: Channel, *hosts: str) -> None:
    """The work of a child: read the sections of these hosts and send what was found."""
    from opilio.lab.local_web.sections import SECTIONS  # noqa: PLC0415

    end_with_parent(channel, signal.SIGKILL)
    sys.stdout = sys.stderr = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        docs = read_sections(section for section in SECTIONS if section.host in hosts)
    channel.send(msgspec.msgpack.encode(docs))
    os._exit(0)  # exit handlers of whatever was imported are none of our business
