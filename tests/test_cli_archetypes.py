"""`opilio archetypes`, as a user calls it."""

import json
from pathlib import Path

import pytest

from command_line import call
from fetch_servers import WebServer
from learn_webs import OwlWeb
from opilio.store import Store


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Owls, crawled, with a title that would steer a terminal on one page."""
    place = tmp_path_factory.mktemp("archetypes")
    web = OwlWeb()
    examples = web.add("owl", 5, owl=0.3)
    web.add("more", 12, owl=0.4)
    routes = web.routes()
    for path, answer in list(routes.items()):
        if isinstance(answer, bytes) and path.startswith("/more/"):
            routes[path] = answer.replace(b"<title>/m", b"<title>\x1b[1m")
    with WebServer(routes) as server:
        settings = {"classify__classifier": "bayes", "learn__above_mean": False}
        web.collection(server, place / "c", web.taxonomy(place, {"Owls": examples}), **settings).crawl()
    return place / "c"


def listed(folder: Path) -> list[dict[str, object]]:
    """What the list has, as JSON."""
    shown = call("archetypes", "list", str(folder), "--json")
    assert shown.returncode == 0, shown.stderr
    found: list[dict[str, object]] = json.loads(shown.stdout)
    return found


def training(folder: Path, url: object) -> list[tuple[object, ...]]:
    """What is learned from a page."""
    with Store.open(folder, read_only=True) as store:
        return store.query("SELECT positive, source, text FROM training WHERE name = ?", [url]).rows


def test_candidates_are_listed_and_confirmed_and_rejected(folder: Path) -> None:
    """The list has topic, confidence, authority, title, URL and a preview, and no control characters; what is said of a
    page is kept, and it is in the list no more."""
    found = listed(folder)
    assert len(found) >= 10
    assert {"topic", "state", "confidence", "mean", "authority", "title", "url", "preview"} <= found[0].keys()
    shown = call("archetypes", "list", str(folder), "--topic", "owls")
    assert shown.returncode == 0, shown.stderr
    assert str(found[0]["url"]) in shown.stdout
    assert "\x1b" not in shown.stdout
    first, second = found[0]["url"], found[1]["url"]
    confirmed = call("archetypes", "confirm", str(folder), "Owls", str(first))
    assert confirmed.stdout == f"confirmed {first}\n"
    rejected = call("archetypes", "reject", str(folder), "Owls", str(second))
    assert rejected.stdout.startswith(f"rejected {second}\n")
    assert [row[:2] for row in (*training(folder, first), *training(folder, second))] == [
        (True, "confirmed"),
        (False, "rejected"),
    ]
    assert not {first, second} & {page["url"] for page in listed(folder)}


def test_a_page_is_trimmed(folder: Path, tmp_path: Path) -> None:
    """By words, by lines as they are shown, and by a file: each time that part, and only that, is learned from."""
    url = str(listed(folder)[0]["url"])
    shown = call("archetypes", "show", str(folder), url)
    assert shown.returncode == 0, shown.stderr
    assert "\x1b" not in shown.stdout
    lines = {int(line[:5]): line[7:] for line in shown.stdout.splitlines()[1:]}
    number, line = max(lines.items(), key=lambda item: len(item[1]))
    words = line.split()
    trimmed = call("archetypes", "trim", str(folder), "Owls", url, "--lines", f"{number}-{number}")
    assert trimmed.stdout.startswith(f"{len(words)} words of {url} are kept")
    assert str(training(folder, url)[0][2]).split() == words
    part = ("--from", " ".join(words[4:6]), "--to", " ".join(words[20:22]))
    assert call("archetypes", "trim", str(folder), "Owls", url, *part).returncode == 0
    assert str(training(folder, url)[0][2]).split() == words[4:22]
    file = tmp_path / "kept.txt"
    file.write_text(" ".join(words[8:12]))
    assert call("archetypes", "trim", str(folder), "Owls", url, "--keep", str(file)).returncode == 0
    assert training(folder, url) == [(True, "confirmed", " ".join(words[8:12]))]


def test_what_is_wrong_is_said(folder: Path, tmp_path: Path) -> None:
    """One line and the next step: a wrong topic, page, passage, file; nothing to keep is a wrong call."""
    url = str(listed(folder)[0]["url"])
    strange = tmp_path / "strange.txt"
    strange.write_text("zyzzyva")
    for wrong in (
        ("confirm", str(folder), "Owl", url),
        ("reject", str(folder), "Owls", "http://nowhere.test/"),
        ("trim", str(folder), "Owls", url, "--from", "no such words"),
        ("trim", str(folder), "Owls", url, "--lines", "900-901"),
        ("trim", str(folder), "Owls", url, "--keep", str(strange)),
        ("trim", str(folder), "Owls", url, "--keep", str(tmp_path / "missing")),
        ("show", str(folder), "http://nowhere.test/"),
    ):
        refused = call("archetypes", *wrong)
        assert refused.returncode == 1, wrong
        assert "hint: " in refused.stderr
        assert "Traceback" not in refused.stderr
    assert call("archetypes", "trim", str(folder), "Owls", url).returncode == 2
