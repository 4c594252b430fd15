-- The database of a collection, as of the newest migration.
--
-- Names follow Focus (Chakrabarti et al. 1999): CRAWL, LINK, HUBS, AUTH, TAXONOMY, DOCUMENT; oid, sid, did, tid, kcid.
-- No table has a key or an index: a URL is made unique in memory by its 64-bit key before it comes here, and keys would
-- halve the rate of bulk loads. Texts are packed by zstd: a third less CPU than what DuckDB chooses by itself, and smaller.
-- Every timestamp is UTC. NULL says "not known" or "never".

-- Version of this schema and other facts about the collection as a whole.
CREATE TABLE meta (
    name  VARCHAR NOT NULL,
    value VARCHAR NOT NULL
);

-- One row per known URL. Rows are appended in the order of their oid and changed by UPDATE.
CREATE TABLE crawl (
    oid         BIGINT NOT NULL,    -- 0, 1, 2, ... in the order of discovery
    url         VARCHAR NOT NULL,   -- in normal form
    key         UBIGINT NOT NULL,   -- 64-bit hash of url
    sid         INTEGER NOT NULL,   -- its host
    topic       SMALLINT NOT NULL,  -- queue it waits in; the topic it was judged to be of once fetched
    depth       SMALLINT NOT NULL,  -- links from a seed
    parent      BIGINT,             -- oid of the page it was found on
    hops        SMALLINT NOT NULL,  -- redirects in a row that led here
    state       ENUM ('waiting', 'fetched', 'failed', 'dropped') NOT NULL,
    outcome     VARCHAR,            -- how the last try, or the decision not to try, ended
    numtries    UTINYINT NOT NULL,
    relevance   FLOAT NOT NULL,     -- 0..1: estimated while waiting, judged once fetched
    priority    FLOAT NOT NULL,     -- higher is sooner, under the built-in strategies
    not_before  TIMESTAMP,          -- a retry waits until then
    found       TIMESTAMP,
    lastvisited TIMESTAMP,
    kcid        SMALLINT GENERATED ALWAYS AS (topic) VIRTUAL  -- the papers' name of topic
);

-- Journal of changes to crawl that are committed but not yet carried into it (store/__init__.py says why).
-- The columns after seq are those of crawl.
CREATE TABLE crawl_changes (
    seq         BIGINT NOT NULL,    -- the latest of several changes of one oid counts
    oid         BIGINT NOT NULL,
    topic       SMALLINT NOT NULL,
    state       ENUM ('waiting', 'fetched', 'failed', 'dropped') NOT NULL,
    outcome     VARCHAR,
    numtries    UTINYINT NOT NULL,
    relevance   FLOAT NOT NULL,
    priority    FLOAT NOT NULL,
    not_before  TIMESTAMP,
    lastvisited TIMESTAMP
);

-- One row per host, port included when it is not the default.
CREATE TABLE hosts (
    sid           INTEGER NOT NULL,
    host          VARCHAR NOT NULL,
    domain        VARCHAR NOT NULL,  -- registered domain
    ip            VARCHAR,
    pages         INTEGER NOT NULL,  -- stored
    bytes         BIGINT NOT NULL,   -- received
    requests      INTEGER NOT NULL,
    next_visit    TIMESTAMP          -- no request before
);

-- One row per origin: http or https on a host. Each has its own robots.txt and its own failures.
CREATE TABLE origins (
    sid           INTEGER NOT NULL,  -- its host
    scheme        VARCHAR NOT NULL,  -- http or https
    state         VARCHAR NOT NULL,  -- 'ok'; 'slow' after a failure; 'bad': given up until the next run
    failures      INTEGER NOT NULL,  -- in a row
    problem       VARCHAR,           -- outcome of the latest of them; NULL: none
    robots_status SMALLINT,          -- HTTP status of robots.txt; -1: not obeyed; NULL: not read yet
    crawl_delay_s FLOAT NOT NULL,
    met           TIMESTAMP          -- when its robots.txt was read
);

-- The text of robots.txt, apart from origins because these change with every batch and this does not. The latest counts.
CREATE TABLE robots (
    sid     INTEGER NOT NULL,
    scheme  VARCHAR NOT NULL,
    visited TIMESTAMP,
    text    VARCHAR NOT NULL
);

-- One row per stored page. A page fetched again and found changed is replaced; its old form stays in the WARC files.
CREATE TABLE pages (
    oid            BIGINT NOT NULL,
    visited        TIMESTAMP NOT NULL,
    status         SMALLINT,
    content_type   VARCHAR,
    charset        VARCHAR,
    language       VARCHAR,     -- ISO 639-1, '' when unknown
    title          VARCHAR,
    description    VARCHAR USING COMPRESSION zstd,
    text           VARCHAR USING COMPRESSION zstd,  -- visible text
    main_text      VARCHAR USING COMPRESSION zstd,  -- visible text without boilerplate
    content_hash   UBIGINT,     -- of the visible text, whitespace folded
    canonical      VARCHAR,
    noindex        BOOLEAN,
    received_bytes BIGINT,
    body_bytes     BIGINT,      -- after content decoding
    took_ms        FLOAT,
    ip             VARCHAR,
    etag           VARCHAR,
    last_modified  VARCHAR,
    relevance      FLOAT,       -- as judged by model_version
    kcid           SMALLINT,    -- topic it was judged to be of
    model_version  INTEGER,
    warc_file      VARCHAR,     -- where its response record lies
    warc_offset    BIGINT,
    warc_bytes     BIGINT,
    shingles       BLOB,        -- MinHash sketch, uint32 little-endian
    undoubted      BOOLEAN,     -- two or more metrics, or all feature spaces, agreed, as judged by model_version
    cut            BOOLEAN,     -- true: it was longer than fetch.cut_bytes, and this is its beginning
    rights         VARCHAR      -- what it and its site say about its use, as JSON: a list of signal, value and source
);

-- One row per link of a stored page to a known URL.
CREATE TABLE links (
    oid_src  BIGINT NOT NULL,
    oid_dst  BIGINT NOT NULL,
    sid_src  INTEGER NOT NULL,
    sid_dst  INTEGER NOT NULL,
    anchor   VARCHAR USING COMPRESSION zstd,
    context  VARCHAR USING COMPRESSION zstd,  -- words around the link
    region   VARCHAR,           -- part of the page: main, nav, footer, ...
    position INTEGER,           -- links before it on the page
    kind     VARCHAR,           -- a, area, frame, refresh, canonical, alternate
    nofollow BOOLEAN,
    first_seen TIMESTAMP        -- when a visit of the page found it first
);

-- One row per link that a page had once and has no more: the page was visited again, and its links had changed.
CREATE TABLE past_links (
    oid_src    BIGINT NOT NULL,
    oid_dst    BIGINT NOT NULL,
    sid_src    INTEGER NOT NULL,
    sid_dst    INTEGER NOT NULL,
    anchor     VARCHAR,
    first_seen TIMESTAMP,
    last_seen  TIMESTAMP        -- the last visit that found it
);

-- One row per page that names a picture or an icon.
CREATE TABLE page_pictures (
    oid     BIGINT NOT NULL,
    sid     INTEGER NOT NULL,   -- its host
    picture VARCHAR NOT NULL,   -- URL; '' for none
    icon    VARCHAR NOT NULL    -- URL; '' for none
);

-- One row per picture or icon that was requested. They are no pages: no figure counts them.
CREATE TABLE pictures (
    url          VARCHAR NOT NULL,   -- as in page_pictures, or the /favicon.ico of a host
    kind         VARCHAR NOT NULL,   -- picture, icon
    visited      TIMESTAMP NOT NULL,
    outcome      VARCHAR NOT NULL,   -- how the request ended
    content_type VARCHAR,            -- by its first bytes: image/png, image/jpeg, image/gif, image/webp, image/x-icon
    width        INTEGER,
    height       INTEGER,
    data         BLOB                -- NULL: there is none
);

-- One row per page that was fetched again: how often it changes (store/revisits.py has the formula).
CREATE TABLE revisits (
    oid               BIGINT NOT NULL,
    first_visited     TIMESTAMP NOT NULL,
    lastvisited       TIMESTAMP NOT NULL,
    n                 INTEGER NOT NULL,  -- times it was fetched again
    changes           INTEGER NOT NULL,  -- times its text had changed since the visit before
    change_interval_s DOUBLE             -- estimated mean time between two changes; NULL: no change seen yet
);

-- One row per page that came out of an archive of somebody else's crawl (opilio sift): where it was there.
CREATE TABLE sifted (
    oid            BIGINT NOT NULL,
    archive        VARCHAR NOT NULL,    -- path or URL of the archive; in a WACZ file also the member, after a '!'
    record_offset  BIGINT NOT NULL,     -- of the record, or of the compressed piece that it begins in
    captured       TIMESTAMP,           -- when the page was fetched, as the archive says
    joined         TIMESTAMP NOT NULL   -- when it was stored here
);

-- How far each archive has been sifted: one row per archive and lane (a share of its pages).
CREATE TABLE archives (
    archive        VARCHAR NOT NULL,
    size           BIGINT NOT NULL,     -- bytes of the archive; 0: not known
    model          VARCHAR NOT NULL,    -- hash of the model that judged
    lane           SMALLINT NOT NULL,
    lanes          SMALLINT NOT NULL,
    record_offset  BIGINT NOT NULL,     -- where the next record is: of the compressed piece, or of the record
    skip           BIGINT NOT NULL,     -- bytes of that piece, unpacked, before the record
    number         BIGINT NOT NULL,     -- pages before the record
    done           BOOLEAN NOT NULL,
    judged         BIGINT NOT NULL,     -- pages judged so far
    on_topic       BIGINT NOT NULL,
    stored         BIGINT NOT NULL      -- pages that the collection did not have
);

-- One row per page and distinct stem.
CREATE TABLE terms (
    oid  BIGINT NOT NULL,
    tid  UINTEGER NOT NULL,     -- 32-bit hash of the stem
    freq USMALLINT NOT NULL
);

-- The stems behind the tids. Each worker reports a stem once, so a stem may stand here several times.
CREATE TABLE lexicon (
    tid  UINTEGER NOT NULL,
    term VARCHAR NOT NULL
);

-- Every request, whatever came of it.
CREATE TABLE visits (
    oid            BIGINT NOT NULL,
    visited        TIMESTAMP NOT NULL,
    kind           VARCHAR NOT NULL,   -- page, host (robots.txt), sitemap, rights, probe (does any host answer?), picture,
                                       -- icon, missing (what is answered where there is no page?) or subresource (what
                                       -- the script of a rendered page requested; oid: -2^55 - the oid of that page)
    outcome        VARCHAR NOT NULL,
    status         SMALLINT,
    detail         VARCHAR,
    took_ms        FLOAT,
    received_bytes BIGINT,
    warc_file      VARCHAR,
    warc_offset    BIGINT,
    warc_bytes     BIGINT
);

CREATE TABLE redirects (
    oid_src BIGINT NOT NULL,
    oid_dst BIGINT NOT NULL,
    status  SMALLINT
);

-- Pages recognised as one we have, and by which step.
CREATE TABLE duplicates (
    oid    BIGINT NOT NULL,
    of_oid BIGINT NOT NULL,
    step   VARCHAR NOT NULL
);

CREATE TABLE topics (
    kcid     SMALLINT NOT NULL,
    pcid     SMALLINT,             -- parent; NULL for the root
    name     VARCHAR NOT NULL,
    path     VARCHAR NOT NULL,     -- names from the root, joined by /
    type     VARCHAR NOT NULL CHECK (type IN ('good', 'path', 'subsumed', 'null')),
    keywords VARCHAR[],
    description VARCHAR
);

CREATE TABLE seeds (
    url    VARCHAR NOT NULL,
    kcid   SMALLINT NOT NULL,
    source VARCHAR,                -- given, added, or found: by seed providers
    title  VARCHAR,
    added  TIMESTAMP,
    found  STRUCT(provider VARCHAR, query VARCHAR, rank INTEGER)[]  -- which providers found it, for which words
);

-- What the classifier learns from, beside the common-sense documents of OTHERS.
CREATE TABLE training (
    name     VARCHAR NOT NULL,     -- URL, name of a file, or what else the user knows it by
    kind     VARCHAR NOT NULL,     -- url: the stored page of that URL, or the part of it that stands here; file, text
    kcid     SMALLINT NOT NULL,
    positive BOOLEAN NOT NULL,     -- false: it is not about that topic, and belongs to OTHERS beside it
    source   VARCHAR NOT NULL,     -- given, added, archetype, confirmed, rejected, hit
    title    VARCHAR,
    text     VARCHAR USING COMPRESSION zstd,
    added    TIMESTAMP
);

-- Changes to training that the user made, oldest first: what can be taken back, and what no model has learned yet.
CREATE TABLE lessons (
    taught TIMESTAMP NOT NULL,
    kcid   SMALLINT NOT NULL,
    name   VARCHAR NOT NULL,       -- of the document; empty: the mark of the topic
    before VARCHAR                 -- its row of training before the change, as JSON; NULL: there was none
);

-- What the user said of pages in an assisted review. The latest word on a page counts.
CREATE TABLE reviews (
    judged  TIMESTAMP NOT NULL,
    kcid    SMALLINT NOT NULL,     -- topic that is reviewed
    oid     BIGINT NOT NULL,
    verdict VARCHAR NOT NULL,      -- yes, no, unsure, skip
    stratum VARCHAR NOT NULL       -- group that the page stood for: which metrics agreed, and its directory
);

-- What the user decided about groups of an assisted review. The latest decision on a group counts; by rule: that of 75 %.
CREATE TABLE review_decisions (
    decided  TIMESTAMP NOT NULL,
    kcid     SMALLINT NOT NULL,    -- topic that is reviewed
    stratum  VARCHAR NOT NULL,     -- name of the group, as in reviews
    decision ENUM ('kept', 'dropped', 'by rule') NOT NULL
);

-- Questions to the user about stored pages: is the page about the topic? At most one of a page. Those of a round have
-- the same time; open are the ones of the latest round that have no answer. Yes and no are training data as well.
CREATE TABLE questions (
    oid      BIGINT NOT NULL,
    kcid     SMALLINT NOT NULL,    -- wanted topic
    asked    TIMESTAMP NOT NULL,
    reason   ENUM ('sure', 'uncertain') NOT NULL,  -- one of the surest pages, or one close to the threshold
    benefit  BIGINT NOT NULL,      -- stored pages with a similar relevance, which the answer is likely to move
    answered TIMESTAMP,            -- NULL: not yet
    answer   ENUM ('yes', 'no', 'skip'),
    answered_by VARCHAR            -- user, assistant, or labeller: and the name of its model
);

-- What a language model said when it was asked a question in the user's place. The same question is never paid twice.
CREATE TABLE labels (
    labelled  TIMESTAMP NOT NULL,
    oid       BIGINT NOT NULL,     -- page
    kcid      SMALLINT NOT NULL,   -- topic that was asked about
    model     VARCHAR NOT NULL,
    prompt    UBIGINT NOT NULL,    -- hash of all that the model was given
    answer    ENUM ('yes', 'no', 'unsure', 'failed') NOT NULL,
    reason    VARCHAR NOT NULL,    -- in the words of the model; what went wrong if it failed
    calls     INTEGER NOT NULL,    -- requests that it took
    tokens    BIGINT NOT NULL,     -- as the endpoint counts them; estimated if it does not say
    overruled BOOLEAN NOT NULL     -- the user undid the answer: it is not given again
);

-- Every model that was trained. The highest version judges.
CREATE TABLE models (
    version    INTEGER NOT NULL,
    created    TIMESTAMP NOT NULL,
    classifier VARCHAR NOT NULL,
    reason     ENUM ('first', 'changed', 'examples', 'feedback', 'requested', 'archetypes', 'negatives', 'harvest',
                     'redrawn', 'reused') NOT NULL,  -- why it was trained (opilio/model/training.py)
    repeats    INTEGER,            -- version of the older model that a reused one is; else NULL
    detail     VARCHAR,            -- what happened, in words for people
    documents  INTEGER,            -- it was trained on
    estimates  VARCHAR,            -- JSON: expected error, precision and recall by topic and feature space
    settings   VARCHAR,            -- sections classify and oasis, as TOML
    taught     VARCHAR,            -- fingerprint of topics, examples and settings; when it differs, a crawl trains anew
    model      BLOB NOT NULL
);

-- What models said of stored pages; pages has the latest relevance and topic.
CREATE TABLE judgements (
    oid           BIGINT NOT NULL,
    model_version INTEGER NOT NULL,   -- 0: keywords alone, before anything was learned
    kcid          SMALLINT NOT NULL,  -- deepest topic that took the page
    accepted      BOOLEAN NOT NULL,   -- false: none did, the page is in OTHERS
    relevance     FLOAT NOT NULL,
    confidence    FLOAT NOT NULL,     -- in the classifier's own measure
    undoubted     BOOLEAN NOT NULL,   -- two or more metrics, or all feature spaces, agreed
    agreed        VARCHAR[],          -- feature spaces or metrics that said yes
    votes         MAP (VARCHAR, FLOAT)
);

-- The classifier of Focus in the database (figure 1). OTHERS below a topic has the kcid -3 - pcid.
CREATE TABLE taxonomy_stat (
    kcid     SMALLINT NOT NULL,
    pcid     SMALLINT NOT NULL,
    logprior DOUBLE NOT NULL,
    logdenom DOUBLE NOT NULL
);
CREATE TABLE stat (
    pcid     SMALLINT NOT NULL,
    kcid     SMALLINT NOT NULL,
    tid      UINTEGER NOT NULL,
    logtheta DOUBLE NOT NULL
);
CREATE TABLE blob (
    pcid SMALLINT NOT NULL,
    tid  UINTEGER NOT NULL,
    stat STRUCT (kcid SMALLINT, logtheta DOUBLE)[] NOT NULL
);

-- Hubs and authorities of all topics that are wanted, as the latest link analysis found them: of a crawl, or `distill`.
CREATE TABLE hubs (oid BIGINT NOT NULL, score FLOAT NOT NULL);
CREATE TABLE auth (oid BIGINT NOT NULL, score FLOAT NOT NULL);
-- The same of each topic.
CREATE TABLE link_scores (
    kcid      SMALLINT NOT NULL,
    oid       BIGINT NOT NULL,
    hub       FLOAT NOT NULL,
    authority FLOAT NOT NULL
);

-- What the crawl had to say: phases, models refused, harvest that fell, topics that starve.
CREATE TABLE notices (
    noticed TIMESTAMP NOT NULL,
    kind    VARCHAR NOT NULL,      -- phase, archetypes, model, harvest, dry, topic, drift, steering, revisit, search,
                                   -- network, end
    kcid    SMALLINT,              -- NULL: the crawl as a whole
    text    VARCHAR NOT NULL,
    remedy  VARCHAR,               -- what can be done, in words
    remedies VARCHAR               -- the same as JSON: a list of why, operation and arguments
);

-- URLs that other collections handed over, and those that were handed over to them (docs/guides/federation.md).
CREATE TABLE offers (
    offered   TIMESTAMP NOT NULL,
    peer      VARCHAR NOT NULL,    -- name of the other collection
    incoming  BOOLEAN NOT NULL,    -- true: it handed the URL over to this one
    url       VARCHAR NOT NULL,    -- in normal form
    topic     VARCHAR NOT NULL,    -- path, in the collection that it was handed to
    relevance FLOAT NOT NULL,      -- as who offered it could tell
    title     VARCHAR
);

-- How far the crawl has come by its own plan; one row once it has begun, written with the batch it belongs to.
CREATE TABLE progress (
    phase             ENUM ('none', 'learning', 'paused', 'harvesting') NOT NULL,  -- of a crawl with learn.phases
    archetype_rounds  INTEGER NOT NULL,  -- searches for archetypes so far
    relevant_at_round BIGINT NOT NULL,   -- pages that had been judged relevant when the latest of them began
    negative_rounds   INTEGER NOT NULL,  -- searches for mined negatives so far
    pages_at_analysis BIGINT NOT NULL,   -- pages that were stored when the latest link analysis began
    question_rounds   INTEGER NOT NULL   -- numbers of pages passed at which the crawl asks the user questions
);

-- Running counts that no table can give, such as links dropped; written with the batch they belong to.
CREATE TABLE counters (name VARCHAR NOT NULL, n BIGINT NOT NULL);

CREATE TABLE runs (
    run      INTEGER NOT NULL,
    started  TIMESTAMP NOT NULL,
    ended    TIMESTAMP,            -- NULL: it runs, or it was killed
    reason   VARCHAR,              -- why it ended
    pages    BIGINT,               -- stored in it
    version  VARCHAR,              -- of Opilio
    settings VARCHAR               -- as TOML
);

-- What waits to be fetched, with all that a policy may order by.
CREATE VIEW frontier AS
SELECT c.*,
       coalesce(h.pages, 0) AS serverload,
       h.host,
       h.domain,
       coalesce(hub.score, 0) AS hub_score,
       coalesce(aut.score, 0) AS authority_score,
       {'score': coalesce(hub.score, 0)} AS hubs,  -- so that HUBS.score and AUTH.score read as in the paper
       {'score': coalesce(aut.score, 0)} AS auth,
       r.change_interval_s  -- of a page that is fetched again: estimated time between its changes; NULL: unknown
FROM crawl c
LEFT JOIN hosts h ON h.sid = c.sid
LEFT JOIN hubs hub ON hub.oid = c.oid
LEFT JOIN auth aut ON aut.oid = c.oid
LEFT JOIN revisits r ON r.oid = c.oid
WHERE c.state = 'waiting';

-- The topic that took each page, as it is judged now: NULL when none did. The root takes only what is relevant.
CREATE VIEW page_topics AS
SELECT p.oid, CASE WHEN t.kcid <> 0 OR p.relevance >= 0.5 THEN t.kcid END AS kcid,
       coalesce(p.relevance >= 0.5, false) AS relevant, p.relevance, p.visited
FROM pages p
LEFT JOIN topics t ON t.kcid = p.kcid;

-- One row per page with its address and topic ('': no topic took it): what `opilio export` writes.
CREATE VIEW collection AS
SELECT p.*, c.url, h.host, h.domain, c.depth, coalesce(nullif(t.path, ''), t.name, '') AS topic, j.relevant,
       r.change_interval_s
FROM pages p
JOIN crawl c ON c.oid = p.oid
JOIN page_topics j ON j.oid = p.oid
LEFT JOIN hosts h ON h.sid = c.sid
LEFT JOIN topics t ON t.kcid = j.kcid
LEFT JOIN revisits r ON r.oid = p.oid;

-- The figures of the collection, as its pages are judged now: one row. Commands, portal and API show these. The seconds
-- are those of crawling, over all runs, without pauses.
CREATE VIEW figures AS
SELECT pages, judged, relevant, requests, elapsed_s,
       CASE WHEN judged > 0 THEN relevant / pages END AS harvest,  -- NULL: nothing is judged
       CASE WHEN judged > 0 AND requests > 0 THEN relevant / requests END AS harvest_per_request,  -- failures count
       CASE WHEN judged > 0 AND elapsed_s > 0 THEN relevant / elapsed_s END AS harvest_per_s
FROM (SELECT count(*) AS pages, count(relevance) AS judged, count(*) FILTER (relevance >= 0.5) AS relevant FROM pages),
     (SELECT count(*) AS requests FROM visits),
     (SELECT coalesce(sum(n), 0) / 1000 AS elapsed_s FROM counters WHERE name = 'elapsed_ms');

-- The pages of each topic with all below it, and of the topic itself (own); one row for pages that no topic took.
CREATE VIEW topic_figures AS
WITH RECURSIVE below AS (
    SELECT kcid, kcid AS lower FROM topics
    UNION ALL
    SELECT b.kcid, t.kcid FROM below b JOIN topics t ON t.pcid = b.lower
),
own AS (SELECT kcid, count(*) AS pages, count(*) FILTER (relevant) AS relevant FROM page_topics GROUP BY kcid)
SELECT t.kcid, coalesce(nullif(t.path, ''), t.name) AS topic, coalesce(sum(o.pages), 0)::BIGINT AS pages,
       coalesce(sum(o.relevant), 0)::BIGINT AS relevant,
       coalesce(sum(o.pages) FILTER (o.kcid = t.kcid), 0)::BIGINT AS own_pages,
       coalesce(sum(o.relevant) FILTER (o.kcid = t.kcid), 0)::BIGINT AS own_relevant
FROM topics t
JOIN below b ON b.kcid = t.kcid
LEFT JOIN own o ON o.kcid = b.lower
GROUP BY ALL
UNION ALL
SELECT NULL, 'OTHERS', pages, relevant, pages, relevant FROM own WHERE kcid IS NULL
ORDER BY topic;

-- Every link that a page has or had, with the times of the first and the last visit that found it.
CREATE VIEW link_history AS
SELECT l.oid_src, l.oid_dst, l.sid_src, l.sid_dst, l.anchor, l.first_seen,
       greatest(l.first_seen, p.visited, r.lastvisited) AS last_seen, false AS gone
FROM links l
LEFT JOIN pages p ON p.oid = l.oid_src
LEFT JOIN revisits r ON r.oid = l.oid_src
UNION ALL
SELECT oid_src, oid_dst, sid_src, sid_dst, anchor, first_seen, last_seen, true AS gone FROM past_links;

-- Harvest rate per minute, as the pages are judged now; relevance is the mean over those that are judged.
CREATE VIEW harvest AS
SELECT date_trunc('minute', visited) AS minute,
       count(*) AS pages,
       count(*) FILTER (relevant) AS relevant,
       CASE WHEN count(relevance) > 0 THEN count(*) FILTER (relevant) / count(*) END AS harvest,
       avg(relevance) AS relevance
FROM page_topics
GROUP BY ALL
ORDER BY minute;

CREATE VIEW lexicon_distinct AS SELECT tid, min(term) AS term FROM lexicon GROUP BY tid;

-- The papers' names.
CREATE VIEW link AS SELECT * FROM links;
CREATE VIEW document AS SELECT oid AS did, tid, freq FROM terms;
CREATE VIEW taxonomy AS
SELECT t.kcid, t.pcid, t.name, t.type, t.path, s.logprior, s.logdenom
FROM topics t
LEFT JOIN taxonomy_stat s ON s.kcid = t.kcid;
