"""Compiles the modules in which a crawl spends its time, if asked to: `OPILIO_COMPILE=1 pip install ...`.

mypyc makes C of the same typed source that Python runs. Without the variable, nothing is compiled, and no compiler is
needed. `docs/guides/installing.md` says how, and what it gains.
"""

from __future__ import annotations

import os

from setuptools import setup

COMPILED = (
    *("analyze/analyzer", "analyze/formats", "analyze/html", "analyze/language", "analyze/layout", "analyze/markup"),
    *("analyze/rights", "analyze/shells", "analyze/sketch", "analyze/targets", "analyze/terms"),
    *("fetch/client", "fetch/headers", "fetch/transfer", "fetch/transport", "model/url"),
)
"""What a worker does with a page. Compiling the engine as well would save a fiftieth of its CPU, and plug-ins could no
longer inherit from its classes (docs/results/log.md)."""


def extensions() -> list[object]:
    """The extension modules to build."""
    if os.environ.get("OPILIO_COMPILE", "") != "1":
        return []
    from mypyc.build import mypycify  # noqa: PLC0415  (an ordinary installation does not have it)

    paths = [f"src/opilio/{name}.py" for name in COMPILED]
    return mypycify(["--follow-imports=silent", *paths], opt_level="3", debug_level="0")


setup(ext_modules=extensions())
