"""How often Python looks for garbage."""

from __future__ import annotations

import gc


def collect_rarely() -> None:
    """Let the garbage collector look at long-lived objects seldom.

    A crawl makes millions of objects that reference counting frees, and a few million that stay; looking through the
    latter again and again for cycles took a tenth of all CPU time.
    """
    gc.set_threshold(100_000, 20, 100)
