"""Who may do what in the portal, and what a browser may load."""

import http.client
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

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


def make(place: Path, name: str = "birds") -> Collection:
    """A collection in which nothing was fetched."""
    (place / "seeds.txt").write_text("http://nobody.test/")
    return Collection.create(place / name, seeds=place / "seeds.txt")


def raw_server(
    portal: Portal, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """The status, headers and body of an answer."""
    connection = http.client.HTTPConnection(portal.address.removeprefix("http://"), timeout=30)
    connection.request(method, path, body, {key.replace("_", "-"): value for key, value in headers.items()})
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, dict(response.getheaders()), content


def test_a_defect_of_ours_has_the_form_of_errors(tmp_path: Path) -> None:
    """What nobody foresaw is an error and a hint for programs and a page for people, with the headers of all pages."""

    def broken() -> None:
        raise ZeroDivisionError("secret words of the code")

    portal = Portal(tmp_path)
    for path in ("/api/broken", "/broken"):
        portal.server.config.app.add_api_route(path, broken)  # type: ignore[union-attr]
    with portal:
        status, headers, body = raw_server(portal, "GET", "/api/broken")
        assert status == 500
        assert set(json.loads(body)) == {"error", "hint"}
        assert headers["content-security-policy"]
        status, headers, body = raw_server(portal, "GET", "/broken")
        assert status == 500
        assert b"<h1>" in body
        assert b"secret words" not in body
        assert headers["content-security-policy"]


def test_a_stranger_cannot_fill_the_memory(tmp_path: Path) -> None:
    """A body is not even read of somebody who may not change anything, nor one that is larger than any we know."""
    with Portal(tmp_path) as portal:
        for path in ("/api/login", "/api/collections"):
            listener = socket.create_connection(("127.0.0.1", int(portal.address.rpartition(":")[2])), timeout=10)
            with listener:
                head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                listener.sendall(f"{head}Content-Length: 50000000\r\n\r\n".encode())
                assert listener.recv(100).split()[1] in (b"403", b"413"), path  # though not a byte of it was sent
        status, _, body = raw_server(
            portal, "POST", "/api/login", iter([b'{"token": ', b'"x"}']), Content_Type="application/json"
        )
        assert status == 411
        assert set(json.loads(body)) == {"error", "hint"}
        assert (
            raw_server(portal, "POST", "/api/collections", Authorization=f"Bearer {TOKEN}", Content_Length="70000000")[
                0
            ]
            == 413
        )


def test_heads_are_answered(tmp_path: Path) -> None:
    """Whoever asks for the head of a page gets that of the page, without the page."""
    make(tmp_path)
    with Portal(tmp_path) as portal:
        for path in ("/collections", "/c/birds/watch", "/api/c/birds/status"):
            status, headers, body = raw_server(portal, "HEAD", path)
            assert (status, body) == (200, b""), path
            assert headers["content-type"] == raw_server(portal, "GET", path)[1]["content-type"]
        assert raw_server(portal, "HEAD", "/c/none/watch")[0] == 404
        status, headers, _ = raw_server(portal, "PUT", "/api/c/birds/status", Authorization=f"Bearer {TOKEN}")
        assert status == 405
        assert "GET" in headers["allow"]


def test_many_changes_at_once_do_not_block_the_server(tmp_path: Path) -> None:
    """A hundred clicks at once are all answered: those that wait for their turn leave room for the one that has it."""
    make(tmp_path)
    with Portal(tmp_path) as portal, ThreadPoolExecutor(100) as pool:
        answers = list(
            pool.map(
                lambda n: portal.ask("POST", "/api/c/birds/host", {"host": f"h{n}.test", "do": "lock"})[0], range(100)
            )
        )
        assert set(answers) <= {200, 503}
        assert answers.count(200) > 10
        assert portal.get("/c/birds/watch")[0] == 200


def test_two_portals_do_not_sign_each_other_out(tmp_path: Path) -> None:
    """Browsers send cookies to every port of a machine: each portal has a cookie of its own."""
    with Portal(tmp_path) as one, Portal(tmp_path) as two:
        jar: dict[str, str] = {}
        for portal in (one, two):
            set_ = raw_server(
                portal, "POST", "/api/login", json.dumps({"token": TOKEN}), Content_Type="application/json"
            )[1]
            name, _, value = set_["set-cookie"].partition(";")[0].partition("=")
            jar[name] = value
        assert len(jar) == 2
