"""New collections made in the portal."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from web_portal import Portal

SEEDS = ["http://start.example/"]


def test_two_clicks_make_one_collection(tmp_path: Path) -> None:
    """Of several requests for a collection of one name, one makes it; the others do not take it away again."""
    with Portal(tmp_path) as portal, ThreadPoolExecutor(4) as pool:
        for name in ("a", "b", "c"):
            wish = {"name": name, "start": False, "seeds": SEEDS}
            answers = list(pool.map(lambda _, wish=wish: portal.ask("POST", "/api/collections", wish), range(4)))
            assert sorted(status for status, _ in answers) == [200, 400, 400, 400], answers
            assert portal.get(f"/api/c/{name}/portal")[0] == 200


def test_a_name_that_failed_can_be_taken_again(tmp_path: Path) -> None:
    """A wish that cannot be fulfilled leaves nothing behind, and its error names no file of the server."""
    taxonomy = "topics:\n  Birds:\n    examples:\n      - file:no-such-file.txt\n"
    with Portal(tmp_path) as portal:
        for wrong in ({"taxonomy": taxonomy}, {"taxonomy": "]["}, {"bookmarks": "nothing"}):
            wish = {"name": "birds", "start": False, "seeds": SEEDS, **wrong}
            status, answer = portal.ask("POST", "/api/collections", wish)
            assert status == 400
            assert "/tmp" not in answer["error"] + answer["hint"], answer
            assert not list(tmp_path.iterdir())
        assert portal.ask("POST", "/api/collections", {"name": "birds", "start": False, "seeds": SEEDS})[0] == 200


def test_the_portal_reads_no_files_of_its_machine(tmp_path: Path) -> None:
    """A taxonomy that names a file is refused: its text would be an example, which all who read the portal may see."""
    secret = tmp_path / "secret.txt"
    secret.write_text("the owl is in the attic")
    (tmp_path / "shelf").mkdir()
    taxonomy = f"topics:\n  Birds:\n    examples:\n      - file:{secret}\n"
    with Portal(tmp_path / "shelf") as portal:
        wish = {"name": "birds", "start": False, "seeds": SEEDS, "taxonomy": taxonomy}
        status, answer = portal.ask("POST", "/api/collections", wish)
        assert status == 400
        assert "files" in answer["error"]
        assert not list((tmp_path / "shelf").iterdir())


def test_a_name_too_long_for_a_folder_is_refused(tmp_path: Path) -> None:
    """80 letters may be more bytes than a folder's name may have."""
    with Portal(tmp_path) as portal:
        status, answer = portal.ask(
            "POST", "/api/collections", {"name": "\U0001d49c" * 80, "start": False, "seeds": SEEDS}
        )
        assert status == 400
        assert answer["hint"]
