"""Training, validation and test parts of a corpus, by site: pages of one site repeat each other, so a site in two parts
would let a model be tested on what it learned.

The part of a site follows from a hash of its registered domain alone: it is the same in every export and every
collection, whatever else is in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import xxhash

from opilio.errors import InputError

PARTS = ("train", "validation", "test")
DEFAULT = "0.9/0.05/0.05"
_HASHES = 2**64


@dataclass(frozen=True)
class SiteSplit:
    """Which share of the sites each part gets."""

    shares: tuple[float, float, float]

    @classmethod
    def parse(cls, text: str) -> SiteSplit:
        """Read shares such as `0.9/0.05/0.05`, or `0.8/0.2`: no test part. They need not add up to one."""
        hint = f"Give the shares of {', '.join(PARTS)}, such as {DEFAULT}."
        try:
            given = [float(part) for part in (text or DEFAULT).split("/")]
        except ValueError:
            raise InputError(f"--split {text}: not shares", hint) from None
        total = sum(given)
        if len(given) > len(PARTS) or not all(0 <= share < float("inf") for share in given) or not total > 0:
            raise InputError(f"--split {text}: not shares", hint)
        first, second, third = [*(share / total for share in given), 0.0, 0.0][: len(PARTS)]
        return cls((first, second, third))

    def part(self, domain: str) -> str:
        """The part that a site belongs to, by its registered domain."""
        place = xxhash.xxh3_64_intdigest(domain.lower().encode("utf-8", "replace")) / _HASHES
        end = 0.0
        chosen = ""
        for name, share in zip(PARTS, self.shares, strict=True):
            end += share
            if share:
                chosen = name
                if place < end:
                    break
        return chosen
