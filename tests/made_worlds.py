"""Small collections with a row of everything, drawn by hypothesis: for the tests of dividing and joining."""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opilio.classify import Model
from opilio.classify.keywords import KeywordJudge
from opilio.model import Phase, host_of, url_key
from opilio.settings import Settings
from opilio.settings.files import write_settings
from opilio.store import Store
from webs import put_rows

BEGAN = datetime.datetime(2024, 1, 1)
PATHS = ("", "A", "A / x", "B", "C", "C / y")
GOOD = {"A", "B", "C / y"}
REMOVED = 77
"""The number of a topic that is gone; pages still carry it."""
STATES = (
    ("fetched", "ok"), ("fetched", "ok"), ("fetched", "redirect"), ("failed", "http-5xx"), ("waiting", None),
    ("waiting", "http-5xx"), ("dropped", "near-duplicate"), ("dropped", "robots"),
)  # fmt: skip
Rows = dict[str, list[dict[str, Any]]]


def at(seconds: float) -> datetime.datetime:
    """A time of the crawl."""
    return BEGAN + datetime.timedelta(seconds=seconds)


def make_world(
    folder: Path,
    seed: int,
    *,
    sites: Sequence[str] = ("a.org", "b.org", "c.org"),
    paths: Sequence[str] = PATHS,
    urls: int = 24,
    later_s: float = 0.0,
) -> Path:
    """A collection of which everything but its shape is drawn by `seed`. Two of them share the URLs they share."""
    folder.mkdir()
    with Store.create(folder) as store:
        put_rows(store, _rows(random.Random(seed), sites, paths, urls, later_s))
        store.query("UPDATE judgements SET votes = MAP {'terms': confidence}", write=True)
    write_settings(folder, Settings())
    return folder


def _rows(draw: random.Random, sites: Sequence[str], paths: Sequence[str], count: int, later_s: float) -> Rows:
    kcids = dict(zip(paths, [0, *draw.sample(range(1, 12), len(paths) - 1)], strict=True))
    rows = _topics(draw, kcids) | _urls(draw, sites, [*kcids.values(), REMOVED], count, later_s)
    crawl = rows["crawl"]
    stored = [row for row in crawl if row["outcome"] == "ok"]
    asked = [row for row in crawl if row["state"] != "waiting" and row["outcome"] != "robots"]
    rows |= _found(draw, crawl, stored, asked, list(kcids.values()))
    rows |= _told(draw, crawl, list(kcids.values()))
    return rows


def _model(draw: random.Random, version: int) -> bytes:
    return Model(version, "keywords", KeywordJudge({1: f"word{draw.randrange(10**6)}"})).to_bytes()


def _topics(draw: random.Random, kcids: dict[str, int]) -> Rows:
    above = {path: path.rpartition(" / ")[0] for path in kcids if path}
    marks = {path: "good" if path in GOOD else "null" for path in kcids}
    for path in kcids:
        if any(other.startswith(f"{path} / ") or not path for other in GOOD & set(kcids)) and path not in GOOD:
            marks[path] = "path"
        if above.get(path) in GOOD:
            marks[path] = "subsumed"
    return {
        "topics": [
            {
                "kcid": kcid, "pcid": kcids[above[path]] if path else None, "name": path.rpartition(" / ")[2] or "all",
                "path": path, "type": marks[path], "keywords": [path.lower()], "description": f"about {path}",
            }
            for path, kcid in kcids.items()
        ],
        "models": [
            {
                "version": version, "created": at(version), "classifier": "keywords", "reason": "first", "repeats": None,
                "detail": "drawn", "documents": 3,
                "estimates": "{}", "settings": "", "taught": "", "model": _model(draw, version),
            }
            for version in range(1, draw.randint(2, 4))
        ],
        "taxonomy_stat": [{"kcid": -3, "pcid": 0, "logprior": draw.random(), "logdenom": 0.5}],
        "stat": [{"pcid": 0, "kcid": -3, "tid": 7, "logtheta": draw.random()}],
        "lessons": [{"taught": at(50), "kcid": kcids["A"], "name": "n", "before": f'{{"kcid": {kcids["A"]}, "x": 1}}'}],
        "notices": [
            {"noticed": at(51 + n), "kind": "phase", "kcid": kcid, "text": f"{draw.random()}", "remedy": None}
            for n, kcid in enumerate((None, kcids["A"]))
        ],
        "runs": [{"run": n, "started": at(n * 100 + draw.random()), "ended": None, "pages": n} for n in (1, 2)],
    }  # fmt: skip


def _urls(draw: random.Random, sites: Sequence[str], kcids: Sequence[int], count: int, later_s: float) -> Rows:
    names = [f"http://{site}/{n}" for site in sites for n in range(count)]
    chosen = draw.sample(names, count)
    hosts = list(dict.fromkeys(host_of(url) for url in chosen))
    draw.shuffle(hosts)
    crawl = []
    for oid, url in enumerate(chosen):
        state, outcome = draw.choice(STATES)
        visited = at(1000 + later_s + oid + draw.random()) if outcome not in (None, "robots") else None
        crawl.append(
            {
                "oid": oid, "url": url, "key": str(url_key(url)), "sid": hosts.index(host_of(url)),
                "topic": draw.choice(kcids), "depth": draw.randint(0, 5), "hops": 0,
                "parent": draw.choice([None, *range(oid)]) if oid else None, "state": state, "outcome": outcome,
                "numtries": int(visited is not None), "relevance": draw.random(), "priority": draw.random(),
                "not_before": None, "found": at(later_s + oid), "lastvisited": visited,
            }
        )  # fmt: skip
    told = [
        {"pages": draw.randint(0, 9), "bytes": draw.randint(0, 9000), "requests": draw.randint(0, 9)} for _ in hosts
    ]
    return {
        "crawl": crawl,
        "hosts": [
            {
                "sid": sid, "host": host, "domain": host, "ip": "192.0.2.1", "state": "ok", "failures": 0,
                "robots_status": 200, "crawl_delay_s": 0.5, "met": at(900 + later_s), "next_visit": at(990 + later_s),
                **told[sid],
            }
            for sid, host in enumerate(hosts)
        ],
        "robots": [{"sid": sid, "visited": at(900 + later_s), "text": host} for sid, host in enumerate(hosts)],
    }  # fmt: skip


def _found(draw: random.Random, crawl: Any, stored: Any, asked: Any, kcids: Sequence[int]) -> Rows:
    pages = [
        {
            "oid": row["oid"], "visited": row["lastvisited"], "title": row["url"], "text": f"text {draw.random()}",
            "relevance": row["relevance"], "kcid": row["topic"], "model_version": draw.choice((0, 1)),
            "warc_file": "w.warc.gz", "warc_offset": row["oid"], "warc_bytes": 1,
        }
        for row in stored
    ]  # fmt: skip
    links = [
        {
            "oid_src": row["oid"], "oid_dst": target["oid"], "sid_src": row["sid"], "sid_dst": target["sid"],
            "anchor": draw.choice("xyz"), "position": place, "kind": "a", "nofollow": False,
        }
        for row in asked
        for place, target in enumerate(draw.choices(crawl, k=3))
    ]  # fmt: skip
    visits = [_visit(row["oid"], row["lastvisited"], "page", row["outcome"]) for row in asked]
    visits += [_visit(-1 - sid, at(900), "host", "ok") for sid in {row["sid"] for row in crawl}]
    visits.append(_visit(-(2**40) - 1, at(950), "sitemap", "ok"))
    named = [
        {"oid": row["oid"], "sid": row["sid"], "picture": f"{row['url'][:-1]}.png", "icon": "http://icons.test/i.png"}
        for row in stored
    ]
    addresses = {row["picture"] for row in named} | {f"http://{host_of(row['url'])}/favicon.ico" for row in crawl}
    return {
        "pages": pages,
        "page_pictures": named,
        "pictures": [
            {"url": url, "kind": "picture", "visited": at(960), "outcome": "ok", "data": url.encode()}
            for url in sorted({*addresses, "http://icons.test/i.png", "http://gone.test/no-page-names-it.png"})
        ],
        "links": links,
        "past_links": [
            {
                "oid_src": row["oid"], "oid_dst": target["oid"], "sid_src": row["sid"], "sid_dst": target["sid"],
                "anchor": "gone", "first_seen": at(row["oid"]), "last_seen": at(500 + row["oid"]),
            }
            for place, row in enumerate(stored)
            for target in (crawl[place], crawl[-1 - place])
        ],
        "revisits": [
            {
                "oid": row["oid"], "first_visited": at(1), "lastvisited": at(500 + row["oid"]), "n": 3,
                "changes": row["oid"] % 3, "change_interval_s": 1.5 * row["oid"] if row["oid"] % 3 else None,
            }
            for row in stored
        ],
        "visits": visits,
        "terms": [{"oid": row["oid"], "tid": tid, "freq": 1} for row in stored for tid in draw.sample(range(9), 2)],
        "lexicon": [{"tid": tid, "term": f"term{tid}"} for tid in range(9)],
        "redirects": [
            {"oid_src": row["oid"], "oid_dst": draw.choice(crawl)["oid"], "status": 301}
            for row in crawl
            if row["outcome"] == "redirect"
        ],
        "duplicates": [
            {"oid": row["oid"], "of_oid": draw.choice(crawl)["oid"], "step": "near-duplicate"}
            for row in crawl
            if row["outcome"] == "near-duplicate"
        ],
        "judgements": [
            {
                "oid": row["oid"], "model_version": version, "kcid": row["topic"], "accepted": draw.random() < 0.5,
                "relevance": row["relevance"], "confidence": draw.random(), "undoubted": False, "agreed": ["terms"],
            }
            for row in stored
            for version in (0, 1)
        ],
        "reviews": [
            {"judged": at(60), "kcid": kcids[1], "oid": row["oid"], "verdict": "yes", "stratum": "s"} for row in stored[:3]
        ],
        "questions": [
            {
                "oid": row["oid"], "kcid": kcids[1], "asked": at(61), "reason": "sure", "benefit": 3,
                "answered": at(62) if place else None, "answer": "yes" if place else None,
            }
            for place, row in enumerate(stored[:3])
        ],
        "hubs": [{"oid": row["oid"], "score": draw.random()} for row in stored],
        "auth": [{"oid": row["oid"], "score": draw.random()} for row in stored],
        "link_scores": [
            {"kcid": draw.choice(kcids), "oid": row["oid"], "hub": draw.random(), "authority": 0.0} for row in stored
        ],
    }  # fmt: skip


def _visit(oid: int, visited: Any, kind: str, outcome: str) -> dict[str, Any]:
    told = {"oid": oid, "visited": visited, "kind": kind, "outcome": outcome, "received_bytes": 100}
    return {**told, "warc_file": "w.warc.gz", "warc_offset": abs(oid) % 1000, "warc_bytes": 1}


def _told(draw: random.Random, crawl: Any, kcids: Sequence[int]) -> Rows:
    known = [row["url"] for row in draw.sample(crawl, 6)]
    unknown = [f"http://new.org/{draw.randrange(10**9)}" for _ in range(3)]
    training = [
        {"name": url, "kind": "url", "kcid": draw.choice(kcids), "text": None, "added": at(n)}
        for n, url in enumerate(known[:4] + unknown[:2])
    ]
    training.append({"name": known[4], "kind": "url", "kcid": kcids[1], "text": "a part of it", "added": at(9)})
    training.append({"name": "words", "kind": "text", "kcid": kcids[2], "text": "words", "added": at(10)})
    names = ("pages", "bytes", "requests", "links", "outcome:ok", "outcome:robots", "elapsed_ms")
    return {
        "training": [row | {"positive": True, "source": "given", "title": "t"} for row in training],
        "seeds": [
            {"url": url, "kcid": draw.choice(kcids), "source": "given", "title": "t", "added": at(0)}
            for url in known[:3] + unknown[2:]
        ],
        "offers": [
            {
                "offered": at(70 + n), "peer": "p", "incoming": True, "url": url, "topic": "A", "relevance": 0.5,
                "title": "t",
            }
            for n, url in enumerate([known[5], unknown[0]])
        ],
        "counters": [{"name": name, "n": draw.randint(0, 30)} for name in names],
        "progress": [
            {
                "phase": draw.choice(list(Phase)), "archetype_rounds": draw.randint(0, 5),
                "relevant_at_round": draw.randint(0, 30), "negative_rounds": draw.randint(0, 5),
                "pages_at_analysis": draw.randint(0, 30), "question_rounds": draw.randint(0, 5),
            }
        ],
    }  # fmt: skip
