"""Passwords are in the settings file and nowhere else; tokens and cookies are in no file that others can read."""

import base64
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from opilio import Collection
from opilio.crawl.operations.client import NOTE, is_running
from opilio.settings.files import hide_password
from running_crawls import wait_for
from web_portal import Portal

SECRET = "s3cr3t-7f31c0"
SENT = base64.b64encode(f"crawler:{SECRET}".encode()).decode()


class _Proxy(BaseHTTPRequestHandler):
    """Answers everything itself, if the password is right."""

    def do_GET(self) -> None:
        is_right = self.headers.get("Proxy-Authorization") == f"Basic {SENT}"
        self.send_response(200 if is_right else 407)
        self.send_header("Content-Type", "text/html" if "robots" not in self.path else "text/plain")
        body = b"<html><title>Owls</title><body><p>Owls hunt at night in the woods.</p></body></html>"
        body = body if is_right and "robots" not in self.path else b""
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def proxy() -> Iterator[str]:
    """The URL of a proxy that wants a password."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://crawler:{SECRET}@127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def run(*arguments: str) -> str:
    """All that a command prints."""
    command = [sys.executable, "-m", "opilio", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def test_the_password_of_a_proxy_is_nowhere_else(proxy: str, tmp_path: Path) -> None:
    """After a crawl through it, an export, a published site and looks at everything: no file and no output has it."""
    folder, site = tmp_path / "owls", tmp_path / "site"
    (tmp_path / "seeds.txt").write_text("http://owls.test/")
    told = run("crawl", str(folder), "--seeds", str(tmp_path / "seeds.txt"), "--query", "owls", "--set", f"fetch.proxy={proxy}",
               "--set", "fetch.proxy_resolves_names=true", "--set", "run.workers=1", "--max-pages", "1")  # fmt: skip
    assert "1" in run("sql", str(folder), "SELECT count(*) FROM pages")  # the proxy did take the password
    told += run("settings", str(folder)) + run("settings", str(folder), "--diff") + run("status", str(folder), "--json")
    told += run("sql", str(folder), "FROM runs") + run("export", str(folder), str(tmp_path / "all.jsonl"))
    told += run("export", str(folder), str(tmp_path / "all.wacz")) + run("publish", str(folder), str(site))
    told += run("crawl", str(folder), "--set", f"fetch.proxy=ftp://crawler:{SECRET}@nowhere")
    with Portal(tmp_path) as portal:
        for path in ("/c/owls/watch", "/api/c/owls/status", "/settings"):
            told += str(portal.ask("GET", path)[1])
        told += str(portal.get_with_token("/api/c/owls/sql", sql="FROM runs"))
    assert "crawler:***@" in told
    assert SECRET not in told and SENT not in told
    assert (tmp_path / "all.wacz").exists() and site.exists()
    having = [
        path.relative_to(folder).as_posix()
        for path in tmp_path.rglob("*")
        if path.is_file() and any(one.encode() in path.read_bytes() for one in (SECRET, SENT))
    ]
    assert having == ["crawl.toml"]
    records = b"".join(gzip.decompress(path.read_bytes()) for path in (folder / "warc").rglob("*.warc.gz"))
    assert b"WARC-Type: request" in records and b"owls.test" in records
    assert SECRET.encode() not in records and SENT.encode() not in records
    assert (folder / "crawl.toml").stat().st_mode & 0o077 == 0


class _Site(BaseHTTPRequestHandler):
    """Gives every visitor a cookie."""

    cookies: list[str] = []
    """What it was sent."""

    def do_GET(self) -> None:
        self.cookies += self.headers.get_all("Cookie", [])
        body = b'<title>Owls</title><p>Owls hunt at night in the woods.</p><a href="/a">a</a><a href="/b">b</a>'
        self.send_response(200 if "robots" not in self.path else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Set-Cookie", f"visitor={SECRET}; Path=/")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_tokens_and_cookies_are_in_no_file_of_others(tmp_path: Path) -> None:
    """While a crawl with a portal runs and a browser is signed in, the token of the control socket is in one file that
    only its owner reads, even where a killed crawl left one that all read; afterwards it is gone. The token, cookie and
    form secret of the portal are in no file and no output but the address. A cookie of a site is never sent back, and
    stands in the WARC file alone."""
    folder, token = tmp_path / "owls", "t0ken-91b2e7-portal"
    (tmp_path / "seeds.txt").write_text("http://owls.test/")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Site) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        to = f"127.0.0.1:{site.server_address[1]}"
        collection = Collection.create(
            folder, seeds=tmp_path / "seeds.txt", query="owls",
            settings={"fetch.connect_to": {"*.test": to}, "fetch.host_delay_s": 0.0, "run.workers": -1},
        )  # fmt: skip
        (folder / NOTE).write_text("{}")
        (folder / NOTE).chmod(0o644)
        with subprocess.Popen(
            [sys.executable, "-m", "opilio", "crawl", str(folder), "--keep-fresh", "--portal", "0"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "OPILIO_TOKEN": token},
        ) as process, ExitStack() as stack:  # fmt: skip
            stack.callback(process.kill)  # if something fails
            assert process.stdout is not None
            lines = [next(line for line in process.stdout if "/login#" in line)]
            found = re.search(r"(http://[\d.:]+)/login#(\S+)", lines[0])
            assert found is not None and found[2] == token
            wait_for(collection, lambda: is_running(folder))
            control = json.loads((folder / NOTE).read_text())["token"]
            assert (folder / NOTE).stat().st_mode & 0o077 == 0
            sign_in = urllib.request.Request(
                f"{found[1]}/api/login", json.dumps({"token": token}).encode(), {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(sign_in) as answer:
                cookie = answer.headers["Set-Cookie"].partition(";")[0]
                assert "HttpOnly" in answer.headers["Set-Cookie"]
            pages = ""
            for path in ("/c/owls/watch", "/settings", "/api/c/owls/status", "/c/owls/sql"):
                with urllib.request.urlopen(
                    urllib.request.Request(found[1] + path, headers={"Cookie": cookie})
                ) as answer:
                    pages += answer.read().decode()
            csrf = re.search(r'csrf[^>]*content="([^"]+)"', pages)
            assert csrf is not None
            told = str(collection.status()) + pages.replace(csrf[1], "")
            told += "".join(
                str(collection.sql(f"FROM {table}").rows) for table in ("runs", "meta", "visits", "notices")
            )
            secrets = (token, control, cookie.partition("=")[2], csrf[1])
            held = [path for path in tmp_path.rglob("*") if path.is_file() and has_any(path, secrets)]
            assert [path.name for path in held] == [NOTE]
            process.send_signal(signal.SIGINT)
            for line in process.stdout:
                told += line
                if "interrupted" in line:  # the portal goes on until the next
                    process.send_signal(signal.SIGINT)
        site.shutdown()
    collection.export(tmp_path / "all.jsonl")
    told += run("publish", str(folder), str(tmp_path / "site"))
    assert not (folder / NOTE).exists()
    assert not [one for one in secrets if one in told], told
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and has_any(path, (*secrets, SECRET))]
    assert _Site.cookies == []
    assert f"visitor={SECRET}".encode() in b"".join(
        gzip.decompress(path.read_bytes()) for path in (folder / "warc").glob("*.warc.gz")
    )


def has_any(path: Path, secrets: tuple[str, ...]) -> bool:
    """Whether a file has one of some secrets in it, as it stands."""
    held = path.read_bytes()
    return any(secret.encode() in held for secret in secrets)


def test_the_password_of_a_storage_is_nowhere_else(tmp_path: Path) -> None:
    """A storage for WARC files that cannot be reached: its password is in crawl.toml, which others cannot read."""
    folder, url = tmp_path / "owls", f"ftp://crawler:{SECRET}@127.0.0.1:9/warc"
    (tmp_path / "seeds.txt").write_text("http://owls.test/")
    told = run("crawl", str(folder), "--seeds", str(tmp_path / "seeds.txt"), "--query", "owls", "--max-pages", "1",
               "--set", f"store.warc_url={url}", "--set", 'fetch.connect_to={"*.test"="127.0.0.1:9"}',
               "--set", "fetch.outage_timeout_s=0")  # fmt: skip
    told += run("settings", str(folder)) + run("verify", str(folder)) + str(Collection(folder).sql("FROM runs").rows)
    assert "crawler:***@" in told and SECRET not in told
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and has_any(path, (SECRET,))] == ["crawl.toml"]
    assert (folder / "crawl.toml").stat().st_mode & 0o077 == 0


def test_passwords_are_hidden_in_urls() -> None:
    """Only the password is replaced, also one with an @ in it; a URL without one stays as it is."""
    assert hide_password("http://a:b@c@proxy:1/") == "http://a:***@proxy:1/"
    assert hide_password("socks5h://:x@proxy:1") == "socks5h://:***@proxy:1"
    assert hide_password("http://proxy.example.org:3128") == "http://proxy.example.org:3128"
    assert hide_password("http://name@proxy:1") == "http://name@proxy:1"
