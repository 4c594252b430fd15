"""HTML pages, each written by hand for one feature of the analysis."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.analyze import Analyzer
from opilio.analyze.layout import MAX_LINK_SHARE, Layout
from opilio.model import Document, Link, LinkKind, Region, url_key
from opilio.settings import RobotsSettings, StoreSettings, TrapSettings

URL = "http://site.test/docs/page.html"
BLOCKS = (
    "address article aside blockquote center dd details dir div dl dt fieldset figcaption figure footer form h1 header "
    "hgroup legend li main menu nav ol p pre search section summary ul button br"
)
FILLER = "Plenty of plain words stand in this paragraph so that it is taken for the real text of the page. " * 3


def analyze(html: str, **headers: str) -> Document:
    """The document of a page, made by a fresh analyzer."""
    document = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings()).analyze(
        html.encode(),
        "text/html; charset=utf-8",
        URL,
        {name.replace("_", "-"): value for name, value in headers.items()},
    )
    assert document is not None
    return document


def only_link(html: str) -> Link:
    """The one link of a page."""
    (link,) = analyze(html).links
    return link


class TestHead:
    def test_title_and_description_are_folded(self) -> None:
        """Title and description come out with entities decoded and whitespace folded."""
        page = analyze("<title> A &amp; B\n  C </title><meta name=Description content=' x\n y '>")
        assert (page.title, page.description) == ("A & B C", "x y")

    def test_open_graph_stands_in(self) -> None:
        """Where title and description are missing, those for social networks are taken."""
        page = analyze('<meta property="og:title" content="T"><meta property="og:description" content="D">')
        assert (page.title, page.description) == ("T", "D")

    def test_title_of_a_drawing_is_not_the_title(self) -> None:
        """An SVG icon's title is neither the page's title nor visible text."""
        page = analyze("<body><svg><title>Icon</title></svg><p>Text")
        assert (page.title, page.text) == ("", "Text")

    def test_head_after_broken_head(self) -> None:
        """A stray element ends the head early; what should have been in it still counts."""
        page = analyze("<head><div>x</div><title>T</title><meta name=robots content=noindex></head><body>y")
        assert (page.title, page.noindex) == ("T", True)


class TestText:
    def test_invisible_parts_are_left_out(self) -> None:
        """Scripts, styles, templates, hidden elements and closed dialogs are no visible text."""
        page = analyze(
            "<p>seen<script>a()</script><style>b{}</style><noscript>c</noscript><template>d</template></p>"
            "<p hidden>e</p><p style='color:red; DISPLAY:none'>f</p><dialog>g</dialog><select><option>h</select>"
            "<textarea>i</textarea><!-- j --><iframe src=/k>k</iframe>"
        )
        assert page.text == "seen"

    def test_a_hidden_body_is_shown(self) -> None:
        """Pages that hide their body until a script has run are read all the same."""
        assert analyze("<body style='display:none'><p>content").text == "content"

    @pytest.mark.parametrize(
        "tag",
        BLOCKS.split(),
    )
    def test_words_of_different_blocks_do_not_run_together(self, tag: str) -> None:
        """Each element that a browser sets apart also separates words, and no text is lost, however misplaced."""
        page = analyze(f"<body>one<{tag}>two</{tag}><{tag}>three</{tag}>four")
        assert page.text.split() == ["one", "two", "three", "four"]

    @pytest.mark.parametrize("tag", ["span", "b", "a href=x", "my-card", "font", "button", "label"])
    def test_blocks_end_inside_inline_elements(self, tag: str) -> None:
        """A block inside of an inline or unknown element is set apart on both sides."""
        assert analyze(f"<p>x</p><{tag}>one<div>two</div>three</{tag.partition(' ')[0]}>").text == "x\none\ntwo\nthree"

    def test_tables_and_lists(self) -> None:
        """Cells of a row share a line, rows, items and blocks inside cells have their own."""
        page = analyze(
            "<table><caption>cap</caption><tr><th>h1<th>h2<tr><td>a<td>b<ul>stray<li>x<li>y</ul><tr><td><p>p</p>q</table>"
        )
        assert page.text == "cap\nh1 h2\na b\nstray\nx\ny\np\nq"

    def test_inline_elements_do_not_split_words(self) -> None:
        """Emphasis inside a word, soft hyphens and zero-width spaces do not break it."""
        assert analyze("<p>un<b>believ</b>able hy&shy;phen zero&#8203;width").text == "unbelievable hyphen zerowidth"

    def test_whitespace_is_folded(self) -> None:
        """Runs of any whitespace become one space, also in preformatted text, and lines have no margins."""
        assert analyze("<pre>a\t b\n\n   c\u00a0 d </pre><p>  e\n f&nbsp;</p>").text == "a b\nc d\ne f"


class TestMainText:
    def test_boilerplate_is_left_out(self) -> None:
        """Navigation, page header, footer, aside and lines of links go; an article's own header stays."""
        page = analyze(
            f"<header>Site name</header><nav><p>Menu text</nav><article><header>Headline</header><p>{FILLER}"
            "<ul><li><a href=/1>Related one</a><li><a href=/2>Related two</a></ul></article>"
            "<aside>Advert</aside><div role=contentinfo>Imprint</div>"
        )
        assert page.main_text == f"Headline\n{FILLER.strip()}"
        assert "Imprint" in page.text

    def test_main_element_wins(self) -> None:
        """Where the page says which part is the main one, text outside of it is left out."""
        assert analyze(f"<p>Teaser text.</p><main><p>{FILLER}</main><p>More").main_text == FILLER.strip()

    def test_empty_main_falls_back(self) -> None:
        """A main element that a script would fill does not hide the text around it."""
        assert analyze(f"<main></main><p>{FILLER}").main_text == FILLER.strip()

    def test_a_page_of_links_is_its_own_main_text(self) -> None:
        """When everything looks like boilerplate, the visible text is all there is."""
        page = analyze("<nav><a href=/1>One</a></nav><ul><li><a href=/2>Two</a></ul>")
        assert page.main_text == page.text == "One\nTwo"

    def test_a_role_that_repeats_its_element_changes_nothing(self) -> None:
        """A role that an element has anyway counts once; next to one of another element, both count."""
        body = f"<main {{}}><p>{FILLER}</main><nav {{}}><p>Menu</nav>"
        roles = body.format("role=main", "role=navigation")
        assert analyze(roles).main_text == analyze(body.format("", "")).main_text == FILLER.strip()
        assert analyze(f"{roles}<div role=contentinfo>Imprint</div>").main_text == FILLER.strip()
        assert analyze(f"<div role='NONE main'><p>{FILLER}</div><p>Teaser").main_text == FILLER.strip()

    @given(st.text("ab \n\x01\xad\u00a0", max_size=80), st.lists(st.tuples(st.integers(0, 80), st.integers(1, 9))))
    def test_agrees_with_reading_line_by_line(self, text: str, links: list[tuple[int, int]]) -> None:
        """Text and main text of a part are its folded lines, the latter without those that are mostly in links."""
        spans = [(start, start + size, "link") for start, size in sorted(links) if start + size <= len(text)]
        lines, kept, starts = [], [], [start for start, _, _ in spans]
        at = 0
        for raw in text.split("\n"):
            end = at + len(raw)
            line = " ".join(raw.replace("\x01", "").replace("\xad", "").split())
            inside = [(start, stop) for start, stop, _ in spans if start in starts and start < end] if raw else []
            starts = [start for start in starts if start >= end] if raw else starts
            if line:
                lines.append(line)
                if not inside or sum(min(stop, end) - start for start, stop in inside) <= MAX_LINK_SHARE * len(raw):
                    kept.append(line)
            at = end + 1
        layout = Layout(text, [], spans)
        assert layout.text == "\n".join(lines)
        assert layout.main_text == "\n".join(kept or lines)


class TestLinks:
    def test_anchor_and_context(self) -> None:
        """A link has its own words, and the words around it in its block only."""
        link = only_link(
            "<p>another block</p><p>w0 w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 (see <a href=x>the <b>linked</b>\n page</a>), "
            "v0 v1 v2 v3 v4 v5 v6 v7 v8 v9 v10</p><p>next block</p>"
        )
        assert link.anchor == "the linked page"
        assert link.context == "w2 w3 w4 w5 w6 w7 w8 w9 w10 (see ), v0 v1 v2 v3 v4 v5 v6 v7 v8"
        assert (link.url, link.key) == ("http://site.test/docs/x", url_key("http://site.test/docs/x"))

    def test_link_in_preformatted_text(self) -> None:
        """In preformatted text, a line of it is what surrounds a link."""
        page = analyze("<nav><pre>one\n  two <b><a href=x>here</a></b>\tthree\nfour</pre></nav><a href=y>z</a>")
        assert page.text == "one\ntwo here three\nfour\nz"
        assert [(link.anchor, link.context, link.region) for link in page.links] == [
            ("here", "two three", Region.NAV),
            ("z", "", Region.BODY),
        ]

    def test_contexts_of_neighbours(self) -> None:
        """Of several links in one block, each sees the others' words around its own."""
        links = analyze("<p>a <a href=1>one</a> b <a href=2>two</a> c</p>").links
        assert [(link.anchor, link.context) for link in links] == [("one", "a b two c"), ("two", "a one b c")]

    def test_context_of_a_table_row(self) -> None:
        """A link in a cell sees the words of the other cells of its row."""
        assert only_link("<table><tr><td><a href=x>name</a><td>What it is<tr><td>other</table>").context == "What it is"

    def test_context_is_cut_at_words(self) -> None:
        """Long words around a link are taken whole or not at all."""
        link = only_link(f"<p>{'x' * 95} {'y' * 90} <a href=x>z</a> {'v' * 90} {'w' * 95}")
        assert link.context == f"{'y' * 90} {'v' * 90}"

    def test_context_can_be_switched_off(self) -> None:
        """With store.link_context off, links have no context."""
        analyzer = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings(link_context=False))
        page = analyzer.analyze(b"<p>before <a href=x>a</a> after", "text/html", URL)
        assert page is not None
        assert [(link.anchor, link.context) for link in page.links] == [("a", "")]

    def test_card_link(self) -> None:
        """A link around whole blocks has all their words as its anchor."""
        link = only_link("<a href=x><div><h3>Head</h3><p>Text</p></div></a><p>after")
        assert (link.anchor, link.context) == ("Head Text", "")

    @pytest.mark.parametrize(
        ("html", "anchor"),
        [
            ("<a href=x><img alt='A cat' src=c></a>", "A cat"),
            ("<a href=x title=Titled><img src=c></a>", "Titled"),
            ("<a href=x aria-label=Labelled><svg></svg></a>", "Labelled"),
            ("<a href=x><img alt=' '> </a>", ""),
            ("<map><area href=x alt=North></map>", "North"),
            ("<iframe src=x title=Film></iframe>", "Film"),
        ],
    )
    def test_links_without_text(self, html: str, anchor: str) -> None:
        """The words of a link without text are its images' or its own title; nothing of this is visible text."""
        page = analyze(f"<p>left {html} right")
        assert [(link.anchor, link.context) for link in page.links] == [(anchor, "left right")]
        assert page.text == "left right"

    def test_textless_links_do_not_shift_the_others(self) -> None:
        """Anchors stay with their links among named anchors, empty links, same-page links and nested links."""
        page = analyze(
            "<a name=top></a><a href=1>one</a><a href=2></a><a href=''>self</a><a href=3>three</a><a href='#x'>frag</a>"
            "<a href=4><table><tr><td><a href=5>five</a></table></a><a href=6><img></a> <a href=7>seven</a>"
        )
        anchors = {link.url.rsplit("/", 1)[1]: link.anchor for link in page.links}
        assert anchors | {"4": ""} == {"1": "one", "2": "", "3": "three", "4": "", "5": "five", "6": "", "7": "seven"}

    def test_all_kinds_in_order(self) -> None:
        """Links of every kind are found, with their kind; feeds, styles and addresses of no page are not."""
        page = analyze(
            "<head><meta http-equiv=Refresh content=\"5; URL='/refresh'\"><link rel=canonical href=/canon>"
            "<link rel=alternate hreflang=de href=/de title=Deutsch><link rel=alternate type=rss href=/rss>"
            "<link rel=stylesheet href=/css></head><body><a href=/a>a</a><map><area href=/area></map>"
            "<iframe src=/frame></iframe><a href='mailto:x@y.z'>m</a><a href='javascript:x()'>j</a><a href=tel:1>t</a>"
        )
        assert [(link.kind, link.url.rpartition("/")[2], link.position) for link in page.links] == [
            (LinkKind.REFRESH, "refresh", 0),
            (LinkKind.CANONICAL, "canon", 1),
            (LinkKind.ALTERNATE, "de", 2),
            (LinkKind.ANCHOR, "a", 3),
            (LinkKind.AREA, "area", 4),
            (LinkKind.FRAME, "frame", 5),
        ]
        assert page.canonical == "http://site.test/canon"
        assert [link.region for link in list(page.links)[:4]] == [Region.HEAD] * 3 + [Region.BODY]

    def test_frameset(self) -> None:
        """The frames of a frameset are links."""
        page = analyze("<frameset><frame src=a title=Menu><frame src=b></frameset>")
        assert [(link.url[-1], link.anchor, link.kind) for link in page.links] == [
            ("a", "Menu", LinkKind.FRAME),
            ("b", "", LinkKind.FRAME),
        ]

    def test_base_is_honoured(self) -> None:
        """Addresses are relative to the base element, the first that has an address; canonical too."""
        page = analyze(
            "<base target=x><base href=/other/><base href=/third/><link rel=canonical href=c>"
            "<a href=x>x</a><a href='?q'>q</a>"
        )
        assert [link.url for link in page.links] == [f"http://site.test/other/{end}" for end in ("c", "x", "?q")]
        assert page.canonical == "http://site.test/other/c"

    def test_unusable_base_is_ignored(self) -> None:
        """A base that is no web address changes nothing."""
        assert only_link("<base href='data:x'><a href=x>x</a>").url == "http://site.test/docs/x"

    @pytest.mark.parametrize(
        ("html", "region"),
        [
            ("<header>{}</header>", Region.HEADER),
            ("<main><nav>{}</nav></main>", Region.NAV),
            ("<nav></nav><main><section>{}</section></main>", Region.MAIN),
            ("<article><p>{}</article>", Region.MAIN),
            ("<main><p>x</p><aside>{}</aside></main>", Region.ASIDE),
            ("<main>x</main><footer><div>{}</div></footer>", Region.FOOTER),
            ("<main>x</main><div>{}</div><footer>y</footer>", Region.BODY),
            ("<div role=navigation>{}</div>", Region.NAV),
            ("<div role=main>{}</div>", Region.MAIN),
            ("<div role=banner>{}</div>", Region.HEADER),
            ("<div role=contentinfo>{}</div>", Region.FOOTER),
            ("<div role=complementary>{}</div>", Region.ASIDE),
        ],
    )
    @pytest.mark.parametrize("link", ["<a href=x>text</a>", "<a href=x><img></a>"])
    def test_region(self, html: str, region: Region, link: str) -> None:
        """A link's region is its nearest sectioning ancestor, with text or without."""
        assert only_link("<p>before</p>" + html.format(link) + "<p>after</p>").region is region

    def test_nofollow(self) -> None:
        """rel=nofollow, ugc and sponsored are told apart from other relations; the setting switches them off."""
        rels = ["noopener NoFollow", "ugc", "sponsored", "tag"]
        html = "".join(f"<a rel='{rel}' href={number}>x</a>" for number, rel in enumerate(rels))
        assert [link.nofollow for link in analyze(html).links] == [True, True, True, False]
        page = Analyzer(TrapSettings(), RobotsSettings(obey_rel_nofollow=False), StoreSettings()).analyze(
            html.encode(), "text/html", URL
        )
        assert page is not None
        assert not any(link.nofollow for link in page.links)

    def test_repeats_and_self_links(self) -> None:
        """The same target is kept once for each anchor text; links of the page to itself are not kept."""
        page = analyze("<a href=1>x</a><a href='1#f'>x</a><a href=1>y</a><a href='#s'>s</a><a href=page.html>p</a>")
        assert [(link.anchor, link.position) for link in page.links] == [("x", 0), ("y", 2)]
        assert page.links_dropped == 0

    def test_limit_of_links(self) -> None:
        """Links past the limit are counted, not kept."""
        html = "".join(f"<a href=/{number}>n{number}</a>" for number in range(30)).encode()
        page = Analyzer(TrapSettings(max_links_per_page=5), RobotsSettings(), StoreSettings()).analyze(
            html, "text/html", URL
        )
        assert page is not None
        assert [link.anchor for link in page.links] == [f"n{number}" for number in range(5)]
        assert page.links_dropped == 25

    def test_links_in_text_that_was_cut(self) -> None:
        """Links behind the end of what is kept of a very long text still have their anchors."""
        page = analyze(f"<p>{'word ' * 120_000}</p><p>near <a href=x>far away</a>")
        assert [(link.anchor, link.context) for link in page.links] == [("far away", "")]
        assert len(page.text) <= 500_000

    def test_query_only_addresses(self) -> None:
        """Addresses that are only a query keep the page's path; remembered ones are not mixed up between pages."""
        analyzer = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings())
        for name in ("one", "two"):
            page = analyzer.analyze(b"<a href='?p=2'>n</a><a href=x>x</a>", "text/html", f"http://s.test/d/{name}?p=1")
            assert page is not None
            assert [link.url for link in page.links] == [f"http://s.test/d/{name}?p=2", "http://s.test/d/x"]


class TestRobots:
    @pytest.mark.parametrize(
        ("head", "header", "noindex", "nofollow"),
        [
            ("<meta name=robots content='NoIndex, Follow'>", "", True, False),
            ("<meta name=robots content=none>", "", True, True),
            ("<meta name=googlebot content=none>", "", False, False),
            ("<meta name=robots content=none><meta name=Opilio content=all>", "", False, False),
            ("<meta name=robots content=noindex><meta name=robots content=nofollow>", "", True, True),
            ("", "noindex", True, False),
            ("", "otherbot: noindex, nofollow", False, False),
            ("", "otherbot: noindex, opilio: nofollow", False, True),
            ("", "noindex, opilio: index", False, False),
            ("", "max-snippet:-1, noindex, unavailable_after: 25 Jun 2010 15:00:00 PST", True, False),
            ("<meta name=robots content=nofollow>", "noindex", True, True),
        ],
    )
    def test_directives(self, head: str, header: str, noindex: bool, nofollow: bool) -> None:
        """Meta elements and X-Robots-Tag add up; words addressed to us replace those to all."""
        page = analyze(head + "<p>x", x_robots_tag=header)
        assert (page.noindex, page.nofollow) == (noindex, nofollow)

    def test_not_obeyed(self) -> None:
        """With robots.obey_meta off, no page says noindex."""
        html = b"<meta name=robots content=none>"
        page = Analyzer(TrapSettings(), RobotsSettings(obey_meta=False), StoreSettings()).analyze(
            html, "text/html", URL
        )
        assert page is not None
        assert (page.noindex, page.nofollow) == (False, False)

    def test_canonical_in_header(self) -> None:
        """The Link header names the canonical page when the page itself does not."""
        header = '</a>; rel=next, <../c?utm_source=x>; type=x; rel="alternate canonical"'
        assert analyze("<base href=/elsewhere/>", link=header).canonical == "http://site.test/c"
        assert analyze("<link rel=canonical href=/own>", link=header).canonical == "http://site.test/own"
        raw = "</ö>; rel=canonical".encode().decode("latin-1")  # as headers are read
        assert analyze("", link=raw).canonical == "http://site.test/%C3%B6"
