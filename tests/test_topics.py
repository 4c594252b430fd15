"""Bookmarks, seed lists and queries become topics and seeds."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.errors import InputError
from opilio.topics import TopicTree, query_topic, read_bookmarks, read_seeds
from opilio.topics.inputs import parse_bookmarks, read_inputs

FIREFOX = """<!DOCTYPE NETSCAPE-Bookmark-file-1>
<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">
<TITLE>Bookmarks</TITLE>
<H1>Bookmarks Menu</H1>

<DL><p>
    <DT><H3 ADD_DATE="1" PERSONAL_TOOLBAR_FOLDER="true">Bookmarks Toolbar</H3>
    <DL><p>
        <DT><A HREF="https://toolbar.example/">On the bar</A>
        <DT><H3>Birds</H3>
        <DL><p>
            <DT><A HREF="http://birds.example/owls?utm_source=x#top" ICON="data:image/png;base64,AA==">Barn owls &amp; kin</A>
            <DD>A description with <b>markup
            <DT><H3>Raptors</H3>
            <DL><p>
                <DT><A HREF="http://raptors.example/">Hawks</A>
            </DL><p>
            <DT><A HREF="javascript:alert(1)">evil</A>
            <DT><A HREF="place:sort=8">smart</A>
        </DL><p>
    </DL><p>
</DL>
"""


def seeds_by_topic(tree: TopicTree) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for seed in tree.seeds:
        result.setdefault(tree.topics[seed.kcid].path, []).append(seed.url)
    return result


def test_folders_become_topics_and_bookmarks_seeds() -> None:
    """Nested folders are nested topics, the browser's own containers are not, and odd schemes are no seeds."""
    tree = parse_bookmarks(FIREFOX)
    assert seeds_by_topic(tree) == {
        "": ["https://toolbar.example/"],
        "Birds": ["http://birds.example/owls"],
        "Birds / Raptors": ["http://raptors.example/"],
    }
    birds = next(topic for topic in tree.topics if topic.path == "Birds")
    assert birds.keywords == ["birds", "barn", "owls", "kin"]
    assert tree.topics[2].parent == birds.kcid


@pytest.mark.parametrize(
    ("encoding", "declares"),
    [("utf-8", "UTF-8"), ("utf-8-sig", ""), ("utf-16", ""), ("cp1252", ""), ("shift_jis", "Shift_JIS")],
)
def test_odd_encodings(tmp_path: Path, encoding: str, declares: str) -> None:
    """The folder name survives whatever encoding the file is in."""
    name = "鳥類" if encoding == "shift_jis" else "Vögel"
    meta = f'<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset={declares}">' if declares else ""
    text = f'{meta}<DL><DT><H3>{name}</H3><DL><DT><A HREF="http://a.example/">x</A></DL></DL>'
    file = tmp_path / "b.html"
    file.write_bytes(text.encode(encoding))
    assert [topic.name for topic in read_bookmarks(file).topics] == ["bookmarks", name]


def test_a_file_without_bookmarks_is_an_error_with_a_next_step(tmp_path: Path) -> None:
    """A wrong file does not silently make an empty crawl."""
    file = tmp_path / "b.html"
    file.write_bytes(b"\x00\xff<dl><<<dt><h3>")
    with pytest.raises(InputError) as caught:
        read_bookmarks(file)
    assert "no bookmark" in caught.value.message
    assert "--seeds" in caught.value.hint
    with pytest.raises(InputError, match="No such file"):
        read_bookmarks(tmp_path / "missing.html")


@given(st.text(alphabet=st.sampled_from('<>/dlth3a="ref pHDTA\n'), max_size=300))
def test_tag_soup_never_raises(soup: str) -> None:
    """Any mixture of the format's own characters is read without an error."""
    parse_bookmarks(soup)


def test_seed_list(tmp_path: Path) -> None:
    """One URL a line, with comments, titles, missing schemes and repeats."""
    file = tmp_path / "seeds.txt"
    file.write_text("# mine\n\nhttp://a.example/  A page\nb.example\nhttp://a.example/#again\nftp://c.example/\n")
    tree = TopicTree()
    assert read_seeds(file, tree) == 2
    assert [seed.url for seed in tree.seeds] == ["http://a.example/", "http://b.example/"]
    file.write_text("not-a-scheme://x\n")
    with pytest.raises(InputError, match="line 1"):
        read_seeds(file, TopicTree())
    tree = TopicTree()
    file.write_text("http://a.example/\n")
    assert (read_seeds(file, tree), read_seeds(file, tree)) == (1, 0), "to name a URL twice is no mistake"


def test_query_words_are_the_root_topic() -> None:
    """A query names the root topic and gives its keywords; a query without words is refused."""
    tree = TopicTree()
    query_topic("Barn owls: nesting, 2024", tree)
    assert tree.topics[0].keywords == ["barn", "owls", "nesting"]
    with pytest.raises(InputError):
        query_topic("?!", tree)


RESULTS = """<!DOCTYPE html>
<!-- saved from url=(0035)https://www.finder.example/?q=owls -->
<html><body><a href="/settings">Settings</a> <a href="https://finder.example/about">About</a>
<a href="https://www.finder.example/l/?uddg=http%3A%2F%2Fa.example%2Fowl%3Fn%3D1&amp;rut=x">Owls of A</a>
<a href="http://b.example/">B</a> <a href="//c.example/x">C</a> <a href="http://b.example/#top">B</a>
<a href="mailto:owl@d.example">Mail</a> <a>nothing</a> <a href="http://e.example/"""


def test_saved_search_results_are_seeds(tmp_path: Path) -> None:
    """Links to other sites, also those through an address of the search engine; its own pages are left out, and the
    words of links do not join the keywords of a query. Broken markup is read as far as it goes."""
    file = tmp_path / "results.html"
    file.write_text(RESULTS)
    tree = TopicTree()
    query_topic("barn owl", tree)
    assert read_seeds(file, tree) == 3
    assert [seed.url for seed in tree.seeds] == ["http://a.example/owl?n=1", "http://b.example/", "https://c.example/x"]
    assert tree.topics[0].keywords == ["barn", "owl"]
    file.write_text("<html><a href='/x'>x</a></html>")
    with pytest.raises(InputError, match="no link to a page"):
        read_seeds(file, TopicTree())


def test_only_redirects_of_search_engines_are_unwrapped(tmp_path: Path) -> None:
    """Those of Bing, whose target is in base64, of Yahoo, which has it in the path, of others by their parameters, and
    those without a host. What another site has in a parameter is not the page that a link leads to."""
    bing = "https://www.bing.com/ck/a?!&amp;&amp;p=1f&amp;ptn=3&amp;u=a1aHR0cHM6Ly9hLmV4YW1wbGUvb3dsP249MQ&amp;ntb=1"
    links = {
        bing: "https://a.example/owl?n=1",
        "https://r.search.yahoo.com/_ylt=Aw;_ylu=X/RV=2/RE=1/RO=10/RU=https%3a%2f%2fb.example%2fowl/RK=2/RS=x-": "https://b.example/owl",
        "https://www.google.co.uk/url?sa=t&amp;url=https%3A%2F%2Fc.example%2F&amp;usg=1": "https://c.example/",
        "/url?q=http://d.example/&amp;sa=U": "http://d.example/",
        "//duckduckgo.com/l/?uddg=http%3A%2F%2Fe.example%2F": "http://e.example/",
        "https://share.example/post?url=http%3A%2F%2Ff.example%2F": "https://share.example/post?url=http%3A%2F%2Ff.example%2F",
        "https://archive.example/?u=a1aHR0cHM6Ly9hLmV4YW1wbGUv": "https://archive.example/?u=a1aHR0cHM6Ly9hLmV4YW1wbGUv",
        "https://www.bing.com/ck/a?u=a1%25%25": "https://www.bing.com/ck/a?u=a1%25%25",
        "/imgres?imgurl=http://g.example/": "",
    }  # fmt: skip
    file, tree = tmp_path / "results.html", TopicTree()
    file.write_text("<html>" + "".join(f'<a href="{link}">x</a>' for link in links))
    read_seeds(file, tree)
    assert [seed.url for seed in tree.seeds] == [page for page in links.values() if page]


def test_a_column_of_urls_is_a_seed_list(tmp_path: Path) -> None:
    """What `opilio sql OTHER "SELECT url ..." --format csv` writes: the head of the column is no host."""
    file = tmp_path / "seeds.txt"
    file.write_text("url\nhttp://a.example/\nurl\n")
    tree = TopicTree()
    assert read_seeds(file, tree) == 2
    assert [seed.url for seed in tree.seeds] == ["http://a.example/", "http://url/"]


def test_a_description_is_a_virtual_document(tmp_path: Path) -> None:
    """Sentences are an example of the root. Without a query their first words name it and their words are keywords;
    with one, the query does."""
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("http://a.example/")
    sentences = "How people build boxes for barn owls. Where they put them up, and which owls move in."
    tree = read_inputs(seeds=seeds, description=sentences)
    root = tree.topics[0]
    assert (root.name, root.description) == ("How people build boxes for barn owls. Where", sentences)
    assert "owls" in root.keywords
    assert [(one.kind, one.value) for one in tree.training()] == [("text", sentences)]
    tree = read_inputs(seeds=seeds, query="barn owl", description=sentences)
    assert (tree.topics[0].name, tree.topics[0].keywords) == ("barn owl", ["barn", "owl"])
    assert [one.value for one in tree.training()] == ["barn owl", sentences]
    with pytest.raises(InputError, match="no word"):
        read_inputs(seeds=seeds, description="12 !")
