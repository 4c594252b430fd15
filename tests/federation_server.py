"""A query server on loopback for tests: the real one, over peers that are real, away, or up to no good."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from opilio.federation.peers import Peer
from opilio.web.federated import Federation
from opilio.web.federation_pages import create_federation_app
from opilio.web.security import Security
from opilio.web.server import make_server
from web_portal import TOKEN, Portal


class FederationServer(Portal):
    """A query server that runs while it is used as a context; it has heard of all peers that answer then."""

    def __init__(self, peers: Sequence[Peer], state: Path) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.federation = Federation(peers, state)
        app = create_federation_app(self.federation, Security(TOKEN))
        self.server = make_server(app, ends_in_s=1)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]}, daemon=True)

    def __enter__(self) -> "FederationServer":
        self.federation.start(wait_s=30)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.federation.close()
        super().__exit__()


def free_address(name: str) -> str:
    """Where a collection could be, if anybody listened there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}/c/{name}"


def portal_at(address: str, place: Path) -> Portal:
    """A portal where nobody has listened until now."""
    portal = Portal(place)
    portal.listener.close()
    portal.listener = socket.create_server(("127.0.0.1", urlsplit(address).port or 0))
    portal.address = address.partition("/c/")[0]
    portal.thread = threading.Thread(target=portal.server.run, kwargs={"sockets": [portal.listener]}, daemon=True)
    return portal


@contextlib.contextmanager
def answering(answer: Callable[[str], object]) -> Iterator[str]:
    """A peer that answers as it likes: `answer` is given the last part of the path, and returns JSON or pieces."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            with contextlib.suppress(OSError):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                said = answer(self.path.rpartition("/")[2])
                pieces = said if isinstance(said, Iterator) else [json.dumps(said).encode()]
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()  # HTTP/1.0: the answer ends with the connection
                for piece in pieces:
                    self.wfile.write(piece)
                    self.wfile.flush()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/c/evil"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
