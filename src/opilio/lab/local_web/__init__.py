"""A real web on this machine, for the tests, the benchmarks and `opilio demo --web documentation`.

It is made of text every machine already has: the documentation of the installed Python and its packages. Nothing of it
is in the repository, nothing is downloaded. Its invariants:

- **The same packages, size and seed give the same web**, byte for byte.
- **No link leaves it.** Every address ends in the reserved `.test`, so a crawl that starts in it stays in it.
- **Nothing in a docstring becomes markup**; all text is escaped in one place.
- **Every page can be reached** from any handful of seeds.
- **The server listens on loopback only and ends with the process that started it.**

`harvest.py` reads docstrings in child processes, as importing a package may print, warn or crash. `documentation.py`
takes a docstring apart and writes it as HTML. `weave.py` makes the sites: one host for each section of the
documentation (`sections.py`), one page for each module, class and function, framed as on a real site (`frame.py`), with
the redirects, mirrors, print views and sitemaps that webmasters add over the years. Since each section has a topic, the
topic of each page is known. Around the sites stand hubs, which are lists of links with hardly a word on the topic
(`hubs.py`), and pages about nothing in particular (`noise.py`). `builder.py` puts it all together and keeps the result,
a `LocalWeb` (`web.py`).

`LocalServer` (`server.py`) serves it from processes of its own, by Host header or as a proxy, and keeps the log that
tests of politeness rely on. `trouble.py` adds hosts that break every rule.

    web = build("small")
    with LocalServer(web, latency_s=0.01) as server:
        ...  # crawl with fetch.connect_to = server.connect_to
        print(len(server.requests()), "requests")
"""

from opilio.lab.local_web.builder import Size, build
from opilio.lab.local_web.server import LocalServer
from opilio.lab.local_web.web import LocalWeb, WebPage
from opilio.lab.webs.server import Request

__all__ = ["LocalServer", "LocalWeb", "Request", "Size", "WebPage", "build"]
