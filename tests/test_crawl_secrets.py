"""The password of a proxy is in the settings file and nowhere else."""

import base64
import gzip
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from opilio.settings.files import hide_password
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


def test_passwords_are_hidden_in_urls() -> None:
    """Only the password is replaced, also one with an @ in it; a URL without one stays as it is."""
    assert hide_password("http://a:b@c@proxy:1/") == "http://a:***@proxy:1/"
    assert hide_password("socks5h://:x@proxy:1") == "socks5h://:***@proxy:1"
    assert hide_password("http://proxy.example.org:3128") == "http://proxy.example.org:3128"
    assert hide_password("http://name@proxy:1") == "http://name@proxy:1"
