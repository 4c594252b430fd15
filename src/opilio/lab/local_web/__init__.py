"""A real web on this machine, for the demo, the tests and the benchmarks.

It is made of text every machine already has: the documentation of the installed Python and its packages. Nothing of it
is in the repository, nothing is downloaded. Its invariants:

- **The same packages, size and seed give the same web**, byte for byte.
- **No link leaves it.** Every address ends in the reserved `.test`, so a crawl that starts in it stays in it.
- **Nothing in a docstring becomes markup**; all text is escaped in one place.
- **Every page can be reached** from any handful of seeds.
- **The server listens on loopback only and ends with the process that started it.**

`harvest` reads docstrings in child processes, as importing a package may print, warn or crash. `docstring` takes a
docstring apart and `markup` writes it as HTML, with a link wherever a name in the text means another documented
object (`names`). `weave` makes the sites: one host for each section of the documentation (`sections`), one page for
each module, class and function, framed as on a real site (`frame`). Since each section has a topic, the topic of each
page is known. Around the sites stand `hubs` (lists of links with hardly a word on the topic), `noise` (licences,
calendars, lists of words) and what webmasters do over the years (`upkeep`: redirects, mirrors, print views,
robots.txt, sitemaps). `builder` puts it all together and `cache` keeps it.

`server` serves it from a process of its own (`process.LocalServer` starts and asks it), by Host header or as a proxy,
and keeps the log that tests of politeness rely on. `trouble` adds hosts that break every rule (`broken`, `traps`).

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
