"""The language of a text: detected from its words and letters, or as its author or a Windows program declares it."""

from __future__ import annotations

SAMPLE_CHARS = 1000
MIN_CHARS = 60
"""In shorter texts the language is not detected."""
SURE_CHARS = 200
"""In shorter texts the declared language, if there is one, is better evidence."""
MIN_CONFIDENCE = 0.5
"""Below this confidence, the declared language is used, if there is one."""

# Words that are frequent in English and hardly occur in other languages. If one word in 20 is one of these, the text is
# English; this saves most pages of an English crawl the trigram model (0.15 ms).
_ENGLISH_WORDS = "the and this that with from for are which have you your has been their these they would"
_ENGLISH = frozenset(_ENGLISH_WORDS.encode().split())
_ENGLISH_SHARE = 0.05
_DECLARED_ENGLISH_SHARE = 0.02
"""Enough for a page that declares English: lists and tables have few such words."""

_ISO_639_1 = {
    "afr": "af", "aka": "ak", "amh": "am", "ara": "ar", "aze": "az", "bel": "be", "ben": "bn", "bul": "bg",
    "cat": "ca", "ces": "cs", "cmn": "zh", "cym": "cy", "dan": "da", "deu": "de", "ell": "el", "eng": "en",
    "epo": "eo", "est": "et", "eus": "eu", "fas": "fa", "fin": "fi", "fra": "fr", "gle": "ga", "glg": "gl",
    "guj": "gu", "heb": "he", "hin": "hi", "hrv": "hr", "hun": "hu", "hye": "hy", "ind": "id", "isl": "is",
    "ita": "it", "jav": "jv", "jpn": "ja", "kan": "kn", "kat": "ka", "kaz": "kk", "khm": "km", "kor": "ko",
    "lat": "la", "lav": "lv", "lit": "lt", "mal": "ml", "mar": "mr", "mkd": "mk", "mlt": "mt", "mon": "mn",
    "msa": "ms", "mya": "my", "nep": "ne", "nld": "nl", "nno": "no", "nob": "no", "nor": "no", "ori": "or",
    "pan": "pa", "pes": "fa", "pol": "pl", "por": "pt", "ron": "ro", "rus": "ru", "sin": "si", "slk": "sk",
    "slv": "sl", "sna": "sn", "spa": "es", "sqi": "sq", "srp": "sr", "swe": "sv", "tam": "ta", "tel": "te",
    "tgl": "tl", "tha": "th", "tuk": "tk", "tur": "tr", "ukr": "uk", "urd": "ur", "uzb": "uz", "vie": "vi",
    "yid": "yi", "zho": "zh", "zul": "zu",
}  # fmt: skip

_WINDOWS_PRIMARY_BITS = 0x3FF
_WINDOWS_CODES = {
    0x01: "ar", 0x02: "bg", 0x03: "ca", 0x04: "zh", 0x05: "cs", 0x06: "da", 0x07: "de", 0x08: "el", 0x09: "en",
    0x0A: "es", 0x0B: "fi", 0x0C: "fr", 0x0D: "he", 0x0E: "hu", 0x0F: "is", 0x10: "it", 0x11: "ja", 0x12: "ko",
    0x13: "nl", 0x14: "no", 0x15: "pl", 0x16: "pt", 0x18: "ro", 0x19: "ru", 0x1B: "sk", 0x1D: "sv", 0x1E: "th",
    0x1F: "tr", 0x20: "ur", 0x21: "id", 0x22: "uk", 0x24: "sl", 0x25: "et", 0x26: "lv", 0x27: "lt", 0x29: "fa",
    0x2A: "vi", 0x39: "hi",
}  # fmt: skip


def language_of(text: str, declared: str = "") -> str:
    """ISO 639-1 code of the language of `text`, '' if unknown; `declared` is the language that the page declares."""
    sample = text[:SAMPLE_CHARS]
    primary = _primary(declared)
    if len(sample) < MIN_CHARS or (primary and len(sample) < SURE_CHARS):
        return primary
    words = sample.encode("utf-8", "replace").lower().split()  # several times faster than lowering a string
    least = _DECLARED_ENGLISH_SHARE if primary == "en" else _ENGLISH_SHARE
    if sum(map(_ENGLISH.__contains__, words)) > least * len(words):
        return "en"
    from opilio.analyze.markup import detected_language  # noqa: PLC0415  (the engine does without a parser of HTML)

    code, confidence = detected_language(sample)
    return _ISO_639_1.get(code, "") if confidence >= MIN_CONFIDENCE else primary


def _primary(tag: str) -> str:
    """The primary language of a tag such as `de-AT`, '' if it is not a language tag."""
    primary = tag.strip().lower().replace("_", "-").partition("-")[0]
    primary = _ISO_639_1.get(primary, primary)
    if len(primary) != 2 or not primary.isascii() or not primary.isalpha():
        return ""
    return "no" if primary in ("nb", "nn") else primary


def language_of_windows(number: int) -> str:
    """ISO 639-1 code of a Windows language number, '' if unknown."""
    return _WINDOWS_CODES.get(number & _WINDOWS_PRIMARY_BITS, "")
