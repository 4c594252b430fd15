"""The numbers by which Windows programs name languages."""

from __future__ import annotations

_PRIMARY_BITS = 0x3FF
_CODES = {
    0x01: "ar", 0x02: "bg", 0x03: "ca", 0x04: "zh", 0x05: "cs", 0x06: "da", 0x07: "de", 0x08: "el", 0x09: "en",
    0x0A: "es", 0x0B: "fi", 0x0C: "fr", 0x0D: "he", 0x0E: "hu", 0x0F: "is", 0x10: "it", 0x11: "ja", 0x12: "ko",
    0x13: "nl", 0x14: "no", 0x15: "pl", 0x16: "pt", 0x18: "ro", 0x19: "ru", 0x1B: "sk", 0x1D: "sv", 0x1E: "th",
    0x1F: "tr", 0x20: "ur", 0x21: "id", 0x22: "uk", 0x24: "sl", 0x25: "et", 0x26: "lv", 0x27: "lt", 0x29: "fa",
    0x2A: "vi", 0x39: "hi",
}  # fmt: skip


def language_of_windows(number: int) -> str:
    """ISO 639-1 code of a Windows language number, '' when we do not know it."""
    return _CODES.get(number & _PRIMARY_BITS, "")
