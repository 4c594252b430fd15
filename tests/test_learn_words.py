"""Words judge until there is a model, and what the user says counts at once: for the page and for pages like it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fetch_servers import WebServer
from learn_webs import OwlWeb
from opilio import Collection
from opilio.learn.hits import TAKEN_HITS
from running_crawls import crawl_beside, paused, wait_for

QUESTION = "owl rescue"
RELEVANT = "SELECT url FROM collection WHERE relevance >= 0.5 AND url LIKE '%/{}/%' ORDER BY url"


def web_of() -> OwlWeb:
    """Pages about owls, and pages of a casino that say the words of the question more often."""
    web = OwlWeb()
    web.add("owl", 20, owl=0.3)
    web.add("casino", 20, casino=0.4)
    paths = list(web.texts)
    mixed = [path for pair in zip(paths[:20], paths[20:], strict=True) for path in pair]
    said = {path: "owl rescue " * (2 if "/owl/" in path else 5) for path in mixed}
    web.texts = {path: f"{said[path]} {web.texts[path]}" for path in mixed}
    return web


@contextmanager
def asked(tmp_path: Path, query: str = QUESTION, web: OwlWeb | None = None, **changes: Any) -> Iterator[Collection]:
    """A collection made from a question, whose web is served meanwhile."""
    web = web or web_of()
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("\n".join(web.url(path) for path in list(web.texts)[:8]))
    with WebServer(web.routes()) as server:
        settings: dict[str, Any] = {
            "fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.0, "run.workers": -1,
            "fetch.per_domain": 10, "search.index": False, "limits.max_pages": 30, "learn.mined_negatives": 0,
        }  # fmt: skip
        settings |= {key.replace("__", "."): value for key, value in changes.items()}
        yield Collection.create(tmp_path / "c", seeds=seeds, query=query, settings=settings)


def relevant(collection: Collection, kind: str) -> list[str]:
    return [url for (url,) in collection.sql(RELEVANT.format(kind)).rows]


@pytest.fixture
def owls(tmp_path: Path) -> Iterator[Collection]:
    """30 pages of both kinds, all accepted by the words; one about owls is confirmed."""
    with asked(tmp_path) as collection:
        collection.crawl()
        assert not collection.models() and min(len(relevant(collection, kind)) for kind in ("owl", "casino")) > 8
        collection.feedback(relevant(collection, "owl")[0], "relevant")
        yield collection


def test_a_refusal_spreads_before_there_is_a_model(owls: Collection) -> None:
    """One no beside a yes: the page is not relevant, most of its siblings leave the topic, the owls stay, and the sentence
    counts them. None that left is among the best hits, and the explanation names the reason. Undo
    brings all of it back."""
    before = {kind: relevant(owls, kind) for kind in ("owl", "casino")}
    said = owls.feedback(before["casino"][0], "irrelevant")
    left = [url for url in before["casino"][1:] if url not in relevant(owls, "casino")]
    assert len(left) > len(before["casino"]) / 2 and relevant(owls, "owl") == before["owl"]
    assert f"; {len(left)} similar pages left the topic" in said["said"]
    best = owls.hits(len(before["owl"]))
    assert not {hit["url"] for hit in best} & {before["casino"][0], *left}
    why = owls.explain(left[0])["steps"][0]["reasons"]
    assert any(reason["feature"] == "like a page you refused" and reason["weight"] < 0 for reason in why)
    undone = owls.undo_feedback(said["moment_us"])
    assert {kind: relevant(owls, kind) for kind in before} == before
    assert "came to the topic" in undone["said"]


def test_what_is_more_like_a_confirmed_page_stays(owls: Collection) -> None:
    """After a yes and a no about two pages of one kind, their siblings go by which of the two they resemble more; the
    confirmed page itself stays whatever is refused."""
    first, second, *_ = relevant(owls, "casino")
    owls.feedback(first, "relevant")
    owls.feedback(second, "irrelevant")
    stayed = relevant(owls, "casino")
    assert first in stayed and second not in stayed


def test_an_answer_to_a_question_spreads_too(owls: Collection) -> None:
    """No to a question withdraws the open questions about pages like it; undoing the answer restores their rank."""
    before = relevant(owls, "casino")
    assert all("/casino/" in one["url"] for one in owls.questions())
    said = owls.answer(owls.questions()[0]["oid"], "no")
    assert "left the topic" in said["said"] and len(relevant(owls, "casino")) < len(before) / 2
    still = {one["url"] for one in owls.questions()}
    assert still <= {*relevant(owls, "casino"), *relevant(owls, "owl")}
    owls.undo_answer()
    assert relevant(owls, "casino") == before


def test_a_running_crawl_judges_new_pages_by_what_was_refused(tmp_path: Path) -> None:
    """Its workers learn of the refusal: pages of that kind that are fetched afterwards are not accepted."""
    with asked(tmp_path, limits__max_pages=0, fetch__host_delay_s=0.4, fetch__in_flight=1) as collection:
        crawl = crawl_beside(collection)
        wait_for(collection, lambda: bool(relevant(collection, "casino") and relevant(collection, "owl")))
        paused(collection)
        collection.feedback(relevant(collection, "owl")[0], "relevant")
        collection.feedback(relevant(collection, "casino")[0], "irrelevant")
        [(known,)] = collection.sql("SELECT list(url) FROM collection").rows
        collection.resume()
        wait_for(collection, lambda: not collection.status().running)
        crawl.join()
        assert collection.status().pages == 40 and not collection.models()
        later = [url for url in collection.sql("SELECT list(url) FROM collection").rows[0][0] if url not in known]
        came = [url for url in relevant(collection, "casino") if url in later]
        assert len(came) < sum("/casino/" in url for url in later) / 2
        assert len(relevant(collection, "owl")) == 20


def test_one_word_of_two_is_no_hit(tmp_path: Path) -> None:
    """Pages full of the one word, which is in their title too, are no hits for a question of two words, and are not
    taken; a page with both is."""
    web = OwlWeb()
    web.add("data", 15, casino=0.4)
    web.add("both", 5, owl=0.3)
    for path, text in web.texts.items():
        web.texts[path] = f"data {text} data data " + ("compression " * 3 if "/both/" in path else "")
    with asked(tmp_path, "data compression", web, learn__hits=TAKEN_HITS, learn__questions=0) as collection:
        collection.crawl()
        assert relevant(collection, "data") == [] and len(relevant(collection, "both")) == 5
        taken = [url for (url,) in collection.sql("SELECT name FROM training WHERE source = 'hit'").rows]
    assert len(taken) == 5 and all("/both/" in url for url in taken)


@pytest.mark.parametrize("pages", [12, 25])
def test_a_short_crawl_has_its_model_before_it_ends(pages: int, tmp_path: Path) -> None:
    """`--yes` and a few pages: the hits are taken and the model is trained before the crawl ends, also when the limit is
    below the pages after which a longer crawl would take them, and it judges the stored pages."""
    with asked(tmp_path, learn__hits=TAKEN_HITS, learn__questions=0, limits__max_pages=pages) as collection:
        status = collection.crawl()
        assert status.pages == pages and len(collection.models()) == 1
        assert collection.pending()["count"] == 0
        assert collection.sql("SELECT count(*) FROM pages WHERE model_version = 0").rows == [(0,)]
