"""The search page, and the same by the API."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from browser import chromium, signed_in
from opilio.analyze.terms import term_ids
from opilio.search.query import parse
from opilio.store import Batch, Store
from opilio.web.finding import SearchBody
from search_pages import Page, make_collection
from web_portal import Portal

EVIL = "<script>alert('owl')</script>"
COPY = "copied text about kites " + " ".join(f"filler{n}" for n in range(60))
PAGES = [
    Page("The barn owl nests in barns", f"Barn owls {EVIL}", relevance=0.2, kcid=2),
    Page(f"Owls hunt mice at night {EVIL}", "Night birds", relevance=0.9),
    Page("An owl in a car", "Cars", relevance=0.5, kcid=3),
    Page(COPY, "Kites"),
    Page(COPY, "Kites again"),
    *(Page(f"finch number {n}", f"Finch {n}") for n in range(25)),
    *(Page(f"kestrel {'falcon tower church' if n % 2 else 'meadow mouse vole'} {n}", f"Kestrel {n}", relevance=0.9,
           links=((30, "a"), (31, "b")) if n > 1 else ()) for n in range(10)),
]  # fmt: skip


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    place: Path = tmp_path_factory.mktemp("portal")
    make_collection(place / "birds", PAGES)
    batch = Batch()
    for oid, page in enumerate(PAGES):  # clusters are found by stored terms
        tids = sorted({tid for word in page.text.split() for tid in term_ids(word)})
        batch.terms.add(oid, struct.pack(f"<{len(tids)}I", *tids), struct.pack(f"<{len(tids)}H", *[1] * len(tids)))
        for word in page.text.split():
            for tid in term_ids(word):
                batch.lexicon.add(tid, word)
    with Store.open(place / "birds") as store:
        store.write(batch)
    with Portal(place) as portal:
        yield portal


def test_the_api_answers(portal: Portal) -> None:
    """A question with filters and weights is answered as JSON, with snippets in pieces and facets."""
    status, answer = portal.get("/api/c/birds/search", q="owl", topic="Birds", relevance=1)
    assert status == 200
    assert [one["oid"] for one in answer["results"]] == [1, 0]
    assert answer["weights"] == {"bm25": 0.0, "cosine": 0.0, "relevance": 1.0, "authority": 0.0}
    assert ["Owls", True] in answer["results"][0]["snippet"]
    assert {"value": "Birds / Owls", "count": 1} in answer["facets"]["topic"]
    former = portal.get("/api/c/birds/search", q="owl", topic="Birds", confidence=1)[1]
    assert (former["weights"], former["results"]) == (answer["weights"], answer["results"]), "the ranking's former name"


def test_wrong_questions_are_told(portal: Portal) -> None:
    """A wrong question is an error of the API with a hint, and on the page stays to be mended."""
    status, answer = portal.get("/api/c/birds/search", q='"owl')
    assert (status, "not closed" in answer["error"]) == (400, True)
    assert answer["hint"]
    status, page = portal.get("/c/birds/search", q='"owl')
    assert status == 400
    assert 'value="&#34;owl"' in page
    assert "not closed" in page
    assert portal.get("/api/c/birds/search", q="owl", bm25=-1)[0] == 422
    assert portal.get("/api/c/birds/search", q="owl", page=0)[0] == 422


def test_a_ranking_without_scores_is_told(portal: Portal) -> None:
    """Who asks for authority before links were analysed learns how to have them analysed, by the API and the page."""
    status, answer = portal.get("/api/c/birds/search", q="owl", authority=1)
    assert (status, "no page has an authority score" in answer["error"]) == (400, True)
    assert "opilio distill" in answer["hint"]
    status, page = portal.get("/c/birds/search", q="owl", authority=1)
    assert status == 400 and "opilio distill" in page


def test_similar_pages(portal: Portal) -> None:
    """More like this, and an error for a page that is not stored."""
    status, answer = portal.get("/api/c/birds/similar", url="http://h1.example/1.html", n=3)
    assert status == 200
    assert 1 not in [one["oid"] for one in answer]
    assert portal.get("/api/c/birds/similar", url="http://nowhere.example/")[0] == 400


def test_text_of_strangers_is_text(portal: Portal) -> None:
    """Titles and snippets cannot bring markup into the page; what was asked for is marked."""
    _, page = portal.get("/c/birds/search", q="owl")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "<mark>Owls</mark> hunt" in page


def test_facets_copies_and_pages_are_links(portal: Portal) -> None:
    """The page leads to narrower results, to folded copies and to further results."""
    _, page = portal.get("/c/birds/search", q="owl")
    assert 'href="/c/birds/search?q=owl&amp;topic=Birds"' in page
    _, page = portal.get("/c/birds/search", q="owl", topic="Birds")
    assert 'href="/c/birds/search?q=owl"' in page  # takes it away again
    _, page = portal.get("/c/birds/search", q="kites")
    assert "1 near duplicate" in page
    assert 'copies_of=3"' in page
    _, page = portal.get("/c/birds/search", q="finch", page=2)
    assert "page 2 of 3" in page
    assert 'rel="next" href="/c/birds/search?q=finch&amp;page=3"' in page
    assert 'start="11"' in page


def test_a_search_result_leads_to_its_hubs_and_clusters(portal: Portal) -> None:
    """The page of results has links to the hubs and authorities, and to the clusters, of all pages that match, with
    the filters of the search; both pages take the options of the API and say what is wrong."""
    _, page = portal.get("/c/birds/search", q="kestrel", topic="Birds", lang="en")
    search = "kestrel topic:Birds lang:en"
    query = "search=kestrel%20topic%3ABirds%20lang%3Aen"
    assert f'href="/c/birds/distill?{query}"' in page and f'href="/c/birds/clusters?{query}"' in page
    status, found = portal.get("/api/c/birds/distill", search=search, method="hits", top=2)
    assert status == 200
    assert {one["title"] for one in found["authorities"]} == {"Kestrel 0", "Kestrel 1"}
    status, page = portal.get("/c/birds/distill", search=search, method="hits", top=2)
    assert status == 200 and page.count('class="count"') == len(found["hubs"]) + 2 == 4
    assert "Kestrel 0" in page and "Finch" not in page
    status, found = portal.get("/api/c/birds/clusters", search=search, k=2)
    assert status == 200, found
    assert (found["pages"], len(found["clusters"])) == (10, 2)
    status, page = portal.get("/c/birds/clusters", search=search, k=2)
    assert status == 200 and all(one["name"] in page for one in found["clusters"])
    assert "10 <a href" in page and "Make these subtopics" not in page, "only who is signed in makes subtopics"
    for wrong in ({"search": "nothinglikethis"}, {"search": '"owl'}, {"search": "owl", "method": "guess"}):
        status, page = portal.get("/c/birds/distill", **wrong)
        assert status == 400 and 'class="bad"' in page
    assert portal.get("/c/birds/distill")[0] == portal.get("/c/birds/clusters")[0] == 200


def test_a_question_has_all_filters() -> None:
    """As words: values with spaces in quotes, of which they have none themselves, several of a kind, and days."""
    asked = SearchBody(q="owl OR hawk", topic=["Birds / Owls", 'A "b"'], host=["a.org"], since="2024-01-31")
    assert asked.question == 'owl OR hawk topic:"Birds / Owls" topic:"A  b " host:a.org since:2024-01-31'
    assert [(one.name, one.value) for one in parse(asked.question).filters][:2] == [
        ("topic", "Birds / Owls"), ("topic", "A  b ")
    ]  # fmt: skip


def test_the_empty_page_explains(portal: Portal) -> None:
    """Without a question the page shows what can be asked."""
    status, page = portal.get("/c/birds/search")
    assert status == 200
    for part in ("title:owl", "topic:", "owl~", "since:"):
        assert part in page


def test_sliders_rank_anew_in_a_browser(portal: Portal) -> None:
    """Moving a slider reorders the results in place, the address keeps it, and the page is accessible."""
    with chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/c/birds/search?q=owl&bm25=1")
        first = page.locator("#results .results .title").first
        expect(first).not_to_contain_text("Night birds")
        page.get_by_label("Words (BM25)").fill("0")
        page.get_by_role("slider", name="Relevance").fill("1")
        expect(first).to_contain_text("Night birds")
        assert "relevance=1" in page.url
        page.get_by_role("link", name="Cars").first.click()
        expect(page.locator("#results .title")).to_have_count(1)
        assert "relevance=1" in page.url
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
