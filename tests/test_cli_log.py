"""Structured logs: one JSON object on each line of standard error, from the first to the last."""

import json
import os
import socket
import subprocess
import sys
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from command_line import call, link_contexts
from opilio.cli import display
from opilio.lab.local_web import LocalServer
from web_portal import TOKEN


def events(text: str) -> list[dict[str, Any]]:
    """The objects of a log; each has a time with its zone, a level and an event."""
    found = [json.loads(line) for line in text.splitlines()]
    for one in found:
        assert datetime.fromisoformat(one["time"]).tzinfo is not None
        assert one["level"] in ("info", "warning", "error") and one["event"]
    return found


def test_a_crawl_logs_json(small_server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings, notices, progress and the end are objects with the figures; standard output stays empty."""
    (tmp_path / "seeds.txt").write_text("http://directory.test/\n")
    monkeypatch.setattr(display, "LOG_EVERY_S", 0.1)
    ended = call("crawl", tmp_path / "birds", "--seeds", tmp_path / "seeds.txt", "--query", "statistics",
                 "--max-pages", "20", "--log-format", "json", *link_contexts(small_server))  # fmt: skip
    assert ended.returncode == 0 and not ended.stdout
    found = events(ended.stderr)
    assert found[-1]["event"] == "end" and found[-1]["pages"] == 20 and found[-1]["reason"]
    assert "progress" in {one["event"] for one in found}
    assert all(one["collection"] == str(tmp_path / "birds") for one in found if one["event"] in ("end", "progress"))


def test_an_error_is_logged_as_json(tmp_path: Path) -> None:
    """So is the error that ends a command, with its hint; without the option it is two lines of text."""
    ended = call("crawl", tmp_path / "none", "--log-format", "json")
    [error] = events(ended.stderr)
    assert (error["level"], error["exit_code"]) == ("error", 1) and "--seeds" in error["hint"]
    assert call("crawl", tmp_path / "none").stderr.startswith("error: ")


def test_the_portal_logs_json(small_server: LocalServer, tmp_path: Path) -> None:
    """The portal of a server writes nothing but objects, what is wrong with a request of a client included."""
    process = subprocess.Popen(
        [sys.executable, "-m", "opilio", "serve", str(tmp_path), "--port", "0", "--quiet", "--host", "127.0.0.1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OPILIO_TOKEN": TOKEN, "OPILIO_LOG_FORMAT": "json"},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        address = process.stdout.readline().split("/login")[0]
        with urllib.request.urlopen(f"{address}/metrics", timeout=30) as response:
            assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"no request\r\n\r\n")
            assert b"400" in client.recv(1000)
    finally:
        process.terminate()
        _, logged = process.communicate(timeout=30)
    assert [one["logger"] for one in events(logged)] == ["uvicorn.error"]
