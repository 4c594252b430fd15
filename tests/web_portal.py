"""A portal on loopback for tests: the real server in a thread of its own, and a client that may change things."""

import json
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

from opilio.web.app import create_app
from opilio.web.security import Security
from opilio.web.server import make_server
from opilio.web.shelf import Shelf

TOKEN = "a-token-of-the-tests"


class Portal:
    """A server that runs while it is used as a context."""

    def __init__(self, place: Path) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.shelf = Shelf(place)
        app = create_app(self.shelf, Security(TOKEN))
        self.server = make_server(app, ends_in_s=1)
        app.state.is_ending = lambda: self.server.should_exit
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]}, daemon=True)

    def __enter__(self) -> "Portal":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(10)
        self.listener.close()

    def ask(self, method: str, path: str, body: Any = None, *, token: str = TOKEN, **headers: str) -> tuple[int, Any]:
        """The status of an answer, and the answer: JSON of the API, text of a page."""
        sent = {"Content-Type": "application/json", **{key.replace("_", "-"): value for key, value in headers.items()}}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, _read(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _read(error)

    def get(self, path: str, **parameters: Any) -> tuple[int, Any]:
        """The same for a GET with parameters, and no token."""
        return self.ask("GET", _with_query(path, parameters), token="")

    def get_with_token(self, path: str, **parameters: Any) -> tuple[int, Any]:
        """The same for a GET with parameters and the token."""
        return self.ask("GET", _with_query(path, parameters))


def _with_query(path: str, parameters: dict[str, Any]) -> str:
    query = "&".join(f"{key}={quote(str(value))}" for key, value in parameters.items())
    return f"{path}?{query}" if query else path


def _read(response: Any) -> Any:
    text = response.read().decode()
    return json.loads(text) if response.headers.get_content_type() == "application/json" else text
