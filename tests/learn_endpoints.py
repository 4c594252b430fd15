"""A scripted endpoint for chat completions on loopback: what a labeller is tested with, in place of a model."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Script = Callable[[dict[str, Any]], tuple[int, Any]]
"""Answers a request: its status, and the text that the model writes, or bytes that are sent as they are."""


def completion(text: str, tokens: int = 100) -> bytes:
    """A chat completion as endpoints send it."""
    message = {"role": "assistant", "content": text}
    return json.dumps({"choices": [{"index": 0, "message": message}], "usage": {"total_tokens": tokens}}).encode()


def label(answer: str, reason: str = "it says so") -> str:
    """What a model should write."""
    return json.dumps({"answer": answer, "reason": reason})


class Endpoint:
    """The endpoint; `asked` has the requests, and `keys` what was sent as Authorization."""

    def __init__(self, script: Script) -> None:
        self.asked: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.keys: list[str] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.asked.append(request)
                endpoint.paths.append(self.path)
                endpoint.keys.append(self.headers.get("Authorization", ""))
                status, answer = script(request)
                body = answer if isinstance(answer, bytes) else completion(answer)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Endpoint:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def prompts(self) -> list[str]:
        """What the model was told of each page."""
        return [request["messages"][1]["content"] for request in self.asked]
