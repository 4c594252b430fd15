"""Rendering: a page whose text a script writes, as a browser has it once its scripts have run.

Chromium is the least trusted program of all that Opilio starts, for it runs what strangers wrote. Invariants:

- *The browser has no network.* Every request of a page is intercepted and answered by the worker, with its own
  transport; what is not intercepted (WebSockets, WebRTC, prefetches) ends at a proxy that does not exist. So addresses
  are checked, limits hold and responses are kept in one place, as for all other requests.
- *A page requests little.* Only scripts, stylesheets and data, by GET, without cookies, at most so many requests and
  bytes; robots.txt and the locks apply to each (`subresources.py`).
- *Nothing of a page remains.* Each has a context of its own, in which it can store nothing, open no window and load no
  file. It is never clicked or scrolled, and it cannot lead the browser elsewhere: where it tries to is a link.
- *The browser may be lost.* It runs in a process tree of its own (`browser_process.py`, on Playwright), which is killed
  when it hangs, and started again with the next page. Time, memory and the size of the result are bounded.
- *What goes wrong is an outcome*: `render-failed` says that the page is the cause, `browser-lost` that it may not be.

`Browser` (`browser.py`) is the worker's side: a response in, a `Rendering` out. `check_browser` (`installation.py`)
says before a crawl what is missing. `messages.py` has what the two sides exchange, `process_tree.py` the memory of the
browser and its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opilio.process import loader

if TYPE_CHECKING:
    from opilio.render.browser import Browser, Rendering
    from opilio.render.installation import check_browser

__all__ = ["Browser", "Rendering", "check_browser"]

_MODULES = {"Browser": "browser", "Rendering": "browser", "check_browser": "installation"}

__getattr__ = loader(__name__, _MODULES)
