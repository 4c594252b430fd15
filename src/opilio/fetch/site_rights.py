"""Rights that a site reserves in files: /.well-known/tdmrep.json (TDMRep) and /ai.txt.

They are requested once per origin, after its robots.txt and with the delay of every request. A file that is not there,
or cannot be read, reserves nothing. Rules are read as the final report of the W3C community group has them (TDMRep, 10
May 2024): the first rule that matches a path counts, and a value other than 0 and 1 says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from string import ascii_letters, digits, punctuation
from urllib.parse import quote

import msgspec
from protego import Protego

from opilio.fetch.robots import parse_robots, product_token
from opilio.model import Right
from opilio.model.url import path_of
from opilio.model.visit import TDM_POLICY, TDM_RESERVATION

TDMREP_PATH, AI_TXT_PATH = "/.well-known/tdmrep.json", "/ai.txt"
PATHS = (TDMREP_PATH, AI_TXT_PATH)
AI_TXT = "ai.txt"
TDM = "tdm"
MAX_RULES = 1000
MAX_POLICY_CHARS = 300
MAX_LOCATION_CHARS = 1000
MAX_STARS = 9
RESERVED = "1"
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")
_UNESCAPED = frozenset(ascii_letters + digits + "-._~*$")
"""The unreserved characters of RFC 3986, and those that a location has to escape to mean themselves."""
_WRITTEN = "%" + punctuation


class TdmRule:
    """One rule of tdmrep.json: where it applies, and what it says."""

    def __init__(self, location: str, reservation: str, policy: str) -> None:
        self.reservation = reservation
        """`1`: reserved; `0`: not; '': the rule has no valid value, so nothing is said of what it applies to."""
        self.policy = policy
        """Where to ask for a licence."""
        self._pattern = _pattern(location)

    def applies(self, path: str) -> bool:
        """Whether the rule is about a path, as `_comparable` writes it."""
        return self._pattern.match(path) is not None


class SiteRights:
    """What one origin reserves, by its files."""

    def __init__(self, user_agent: str, obeyed: Collection[str]) -> None:
        self._agent = user_agent
        self._obeys_tdm, self._obeys_ai_txt = TDM in obeyed, AI_TXT in obeyed
        self._rules: list[TdmRule] = []
        self._ai_txt: Protego | None = None

    def read(self, path: str, text: str) -> None:
        """Take in the text of one of the files."""
        if path == TDMREP_PATH:
            self._rules = _tdm_rules(text)
        else:
            self._ai_txt = parse_robots(_rooted(text), self._agent)

    def allows(self, url: str) -> bool:
        """Whether a URL of this origin may be fetched, by what is obeyed."""
        rule = self._rule(url) if self._obeys_tdm else None
        is_reserved = rule is not None and rule.reservation == RESERVED
        return not is_reserved and not (self._obeys_ai_txt and self._denies(url))

    def rights(self, url: str) -> list[Right]:
        """What the files say of a URL."""
        found = []
        rule = self._rule(url)
        if rule is not None and rule.reservation:
            found.append(Right(TDM_RESERVATION, rule.reservation, TDMREP_PATH))
            if rule.policy and rule.reservation == RESERVED:
                found.append(Right(TDM_POLICY, rule.policy, TDMREP_PATH))
        if self._denies(url):
            found.append(Right(AI_TXT, "disallow", AI_TXT_PATH))
        return found

    def _rule(self, url: str) -> TdmRule | None:
        """The first rule about a URL: the order of the file is the order of precedence."""
        path = _comparable(path_of(url))
        return next((rule for rule in self._rules if rule.applies(path)), None)

    def _denies(self, url: str) -> bool:
        return self._ai_txt is not None and not self._ai_txt.can_fetch(url, product_token(self._agent))


def _tdm_rules(text: str) -> list[TdmRule]:
    try:
        given = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return []
    rules = []
    for one in given[:MAX_RULES] if isinstance(given, list) else [given]:
        if isinstance(one, dict) and isinstance(one.get("location"), str):
            value = one.get(TDM_RESERVATION)
            said = "" if isinstance(value, bool) or str(value).strip() not in ("0", RESERVED) else str(value).strip()
            rules.append(TdmRule(one["location"], said, str(one.get(TDM_POLICY) or "")[:MAX_POLICY_CHARS]))
    return rules


@lru_cache(maxsize=10_000)
def _pattern(location: str) -> re.Pattern[str]:
    """A location as robots.txt writes paths: `*` for anything, `$` for the end; `%2A` and `%24` are these characters.

    Runs of `*` are one, and there are at most `MAX_STARS`, so that no pattern takes long to match. One with more
    applies by its beginning.
    """
    path = location if location.startswith(("/", "*")) else f"/{location}"
    is_to_end = path.endswith("$")
    parts = re.split(r"\*+", path.removesuffix("$")[:MAX_LOCATION_CHARS])
    is_cut = len(parts) > MAX_STARS + 1 or len(path) > MAX_LOCATION_CHARS
    parts = [re.escape(_comparable(part)) for part in parts[: MAX_STARS + 1]]
    return re.compile(".*?".join(parts) + ("$" if is_to_end and not is_cut else ""), re.DOTALL)


def _comparable(path: str) -> str:
    """A path in one spelling: what may be written as it is is not escaped, everything else that was not ASCII is."""
    return _ESCAPED.sub(_unescaped, quote(path, safe=_WRITTEN))


def _unescaped(match: re.Match[str]) -> str:
    char = chr(int(match[1], 16))
    return char if char in _UNESCAPED else match[0].upper()


def _rooted(text: str) -> str:
    """ai.txt with rules that begin with a slash, as a parser of robots.txt expects: `*.jpg` is `/*.jpg`."""
    return re.sub(r"(?im)^(\s*(?:dis)?allow\s*:\s*)(\*)", r"\1/\2", text)
