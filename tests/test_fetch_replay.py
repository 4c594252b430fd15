"""A recorded answer amounts to what it was when it came."""

import gzip

import pytest

from opilio.fetch.transport import replay
from opilio.model import Lease, Outcome
from opilio.settings import Settings

PAGE = b"<html><title>t</title><p>words</p></html>"


@pytest.mark.parametrize(
    ("head", "body", "outcome"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n", PAGE, Outcome.OK),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n",
            gzip.compress(PAGE, mtime=0),  # else the name of the test changes with the time
            Outcome.OK,
        ),
        (b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n", b"gone", Outcome.CLIENT_ERROR),
        (b"HTTP/1.1 301 Moved\r\nLocation: /new\r\n\r\n", b"", Outcome.REDIRECT),
        (b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\n\r\n", b"", Outcome.SERVER_ERROR),
        (b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n", b"\x89PNG", Outcome.WRONG_TYPE),
    ],
)
def test_outcomes_of_recordings(head: bytes, body: bytes, outcome: Outcome) -> None:
    """Status, type and encoding are judged as for an answer from the web; the body is decoded."""
    response = replay(Lease(0, "http://a.example/p"), "1.2.3.4", 5.0, head, body, Settings())
    assert response.fetch.outcome is outcome
    assert response.fetch.ip == "1.2.3.4"
    assert response.fetch.started_s == 5.0
    if outcome is Outcome.OK:
        assert response.body == PAGE
    if outcome is Outcome.REDIRECT:
        assert response.fetch.redirect_url == "http://a.example/new"
    if outcome is Outcome.SERVER_ERROR:
        assert response.fetch.retry_after_s == 7.0
