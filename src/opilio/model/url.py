"""URLs in normal form: WHATWG parsing, no fragment, no credentials, no tracking or session parameters."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

import ada_url
import xxhash
from publicsuffixlist import PSLFILE, PublicSuffixList

MAX_URL_CHARS = 1000  # BINGO 4.2
MAX_HOST_CHARS = 255  # RFC 1035

# A value that only a program makes up: 32 or more hexadecimal digits, or 16 or more letters and digits in which they
# alternate (a session needs 64 random bits). A number, a word, a date or a title is none.
_TOKEN = r"(?:[0-9a-f]{32,}|(?=[0-9a-z]{16})[a-z]*(?:[0-9]+[a-z]+){2,}[0-9]*)"
# Query parameters that track visitors or sessions and never select the page. Some names also select pages
# (`article.php?sid=12`): they mean a session only with a token.
_NOISE = re.compile(
    r"(?:utm_\w+|gclid|fbclid|dclid|msclkid|yclid|mc_cid|mc_eid|igshid|_ga|_gl|_hs\w+|vero_\w+|mkt_tok|"
    r"phpsessid|jsessionid|aspsessionid\w*|cfid|cftoken|zenid|oscsid)(?:=.*)?"
    rf"|(?:sid|sessionid|session_id)(?:={_TOKEN}|=?)",
    re.IGNORECASE,
)
_PATH_SESSION = re.compile(rf";(?:(?:jsessionid|phpsessid)=[^/?#;]*|sid=(?:{_TOKEN})?(?=[/?#;]|$))", re.IGNORECASE)


def normalize(raw: str, base: str = "") -> str:
    """The normal form of `raw`, resolved against `base`; '' if it is not a usable http(s) URL."""
    try:
        url = ada_url.join_url(base, raw) if base else ada_url.normalize_url(raw)
    except ValueError:
        return ""
    return clean(url)


def clean(url: str) -> str:
    """Strip everything from an absolute WHATWG URL that does not select the page; '' if it is not http(s)."""
    if not url.startswith(("http://", "https://")):
        return ""
    cut = url.find("#")
    if cut >= 0:
        url = url[:cut]
    authority_end = url.find("/", 8)
    if authority_end < 0:
        return ""
    if "@" in url[:authority_end]:
        scheme_end = url.index("//") + 2
        url = url[:scheme_end] + url[url.rindex("@", 0, authority_end) + 1 :]
    question = url.find("?")
    if ";" in url:
        path = url if question < 0 else url[:question]
        without = _PATH_SESSION.sub("", path)
        if without != path:  # a dot segment may be left
            return normalize(without + url[len(path) :])
    if question >= 0:
        kept = [part for part in url[question + 1 :].split("&") if part and not _NOISE.fullmatch(part)]
        url = url[:question] + ("?" + "&".join(kept) if kept else "")
    return url


def ascii_address(value: str) -> str:
    """The address in an HTTP header, read as Latin-1, with all bytes but ASCII escaped, as browsers do."""
    return value if value.isascii() else "".join([char if char < "\x80" else f"%{ord(char):02X}" for char in value])


def spellings(url: str) -> list[str]:
    """A URL in normal form, then others that people take for the same: with or without a slash at the end of its path,
    by http or by https, with or without `www.`; the most similar first."""
    address, question, query = url.partition("?")
    slashed = address[:-1] if address.endswith("/") else f"{address}/"
    found = [url]
    if slashed.count("/") >= 3:  # not the slash after the host
        found.append(slashed + question + query)
    found += [other_scheme(one) for one in found]
    return found + [_other_host(one) for one in found]


def other_scheme(url: str) -> str:
    """A URL with https in place of http, or the other way round."""
    scheme, _, rest = url.partition("://")
    return f"{'http' if scheme == 'https' else 'https'}://{rest}"


def _other_host(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest[4:] if rest.startswith('www.') else f'www.{rest}'}"


def url_key(url: str) -> int:
    """The 64-bit key by which a URL in normal form is recognised."""
    return xxhash.xxh3_64_intdigest(url.encode())


def host_of(url: str) -> str:
    """Host of a URL in normal form, with the port unless it is the default."""
    start = url.index("//") + 2
    end = url.find("/", start)
    return url[start:] if end < 0 else url[start:end]


def scheme_of(url: str) -> str:
    """`http` or `https`, of a URL in normal form."""
    return "https" if url.startswith("https:") else "http"


def origin_of(url: str) -> str:
    """Scheme and host of a URL in normal form: `https://example.org`."""
    return url[: url.index("/", url.index("//") + 2)]


def path_of(url: str) -> str:
    """Path and query of a URL in normal form."""
    start = url.find("/", url.index("//") + 2)
    return url[start:] if start >= 0 else "/"


def host_name(host: str) -> str:
    """`host` without its port."""
    if host.startswith("["):
        return host[: host.index("]") + 1]
    return host.partition(":")[0]


@cache
def _suffix_rules() -> dict[str, list[str]]:
    """The lines of the public suffix list, by top-level domain. Workers do not need them."""
    rules: dict[str, list[str]] = {}
    with Path(PSLFILE).open(encoding="utf-8") as lines:
        for line in lines:
            rule = line.partition(" ")[0].rstrip().lower()
            if rule and not rule.startswith("//"):
                rules.setdefault(rule[rule.rfind(".") + 1 :], []).append(rule)
    return rules


@cache
def _suffixes_under(top: str) -> PublicSuffixList:
    """The rules of one top-level domain: to parse all of them takes 25 ms."""
    return PublicSuffixList(_suffix_rules().get(top, []))


def _suffixes_for(name: str) -> PublicSuffixList:
    """The rules of the public suffix list that can match a name; none for a top-level domain that is not in it."""
    top = name.removesuffix(".").rpartition(".")[2].lower()
    if top.startswith("xn--"):
        try:
            top = top.encode().decode("idna")
        except UnicodeError:
            top = ""
    return _suffixes_under(top if top in _suffix_rules() else "")


@lru_cache(maxsize=200_000)
def registered_domain(host: str) -> str:
    """The registered domain of a host (`example.co.uk` of `www.example.co.uk:81`); the host itself for an address."""
    name = host_name(host)
    if name.startswith("[") or name.replace(".", "").isdigit():
        return name
    return _suffixes_for(name).privatesuffix(name) or name


def is_top_level(label: str) -> bool:
    """Whether a label is a top-level domain, such as `org`."""
    name = f"x.{label}"
    return _suffixes_for(name).publicsuffix(name, accept_unknown=False) is not None
