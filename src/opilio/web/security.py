"""Who may change something, and what a browser may load.

- A request must name a host that this server knows as its own: a page of another site that makes its name resolve to
  this machine (DNS rebinding) is refused.
- Changes need the token. A program sends it as `Authorization: Bearer TOKEN`. A browser that has signed in has a cookie
  that scripts cannot read and that is not sent from other sites (SameSite=Strict). A cookie alone does not prove who
  wrote the request, so it must come with a second secret, which only our own pages know: in a header or, from a form
  of a browser without JavaScript, in the address.
- Wrong tokens are answered slowly, one after the other, so that nobody can try many.
- A browser says from which site a request comes (Sec-Fetch-Site). Other sites may link to our pages, but neither embed
  them nor call anything else, and nothing that is costly.
- This is checked before the body of a request is read; and no body may be larger than our own forms can make it.
- Pages may load scripts, styles and pictures from this server only, and inline scripts are forbidden.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable

from fastapi import Request
from starlette.responses import JSONResponse, Response

SESSION = "opilio_session"
CSRF_HEADER = "X-Opilio-Csrf"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
LOGIN, LOGIN_PAGE = "/api/login", "/login"
FORM_TYPE = "application/x-www-form-urlencoded"
OWN_SITE = frozenset({"same-origin", "none"})  # none: the user typed the address. Another port is another server.
WRONG_TOKEN_S = 0.5
MAX_BODY_BYTES, MAX_LOGIN_BYTES = 2**26, 2**12

Next = Callable[[Request], Awaitable[Response]]


class NotAllowed(Exception):
    """A request that is not allowed."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class CrossSite(NotAllowed):
    """A request that a page of another site made."""


class Security:
    """Knows the token, and which browsers are signed in."""

    def __init__(self, token: str = "", hosts: frozenset[str] = LOOPBACK) -> None:
        self.token = token or secrets.token_urlsafe(24)
        self.hosts = hosts
        self._wrong_token = asyncio.Lock()

    def knows(self, token: str) -> bool:
        """Whether this is the token."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def new_session(self) -> str:
        """The cookie of a browser that signs in."""
        name = secrets.token_urlsafe(18)
        return f"{name}.{self._sign('session', name)}"

    def csrf(self, request: Request) -> str:
        """The secret that a page sends along with a change; empty when nobody is signed in."""
        session = request.cookies.get(cookie_name(request), "")
        return self._sign("csrf", session) if self._is_ours(session) else ""

    def is_signed_in(self, request: Request) -> bool:
        """Whether the browser has signed in."""
        return self._is_ours(request.cookies.get(cookie_name(request), ""))

    def check_token(self, request: Request, token: str) -> None:
        """Refuse a wrong token; the guard answers such a request slowly."""
        if not self.knows(token.strip()):
            request.state.sent_wrong_token = True
            raise NotAllowed("wrong token", "The server prints the right one when it starts.")

    def check_signed_in(self, request: Request) -> None:
        """Refuse a request with neither the token nor the cookie of a browser that has signed in."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            self.check_token(request, token)
        elif not self.is_signed_in(request):
            raise NotAllowed("not signed in", "Open the address that the server printed, or sign in with the token.")

    def check_change(self, request: Request) -> None:
        """Refuse a request that is not allowed to change anything."""
        self.check_signed_in(request)
        if request.headers.get("Authorization", "").lower().startswith("bearer "):
            return
        csrf = self.csrf(request)
        if not hmac.compare_digest(_sent_csrf(request).encode(), csrf.encode()):
            raise NotAllowed("the request does not come from a page of this portal", "Reload the page, then try again.")

    async def guard(self, request: Request, call_next: Next) -> Response:
        """Middleware: refuse foreign host names, other sites, and bodies that need not be read; add the headers."""
        host = request.headers.get("Host", "").lower()
        if host.rpartition(":")[0] not in self.hosts and host not in self.hosts:
            return _refusal(421, "this server has no such name", "Start it with --host NAME to allow one.")
        response = _refuse_other_site(request) or self._refuse_body(request) or await call_next(request)
        if getattr(request.state, "sent_wrong_token", False):
            async with self._wrong_token:
                await asyncio.sleep(WRONG_TOKEN_S)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if not request.url.path.startswith("/static/"):
            response.headers.setdefault("Cache-Control", "no-store")
        return response

    def _refuse_body(self, request: Request) -> Response | None:
        """The response to a request whose body is not read, if it is not."""
        if request.method in {"GET", "HEAD"}:
            return None
        is_login = request.url.path in (LOGIN, LOGIN_PAGE)
        if not is_login:
            try:
                self.check_change(request)
            except NotAllowed as refused:
                return _refusal(403, refused.message, refused.hint)
        if "Transfer-Encoding" in request.headers:
            return _refusal(411, "the length of the request is not given", "Send it with a Content-Length.")
        length = request.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > (MAX_LOGIN_BYTES if is_login else MAX_BODY_BYTES):
            return _refusal(413, "the request is too large", "Use `opilio crawl` for larger inputs.")
        return None

    def _is_ours(self, session: str) -> bool:
        name, _, signature = session.partition(".")
        return bool(name) and hmac.compare_digest(signature.encode(), self._sign("session", name).encode())

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self.token.encode(), f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()


def check_own_site(request: Request) -> None:
    """Refuse a request that a page of another site made. Browsers say so; what other programs send is their own."""
    if request.headers.get("Sec-Fetch-Site", "none") not in OWN_SITE:
        raise CrossSite("another site sent you here", "This page is costly, so other sites cannot open it unasked.")


def _refuse_other_site(request: Request) -> Response | None:
    """The response to a request of another site, unless it is a link that somebody follows."""
    is_link = (
        request.method in {"GET", "HEAD"}
        and request.headers.get("Sec-Fetch-Mode") == "navigate"
        and request.headers.get("Sec-Fetch-Dest") == "document"
    )
    if request.headers.get("Sec-Fetch-Site", "none") in OWN_SITE or is_link:
        return None
    return _refusal(403, "other sites may only link to this one", "Open the address in a tab of its own.")


def _sent_csrf(request: Request) -> str:
    """The secret of the page that a request comes from. Only a plain form cannot send a header."""
    is_form = request.headers.get("Content-Type", "").partition(";")[0].strip().lower() == FORM_TYPE
    return request.headers.get(CSRF_HEADER) or (request.query_params.get("csrf", "") if is_form else "")


def cookie_name(request: Request) -> str:
    """The cookie of this server: browsers send cookies to all ports of a machine, where other servers may run."""
    _, port = request.scope.get("server") or ("", 0)
    return f"{SESSION}_{port}"


def _refusal(status: int, message: str, hint: str) -> Response:
    return JSONResponse({"error": message, "hint": hint}, status_code=status)
