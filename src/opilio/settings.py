"""One TOML file per collection, read into frozen dataclasses. An unknown key is an error that names the nearest one.

Every setting has its default here, with its unit in its name and its meaning in the comment above it; the reference
page of the settings is made from this file (docs/generate.py).
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
import tomllib
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opilio.errors import SettingsError

FILE_NAME = "crawl.toml"

KIB, MIB, GIB = 2**10, 2**20, 2**30


@dataclass(frozen=True)
class Limits:
    """When the crawl ends. 0 means no limit."""

    # Pages stored in all.
    max_pages: int = 0
    # Seconds of crawling, over all runs of this collection.
    max_time_s: float = 0.0
    # Links from a seed.
    max_depth: int = 0
    # Bytes received in all.
    max_bytes: int = 0
    # Pages stored of one host.
    max_pages_per_host: int = 0
    # URLs known in all; further ones are counted and forgotten.
    max_urls: int = 100_000_000
    # The crawl ends when so large a share of what is relevant and can be reached is found, by its own estimate.
    recall: float = 0.0
    # The crawl ends when less than this share of the latest `harvest_pages` pages was relevant.
    min_harvest: float = 0.0
    # Pages over which the harvest rate is watched.
    harvest_pages: int = 1000


@dataclass(frozen=True)
class Scope:
    """Which hosts may be asked at all. A domain covers its subdomains."""

    # Never fetched: search engines and the like.
    locked_domains: tuple[str, ...] = (
        "google.com", "bing.com", "duckduckgo.com", "yahoo.com", "baidu.com", "yandex.com", "yandex.ru",
        "facebook.com", "instagram.com", "x.com", "twitter.com", "linkedin.com", "pinterest.com", "tiktok.com",
    )  # fmt: skip
    # When not empty: nothing outside these is fetched.
    only_domains: tuple[str, ...] = ()
    # Fetch only hosts of the seeds' registered domains.
    stay_on_seed_domains: bool = False


@dataclass(frozen=True)
class Frontier:
    """Which URL next."""

    # auto (evidence, or best-first while nothing says what is wanted), evidence (all that is known of a URL),
    # best-first, breadth-first, depth-first; those of papers: focus, focus-hard, bingo, oasis, shark-search,
    # best-n-first, bfs1 ... bfs256 (best-n-first with that N); sql; or a plug-in's name.
    strategy: str = "auto"
    # N of best-n-first: how many of the best URLs are taken before their links are looked at.
    n: int = 256
    # `bingo`: links are followed through so many pages in a row that no topic took.
    tunnel_steps: int = 2
    # `bingo`: what is left of the priority after each of them.
    tunnel_decay: float = 0.5
    # ORDER BY expression of the strategy `sql`, over the table crawl.
    order_by: str = ""
    # URLs kept in memory for each topic (BINGO's incoming queue); the rest waits in the database.
    hot_urls: int = 25_000
    # Waiting URLs kept in all (MAX_BUFFER of Best-N-First); the worst are dropped for good. 0: all are kept.
    max_waiting: int = 0
    # A SQL order is asked for anew after so many seconds.
    refresh_s: float = 5.0
    # `evidence`: pieces of evidence that are left out, by the names that `opilio explain --link` shows.
    evidence_without: tuple[str, ...] = ()
    # `evidence`: share of URLs that are taken to find out about their kind, not because they are the best.
    explore_share: float = 0.0
    # Let that share grow and shrink with what exploration finds, beside what is taken as the best.
    explore_adapts: bool = False
    # Hubs and authorities are found anew after so many pages, and what great hubs recommend rises; 0: never.
    distill_after: int = 0
    # A great hub has a higher score than this share of all hubs.
    hub_percentile: float = 0.9
    # Try the folders above a relevant page too (http://a.org/x/y/z.html: /x/y/, /x/, /).
    truncate_paths: bool = False
    # A file of known links of the web (CSV, JSONL or Parquet with the columns source and target): what links to a
    # relevant page is tried too.
    back_links: str = ""


_DOCUMENT_TYPES = (
    *("application/pdf", "application/x-pdf", "application/postscript", "application/rtf", "text/rtf"),
    *("application/msword", "application/vnd.ms-powerpoint", "application/x-ole-storage"),
    *("application/vnd.openxmlformats-officedocument.*", "application/vnd.oasis.opendocument.*"),
    *("application/epub+zip", "application/zip", "application/x-zip-compressed", "application/gzip"),
    *("application/x-gzip", "application/x-tar", "application/x-gtar*", "application/x-bzip2", "application/x-xz"),
    "application/octet-stream",
)


@dataclass(frozen=True)
class Fetching:
    """How pages are asked for."""

    # Requests open at once: per host, per registered domain, in all.
    per_host: int = 2
    per_domain: int = 5
    in_flight: int = 512
    # Seconds between the end of one request to a host and the start of the next. 0: as fast as per_host allows.
    host_delay_s: float = 1.0
    # A Crawl-delay above this is not waited for: the host's URLs are refused with the reason `robots`.
    max_crawl_delay_s: float = 120.0
    # Timeouts: to connect, between two pieces of a response, for the whole response.
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 20.0
    total_timeout_s: float = 60.0
    # Redirects followed in a row.
    max_redirects: int = 25
    # Tries of a URL; failed tries in a row after which a `slow` host is `bad`.
    max_tries: int = 3
    host_tries: int = 3
    # Wait before the second try; doubled for each further one. A Retry-After longer than max_backoff_s is not honoured
    # by waiting: the URL fails.
    backoff_s: float = 5.0
    max_backoff_s: float = 600.0
    # Sent as User-Agent, followed by contact_url in parentheses: where site owners can reach you. Set it before you
    # crawl sites of others.
    user_agent: str = "Opilio/0.1"
    contact_url: str = ""
    # Sent as Accept-Language when not empty.
    accept_language: str = ""
    # http://, https:// or socks5h:// URL of a proxy; names are then resolved by it.
    proxy: str = ""
    # DNS servers (address or address:port), asked in turn; empty: the system's.
    dns_servers: tuple[str, ...] = ()
    dns_timeout_s: float = 3.0
    dns_cache_hosts: int = 100_000
    # Longest time a resolved address is believed, whatever its TTL.
    dns_max_ttl_s: float = 3600.0
    # Host pattern -> address:port to connect to instead ("*.test" = "127.0.0.1:8800"); names need no DNS then.
    connect_to: dict[str, str] = field(default_factory=dict)
    # Loopback, private and link-local addresses are refused unless this is set.
    allow_private_addresses: bool = False
    verify_tls: bool = True
    # MIME types accepted, with the largest body of each in bytes (after decoding); a * at the end stands for any rest.
    # What is sent as octet-stream, or without a type, is accepted when its bytes are of an accepted type.
    accept: dict[str, int] = field(
        default_factory=lambda: {
            "text/html": 2 * MIB,
            "application/xhtml+xml": 2 * MIB,
            "text/plain": MIB,
            **dict.fromkeys(_DOCUMENT_TYPES, 20 * MIB),
        }
    )


@dataclass(frozen=True)
class Robots:
    """Rules that sites set for crawlers."""

    # Obey robots.txt (RFC 9309).
    obey: bool = True
    # robots.txt is read to this size and believed for this long.
    max_bytes: int = 500 * KIB
    max_age_s: float = 86_400.0
    # Obey noindex and nofollow, in meta tags and in X-Robots-Tag.
    obey_meta: bool = True
    # Obey rel=nofollow on single links.
    obey_rel_nofollow: bool = True
    # Add the URLs of sitemaps that robots.txt names; at most so many a host.
    sitemaps: bool = False
    max_sitemap_urls: int = 10_000


@dataclass(frozen=True)
class Duplicates:
    """The steps by which a page seen before is recognised."""

    # Same address and path under another host name: `learn` (believed for two hosts after it proved right),
    # `trust` (always believed, BINGO 4.2) or `off`.
    ip_path: str = "learn"
    # Same address and size: `verify` (the content decides), `trust` (BINGO 4.2) or `off`.
    ip_size: str = "verify"
    # Same visible text.
    content: bool = True
    # Near duplicates: Jaccard similarity of 5-word shingles, from which on. 0: off.
    near_jaccard: float = 0.9
    # Same name with another suffix on one host (paper.ps, paper.pdf).
    suffix: bool = True
    # Drop a page whose canonical link names a page we have.
    canonical: bool = True


@dataclass(frozen=True)
class Traps:
    """Bounds on what an endless site can make us ask for."""

    max_url_chars: int = 1000
    # Equal path segments in one URL (/a/b/a/b/a/b).
    max_repeated_segments: int = 3
    max_path_segments: int = 20
    max_query_params: int = 8
    # Different query strings for one path, and URLs with a date in their path or query (calendars) for one host.
    max_queries_per_path: int = 500
    max_calendar_urls_per_host: int = 400
    # Links taken from one page.
    max_links_per_page: int = 2000


@dataclass(frozen=True)
class Documents:
    """Bounds on reading files that are not web pages: PDF, office documents, archives."""

    # A file that takes longer is given up; the process that reads it is killed.
    timeout_s: float = 20.0
    # Memory that process may use.
    memory_bytes: int = GIB
    # What the members of one archive or office file may unfold to in all, how many of them are read, and how deep
    # archives may stand in archives.
    max_unfolded_bytes: int = 64 * MIB
    max_members: int = 200
    max_nesting: int = 3
    # Pages of one PDF or PostScript file that are read.
    max_pages: int = 500


@dataclass(frozen=True)
class Classify:
    """How pages are judged."""

    # keywords (of the topics; learns nothing), svm (BINGO), bayes (Focus), oasis, or the name of a plug-in.
    classifier: str = "svm"
    # Feature spaces of svm: terms, pairs, anchors, neighbours, embeddings; combined with +, as in terms+anchors.
    spaces: tuple[str, ...] = ("terms", "pairs", "terms+anchors")
    # How the spaces' votes become a decision: unanimous, majority, weighted (by their estimated precision), or best
    # (only the space with the best estimate is asked). docs/results/classification.md says why majority.
    meta: str = "majority"
    # Per topic, the most frequent features are tried, and of those the best by mutual information kept.
    candidates: int = 5000
    features: int = 2000
    # Let the estimates choose, for each topic, the number of features too: `features`, or a half, a quarter ... of it.
    tune_features: bool = False
    # How dearly the svm pays for an example on the wrong side.
    c: float = 1.0
    # Words of a term pair stand at most so many words apart.
    pair_distance: int = 4
    # Bayes: a page is wanted when its best leaf is below a good topic (hard), or by the probability of all good
    # topics together (soft).
    focus: str = "soft"
    # How long the first model waits for examples that have not come yet, at most.
    examples_wait_s: float = 60.0
    # A folder or file of texts that are about none of the topics; empty: the set that comes with Opilio.
    others: str = ""
    # Folder of the model for the space embeddings; empty: that of the extra `opilio[embeddings]`.
    embedding_model: str = ""


@dataclass(frozen=True)
class Oasis:
    """The filter of the classifier `oasis`."""

    # File with the terms and collocations that an expert chose (`opilio topics propose` writes one to edit); empty: the
    # most frequent of the examples, as many as the next lines say.
    filter: str = ""
    # How many terms, and how many collocations of two and of three words, are taken into the permanent filter when
    # the user chose none.
    terms: int = 100
    pairs: int = 100
    triples: int = 33
    # Thresholds are set so that this share of the core documents passes.
    core_share: float = 0.65
    # Passages of so many characters, one every so many; their threshold is this share of the whole document's.
    passage_chars: int = 200
    passage_step_chars: int = 50
    passage_share: float = 0.5
    # The variable part of the filter is drawn anew after so many recommended documents; its size as a share of the
    # permanent part; how much weight a term of it has.
    redraw_after: int = 100
    variable_share: float = 0.3
    damping: float = 0.2


@dataclass(frozen=True)
class Learn:
    """How a crawl teaches itself."""

    # Archetypes are looked for, and a model is trained with them, after so many more relevant pages; 0: never.
    retrain_after: int = 0
    # Archetypes of a topic in one round: at most the smaller of these, from so many authorities and so many of the
    # most confident pages (N_auth and N_conf of BINGO).
    authorities: int = 20
    # See above.
    confident: int = 20
    # An archetype must be more confident than the training documents are on the average (BINGO 3.2).
    above_mean: bool = True
    # What can refuse a model that the crawl made by itself: held-out (examples of the user's kept aside), xi-alpha
    # (the classifier's own estimate), or off.
    guard: str = "held-out"
    # Begin with a phase of learning (BINGO 2.6): depth-first, sharp focus, the seeds' domains; then harvest.
    phases: bool = False
    # The phase of learning ends when each topic has so many archetypes, which are counted at each round of
    # `retrain_after` ...
    learning_archetypes: int = 20
    # ... or after so many pages.
    learning_pages: int = 500
    # Links from a seed while learning.
    learning_depth: int = 4
    # Wait between the phases for the user to look at the archetypes (`opilio archetypes`).
    pause: bool = False
    # Fetch nothing while a model is trained: slower, but the same each time.
    wait: bool = False


@dataclass(frozen=True)
class Storage:
    """What is kept, and how it is written."""

    # Write WARC files.
    warc: bool = True
    warc_max_bytes: int = GIB
    # Where finished WARC files are moved to: a folder or a URL that fsspec knows (s3://..., sftp://...); '': they stay.
    warc_url: str = ""
    # Keep the visible text and the main text in the database.
    text: bool = True
    # Keep the words around links.
    link_context: bool = True
    # Keep the terms of pages; without them pages are not judged.
    terms: bool = True
    # A batch is committed after so many pages or seconds, whichever comes first.
    batch_pages: int = 500
    batch_s: float = 2.0
    # Memory the database may use.
    memory_bytes: int = GIB


@dataclass(frozen=True)
class Search:
    """The index that `opilio search` and the portal look into."""

    # Keep it up to date while a crawl runs; otherwise it is brought up to date when somebody searches.
    index: bool = True
    # Seconds between two updates while a crawl runs.
    update_s: float = 10.0


@dataclass(frozen=True)
class Federation:
    """Other collections that this one's crawls work together with."""

    # File that names them (TOML, docs/guides/federation.md): URLs that suit their topics are handed over. '': none.
    peers: str = ""
    # Seconds between two deliveries.
    deliver_s: float = 30.0


@dataclass(frozen=True)
class Run:
    """The machine's side."""

    # Worker processes; 0: one for each core but one. -1: no processes, work inside the engine.
    workers: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Settings:
    """All settings of a collection: one section of crawl.toml for each field."""

    limits: Limits = Limits()
    scope: Scope = Scope()
    frontier: Frontier = Frontier()
    fetch: Fetching = field(default_factory=Fetching)
    robots: Robots = Robots()
    duplicates: Duplicates = Duplicates()
    traps: Traps = Traps()
    documents: Documents = Documents()
    classify: Classify = Classify()
    oasis: Oasis = Oasis()
    learn: Learn = Learn()
    store: Storage = Storage()
    search: Search = Search()
    federation: Federation = Federation()
    run: Run = Run()

    @property
    def user_agent(self) -> str:
        """The User-Agent header."""
        contact = self.fetch.contact_url
        return f"{self.fetch.user_agent} (+{contact})" if contact else self.fetch.user_agent


def load(path: Path) -> Settings:
    """Read a settings file."""
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such settings file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}", "Correct the line it names.") from None
    return from_table(table, str(path))


def from_table(table: dict[str, Any], where: str = FILE_NAME) -> Settings:
    """Settings from nested tables as TOML gives them; `where` names the source in errors."""
    return typing.cast(Settings, _build(Settings, table, where, ""))


def override(settings: Settings, changes: dict[str, Any], where: str = "command line") -> Settings:
    """`settings` with dotted keys changed: {"limits.max_pages": 100}."""
    for dotted, value in changes.items():
        section_name, _, key = dotted.partition(".")
        section = getattr(settings, _known(section_name, _names(Settings), where, ""))
        known = _known(key, _names(type(section)), where, f"[{section_name}]")
        checked = _check(value, typing.get_type_hints(type(section))[known], f"{where}, {dotted}")
        settings = dataclasses.replace(settings, **{section_name: dataclasses.replace(section, **{known: checked})})
    _validate(settings, where)
    return settings


def parse_assignment(text: str) -> tuple[str, Any]:
    """`section.key=value` as written on a command line; the value is read as TOML, else as a string."""
    dotted, equals, value = text.partition("=")
    if not equals or "." not in dotted:
        raise SettingsError(f"--set {text}: not of the form section.key=value", "For example: --set fetch.per_host=1")
    try:
        return dotted.strip(), tomllib.loads(f"v = {value}")["v"]
    except tomllib.TOMLDecodeError:
        return dotted.strip(), value.strip()


def to_toml(settings: Settings, *, everything: bool = False) -> str:
    """The settings that differ from the defaults, or all of them, as TOML."""
    default = Settings()
    lines: list[str] = []
    for section in dataclasses.fields(Settings):
        mine, theirs = getattr(settings, section.name), getattr(default, section.name)
        changed = [
            f for f in dataclasses.fields(mine) if everything or getattr(mine, f.name) != getattr(theirs, f.name)
        ]
        if changed:
            lines += ["", f"[{section.name}]", *(f"{f.name} = {_toml(getattr(mine, f.name))}" for f in changed)]
    return "\n".join(lines[1:]) + "\n" if lines else ""


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped) + '"'
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml(str(k))} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)


def _names(cls: type) -> list[str]:
    return [f.name for f in dataclasses.fields(cls)]


def _known(name: str, names: list[str], where: str, section: str) -> str:
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4) or [n for n in names if name and name in n][:1]
    place = f"{where}, {section}" if section else where
    what = "key" if section else "section"
    hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(names)}."
    raise SettingsError(f"{place}: unknown {what} {name!r}. {hint}", "docs/reference/settings.md lists all settings.")


def _build(cls: type, table: dict[str, Any], where: str, section: str) -> Any:
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for name, value in table.items():
        _known(name, _names(cls), where, section)
        if dataclasses.is_dataclass(hints[name]):
            if not isinstance(value, dict):
                raise SettingsError(f"{where}: {name!r} is a section; write [{name}] and its keys below it")
            values[name] = _build(typing.cast(type, hints[name]), value, where, f"[{name}]")
        else:
            values[name] = _check(value, hints[name], f"{where}, {section} {name}")
    built = cls(**values)
    if isinstance(built, Settings):
        _validate(built, where)
    return built


def _check(value: Any, hint: Any, place: str) -> Any:
    """`value` as the type `hint` wants it, or a SettingsError that names the place."""
    origin = typing.get_origin(hint)
    if origin is tuple and isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if origin is dict and isinstance(value, dict):
        wanted = typing.get_args(hint)[1]
        return {str(k): _check(v, wanted, f"{place}.{k}") for k, v in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    plain = hint if isinstance(hint, type) and not isinstance(hint, types.GenericAlias) else None
    if plain is not None and isinstance(value, plain) and not (plain is int and isinstance(value, bool)):
        return value
    name = {"tuple": "a list of strings", "dict": "a table"}.get(
        getattr(origin, "__name__", ""), getattr(hint, "__name__", str(hint))
    )
    raise SettingsError(f"{place}: {value!r} is not {name}", "docs/reference/settings.md shows the form of each value.")


_CHOICES = {
    ("duplicates", "ip_path"): ("learn", "trust", "off"),
    ("duplicates", "ip_size"): ("verify", "trust", "off"),
    ("classify", "meta"): ("unanimous", "majority", "weighted", "best"),
    ("classify", "focus"): ("soft", "hard"),
    ("learn", "guard"): ("held-out", "xi-alpha", "off"),
}
_AT_LEAST_ONE = (
    ("fetch", "per_host"), ("fetch", "per_domain"), ("fetch", "in_flight"), ("fetch", "max_tries"),
    ("fetch", "host_tries"), ("frontier", "n"), ("frontier", "hot_urls"), ("store", "batch_pages"),
)  # fmt: skip


def _validate(settings: Settings, where: str) -> None:
    for (section, key), choices in _CHOICES.items():
        value = getattr(getattr(settings, section), key)
        if value not in choices:
            raise SettingsError(f"{where}, [{section}] {key}: {value!r} is not one of {', '.join(choices)}")
    for section, key in _AT_LEAST_ONE:
        if getattr(getattr(settings, section), key) < 1:
            raise SettingsError(f"{where}, [{section}] {key}: must be at least 1")
    proxy = settings.fetch.proxy
    if proxy and not re.fullmatch(r"(https?|socks[45][ah]?)://[^\s/]+/?", proxy):
        raise SettingsError(
            f"{where}, [fetch] proxy: {proxy!r} is not the URL of a proxy", "For example: http://127.0.0.1:3128"
        )
    for pattern, target in settings.fetch.connect_to.items():
        if not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[\d.]+):\d{1,5}", target):
            raise SettingsError(
                f"{where}, [fetch] connect_to: {pattern!r} leads to {target!r}, which is not an address and a port",
                'For example: connect_to = { "*.test" = "127.0.0.1:8800" }',
            )
    for section_field in dataclasses.fields(settings):
        section_value = getattr(settings, section_field.name)
        for f in dataclasses.fields(section_value):
            value = getattr(section_value, f.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise SettingsError(f"{where}, [{section_field.name}] {f.name}: {value} is not a number to go by")
            if isinstance(value, (int, float)) and value < 0 and f.name != "workers":
                raise SettingsError(f"{where}, [{section_field.name}] {f.name}: must not be negative")
