"""Documents of every kind: what is read out of a file of each format."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
from pathlib import Path

import pytest

from analyze_documents import (
    AFTER,
    ANCHOR,
    BEFORE,
    LINK,
    SECOND,
    SENTENCE,
    TITLE,
    doc,
    docx,
    dvips,
    epub,
    ole,
    opendocument,
    pdf,
    ppt,
    pptx,
    rtf,
    tarred,
    zipped,
)
from opilio.analyze import Analyzer, Content, Source, extraction_process
from opilio.analyze.documents import postscript
from opilio.analyze.documents.reading import Bomb, ReadingContext, UnpackBudget, Unreadable
from opilio.analyze.formats import kind_of, read_as
from opilio.analyze.targets import Targets
from opilio.model import Link
from opilio.settings import DocumentSettings, RobotsSettings, StoreSettings, TrapSettings

assert extraction_process  # its import registers the readers

DEFAULTS = DocumentSettings()
URL = "http://site.test/papers/file"


def read(body: bytes, name: str = "file", limits: DocumentSettings = DEFAULTS) -> Content:
    """Read bytes as the process for documents does, but here."""
    source = Source(URL, "", Targets(), 100)
    return read_as(kind_of("", body, name), body, ReadingContext(source, UnpackBudget(limits), name))


def links(content: Content) -> list[tuple[str, str]]:
    return [(link.url, link.anchor) for link in content.links]


FILES = {
    "docx": docx(),
    "pptx": pptx(),
    "odt": opendocument(),
    "odp": opendocument("presentation"),
    "ods": opendocument("spreadsheet"),
    "epub": epub(),
    "doc": doc(),
    "ppt": ppt(),
    "rtf": rtf(),
}


class TestEveryFormat:
    @pytest.mark.parametrize("name", FILES)
    def test_title_text_and_links(self, name: str) -> None:
        """Title, paragraphs in their order and the link with its words and the words around it are found."""
        content = read(FILES[name])
        assert content.title == TITLE
        assert content.text.split("\n")[:2] == [SENTENCE, SECOND]
        assert links(content) == [(LINK, ANCHOR)]
        assert content.links[0].context == f"{BEFORE} {AFTER}"

    @pytest.mark.parametrize("name", FILES)
    def test_becomes_a_document(self, name: str) -> None:
        """The content of any format gets language, terms and hashes like a web page, in the analyzer."""
        document = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings()).document_of(
            read(FILES[name]), URL, {"x-robots-tag": "noindex"}
        )
        assert "harvestmen" in {stem for _, stem in document.new_terms}
        assert document.noindex
        assert document.content_hash

    @pytest.mark.parametrize(
        ("name", "language"),
        [("docx", "en-GB"), ("pptx", "en-US"), ("odt", "en-GB"), ("epub", "en"), ("doc", "en"), ("rtf", "en")],
    )
    def test_declared_language(self, name: str, language: str) -> None:
        """What a file says of its language is passed on."""
        assert read(FILES[name]).language == language


class TestPdf:
    def test_pages(self) -> None:
        """Text of all pages, title, language, link area with the words under it, and addresses in the text."""
        body = pdf(f"{BEFORE} {ANCHOR}\nsee (https://eyes.test/a_(b)).", "Of har-\nvestmen")
        content = read(body)
        assert content.title == TITLE
        assert content.language == "en-GB"
        assert content.text.split("\n") == [f"{BEFORE} {ANCHOR}", "see (https://eyes.test/a_(b)).", "Of harvestmen"]
        assert links(content) == [(LINK, f"{BEFORE} {ANCHOR}"), ("https://eyes.test/a_(b)", "")]

    def test_page_limit(self) -> None:
        """No more pages are read than the settings say."""
        content = read(pdf("one", "two", "three"), limits=DocumentSettings(max_pages=2))
        assert content.text == "one\ntwo"

    def test_titles_of_programs(self) -> None:
        """A title that a program made up is not taken: the first line is better."""
        assert read(pdf("Real title\nand text", title="Microsoft Word - draft7.doc")).title == "Real title"

    def test_broken(self) -> None:
        """A PDF that cannot be opened is called broken."""
        with pytest.raises(Unreadable, match="broken PDF: "):
            read(b"%PDF-1.4 nothing here")


class TestWord:
    def test_fields(self) -> None:
        """Links written as fields, in two ways, are found; instructions do not show; nested fields do no harm."""
        field = (
            '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> HYPERLINK "http://a.test/" </w:instrText></w:r>'
            '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>first</w:t></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>'
        )
        contents = '<w:r><w:fldChar w:fldCharType="begin"/><w:instrText>TOC</w:instrText><w:fldChar w:fldCharType="separate"/></w:r>'
        simple = '<w:fldSimple w:instr="HYPERLINK http://b.test/"><w:r><w:t>second</w:t></w:r></w:fldSimple>'
        end = '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
        content = read(docx(f"<w:p>{contents}{field}</w:p><w:p>{simple}{end}</w:p>"))
        assert content.text == "first\nsecond"
        assert links(content) == [("http://a.test/", "first"), ("http://b.test/", "second")]

    def test_text_written_twice(self) -> None:
        """What is repeated for older programs is read once, deleted text not at all."""
        alternative = "<mc:AlternateContent><mc:Choice><w:t>new</w:t></mc:Choice><mc:Fallback><w:t>old</w:t></mc:Fallback></mc:AlternateContent>"
        body = f"<w:p><w:r>{alternative}</w:r><w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>"
        assert read(docx(body)).text == "new"

    def test_footnotes(self) -> None:
        """Footnotes come after the text."""
        notes = "<n><p><r><t>a note</t></r></p></n>"
        assert read(docx(more={"word/footnotes.xml": notes})).text.endswith("a note")

    def test_old_page_headers(self) -> None:
        """Headers and footers of pages, which stand behind the text of an old file, are left out."""
        assert read(doc([("Text\r", True)], headers="page 7\r")).text == "Text"
        assert read(doc([("Text\r", False)], headers="page 7\r")).text == "Text"

    def test_old_password(self) -> None:
        """An encrypted file says so."""
        with pytest.raises(Unreadable, match="protected by a password"):
            read(doc(flags=0x0300))

    def test_neither(self) -> None:
        """An OLE file of another program says that it is none of ours."""
        with pytest.raises(Unreadable, match="neither"):
            read(ole({"Workbook": b"cells"}))


class TestPowerPoint:
    def test_only_the_newest_version(self) -> None:
        """Text of slides as they were before the last saving, and of masters, does not show."""
        assert read(ppt()).text == f"{SENTENCE}\n{SECOND}"

    def test_broken_directory(self) -> None:
        """Without the list of newest versions all text is read, but still none of masters' own slides."""
        text = read(ppt(directory=False)).text
        assert "An old version." in text
        assert SECOND in text
        assert "Master words" not in text


class TestRtf:
    def test_code_pages(self) -> None:
        """Bytes are read by the code page of their font, else of the file; nothing of tables and pictures shows."""
        assert read(rtf()).text.split("\n")[2:] == ["паук grüße"]

    def test_wide_characters(self) -> None:
        """A character in two halves is put together, and what stands in for it is skipped, as much as is said."""
        assert read(rb"{\rtf1\uc2\u-10179 ??\u-8704 ??x\uc0\u233y}").text == "\U0001f600xéy"


class TestPostScript:
    @pytest.fixture(autouse=True)
    def _no_ghostscript(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(postscript.shutil, "which", lambda _: None)  # type: ignore[attr-defined]

    def test_tex(self) -> None:
        """Papers by TeX are read without Ghostscript: words are put together, ligatures resolved, lines kept."""
        content = read(dvips())
        assert content.text.split("\n") == [
            "We study efficient harvestmen",
            "and their finest legs; see (http://spiders.test/opiliones.html).",
        ]
        assert links(content) == [(LINK, "")]
        assert content.title == "We study efficient harvestmen"

    def test_simple_program(self) -> None:
        """A program that shows strings with `show` is read too; its title is in a comment."""
        body = b"%!PS\n%%Title: (My paper)\n/Times findfont\n10 10 moveto (A simple page with) show (several words.) show\n"
        content = read(body)
        assert (content.title, content.text) == ("My paper", "A simple page with several words.")

    def test_what_to_install(self) -> None:
        """When nothing can be found without running the program, the user is told what to install."""
        with pytest.raises(Unreadable, match="Ghostscript is not installed: apt install ghostscript"):
            read(b"%!PS\n<4142> hexshow")

    def test_ghostscript(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Ghostscript, where there is one, is run in its safe mode with the file as its input."""
        program = tmp_path / "gs"
        program.write_text('#!/bin/sh\ncase "$*" in *-dSAFER*) echo "safe, see http://gs.test/x"; cat;; esac\n')
        program.chmod(0o755)
        monkeypatch.setattr(postscript.shutil, "which", lambda _: str(program))  # type: ignore[attr-defined]
        content = read(b"%!PS\nhello")
        assert content.text.split("\n") == ["safe, see http://gs.test/x", "%!PS", "hello"]
        assert links(content) == [("http://gs.test/x", "")]


class TestArchives:
    MEMBERS = {
        "folder/": b"",
        "a.html": f'<title>Page</title><p>One <a href="{LINK}">out</a> <a href="b.txt">in</a>'.encode(),
        "folder/b.txt": b"Plain text, see http://plain.test/x.",
        "picture.png": b"\x89PNG\r\n\x1a\n\0\0\0",
        "style.css": b"body { color: red }",
        "c.pdf": pdf("In a PDF", link="http://pdf.test/"),
        "d.docx": docx(),
    }

    def check(self, content: Content) -> None:
        assert content.title == "Page"
        assert content.text.split("\n")[:6] == [
            *("a.html", "One out in", "folder/b.txt", "Plain text, see http://plain.test/x.", "c.pdf", "In a PDF"),
        ]
        assert links(content) == [
            (LINK, "out"),
            ("http://plain.test/x", ""),
            ("http://pdf.test/", "In a PDF"),
            (LINK, ANCHOR),
        ]
        assert [link.position for link in content.links] == [0, 1, 2, 3]

    def test_zip(self) -> None:
        """Each member is read by its own reader, under its name; pictures and styles are not; links inside are none."""
        self.check(read(zipped(self.MEMBERS)))

    @pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
    def test_tar(self, mode: str) -> None:
        """The same from a tar file, compressed or not."""
        members = {name: data for name, data in self.MEMBERS.items() if not name.endswith("/")}
        self.check(read(tarred(members, mode)))

    def test_nested(self) -> None:
        """Archives in archives are read, as deep as the settings say."""
        inner = zipped({"inner.txt": b"Deep text"})
        middle = tarred({"inner.zip": inner, "note.txt": b"A note"}, "w:gz")
        outer = zipped({"middle.tgz": middle})
        assert read(outer).text == "middle.tgz\ninner.zip\ninner.txt\nDeep text\nnote.txt\nA note"
        assert read(outer, limits=DocumentSettings(max_nesting=2)).text == "middle.tgz\nnote.txt\nA note"
        with pytest.raises(
            Unreadable, match=r"nothing in it can be read \(middle.tgz: is nested in more than 1 archive"
        ):
            read(outer, limits=DocumentSettings(max_nesting=1))

    @pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
    def test_single_file(self, compress: object) -> None:
        """A compressed file is read as what is in it; its links are relative to its own address."""
        body = compress(b'<html><title>T</title><a href="x.html">x</a>')  # type: ignore[operator]
        content = read(body, "page.html.gz")
        assert (content.title, links(content)) == ("T", [("http://site.test/papers/x.html", "x")])

    def test_names_the_archive(self) -> None:
        """Without any title inside, an archive is called by its name."""
        assert read(zipped({"a.txt": b"x"}), "notes.zip").title == "notes.zip"

    def test_a_broken_member(self) -> None:
        """A member that cannot be read costs that member; when none is left, the first reason is given."""
        broken = b"%PDF-1.7 broken"
        assert read(zipped({"x.pdf": broken, "a.txt": b"whole"})).text == "a.txt\nwhole"
        with pytest.raises(Unreadable, match=r"nothing in it can be read \(x.pdf: broken PDF"):
            read(zipped({"x.pdf": broken}))

    def test_member_limit(self) -> None:
        """No more members are read than the settings say, over all nested archives."""
        many = {f"{number}.txt": b"x" for number in range(50)}
        text = read(zipped({"in.zip": zipped(many), **many}), limits=DocumentSettings(max_members=10)).text
        assert text.count(".txt") == 9


class TestLimits:
    def test_text_is_cut(self) -> None:
        """No format gives more text than a page may have."""
        long = "word " * 200_000
        for body in (docx(f"<w:p><w:r><w:t>{long}</w:t></w:r></w:p>"), zipped({"a.txt": long, "b.txt": long})):
            assert 400_000 < len(read(body).text) <= 500_000

    def test_links_are_bounded(self) -> None:
        """Links past the limit of a page are counted, not kept; repeated ones are one."""
        cells = "".join(
            f'<text:a xlink:href="http://n.test/{number % 300}">n{number % 300}</text:a> ' for number in range(3000)
        )
        spaces = 'xmlns:text="urn:t" xmlns:xlink="http://www.w3.org/1999/xlink"'
        body = zipped(
            {
                "mimetype": "application/vnd.oasis.opendocument.text",
                "content.xml": f"<x {spaces}><text:p>{cells}</text:p></x>",
            }
        )
        content = read(body)
        assert (len(content.links), content.links_dropped) == (100, 200)
        assert all(isinstance(link, Link) for link in content.links)

    def test_unpacking_is_stopped_on_the_way(self) -> None:
        """What unpacks too far is given up while it unpacks: a bomb of 100 MiB is never in memory."""
        bomb = zipped({"zeros.txt": b"a" * 100_000_000})
        import tracemalloc

        tracemalloc.start()
        with pytest.raises(Bomb, match="unpacks to more than 2 MiB"):
            read(bomb, limits=DocumentSettings(max_unpacked_bytes=2 << 20))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 << 20

    @pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
    def test_compressed_bombs(self, compress: object) -> None:
        """A bomb in any compression is found."""
        with pytest.raises(Bomb):
            read(compress(b"a" * 3_000_000), limits=DocumentSettings(max_unpacked_bytes=1 << 20))  # type: ignore[operator]

    def test_many_small_bombs(self) -> None:
        """The limit is for the file and all that is in it, not for each member."""
        inner = zipped({f"{number}.txt": b" " * 400_000 + b"a" for number in range(3)})
        with pytest.raises(Bomb):
            read(zipped({"1.zip": inner, "2.zip": inner}), limits=DocumentSettings(max_unpacked_bytes=2 << 20))

    def test_entities(self) -> None:
        """XML that declares entities, as every bomb of XML must, is refused; entities of files are never opened."""
        laughs = "<!DOCTYPE l [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;'>]><l>&b;</l>"
        secret = "<!DOCTYPE l [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><l>&a;</l>"
        for xml in (laughs, secret):
            with pytest.raises(Unreadable, match="declares entities"):
                read(docx(more={"word/document.xml": xml}))

    def test_deep_xml(self) -> None:
        """A hundred thousand elements in each other do no harm."""
        deep = "<p>" * 100_000 + "<t>deep</t>" + "</p>" * 100_000
        assert read(docx(more={"word/document.xml": f"<d>{deep}</d>"})).text == "deep"

    def test_sparse_tar(self) -> None:
        """A sparse member, larger than its archive, counts for what it unpacks to."""
        header = bytearray(tarred({"sparse.txt": b""})[:512])
        header[156:157] = b"S"  # GNU sparse
        header[483:495] = b"77777777777\0"  # its real size: 8 GiB
        header[386:398] = b"00000000000\0"
        header[398:410] = b"00000000000\0"
        header[148:156] = b"        "
        header[148:156] = b"%06o\0 " % sum(header)
        with pytest.raises((Bomb, Unreadable)):
            read(bytes(header) + bytes(1024), "x.tar", DocumentSettings(max_unpacked_bytes=1 << 20))

    def test_password(self) -> None:
        """A zip file that is locked says so."""
        body = bytearray(zipped({"a.txt": b"secret"}, zipfile.ZIP_STORED))
        body[6] |= 1
        body[body.index(b"PK\x01\x02") + 8] |= 1
        with pytest.raises(Unreadable, match="protected by a password"):
            read(bytes(body))
