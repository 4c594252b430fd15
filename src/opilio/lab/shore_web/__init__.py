"""The web of the demo: small sites about spiders, moths, lighthouses, tides, lichens and stars.

It is written for this purpose, in four languages, and comes with Opilio: the texts are real prose with real facts
(`texts.py` reads them from the folder `texts`), the pictures are drawn by code (`canvas.py`, `pictures.py`), and
nothing is downloaded. Around the articles stands what a crawler meets everywhere: welcome pages, indexes, lists of
links, a web ring of redirects, print views and a mirror, booklets in PDF (`booklet.py`), drafts that robots.txt
forbids, links that lead nowhere, and pages about anything else (`noise.py`). `sites.py` has the hosts, `pages.py`
their HTML, and `loom.py` puts all of it together.

Its invariants:

- **It is the same on every machine**, byte for byte.
- **No link leaves it.** Every address ends in the reserved `.test`.
- **Every link resolves, or is listed as dead.**
- **The topic of every page is known**, so that a crawl can be marked right or wrong.

`LocalServer(weave())` serves it.
"""

from opilio.lab.shore_web.loom import weave

__all__ = ["weave"]
