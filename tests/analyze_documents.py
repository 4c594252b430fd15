"""Writes small files of every format, for tests: real ones, made by hand."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile

TITLE = "On Harvestmen"
LINK = "http://spiders.test/opiliones.html"
ANCHOR = "long-legged relatives"
BEFORE, AFTER = "Harvestmen and their", "live in woods; größer als Ελλάδα."
SENTENCE = f"{BEFORE} {ANCHOR} {AFTER}"
SECOND = "A second paragraph, about eyes."


def zipped(members: dict[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def tarred(members: dict[str, bytes], mode: str = "w") -> bytes:
    """A tar file, compressed when `mode` says so."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def docx(body: str = "", *, title: str = TITLE, more: dict[str, str | bytes] | None = None) -> bytes:
    """A Word file; `body` is the XML of its paragraphs."""
    body = body or (
        f'<w:p><w:r><w:t xml:space="preserve">{BEFORE} </w:t></w:r><w:hyperlink r:id="rId7"><w:r><w:t>{ANCHOR}</w:t>'
        f"</w:r></w:hyperlink><w:r><w:t xml:space='preserve'> {AFTER}</w:t></w:r></w:p><w:p><w:r><w:t>{SECOND}</w:t></w:r></w:p>"
    )
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    compatibility = "http://schemas.openxmlformats.org/markup-compatibility/2006"
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": f'<w:document xmlns:w="{word}" xmlns:r="{office}" xmlns:mc="{compatibility}"><w:body>{body}</w:body></w:document>',
            "word/_rels/document.xml.rels": f'<Relationships><Relationship Id="rId7" Type="{office}/hyperlink" Target="{LINK}" TargetMode="External"/></Relationships>',
            "docProps/core.xml": f'<p xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title><dc:language>en-GB</dc:language></p>',
            **(more or {}),
        }
    )


def pptx() -> bytes:
    """A PowerPoint file with two slides, the tenth and the second, that must not be sorted as words."""
    drawing = "http://schemas.openxmlformats.org/drawingml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"

    def slide(content: str) -> str:
        return f'<p:sld xmlns:p="urn:p" xmlns:a="{drawing}" xmlns:r="{office}">{content}</p:sld>'

    def run(text: str, properties: str = "") -> str:
        return f"<a:r><a:rPr lang='en-US'>{properties}</a:rPr><a:t>{text}</a:t></a:r>"

    linked = run(ANCHOR, "<a:hlinkClick r:id='r1'/>")
    first = f"<a:p>{run(BEFORE + ' ')}{linked}{run(' ' + AFTER)}</a:p>"
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "ppt/slides/slide10.xml": slide(f"<a:p>{run(SECOND)}</a:p>"),
            "ppt/slides/slide2.xml": slide(first),
            "ppt/slides/_rels/slide2.xml.rels": f'<Relationships><Relationship Id="r1" Type="{office}/hyperlink" Target="{LINK}"/></Relationships>',
            "docProps/core.xml": f'<p xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{TITLE}</dc:title></p>',
        }
    )


def opendocument(kind: str = "text") -> bytes:
    """An OpenDocument file; its deleted text must not show."""
    spaces = 'xmlns:office="urn:o" xmlns:text="urn:t" xmlns:xlink="http://www.w3.org/1999/xlink"'
    text = (
        "<text:tracked-changes><text:p>deleted words</text:p></text:tracked-changes>"
        f'<text:p>{BEFORE}<text:s/><text:a xlink:href="{LINK}">{ANCHOR}</text:a> {AFTER}</text:p>\n<text:h>{SECOND}</text:h>'
    )
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content {spaces}><office:body>{text}</office:body></office:document-content>",
            "meta.xml": f'<m xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{TITLE}</dc:title><dc:language>en-GB</dc:language></m>',
            "META-INF/manifest.xml": "<manifest/>",
        }
    )


def epub() -> bytes:
    """A book of two chapters that link to each other; the plan names them in another order than the zip file."""
    page = "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>Chapter</title></head><body>{}</body></html>"
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
            "OEBPS/a.xhtml": page.format(f'<p>{SECOND}</p><a href="text%20b.xhtml">back</a>'),
            "OEBPS/text%20b.xhtml": "",
            "OEBPS/text b.xhtml": page.format(f'<p>{BEFORE} <a href="{LINK}">{ANCHOR}</a> {AFTER}</p>'),
            "OEBPS/book.opf": (
                '<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
                f"<dc:title>{TITLE}</dc:title><dc:language>en</dc:language></metadata><manifest>"
                '<item id="one" href="text%20b.xhtml" media-type="application/xhtml+xml"/>'
                '<item id="two" href="a.xhtml" media-type="application/xhtml+xml"/>'
                '</manifest><spine><itemref idref="one"/><itemref idref="two"/></spine></package>'
            ),
        }
    )


def rtf() -> bytes:
    """An RTF file with a code page, a font of another one, Unicode, a field, and things that must not show."""
    after = "".join(c if ord(c) < 128 else f"\\u{ord(c)}?" for c in AFTER)
    return (
        r"{\rtf1\ansi\ansicpg1252\uc1\deff0\deflang1033{\fonttbl{\f0\fswiss Arial;}{\f1\fcharset204 Cyr;}}"
        r"{\colortbl;\red0\green0\blue0;}{\info{\title " + TITLE + r"}{\author Nobody}}"
        r"{\*\generator Some program}{\header page header}{\pict\bin4 {{{{ffd8}"
        "\n" + BEFORE + r" {\field{\*\fldinst{HYPERLINK " + f'"{LINK}"' + r"}}{\fldrslt{\ul " + ANCHOR + r"}}}"
        f" {after}\\par\n{SECOND}\\par {{\\f1\\'ef\\'e0\\'f3\\'ea}} gr\\'fc\\'dfe\\par}}"
    ).encode("ascii")


def pdf(*pages: str, link: str = LINK, title: str = TITLE, extra: str = "") -> bytes:
    """A PDF: each page is one string of lines; the first has a link over its first line."""
    objects: list[bytes] = []
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects += [f"<< /Type /Catalog /Pages 2 0 R /Lang (en-GB) {extra} >>".encode()]
    objects += [f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode()]
    objects += [b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"]
    for number, page in enumerate(pages):
        shown = b"\n".join(
            b"(" + line.encode("cp1252").replace(b"(", b"\\(").replace(b")", b"\\)") + b") Tj 0 -20 Td"
            for line in page.split("\n")
        )
        content = b"BT /F1 12 Tf 72 720 Td " + shown + b" ET"
        action = f"/A << /S /URI /URI ({link}) >>"
        annotation = (
            f"/Annots [<< /Type /Annot /Subtype /Link /Rect [70 715 500 735] {action} >>]" if not number else ""
        )
        resources = "/Resources << /Font << /F1 3 0 R >> >>"
        box = "/MediaBox [0 0 612 792]"
        objects += [
            f"<< /Type /Page /Parent 2 0 R {box} /Contents {5 + 2 * number} 0 R {resources} {annotation} >>".encode(),
            f"<< /Length {len(content)} >>\nstream\n".encode() + content + b"\nendstream",
        ]
    objects += [f"<< /Title ({title}) >>".encode()]
    file = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, content in enumerate(objects, 1):
        offsets.append(len(file))
        file += f"{number} 0 obj\n".encode() + content + b"\nendobj\n"
    start = len(file)
    file += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    file += b"".join(f"{offset:010} 00000 n \n".encode() for offset in offsets)
    trailer = f"trailer << /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>\nstartxref\n{start}\n%%EOF"
    return bytes(file) + trailer.encode()


def ole(streams: dict[str, bytes]) -> bytes:
    """An OLE file system. Streams are padded to a size at which they stand in sectors of their own."""
    sector, end_of_chain, free, fat_sector = 512, 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD
    fat: list[int] = [fat_sector]
    data = bytearray(sector)  # the first sector is the FAT itself

    def store(content: bytes) -> int:
        start = len(fat)
        content += bytes(-len(content) % sector)
        count = len(content) // sector
        fat.extend(range(start + 1, start + count))
        fat.append(end_of_chain)
        data.extend(content)
        return start

    def entry(name: str, kind: int, child: int, right: int, start: int, size: int) -> bytes:
        wide = name.encode("utf-16-le")
        return struct.pack(
            "<64sHBBIII16sIQQIQ",
            wide,
            len(wide) + 2 if name else 0,
            kind,
            1,
            free,
            right,
            child,
            b"",
            0,
            0,
            0,
            start,
            size,
        )

    names = sorted(streams, key=lambda name: (len(name), name.upper()))
    entries = [entry("Root Entry", 5, 1, free, end_of_chain, 0)]
    for number, name in enumerate(names, 1):
        content = streams[name].ljust(4096, b"\0")
        right = number + 1 if number < len(names) else free
        entries.append(entry(name, 2, free, right, store(content), len(content)))
    directory = store(b"".join(entries))
    assert len(fat) <= sector // 4
    data[:sector] = struct.pack("<128I", *fat, *[free] * (128 - len(fat)))
    header = struct.pack(
        "<8s16sHHHHH6sIIIIIIIIII", bytes.fromhex("d0cf11e0a1b11ae1"), b"", 0x3E, 3, 0xFFFE, 9, 6, b"", 0, 1, directory, 0,
        4096, end_of_chain, 0, end_of_chain, 0, 0,
    )  # fmt: skip
    return header + struct.pack("<108I", *[free] * 108) + bytes(data)


def properties(title: str) -> bytes:
    """The stream with the title of an OLE file."""
    encoded = title.encode("cp1252") + b"\0"
    body = struct.pack("<II", 30, len(encoded)) + encoded + bytes(-len(encoded) % 4)
    section = struct.pack("<IIIIII", 8 + 16 + 8 + len(body), 2, 1, 24, 2, 32) + struct.pack("<Ihh", 2, 1252, 0) + body
    format_id = bytes.fromhex("e0859ff2f94f6810ab9108002b27b3d9")
    return struct.pack("<HHI16sI16sI", 0xFFFE, 0, 0, b"", 1, format_id, 48) + section


def doc(pieces: list[tuple[str, bool]] | None = None, *, headers: str = "", flags: int = 0x0200) -> bytes:
    """A Word 97 file; each piece is a text and whether its characters have one byte. The last chars are page headers."""
    field = f'\x13 HYPERLINK "{LINK}" \x14{ANCHOR}\x15'
    if pieces is None:
        pieces = [(f"{BEFORE} ", True), (f"{field} {AFTER}\r", False), (f"{SECOND}\r", True)]
    pieces = [*pieces, (headers, True)] if headers else pieces
    fib = bytearray(0x400)
    struct.pack_into("<6H", fib, 0, 0xA5EC, 193, 0, 1033, 0, flags)
    document = sum(len(text) for text, _ in pieces) - len(headers)
    struct.pack_into("<3I", fib, 0x4C, document, 0, len(headers))
    stream, positions, places = fib, [0], b""
    # The pieces stand in the file in another order than in the text.
    offsets: dict[int, int] = {}
    for number in reversed(range(len(pieces))):
        text, one_byte = pieces[number]
        offsets[number] = len(stream)
        stream = stream + (text.encode("cp1252") if one_byte else text.encode("utf-16-le"))
    for number, (text, one_byte) in enumerate(pieces):
        positions.append(positions[-1] + len(text))
        places += struct.pack("<HIH", 0, offsets[number] * 2 | 0x4000_0000 if one_byte else offsets[number], 0)
    table = struct.pack(f"<{len(positions)}I", *positions) + places
    clx = b"\x01\x04\x00abcd" + b"\x02" + struct.pack("<I", len(table)) + table
    struct.pack_into("<2I", stream, 0x01A2, 16, len(clx))
    return ole(
        {
            "WordDocument": bytes(stream),
            "1Table": bytes(16) + clx,
            "\x05SummaryInformation": properties(TITLE),
        }
    )


def record(kind: int, body: bytes, *, instance: int = 0, container: bool = False) -> bytes:
    """A PowerPoint record."""
    return struct.pack("<HHI", instance << 4 | (0xF if container else 0), kind, len(body)) + body


def ppt(*, directory: bool = True) -> bytes:
    """A PowerPoint file that was saved twice: the first slide's old text is still in it, but not shown any more."""
    text = f"{BEFORE} {ANCHOR} {AFTER}"
    start = len(BEFORE) + 1
    click = record(4082, record(4083, struct.pack("<II8x", 0, 5)), container=True)
    linked = click + record(4063, struct.pack("<II", start, start + len(ANCHOR)))
    url = record(4026, "x".encode("utf-16-le")) + record(4026, LINK.encode("utf-16-le"), instance=1)
    hyperlink = record(1033, record(4055, record(4051, struct.pack("<I", 5)) + url, container=True), container=True)
    outline = record(1011, struct.pack("<I", 3)) + record(3999, bytes(4)) + record(4000, text.encode("utf-16-le"))
    masters = record(4080, record(4008, b"Click to edit Master title"), instance=1, container=True)
    slides = record(4080, outline + linked, instance=0, container=True)
    document = record(1000, hyperlink + masters + slides, container=True)

    def slide(words: str) -> bytes:
        box = record(0xF00D, record(3999, bytes(4)) + record(4008, words.encode("latin-1")), container=True)
        return record(1006, record(1036, box, container=True), container=True)

    master = record(1016, record(4008, b"Master words"), container=True)
    old, new = slide("An old version."), slide(SECOND)
    stream = bytearray()
    places = {}
    for name, data in (("document", document), ("master", master), ("old", old)):
        places[name] = len(stream)
        stream += data
    first_directory = len(stream)
    stream += record(6002, struct.pack("<I3I", 3 << 20 | 1, places["document"], places["master"], places["old"]))
    first_edit = len(stream)
    stream += record(4085, struct.pack("<IIIIIIHH", 0, 0, 0, first_directory, 1, 3, 0, 0))
    new_place = len(stream)
    stream += new
    second_directory = len(stream)
    stream += record(6002, struct.pack("<II", 1 << 20 | 3, new_place))
    second_edit = len(stream)
    stream += record(4085, struct.pack("<IIIIIIHH", 0, 0, first_edit, second_directory, 1, 3, 0, 0))
    user = record(4086, struct.pack("<III", 20, 0xE391C05F, second_edit if directory else 7) + bytes(8))
    streams = {"PowerPoint Document": bytes(stream), "Current User": user}
    return ole({**streams, "\x05SummaryInformation": properties(TITLE)})


def dvips() -> bytes:
    """A page as TeX's dvips writes it: words cut into strings by kerning, ligatures, two lines."""
    return rb"""%!PS-Adobe-2.0
%%Creator: dvips(k) 5.86
%%Title: paper.dvi
%%EndComments
TeXDict begin 40258431 52099146 1000 600 600 (paper.dvi) @start
/Fa 1 1 df<00FF>1 D E
end
%%EndProlog
%%Page: 1 1
1 0 bop 300 400 a Fa(W)-7 b(e)33 b(study)h(e\016cient)g(har)-14 b(v)n(est)r(men)300
500 y(and)28 b(their)i(\014nest)f(legs;)g(see)g(\(http://spiders.test/opiliones.html\).)p eop
%%Trailer
"""
