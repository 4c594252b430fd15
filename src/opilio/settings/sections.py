"""Every setting with its default: a section of the file for each class."""

from __future__ import annotations

from dataclasses import dataclass, field

KIB, MIB, GIB = 2**10, 2**20, 2**30


@dataclass(frozen=True)
class LimitSettings:
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
class ScopeSettings:
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
class FrontierSettings:
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
    # `evidence`: folder or file of word vectors, by which links are told whose words were never met; `installed`: those
    # of the extra `opilio[embeddings]`; empty: none.
    word_vectors: str = ""
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
class FetchSettings:
    """How pages are asked for."""

    # Requests open at once: per host, per registered domain.
    per_host: int = 2
    per_domain: int = 5
    # Requests under way of the whole crawl, on all workers: 512 of 0.2 s are 2,500 pages a second, of 2 s only 250.
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
class RobotsSettings:
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
class DuplicateSettings:
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
class TrapSettings:
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
class DocumentSettings:
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
class ClassifySettings:
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
class OasisSettings:
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
class LearnSettings:
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
    # Pages that the crawl met and that are surely about nothing wanted join OTHERS: at most so many, chosen early on;
    # 0: none. None either where `classify.others` names texts, or 20 documents of yours show what is not wanted.
    strangers: int = 50
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
class StoreSettings:
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
class SearchSettings:
    """The index that `opilio search` and the portal look into."""

    # Keep it up to date while a crawl runs; otherwise it is brought up to date when somebody searches.
    index: bool = True
    # Seconds between two updates while a crawl runs.
    update_s: float = 10.0


@dataclass(frozen=True)
class FederationSettings:
    """Other collections that this one's crawls work together with."""

    # File that names them (TOML, docs/guides/federation.md): URLs that suit their topics are handed over. '': none.
    peers: str = ""
    # Seconds between two deliveries.
    deliver_s: float = 30.0


@dataclass(frozen=True)
class RunSettings:
    """The machine's side."""

    # Worker processes; 0: one for each core but one. -1: no processes, work inside the engine.
    workers: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Settings:
    """All settings of a collection: one section of crawl.toml for each field."""

    limits: LimitSettings = LimitSettings()
    scope: ScopeSettings = ScopeSettings()
    frontier: FrontierSettings = FrontierSettings()
    fetch: FetchSettings = field(default_factory=FetchSettings)
    robots: RobotsSettings = RobotsSettings()
    duplicates: DuplicateSettings = DuplicateSettings()
    traps: TrapSettings = TrapSettings()
    documents: DocumentSettings = DocumentSettings()
    classify: ClassifySettings = ClassifySettings()
    oasis: OasisSettings = OasisSettings()
    learn: LearnSettings = LearnSettings()
    store: StoreSettings = StoreSettings()
    search: SearchSettings = SearchSettings()
    federation: FederationSettings = FederationSettings()
    run: RunSettings = RunSettings()

    @property
    def user_agent(self) -> str:
        """The User-Agent header."""
        contact = self.fetch.contact_url
        return f"{self.fetch.user_agent} (+{contact})" if contact else self.fetch.user_agent
