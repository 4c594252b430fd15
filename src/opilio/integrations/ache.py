"""From a configuration of ACHE to a collection: its settings, seeds, link filters, page classifier and training pages.

ACHE is configured by a folder with `ache.yml` (flat keys in four groups), `link_filters.yml`, and a model folder with
`pageclassifier.yml`; its models are trained on two folders of HTML files, `positive` and `negative`. Models themselves
are serialised Java objects; Opilio trains its own from the pages.

`read_ache` translates all of it. Each key becomes a `TranslatedKey`: a setting of Opilio, something that Opilio does
anyway, or something that it does not have, with the reason. A key that is not in the configuration is not translated:
Opilio keeps its own default there, as ACHE's are for another crawler.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from opilio.analyze.files import MAX_FILE_BYTES, FileReader
from opilio.errors import InputError
from opilio.model.url import is_top_level
from opilio.settings import Settings
from opilio.topics.hierarchy import ROOT
from opilio.topics.inputs import query_topic, read_seeds
from opilio.topics.tree import ExampleKind, TopicTree

CONFIG, FILTERS, CLASSIFIER = "ache.yml", "link_filters.yml", "pageclassifier.yml"
POSITIVE, NEGATIVE = "positive", "negative"
ENDLESS = 10**9
"""A limit of this much is none: samples of ACHE write 1000000000 for it."""


class Kind(StrEnum):
    """What became of a key."""

    TRANSLATED = "translated"
    BUILT_IN = "built in"
    """Opilio does so anyway."""
    LEFT_OUT = "left out"


@dataclass(frozen=True)
class TranslatedKey:
    """What became of one key, file or folder of ACHE."""

    file: str
    key: str
    value: str
    kind: Kind
    says: str
    """The setting of Opilio with its value, or the reason."""


@dataclass
class AcheMigration:
    """What a configuration of ACHE is in Opilio."""

    tree: TopicTree = field(default_factory=TopicTree)
    """The topic with its examples, and the seeds."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of Opilio by dotted name."""
    keys: list[TranslatedKey] = field(default_factory=list)

    def note(self, file: str, key: str, value: Any, kind: Kind, says: str) -> None:
        """Report what became of a key."""
        self.keys.append(TranslatedKey(file, key, _shown(value), kind, says))

    def translate(self, file: str, key: str, value: Any, changes: Mapping[str, Any], note: str = "") -> None:
        """Set settings for a key, and report it."""
        self.settings.update(changes)
        said = ", ".join(f"{name} = {_shown(to)}" for name, to in changes.items())
        self.note(file, key, value, Kind.TRANSLATED, f"{said} ({note})" if note else said)

    def examples(self, *, positive: bool) -> int:
        """How many training pages there are on one side."""
        return sum(example.positive is positive and example.kind is ExampleKind.FILE for example in self.tree.examples)


OnRead = Callable[[int, int], object]


def read_ache(
    config: Path,
    *,
    seeds: Path | None = None,
    training: Path | None = None,
    model: Path | None = None,
    on_read: OnRead = lambda done, total: None,
) -> AcheMigration:
    """Translate a folder of configuration, or its `ache.yml`; `on_read` hears how many training pages were read.

    Seeds, training pages and the page classifier are looked for in the folder unless they are named.
    """
    file = config / CONFIG if config.is_dir() else config
    folder = file.parent
    found = AcheMigration()
    _translate_config(_table(file), found)
    filters = folder / FILTERS
    if filters.is_file():
        _translate_filters(_table(filters), found)
    for name, is_allowed in (("link_whitelist.txt", True), ("link_blacklist.txt", False)):
        if (folder / name).is_file():
            lines = [line.strip() for line in _text(folder / name).splitlines() if line.strip()]
            _Filters(found, name, "").add(lines, "regex", is_allowed=is_allowed)
    classifier = _classifier_file(folder, model)
    if classifier is not None:
        _translate_classifier(_table(classifier), found)
    _take_seeds(folder, seeds, found)
    _take_training(folder, training, found, on_read)
    return found


# -- files


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig", "replace")
    except OSError as error:
        raise InputError(
            f"{file}: {error.strerror}", f"Give the folder with {CONFIG} that you start ACHE with (ache startCrawl -c)."
        ) from None


def _table(file: Path) -> dict[str, Any]:
    """A YAML file that has keys and values."""
    try:
        table = yaml.safe_load(_text(file))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        first = " ".join(str(error).split())[:200]
        raise InputError(f"{file}: not valid YAML: {first}", "Correct the line that the message names.") from None
    if table is None:
        return {}
    if not isinstance(table, dict):
        raise InputError(f"{file}: no keys with values in it", f"Give a configuration of ACHE, such as {CONFIG}.")
    return {str(key): value for key, value in table.items()}


def _classifier_file(folder: Path, model: Path | None) -> Path | None:
    if model is not None:
        file = model / CLASSIFIER if model.is_dir() else model
        if not file.is_file():
            raise InputError(f"{model}: has no {CLASSIFIER}", "Give the folder that you start ACHE with as its model.")
        return file
    return next((file for file in (folder / CLASSIFIER, folder / "model" / CLASSIFIER) if file.is_file()), None)


def _take_seeds(folder: Path, seeds: Path | None, found: AcheMigration) -> None:
    file = seeds or next(
        (path for path in (folder / "seeds.txt", *sorted(folder.glob("*.seeds"))) if path.is_file()), None
    )
    if file is None:
        raise InputError(
            f"{folder}: no seeds.txt in it",
            "Give --seeds FILE: the file that you start ACHE with, or data_monitor/relevantpages.csv of its output.",
        )
    added = read_seeds(file, found.tree)
    found.note(file.name, "", "", Kind.TRANSLATED, f"{added:,} seeds")


def _take_training(folder: Path, training: Path | None, found: AcheMigration, on_read: OnRead) -> None:
    place = training or _training_folder(folder)
    if place is None:
        words = " ".join(found.tree.topics[ROOT].keywords)
        says = (
            f"none found: pages are judged by the words {words!r}"
            if words
            else "none found: nothing says what is wanted"
        )
        found.note(f"{POSITIVE}/", "", "", Kind.LEFT_OUT, f"{says}; --training DIR names the folder")
        return
    files = {side: _files_in(place / side) for side in (POSITIVE, NEGATIVE)}
    if not files[POSITIVE]:
        raise InputError(
            f"{place / POSITIVE}: no training pages in it",
            f"Give the folder that has the folders {POSITIVE} and {NEGATIVE} (ache buildModel -t).",
        )
    done, total = 0, sum(map(len, files.values()))
    root = found.tree.topics[ROOT]
    with FileReader(Settings()) as reader:
        for side, paths in files.items():
            unreadable: list[str] = []
            for path in paths:
                if _has_text(reader, path):
                    found.tree.add_example(root, ExampleKind.FILE, str(path.absolute()), positive=side == POSITIVE)
                else:
                    unreadable.append(path.name)
                done += 1
                on_read(done, total)
            says = "examples of the topic" if side == POSITIVE else "counter-examples: what is not wanted"
            found.note(f"{side}/", "", "", Kind.TRANSLATED, f"{len(paths) - len(unreadable):,} {says}")
            if unreadable:
                names = ", ".join(unreadable[:3]) + (" ..." if len(unreadable) > 3 else "")
                found.note(f"{side}/", "", names, Kind.LEFT_OUT, f"{len(unreadable):,} files without any text")
    if not found.examples(positive=True):
        raise InputError(f"{place / POSITIVE}: no file in it has any text", "Give the HTML of relevant pages.")


def _training_folder(folder: Path) -> Path | None:
    """The folder that has a folder of relevant pages: this one, or the first below it."""
    return next((path.parent for path in sorted(folder.glob(f"**/{POSITIVE}")) if path.is_dir()), None)


def _files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def _has_text(reader: FileReader, path: Path) -> bool:
    try:
        return path.stat().st_size <= MAX_FILE_BYTES and bool(reader.read(path).text.strip())
    except (InputError, OSError):
        return False


# -- ache.yml


def _count(value: Any) -> int:
    number = int(value)
    if isinstance(value, bool) or number < 0:
        raise ValueError
    return 0 if number >= ENDLESS else number


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _seconds(value: Any) -> float:
    return _count(value) / 1000


def _at_least_one(value: Any) -> int:
    return max(1, _count(value))


def _tries(value: Any) -> int:
    return _count(value) + 1


_DOWNLOADER = "crawler_manager.downloader."
_RENAMED: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "target_storage.visited_page_limit": ("limits.max_pages", _count, ""),
    "target_storage.data_format.warc.max_file_size": ("store.warc_max_bytes", _at_least_one, ""),
    "link_storage.max_pages_per_domain": ("limits.max_pages_per_host", _count, "of each host"),
    "link_storage.link_strategy.use_scope": (
        "scope.stay_on_seed_domains", _flag, "all hosts of the seeds' domains, where ACHE takes the seeds' hosts alone",
    ),
    "link_storage.download_sitemap_xml": ("robots.sitemaps", _flag, ""),
    "link_storage.scheduler.host_min_access_interval": ("fetch.host_delay_s", _seconds, "from the end of a request"),
    f"{_DOWNLOADER}download_thread_pool_size": ("fetch.in_flight", _at_least_one, ""),
    f"{_DOWNLOADER}max_retry_count": ("fetch.max_tries", _tries, "the first try counts"),
    f"{_DOWNLOADER}okhttp.connect_timeout": ("fetch.connect_timeout_s", _seconds, ""),
    f"{_DOWNLOADER}okhttp.read_timeout": ("fetch.read_timeout_s", _seconds, ""),
    f"{_DOWNLOADER}httpclient.connection_timeout": ("fetch.connect_timeout_s", _seconds, ""),
    f"{_DOWNLOADER}httpclient.socket_timeout": ("fetch.read_timeout_s", _seconds, ""),
}  # fmt: skip
"""Keys that have one setting as their counterpart: its name, its value from that of ACHE, and how it differs."""

_BUILT_IN = {
    ("target_storage.store_negative_pages", True): "all pages are stored, each with its relevance",
    ("target_storage.hard_focus", False): "links of irrelevant pages are queued, with a low priority",
    ("target_storage.bipartite", False): "",
    ("target_storage.english_language_detection_enabled", False): "pages in all languages are stored",
    ("link_storage.link_strategy.outlinks", True): "",
    ("link_storage.link_strategy.backlinks", False): "",
    (
        "link_storage.online_learning.enabled",
        True,
    ): "links are scored by what earlier links led to, from the first page",
    ("link_storage.link_selector", "TopkLinkSelector"): "the best link of a ready host comes next",
    ("link_storage.disallow_sites_in_robots_file", True): "robots.txt is obeyed, Crawl-delay included",
}
"""What Opilio does anyway, by key and value."""

_CONSOLE = "the portal: opilio serve"
_INTERNAL = "internal to ACHE: the frontier of a collection is in its database"
_MODELS = "links are scored by all evidence; `opilio settings` and docs/guides/ordering.md say what else there is"
_BACK_LINKS = "Opilio asks no search engine; it reads a file of back-links: frontier.back_links"
_NO_COUNTERPART: dict[str, str] = {
    "target_storage.store_negative_pages": 'all are stored; to export the others alone: --where "relevance >= 0.5"',
    "target_storage.hard_focus": "links of irrelevant pages come later; --strategy focus-hard drops them",
    "target_storage.bipartite": _BACK_LINKS,
    "target_storage.english_language_detection_enabled": (
        "pages in all languages are stored; to leave some out of an export: --where \"language = 'en'\""
    ),
    "target_storage.near_duplicate_detection.store": "near duplicates are counted, not stored",
    "target_storage.data_format": "pages are in WARC files and a database; opilio export writes other formats",
    "target_storage.target_directory": "the folder of the collection holds everything",
    "target_storage.elasticsearch": "the collection has a search index of its own: opilio search",
    "target_storage.server": _INTERNAL,
    "link_storage.link_strategy.outlinks": "links are always followed; --max-depth limits how far",
    "link_storage.link_strategy.backlinks": _BACK_LINKS,
    "link_storage.backsurfer": _BACK_LINKS,
    "link_storage.link_classifier.parameters": _MODELS,
    "link_storage.online_learning.enabled": "links are always scored by what earlier links led to",
    "link_storage.online_learning": "the scores of links follow each page, not every so many pages",
    "link_storage.link_selector": _MODELS,
    "link_storage.disallow_sites_in_robots_file": (
        "robots.txt is obeyed unless you say otherwise: --set robots.obey=false, where you may"
    ),
    "link_storage.scheduler.max_links": "the queue is kept in the database and filled from there: frontier.hot_urls",
    "link_storage.max_size_cache_urls": _INTERNAL,
    "link_storage.directory": _INTERNAL,
    "link_storage.persistent_hashtable": _INTERNAL,
    "link_storage.server": _INTERNAL,
    f"{_DOWNLOADER}connection_pool_size": "connections follow from fetch.in_flight and fetch.per_host",
    f"{_DOWNLOADER}use_okhttp3_fetcher": "Opilio has one way of fetching",
    f"{_DOWNLOADER}okhttp": "Opilio has one way of fetching",
    f"{_DOWNLOADER}httpclient": "Opilio has one way of fetching",
    f"{_DOWNLOADER}tor.": "the timeouts of all requests hold: fetch.connect_timeout_s and the others",
    f"{_DOWNLOADER}cookies": "requests carry no cookies",
    "http.": f"{_CONSOLE}; it listens on loopback, and changes need its token",
    "seed_finder": "bring saved results of a search engine: --seeds results.html",
}
"""Why a key has no counterpart; the longest beginning of it counts."""


def _translate_config(table: Mapping[str, Any], found: AcheMigration) -> None:
    taken: set[str] = set()
    for translate in (_near_duplicates, _link_classifier, _recrawl, _user_agent, _mime_types, _proxy):
        taken.update(translate(table, found))
    for key, value in table.items():
        if key not in taken:
            _translate_key(key, value, found)


def _translate_key(key: str, value: Any, found: AcheMigration) -> None:
    if key in _RENAMED:
        name, convert, note = _RENAMED[key]
        try:
            found.translate(CONFIG, key, value, {name: convert(value)}, note if value else "")
        except (TypeError, ValueError):
            found.note(CONFIG, key, value, Kind.LEFT_OUT, f"not a value of {name}")
        return
    known = next((why for (name, usual), why in _BUILT_IN.items() if (name, usual) == (key, value)), None)
    if known is not None:
        found.note(CONFIG, key, value, Kind.BUILT_IN, known)
        return
    starts = [start for start in _NO_COUNTERPART if key.startswith(start)]
    why = _NO_COUNTERPART[max(starts, key=len)] if starts else "not a key that is known of ACHE"
    found.note(CONFIG, key, value, Kind.LEFT_OUT, why)


def _near_duplicates(table: Mapping[str, Any], found: AcheMigration) -> Iterator[str]:
    switch, similarity = (f"target_storage.near_duplicate_detection.{name}" for name in ("enabled", "similarity"))
    if switch in table:
        yield switch
        is_on = table[switch] is True
        wanted = table.get(similarity, 0.9) if is_on else 0.0
        usable = isinstance(wanted, float | int) and 0 <= wanted <= 1
        value = float(wanted) if usable else 0.9
        found.translate(CONFIG, switch, table[switch], {"duplicates.near_jaccard": value})
    if similarity in table:
        yield similarity
        kind, says = (Kind.TRANSLATED, "see `enabled`") if table.get(switch) is True else (Kind.LEFT_OUT, "not enabled")
        found.note(CONFIG, similarity, table[similarity], kind, says)


_EVIDENCE = ("LinkClassifierBaseline", "LinkClassifierImpl", "LinkClassifierAuthority", "LinkClassifierHub")


def _link_classifier(table: Mapping[str, Any], found: AcheMigration) -> Iterator[str]:
    key, depth_key = "link_storage.link_classifier.type", "link_storage.link_classifier.max_depth"
    name, depth = table.get(key), table.get(depth_key)
    if key in table:
        yield key
        if name in {"LinkClassifierBreadthSearch", "MaxDepthLinkClassifier"}:
            found.translate(CONFIG, key, name, {"frontier.strategy": "breadth-first"})
        elif name in _EVIDENCE:
            note = "learns which links lead to relevant pages"
            found.translate(CONFIG, key, name, {"frontier.strategy": "evidence"}, note)
        else:
            found.note(CONFIG, key, name, Kind.LEFT_OUT, _MODELS)
    if depth_key in table:
        yield depth_key
        if name != "MaxDepthLinkClassifier":
            found.note(CONFIG, depth_key, depth, Kind.LEFT_OUT, "counts only with MaxDepthLinkClassifier")
        elif isinstance(depth, int) and depth > 0:
            found.translate(CONFIG, depth_key, depth, {"limits.max_depth": depth})
        else:
            says = "only the seeds: here a depth of 0 is no limit; --max-pages with their number comes near"
            found.note(CONFIG, depth_key, depth, Kind.LEFT_OUT, says)


def _recrawl(table: Mapping[str, Any], found: AcheMigration) -> Iterator[str]:
    """Sitemaps or relevant pages again and again: pages are visited when they are due."""
    start = "link_storage.recrawl_selector"
    for key, value in table.items():
        if not key.startswith(start):
            continue
        yield key
        if key != start:
            if key.endswith(".interval") and isinstance(value, int) and table.get(start) and not _limits_hosts(table):
                found.translate(
                    CONFIG, key, value, {"revisit.min_s": value * 60.0}, "the shortest time between two visits"
                )
            else:
                found.note(
                    CONFIG, key, value, Kind.LEFT_OUT, "pages are due by how often they change, the best hubs first"
                )
        elif _limits_hosts(table):
            says = "excluded by max_pages_per_domain: a host that is full gets no visits"
            found.note(CONFIG, key, value, Kind.LEFT_OUT, says)
        else:
            sitemaps = {"robots.sitemaps": True} if value == "SitemapsRecrawlSelector" else {}
            found.translate(CONFIG, key, value, {"revisit.keep_fresh": True, **sitemaps})


def _limits_hosts(table: Mapping[str, Any]) -> bool:
    value = table.get("link_storage.max_pages_per_domain")
    return isinstance(value, int) and 0 < value < ENDLESS


def _user_agent(table: Mapping[str, Any], found: AcheMigration) -> Iterator[str]:
    """Who crawls: not ACHE any more, and its project is not who site owners should write to."""
    for key, value in table.items():
        name = key.removeprefix(f"{_DOWNLOADER}user_agent.")
        if name == key:
            continue
        yield key
        if name == "name" and value and str(value).upper() != "ACHE":
            found.translate(CONFIG, key, value, {"fetch.user_agent": str(value)})
        elif name == "url" and value and "ViDA-NYU/ache" not in str(value):
            found.translate(CONFIG, key, value, {"fetch.contact_url": str(value)})
        elif name == "email" and value:
            found.settings.setdefault("fetch.contact_url", f"mailto:{value}")
            found.note(
                CONFIG, key, value, Kind.TRANSLATED, f"fetch.contact_url = {found.settings['fetch.contact_url']}"
            )
        elif name == "string" and value and not str(value).startswith("Mozilla/"):
            found.translate(CONFIG, key, value, {"fetch.user_agent": str(value)})
        elif name == "string":
            found.note(
                CONFIG, key, value, Kind.LEFT_OUT, "the name of a browser; Opilio says what it is: fetch.user_agent"
            )
        else:
            says = "requests come from Opilio; say where site owners can reach you: --contact URL"
            found.note(CONFIG, key, value, Kind.LEFT_OUT, says)


def _mime_types(table: Mapping[str, Any], found: AcheMigration) -> Iterator[str]:
    key = f"{_DOWNLOADER}valid_mime_types"
    if key not in table:
        return
    yield key
    known = Settings().fetch.accept
    given = [str(mime) for mime in table[key]] if isinstance(table[key], list) else []
    kept = {mime: known[mime] for mime in given if mime in known}
    others = [mime for mime in given if mime not in known]
    if not kept:
        found.note(CONFIG, key, given, Kind.LEFT_OUT, "none of these formats can be read")
        return
    note = f"cannot be read: {', '.join(others)}" if others else "documents, such as PDF, are not among them"
    found.settings["fetch.accept"] = kept
    found.note(CONFIG, key, given, Kind.TRANSLATED, f"fetch.accept: {', '.join(kept)} ({note})")


def _proxy(table: Mapping[str, Any], found: AcheMigration) -> Iterator[str]:
    start = f"{_DOWNLOADER}okhttp3.proxy_"
    parts = {key.removeprefix(start): value for key, value in table.items() if key.startswith(start)}
    yield from (f"{start}{name}" for name in parts)
    if parts.get("host"):
        user = quote(str(parts.get("username") or ""), safe="")
        secret = f":{quote(str(parts['password']), safe='')}" if parts.get("password") else ""
        address = f"{parts['host']}:{parts.get('port') or 8080}"
        found.settings["fetch.proxy"] = f"http://{user}{secret}@{address}" if user else f"http://{address}"
        found.note(
            CONFIG, f"{start}*", address, Kind.TRANSLATED, f"fetch.proxy = http://{'***@' if user else ''}{address}"
        )
    elif parts:
        found.note(CONFIG, f"{start}*", "", Kind.BUILT_IN, "no proxy is used")
    tor = f"{_DOWNLOADER}torproxy"
    if tor in table:
        yield tor
        if table[tor]:
            note = "for all hosts, where ACHE uses it for .onion alone"
            changes = {"fetch.proxy": str(table[tor]), "fetch.proxy_resolves_names": True}
            found.translate(CONFIG, tor, table[tor], changes, note)
        else:
            found.note(CONFIG, tor, "", Kind.BUILT_IN, "no proxy is used")


# -- link_filters.yml


def _translate_filters(table: Mapping[str, Any], found: AcheMigration) -> None:
    for place, rules in table.items():
        if not isinstance(rules, dict):
            found.note(FILTERS, place, rules, Kind.LEFT_OUT, "no lists of patterns in it")
            continue
        filters = _Filters(found, FILTERS, "" if place == "global" else place)
        form = str(rules.get("type", "wildcard"))
        for name, is_allowed in (("whitelist", True), ("blacklist", False)):
            patterns = rules.get(name)
            if patterns:
                lines = [str(one) for one in patterns] if isinstance(patterns, list) else [str(patterns)]
                filters.add(lines, form, is_allowed=is_allowed)


class _Filters:
    """Translates patterns into domains and beginnings of URLs, which are all that a scope of Opilio has."""

    def __init__(self, found: AcheMigration, file: str, host: str) -> None:
        """`host`: the patterns hold for this host alone."""
        self._found = found
        self._file = file
        self._host = host

    def add(self, patterns: list[str], form: str, *, is_allowed: bool) -> None:
        """Translate the patterns that URLs must match, or must not."""
        if is_allowed:
            self._allow(patterns, form)
            return
        for pattern in patterns:
            place = _place_of(pattern, form)
            if place is None:
                why = (
                    "neither a host nor the beginning of URLs; `opilio host` locks hosts, scope.locked_urls beginnings"
                )
                self._note("blacklist", pattern, Kind.LEFT_OUT, why)
                continue
            host, path = place
            name = "scope.locked_urls" if path else "scope.locked_domains"
            added = f"https://{host}{path}" if path else host
            before = self._found.settings.get(name, Settings().scope.locked_domains if not path else ())
            self._found.settings[name] = tuple(dict.fromkeys((*before, added)))
            self._note("blacklist", pattern, Kind.TRANSLATED, f"{name}: {added}")

    def _allow(self, patterns: list[str], form: str) -> None:
        """Domains, if each pattern is one: with some of them, URLs would be refused that ACHE takes."""
        places = [_place_of(pattern, form) for pattern in patterns]
        hosts = [place[0] for place in places if place and not place[1]]
        shown = ", ".join(patterns)
        if self._host:
            self._note("whitelist", shown, Kind.LEFT_OUT, "what is allowed cannot be narrowed for one host")
        elif len(hosts) < len(patterns):
            self._note(
                "whitelist", shown, Kind.LEFT_OUT, "not all of them are whole hosts; scope.only_domains takes hosts"
            )
        else:
            self._found.settings["scope.only_domains"] = tuple(dict.fromkeys(hosts))
            self._note("whitelist", shown, Kind.TRANSLATED, f"scope.only_domains: {', '.join(hosts)}")

    def _note(self, name: str, pattern: str, kind: Kind, says: str) -> None:
        self._found.note(self._file, f"{self._host or 'global'} {name}", pattern, kind, says)


_SCHEME = re.compile(r"(?:https?|http\*|http\?|\*)://")
_HOST = re.compile(r"(?:\*\.)?([\w-]+(?:\.[\w-]+)+(?::\d+)?)")
_REGEX_SIGNS = re.compile(r"[\[\](){}|^$+*?\\]")


def _place_of(pattern: str, form: str) -> tuple[str, str] | None:
    """The host and the beginning of the path that a pattern stands for; None if it stands for something else."""
    text = pattern.strip()
    if form == "regex":
        text = text.removeprefix("^").removesuffix("$").replace(r"\/", "/").replace("(http|https)", "http")
        text = re.sub(r"\(?https\?\)?", "http", text)
        text = re.sub(r"/\*$", "/.*", text)  # ACHE's own sample means everything below by it
        is_open, text = text.endswith(".*"), text.removesuffix(".*").replace(r"\.", ".").replace(r"\-", "-")
        if _REGEX_SIGNS.search(text):
            return None
    else:
        is_open, text = text.endswith("*"), text.removesuffix("*")
    has_scheme = _SCHEME.match(text)
    text = text[has_scheme.end() :] if has_scheme else text.removeprefix("*")
    found = _HOST.match(text)
    if found and not has_scheme and not is_top_level(found[1].rpartition(".")[2]):
        return None  # part of a path, such as *index.html*
    path = text[found.end() :] if found else ""
    if found is None or (path and not path.startswith("/")) or "*" in path or "?" in path:
        return None
    if path == "/":
        path = ""
    return (found[1].lower(), path) if is_open or path else None


# -- pageclassifier.yml


def _translate_classifier(table: Mapping[str, Any], found: AcheMigration) -> None:
    kind = str(table.get("type", ""))
    parameters = table.get("parameters")
    parameters = parameters if isinstance(parameters, dict) else {}
    if kind in {"smile", "weka"}:
        says = "a support vector machine is trained on your training pages; Java models cannot be read"
        found.translate(CLASSIFIER, "type", kind, {"classify.classifier": "svm"}, says)
        for name, value in parameters.items():
            if name == "relevance_threshold" and isinstance(value, float | int):
                prefer = "precision" if value > 0.5 else "recall" if value < 0.5 else "balance"
                found.translate(CLASSIFIER, name, value, {"classify.prefer": prefer}, "probabilities are not the same")
            else:
                found.note(CLASSIFIER, name, value, Kind.LEFT_OUT, "Opilio makes its own features, with its stop words")
        return
    words: list[str] = []
    for name, patterns in _patterns_of(parameters):
        for pattern in patterns:
            own = _words_of(pattern) if name in {"title", "content", ""} and kind != "url_regex" else []
            words += own
            if own:
                found.note(CLASSIFIER, name or kind, pattern, Kind.TRANSLATED, f"words of the topic: {' '.join(own)}")
            else:
                says = "pages are judged by their words, not by patterns; give examples, or a query"
                found.note(CLASSIFIER, name or kind, pattern, Kind.LEFT_OUT, says)
    if words:
        query_topic(" ".join(dict.fromkeys(words)), found.tree)


def _patterns_of(parameters: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """The regular expressions of a page classifier, by the field of a page that they are for."""
    for name, value in parameters.items():
        if name in {"regular_expression", "regular_expressions"}:
            yield "", [str(one) for one in value] if isinstance(value, list) else [str(value)]
        elif isinstance(value, dict) and isinstance(value.get("regexes"), list):
            yield name, [str(one) for one in value["regexes"]]


def _words_of(pattern: str) -> list[str]:
    """The words of a pattern that is made of nothing but words and what may stand around them."""
    text = re.sub(r"\(\?[a-z]+\)|\\[bsn][+*?]?|\.[*+]|\^|\$|\(\?:|[()|]", " ", pattern)
    words = re.sub(r"(?<=[^\W_])\?", "", text).split()
    return words if all(re.fullmatch(r"[^\W_]+(?:-[^\W_]+)*", word) for word in words) else []


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    return "" if value is None else str(value)
