"""Who may do what in the portal, and what a browser may load."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from opilio import Collection
from opilio.search.index import index_lock
from opilio.web.security import CSRF_HEADER, SESSION, Security
from web_portal import TOKEN, Portal


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """A portal of one collection in which nothing was fetched, made from a seed nobody asks for."""
    place = tmp_path_factory.mktemp("shelf")
    (place / "seeds.txt").write_text("http://nobody.test/")
    Collection.create(place / "birds", seeds=place / "seeds.txt")
    with Portal(place) as portal:
        yield portal


def raw(
    portal: Portal, method: str, path: str, headers: dict[str, str], body: str = "{}"
) -> tuple[int, dict[str, str]]:
    """The status and the headers of an answer to exactly this request."""
    connection = http.client.HTTPConnection(portal.address.removeprefix("http://"), timeout=20)
    connection.request(
        method, path, body if method == "POST" else None, {"Content-Type": "application/json", **headers}
    )
    response = connection.getresponse()
    response.read()
    found = dict(response.getheaders())
    connection.close()
    return response.status, found


def sign_in(portal: Portal) -> str:
    """The cookie of a browser that signs in."""
    status, headers = raw(portal, "POST", "/api/login", {}, json.dumps({"token": TOKEN}))
    assert status == 200
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    return cookie.partition(";")[0]


def test_changes_need_the_token(portal: Portal) -> None:
    """Without a token, or with a wrong one, nothing that changes state is done; the right one is let in."""
    assert portal.ask("POST", "/api/c/birds/stop", token="")[0] == 403
    assert portal.ask("POST", "/api/c/birds/stop", token="wrong")[0] == 403
    assert portal.ask("POST", "/api/c/birds/stop") == (200, {"said": "no crawl runs"})


def test_every_change_is_guarded(portal: Portal) -> None:
    """No route of the API but signing in does anything for somebody without a token, whatever the body."""
    paths = portal.get("/api/openapi.json")[1]["paths"]
    changes = [(path, method) for path, methods in paths.items() for method in methods if method != "get"]
    assert len(changes) > 3
    for path, method in changes:
        if path == "/api/login":
            continue
        status, body = portal.ask(method.upper(), path.replace("{name}", "birds"), {}, token="")
        assert status in {403, 422}, (path, status)  # 422: the body was looked at first, and nothing done
        assert set(body) == {"error", "hint"}, path


def test_reading_changes_nothing(portal: Portal) -> None:
    """Every route that is not POST is a GET: a link or a picture of another site cannot change anything."""
    paths = portal.get("/api/openapi.json")[1]["paths"]
    assert {method for methods in paths.values() for method in methods} == {"get", "post"}


def test_a_cookie_alone_is_not_enough(portal: Portal) -> None:
    """A browser that has signed in needs the second secret, which only our pages know: forgery from elsewhere fails."""
    cookie = sign_in(portal)
    assert raw(portal, "POST", "/api/c/birds/stop", {"Cookie": cookie})[0] == 403
    assert raw(portal, "POST", "/api/c/birds/stop", {"Cookie": cookie, CSRF_HEADER: "guessed"})[0] == 403
    assert raw(portal, "POST", "/api/c/birds/stop", {"Cookie": cookie, CSRF_HEADER: csrf_of(portal, cookie)})[0] == 200


def csrf_of(portal: Portal, cookie: str) -> str:
    """The second secret, as a page has it."""
    text = portal.ask("GET", "/new", token="", Cookie=cookie)[1]
    return str(text).partition('name="csrf" content="')[2].partition('"')[0]


def test_a_made_up_session_is_nobody(portal: Portal) -> None:
    """A cookie that this server did not sign is no session, and has no second secret."""
    ours = sign_in(portal).partition("=")[0]
    assert ours.startswith(SESSION)
    other = f"{ours}={Security('another token').new_session()}"
    assert csrf_of(portal, other) == ""
    assert raw(portal, "POST", "/api/c/birds/stop", {"Cookie": other, CSRF_HEADER: ""})[0] == 403


def test_a_wrong_token_does_not_sign_in(portal: Portal) -> None:
    """Signing in with another token is refused and sets no cookie."""
    status, headers = raw(portal, "POST", "/api/login", {}, json.dumps({"token": "wrong"}))
    assert status == 403
    assert "set-cookie" not in headers


def test_strange_host_names_are_refused(portal: Portal) -> None:
    """A name that resolves here by somebody else's doing (DNS rebinding) gets no answer."""
    port = portal.address.rpartition(":")[2]
    assert raw(portal, "GET", "/collections", {"Host": f"evil.test:{port}"})[0] == 421
    assert raw(portal, "GET", "/collections", {"Host": "evil.test"})[0] == 421
    assert raw(portal, "GET", "/collections", {"Host": f"localhost:{port}"})[0] == 200


def test_pages_carry_a_strict_policy(portal: Portal) -> None:
    """Nothing is loaded from elsewhere, no script or style in a page itself runs, nobody frames us."""
    headers = raw(portal, "GET", "/new", {})[1]
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"


def test_errors_have_one_form(portal: Portal) -> None:
    """Whatever goes wrong, the API says so as an error and a hint."""
    tries = [
        ("GET", "/api/nothing", None, 404),
        ("POST", "/api/c/none/stop", {}, 404),
        ("POST", "/api/collections", {}, 422),
        ("POST", "/api/collections", {"name": "../out", "seeds": ["http://a.test/"]}, 400),
        ("POST", "/api/collections", {"name": "empty"}, 400),
        ("POST", "/api/collections", {"name": "bad", "seeds": ["not a url"]}, 400),
        ("POST", "/api/collections", {"name": "bad", "seeds": ["http://a.test/"], "settings": ["no.such=1"]}, 400),
    ]
    for method, path, body, expected in tries:
        status, answer = portal.ask(method, path, body)
        assert (status, set(answer)) == (expected, {"error", "hint"}), path
        assert answer["error"]


def test_errors_do_not_tell_where_collections_lie(tmp_path: Path) -> None:
    """A collection is called by its name, as everywhere in the portal."""
    (tmp_path / "seeds.txt").write_text("http://nobody.test/")
    Collection.create(tmp_path / "birds", seeds=tmp_path / "seeds.txt")
    with Portal(tmp_path) as portal, index_lock(tmp_path / "birds"):
        status, answer = portal.ask("GET", "/api/c/birds/search?q=owl")
    assert (status, answer["error"]) == (503, "birds: nothing can be searched yet: the index is being built")


@pytest.mark.parametrize("name", ["..", "../birds", "%2e%2e", "birds/../birds", ".", "birds%2f..%2fbirds", "nothing"])
def test_names_do_not_leave_the_shelf(portal: Portal, name: str) -> None:
    """A name with a way out of the folder is no collection."""
    assert portal.get(f"/c/{name}/watch")[0] in {404, 400}


def test_static_files_are_ours_only(portal: Portal) -> None:
    """The folder of files does not give out others."""
    assert portal.get("/static/opilio.css")[0] == 200
    assert portal.get("/static/../app.py")[0] == 404
    assert portal.get("/static/%2e%2e/app.py")[0] == 404


def test_a_failed_wish_leaves_nothing(portal: Portal, tmp_path: Path) -> None:
    """A collection that could not be made is not shown, and its name stays free."""
    assert portal.ask("POST", "/api/collections", {"name": "owls"})[0] == 400
    assert portal.shelf.names() == ["birds"]
    status, answer = portal.ask("POST", "/api/collections", {"name": "owls", "seeds": ["a.test"], "start": False})
    assert (status, answer["name"]) == (200, "owls")
    assert portal.ask("POST", "/api/collections", {"name": "owls", "seeds": ["a.test"], "start": False})[0] == 400
    listed = portal.get("/api/collections")[1]
    assert [(row["name"], row["running"], row["pages"]) for row in listed] == [("birds", False, 0), ("owls", False, 0)]
