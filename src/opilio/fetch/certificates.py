"""Which certificates of servers are trusted: those that Python trusts, and those in the user's own file."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from opilio.errors import SettingsError


def ca_certificates(ca_file: str) -> str:
    """The certificates in the file of the setting `fetch.ca_file`, as PEM; '' if none is set."""
    if not ca_file:
        return ""
    hint = "It must be a text file with BEGIN CERTIFICATE and END CERTIFICATE."
    try:
        text = Path(ca_file).read_text(encoding="utf-8")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=text)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise SettingsError(f"[fetch] ca_file: {ca_file}: {_reason(error)}", hint) from None
    if not context.cert_store_stats()["x509"]:
        raise SettingsError(f"[fetch] ca_file: {ca_file} has no certificate", hint)
    return text


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and not isinstance(error, ssl.SSLError):
        return error.strerror
    return "has no certificate that can be read"


def set_trust(curl: Any, own: str, *, verify: bool) -> None:
    """Have a libcurl handle trust what Python trusts and the `own` certificates (PEM), of servers and of a proxy;
    without `verify`, any certificate of a server."""
    import pycurl  # noqa: PLC0415  (the engine, which checks the file, does without)

    if not verify:
        curl.setopt(pycurl.SSL_VERIFYPEER, 0)
        curl.setopt(pycurl.SSL_VERIFYHOST, 0)
    # The certificates that Python trusts: libcurl's built-in path is that of the machine it was built on.
    paths = ssl.get_default_verify_paths()
    if paths.cafile:
        curl.setopt(pycurl.CAINFO, paths.cafile)
        curl.setopt(pycurl.PROXY_CAINFO, paths.cafile)
    if paths.capath:
        curl.setopt(pycurl.CAPATH, paths.capath)
        curl.setopt(pycurl.PROXY_CAPATH, paths.capath)
    if own:
        curl.set_ca_certs(own)
