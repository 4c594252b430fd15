"""The contract of seed providers, and what each of them reads."""

import json
from typing import Any

import pytest

from opilio import seeds
from opilio.errors import SettingsError
from opilio.seeds import PROVIDERS, SeedError, find_seeds, make_provider, seeds_of
from opilio.seeds.opensearch import Template
from opilio.seeds.provider import ProviderReply
from opilio.seeds.requester import MAX_REQUESTS
from opilio.seeds.results import read_results
from opilio.settings import Settings
from seed_services import KINDS, Answer, Service, allowing, as_json, serving

URLS = [f"http://a.test/{n}" for n in range(1, 8)]
NAMES = sorted(PROVIDERS)


def test_every_provider_has_a_service_to_be_tested_with() -> None:
    """A provider that comes with Opilio cannot be left out of the contract."""
    assert set(NAMES) == set(KINDS)


@pytest.mark.parametrize("name", NAMES)
def test_pages_by_rank_and_no_more_than_asked_for(name: str) -> None:
    """A provider goes on to the next page of results as long as it takes, and no further; we say who we are."""
    with serving(name, URLS) as (service, provider):
        [answer] = find_seeds("barn owl", allowing(max_per_provider=5), providers=[provider])
        assert [page.url for page in answer.pages] == URLS[:5], answer
        assert not answer.trouble
        assert answer.provider == provider
        [answer] = find_seeds("barn owl", allowing(max_per_provider=50), providers=[provider])
        assert [page.url for page in answer.pages] == URLS, "and it stops where there are no more"
        assert len(service.asked) < MAX_REQUESTS
        assert all("https://example.org/us" in agent for agent in service.agents)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_found_is_said(name: str) -> None:
    """No page is no trouble of the provider, but there is nothing to start from."""
    with serving(name, []) as (_, provider), pytest.raises(SeedError, match="no page found for 'barn owl'"):
        find_seeds("barn owl", allowing(), providers=[provider])


PAGE = b"<!doctype html><html><body>Sign in</body></html>"
FAILURES: dict[str, tuple[Answer, str]] = {
    "forbidden": (Answer(status=403), "status 403"),
    "busy": (Answer(status=429, headers={"Retry-After": "7"}), "asks to wait 7 s"),
    "broken": (Answer(status=502), "status 502"),
    "a page": (Answer(PAGE, headers={"Content-Type": "text/html"}), ""),
    "huge": (Answer(b"[" + b" " * 5000), "seeds.max_bytes"),
    "slow": (Answer(delay_s=1.0), "did not answer within 0.5 s"),
    "loop": (Answer(status=302, headers={"Location": "/again"}), "redirects too often"),
    "entities": (Answer(b'<!DOCTYPE x [<!ENTITY a "b">]><feed/>'), ""),
}


@pytest.mark.parametrize("name", NAMES)
def test_failures_name_the_provider_and_the_next_step(name: str) -> None:
    """Whatever a service does, the error names it, says what happened, and what to do."""
    for what, (failure, expected) in FAILURES.items():
        with Service(lambda path, given, failure=failure: failure) as service:
            provider = f"{name}={service.address}{KINDS[name].path}"
            with pytest.raises(SeedError) as found:
                find_seeds("owl", allowing(max_bytes=4000, timeout_s=0.5), providers=[provider])
        assert provider in found.value.message, what
        assert expected in found.value.message, what
        assert found.value.hint, what
        assert "defect" not in found.value.hint, (what, found.value.message)


SHAPES: list[Any] = [
    None, 5, "x", [], {}, [5, None, [], {"url": 5, "title": 5}, {"url": "javascript:alert(1)"}], {"results": 5},
    {"results": [None, 5, {"url": None}, {"url": "file:///etc/passwd", "title": ["x"]}]}, {"query": 5},
    {"query": {"pages": 5}}, {"query": {"pages": [None, {"index": "x", "fullurl": 5}]}, "continue": {"a": 1}},
    {"error": 5}, {"error": {"info": []}}, [["original"], [], [None], 5], [["original", "statuscode"], ["x"]],
    {"results": [], "unresponsive_engines": [[None, 5], "x", 5]},
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_answers_of_any_shape_do_no_harm(name: str) -> None:
    """What comes back is not trusted: no shape of JSON breaks a provider, and only web pages become seeds."""
    shapes = iter(SHAPES)

    def serve(path: str, given: dict[str, str]) -> Answer:
        return KINDS["opensearch"].serve([])(path, given) if path == "/description" else as_json(shape)

    with Service(serve) as service:
        for shape in shapes:
            with pytest.raises(SeedError) as found:
                find_seeds("owl", allowing(), providers=[f"{name}={service.address}{KINDS[name].path}"])
            assert "defect" not in found.value.hint, (shape, found.value.message)


@pytest.mark.parametrize("name", NAMES)
def test_private_addresses_are_not_asked(name: str) -> None:
    """Without the setting that allows it to a crawl, no request reaches a service of the own network."""
    with serving(name, URLS) as (service, provider):
        with pytest.raises(SeedError, match="which is not public") as found:
            find_seeds("owl", Settings(), providers=[provider])
        assert "fetch.allow_private_addresses=true" in found.value.hint
        assert not service.asked


@pytest.mark.parametrize("name", NAMES)
def test_addresses_are_checked_before_anything_is_asked(name: str) -> None:
    """What cannot be the address of a service is refused when it is written, with an example."""
    for address in ("ftp://a.test/", "http://", "http://user:secret@a.test/", ""):
        with pytest.raises(SettingsError) as found:
            make_provider(f"{name}={address}")
        assert found.value.hint
        assert "secret" not in found.value.message


def test_a_question_is_needed_for_all_but_an_index() -> None:
    """Without words a search says so at once; the index of an archive needs none."""
    for name in NAMES:
        with serving(name, URLS) as (service, provider):
            if name == "cdx":
                assert find_seeds("", allowing(), providers=[provider])[0].pages
            else:
                with pytest.raises(SeedError, match="needs words"):
                    find_seeds(" ", allowing(), providers=[provider])
                assert not service.asked


def test_some_fail_and_others_answer() -> None:
    """One provider that answers is enough; those that failed say so, and a page found by two is one seed of both."""
    with serving("searxng", URLS[:3]) as (_, good), serving("opilio", [URLS[1], URLS[5]]) as (_, other):
        answers = find_seeds("owl", allowing(), providers=[good, "searxng=http://127.0.0.1:1", other, good])
    assert [len(answer.pages) for answer in answers] == [3, 0, 2], "named twice, asked once"
    assert "cannot be reached" in answers[1].said
    merged = seeds_of(answers, 0)
    assert [seed.url for seed in merged] == [URLS[0], URLS[1], URLS[5], URLS[2]], "the best of each first"
    assert merged[1].found == ((other, "owl", 1), (good, "owl", 2))


def test_what_was_found_before_a_failure_counts() -> None:
    """A service that stops answering after some pages of results has found those."""
    whole = KINDS["searxng"].serve(URLS)

    def serve(path: str, given: dict[str, str]) -> Answer:
        return whole(path, given) if given["pageno"] == "1" else Answer(status=429)

    with Service(serve) as service:
        [answer] = find_seeds("owl", allowing(), providers=[f"searxng={service.address}"])
    assert len(answer.pages) == 3
    assert answer.said.endswith("which then answers with status 429")


def test_a_searxng_that_answers_no_programs_says_what_to_change() -> None:
    """403 is how SearXNG says that `json` is not among its formats; silent engines are named."""
    with Service(lambda path, given: Answer(status=403)) as service, pytest.raises(SeedError) as found:
        find_seeds("owl", allowing(), providers=[f"searxng={service.address}"])
    assert "search.formats" in found.value.hint
    silent = {"results": [], "unresponsive_engines": [["google", "timeout"]]}
    with Service(lambda path, given: as_json(silent)) as service, pytest.raises(SeedError, match="google timeout"):
        find_seeds("owl", allowing(), providers=[f"searxng={service.address}"])


def test_the_other_dialect_of_cdx_and_the_order_of_pages() -> None:
    """The Wayback Machine answers an array whose first row names the columns; words of the question come first."""
    rows = [
        ["urlkey", "original", "mimetype", "statuscode"],
        *(["k", f"http://a.test/{path}", "text/html", "200"] for path in ("x/y/z", "about", "x/Owl-boxes", "a?owl=1")),
        ["k", "http://a.test/pic", "image/jpeg", "200"],
    ]
    with Service(lambda path, given: as_json(rows)) as service:
        [answer] = find_seeds("the owl", allowing(), providers=[f"cdx={service.address}/cdx?url=*.a.test&limit=9"])
        assert service.asked == [("/cdx", {"url": "*.a.test", "limit": "9", "output": "json"})]
    assert [page.url.removeprefix("http://a.test/") for page in answer.pages] == [
        "x/Owl-boxes", "a?owl=1", "about", "x/y/z",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        '<rss version="2.0"><channel><link>http://no.test/</link><item><title>T</title><link>/1</link></item></channel></rss>',
        '<rss version="2.0"><channel><item><title>T</title><guid>http://a.test/1</guid></item></channel></rss>',
        '<rdf:RDF xmlns:rdf="r" xmlns="http://purl.org/rss/1.0/"><item rdf:about="x"><title>T</title><link>http://a.test/1</link></item></rdf:RDF>',
        '<feed xmlns="http://www.w3.org/2005/Atom"><entry><title>T</title><link rel="alternate" href="1"/></entry></feed>',
        json.dumps(
            {"version": "https://jsonfeed.org/version/1.1", "items": [{"url": "http://a.test/1", "title": "T"}]}
        ),
    ],
    ids=["RSS 2.0", "guid", "RSS 1.0", "Atom", "JSON"],
)
def test_lists_of_results_in_all_formats(body: str) -> None:
    """Whatever its format, the list itself shows how it is read; relative links lead to where it came from."""
    template = "{searchTerms}"
    with Service(lambda path, given: Answer(body.encode())) as service:
        body = body.replace("http://a.test", service.address)
        [answer] = find_seeds("owl", allowing(), providers=[f"opensearch={service.address}/?q={template}"])
    assert [(page.url, page.title) for page in answer.pages] == [(f"{service.address}/1", "T")]
    assert read_results(ProviderReply("http://a.test/", body.encode()))[0].title == "T"


def test_templates_are_filled_as_opensearch_says() -> None:
    """Words are escaped, offsets count, optional parameters that are unknown are left empty, others are refused."""
    template = Template("http://a.test/?q={searchTerms}&p={startPage}&i={startIndex?}&x={x:y?}", 0, 5)
    filled = template.fill("barn & owl", count=10, start=20, page=2)
    assert filled == "http://a.test/?q=barn%20%26%20owl&p=7&i=20&x="
    with pytest.raises(seeds.ProviderError, match="geo"):
        Template("http://a.test/{searchTerms}/{geo}").fill("owl", count=1, start=0, page=0)


def test_keys_in_addresses_are_not_shown() -> None:
    """What is shown and recorded of a provider has no key, and still says which service it is."""
    shown = make_provider("opensearch=http://a.test/s?keywords={searchTerms}&api_key=abc&lang=en").shown
    assert shown == "opensearch=http://a.test/s?keywords={searchTerms}&api_key=***&lang=en"
