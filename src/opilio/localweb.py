"""Old name of `opilio.lab.local_web`: what the documentation named here, for this release."""

import warnings

from opilio.lab.local_web import LocalServer, LocalWeb, Request, Size, WebPage, build

__all__ = ["LocalServer", "LocalWeb", "Request", "Size", "WebPage", "build"]

warnings.warn("opilio.localweb is now opilio.lab.local_web", FutureWarning, stacklevel=2)
