# ruff: noqa: RUF001 - texts in several scripts
"""Which bytes are read as what: MIME types, charsets, languages, plain text."""

from __future__ import annotations

import codecs

import pytest

from opilio.analyze import FORMATS, Analyzer, Content, Source
from opilio.analyze.language import language_of
from opilio.model import Document
from opilio.settings import RobotsSettings, StoreSettings, TrapSettings

URL = "http://site.test/"

SAMPLES = {
    "en": "It was a bright cold day, and nobody in the whole town would have said that winter was over by then. "
    "The children had gone out to the meadow behind the church, where the snow was still as deep as in January.",
    "de": "Der Hund lief über die Straße, während die Kinder auf der Wiese hinter dem Haus miteinander spielten. "
    "Niemand im ganzen Dorf hätte gesagt, dass der Winter schon vorbei war, denn noch immer lag Schnee.",
    "fr": "Le chien traversait la rue pendant que les enfants jouaient ensemble dans le pré derrière la maison. "
    "Personne dans tout le village n'aurait dit que l'hiver était fini, car il y avait encore de la neige.",
    "es": "El perro cruzaba la calle mientras los niños jugaban juntos en el prado que estaba detrás de la casa. "
    "Nadie en todo el pueblo habría dicho que el invierno ya había terminado, porque todavía había nieve.",
    "nl": "De hond liep over de straat terwijl de kinderen samen speelden op het grasveld achter het grote huis. "
    "Niemand in het hele dorp zou gezegd hebben dat de winter al voorbij was, want er lag nog steeds sneeuw.",
    "ru": "Программирование на этом языке позволяет быстро создавать приложения и поддерживает несколько способов. "
    "Город расположен на берегу большой реки, и все его жители знают друг друга с самого раннего детства.",
    "el": "Ο σκύλος έτρεχε στον δρόμο ενώ τα παιδιά έπαιζαν μαζί στο λιβάδι πίσω από το μεγάλο σπίτι του χωριού. "
    "Κανείς δεν θα έλεγε ότι ο χειμώνας είχε τελειώσει, γιατί στα βουνά υπήρχε ακόμα πολύ χιόνι εκείνη την ημέρα.",
    "ja": "犬が通りを渡っているあいだ、子どもたちは家の裏の草原で一緒に遊んでいました。" * 6,
}


def analyze(body: bytes, content_type: str) -> Document | None:
    """The document of a fresh analyzer."""
    return Analyzer(TrapSettings(), RobotsSettings(), StoreSettings()).analyze(body, content_type, URL)


class TestDispatch:
    @pytest.mark.parametrize("mime", ["image/png", "application/pdf", "text/css", "nonsense", ";", "text"])
    def test_unsupported(self, mime: str) -> None:
        """A type that we cannot read is no error: there is no document."""
        assert analyze(b"<p>x", mime) is None or mime == ";"

    @pytest.mark.parametrize("mime", ["TEXT/HTML", " text/html ;charset=x", "application/xhtml+xml"])
    def test_spellings(self, mime: str) -> None:
        """MIME types are read whatever their case and parameters."""
        page = analyze(b"<title>t</title><p>x", mime)
        assert page is not None
        assert (page.title, page.text) == ("t", "x")

    def test_missing_type(self) -> None:
        """Without a type, what looks like HTML is read as HTML, other text as text, binary not at all."""
        html, text = analyze(b" <!DOCTYPE html><title>t</title>", ""), analyze(b"<3 hearts", "")
        assert html is not None
        assert text is not None
        assert (html.title, text.text) == ("t", "<3 hearts")
        assert analyze(b"\x00\x01\x02", "") is None

    @pytest.mark.parametrize("body", [b"%PDF-1.7 ...", b"PK\x03\x04zip", b"\x89PNG\r\n\x1a\n", b"\x1f\x8b\x08"])
    def test_mislabelled(self, body: bytes) -> None:
        """Other formats that call themselves HTML or text are not read."""
        assert analyze(body, "text/html") is None
        assert analyze(body, "text/plain") is None or body.startswith(b"%PDF")

    def test_further_formats_plug_in(self) -> None:
        """A reader registered for a MIME type is used for it, and its content gets terms and hashes like any other."""
        mime = "application/x-shout"
        if mime not in list(FORMATS):

            @FORMATS.register(mime)
            def read_shout(body: bytes, source: Source) -> Content:
                text = body.decode().upper()
                return Content(text, text, charset=source.charset)

        page = analyze(b"hello worlds", f"{mime}; charset=x")
        assert page is not None
        assert (page.text, page.charset) == ("HELLO WORLDS", "x")
        assert {stem for _, stem in page.new_terms} == {"hello", "world"}

    def test_xhtml_empty_elements(self) -> None:
        """In XHTML an empty script or anchor does not swallow the rest of the page."""
        body = b"<html><head><script src='x'/><title/></head><body><a name='t'/><div id='d'/><p>text</p></body></html>"
        page = analyze(body, "application/xhtml+xml")
        assert page is not None
        assert page.text == "text"


class TestCharset:
    @pytest.mark.parametrize(
        ("body", "content_type", "charset"),
        [
            (codecs.BOM_UTF8 + "é".encode(), "text/html; charset=iso-8859-1", "utf-8"),
            (codecs.BOM_UTF16_LE + "é".encode("utf-16-le"), "text/html; charset=utf-8", "utf-16le"),
            ("<meta charset=koi8-r>é".encode(), 'text/html; charset="UTF-8"', "utf-8"),
            ("<meta charset=iso-8859-15>é".encode("iso-8859-15"), "text/html", "iso-8859-15"),
            ("é".encode(), "text/html", "utf-8"),
            ("é".encode(), "text/html; charset=no-such-charset", "utf-8"),
            ("é".encode(), "text/html; charset=\ud800", "utf-8"),
            ("é".encode("latin-1"), "text/html; charset=latin1", "windows-1252"),
            ("é".encode("latin-1"), "text/html;charset = 'iso-8859-1'", "windows-1252"),
        ],
    )
    def test_order_of_belief(self, body: bytes, content_type: str, charset: str) -> None:
        """A byte order mark is believed first, then the server, then the page, then the look of the bytes."""
        page = analyze(body, content_type)
        assert page is not None
        assert (page.text, page.charset) == ("é", charset)

    def test_long_text_is_detected(self) -> None:
        """Without any declaration, a legacy encoding is told by its letters."""
        page = analyze(SAMPLES["ru"].encode("windows-1251"), "text/html")
        assert page is not None
        assert (page.text, page.charset, page.language) == (SAMPLES["ru"], "windows-1251", "ru")

    def test_broken_bytes_are_replaced(self) -> None:
        """Bytes that are wrong in the declared charset become replacement characters."""
        page = analyze(b"a\xffb", "text/html; charset=utf-8")
        assert page is not None
        assert page.text == "a\ufffdb"


class TestPlain:
    @pytest.mark.parametrize(
        ("body", "content_type"),
        [
            ("grüße".encode(), "text/plain; charset=utf-8"),
            ("grüße".encode(), "text/plain"),
            ("grüße".encode("latin-1"), "text/plain; charset=iso-8859-1"),
            (codecs.BOM_UTF8 + "grüße".encode(), "text/plain; charset=latin1"),
            ("\ufeffgrüße".encode("utf-16-le"), "text/plain"),
            ("grüße".encode(), "text/plain; charset=bogus"),
        ],
    )
    def test_charsets(self, body: bytes, content_type: str) -> None:
        """Plain text is decoded by the same order of belief."""
        page = analyze(body, content_type)
        assert page is not None
        assert page.text == "grüße"

    def test_markup_is_text(self) -> None:
        """Markup in a text file is text; whitespace is folded, lines stay."""
        page = analyze(b"  a <b>  c\r\n\r\n d", "text/plain")
        assert page is not None
        assert (page.text, page.main_text, len(page.links), page.title) == ("a <b> c\nd", "a <b> c\nd", 0, "")


class TestLanguage:
    @pytest.mark.parametrize("language", SAMPLES)
    def test_told_by_text(self, language: str) -> None:
        """The language is told by the text, whatever the page claims."""
        assert language_of(SAMPLES[language], "it") == language

    @pytest.mark.parametrize(
        ("declared", "language"),
        [("de-AT", "de"), ("EN_us", "en"), ("nb", "no"), ("deu", "de"), ("x", ""), ("xyz", ""), ("", ""), ("!!", "")],
    )
    def test_short_text(self, declared: str, language: str) -> None:
        """For a short text the author's word is taken, if it is a language tag."""
        assert language_of("Hm.", declared) == language

    def test_doubtful_text(self) -> None:
        """Where the model hesitates (here between Russian and Bulgarian), the author's word is taken, or none."""
        doubtful = (
            "Собака перебегала улицу, пока дети вместе играли на лугу за домом, а потом все пошли домой обедать. Никто "
            "во всей деревне не сказал бы, что зима уже кончилась, потому что на горах всё ещё лежал глубокий снег."
        )
        assert (language_of(doubtful), language_of(doubtful, "ru")) == ("", "ru")

    def test_lang_attribute(self) -> None:
        """The page's lang attribute, else its Content-Language, is the author's word."""
        for html in (b"<html lang=fr><p>Oui", b"<meta http-equiv=Content-Language content=fr><p>Oui"):
            page = analyze(html, "text/html")
            assert page is not None
            assert page.language == "fr"
