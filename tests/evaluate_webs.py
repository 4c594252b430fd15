"""Small recorded webs for the tests of evaluation."""

from collections.abc import Iterable
from pathlib import Path

from opilio.lab.webs import RecordedWeb
from opilio.lab.webs.recording import RecordedAnswer, head_of
from webs import record

HTML = "text/html; charset=utf-8"


def page(
    url: str,
    html: str | bytes = "<title>A page</title><p>Words.",
    topics: tuple[str, ...] = (),
    *,
    status: int = 200,
    headers: Iterable[tuple[str, str]] = (("Content-Type", HTML),),
    date_s: float = 0.0,
) -> RecordedAnswer:
    """An answer with a body."""
    return RecordedAnswer(
        url, head_of(status, headers), html.encode() if isinstance(html, str) else html, topics, date_s
    )


def redirect(url: str, target: str, status: int = 301) -> RecordedAnswer:
    """An answer that leads elsewhere."""
    return RecordedAnswer(url, head_of(status, [("Location", target)]), b"")


def make_web(folder: Path, answers: Iterable[RecordedAnswer]) -> RecordedWeb:
    """The recorded web of `answers`."""
    return record(folder, answers)


def town(hosts: int = 4, pages: int = 12) -> list[RecordedAnswer]:
    """A web of some hosts whose pages link to each other, with redirects, dead links, rules and odd answers."""
    answers = []
    for host in range(hosts):
        name = f"http://h{host}.town.test"
        answers.append(
            page(f"{name}/", f"<title>House {host}</title>" + "".join(f'<a href="/{i}">{i}</a> ' for i in range(pages)))
        )
        answers.append(
            page(f"{name}/robots.txt", "User-agent: *\nDisallow: /7\n", headers=[("Content-Type", "text/plain")])
        )
        for i in range(pages):
            words = " ".join(f"word{(host * pages + i) * 31 % 97 + k} thing{i * k}" for k in range(12))
            there = f"http://h{(host + i) % hosts}.town.test/{i * 5 % pages}"
            links = f'<a href="{there}">over there</a> <a href="/gone{i}">gone</a> <a href="/moved{i}">moved</a>'
            answers.append(
                page(f"{name}/{i}", f"<title>Room {i} of {host}</title><p>{words}</p>{links}", (f"floor{i % 3}",))
            )
            answers.append(redirect(f"{name}/moved{i}", f"/{(i + 3) % pages}"))
        answers.append(page(f"{name}/hidden", '<meta name="robots" content="noindex"><a href="/3">3</a>'))
    return answers
