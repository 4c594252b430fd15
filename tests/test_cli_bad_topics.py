"""Topics that are wrong or strange: one clear message with the next step, or a sensible result."""

from pathlib import Path

import pytest

from command_line import call
from opilio import Collection
from opilio.errors import InputError
from opilio.lab.local_web import LocalServer

OWLS = (
    "The barn owl hunts at night over open fields and eats mice and voles, which it finds by hearing alone. Owls fly "
    "silently because of the soft edges of their feathers and nest in barns and hollow trees near farms."
)


@pytest.mark.parametrize(
    ("taxonomy", "said"),
    [
        ("topics:\n  birds:\n    topics:\n      owls:\n", "nothing describes what this topic is about"),
        (
            "topics:\n  a:\n    good: true\n    topics:\n      b: {good: true, examples: ['http://a.test/']}\n",
            "good already",
        ),
        ("topics: {a: {examples: ['http://a.test/'], exampels: []}}", "exampels"),
        ("topics: [", "not valid YAML"),
        ("", "no topics"),
        ("topics: {a: {examples: [{file: nowhere.pdf}]}}", "nowhere.pdf"),
    ],
)
def test_a_taxonomy_that_cannot_be_used(taxonomy: str, said: str, tmp_path: Path) -> None:
    """Each names the place and the next step, and leaves no half collection behind."""
    file = tmp_path / "topics.yaml"
    file.write_text(taxonomy)
    refused = call("crawl", str(tmp_path / "c"), "--topics", str(file))
    assert refused.returncode == 1
    assert said in refused.stderr
    assert "hint: " in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "c" / "collection.duckdb").exists()


def make(taxonomy: str, tmp_path: Path, server: LocalServer, **changes: object) -> Collection:
    """A collection of the small local web with this taxonomy."""
    file = tmp_path / "topics.yaml"
    file.write_text(taxonomy)
    settings = {"fetch.connect_to": server.connect_to, "fetch.host_delay_s": 0.0, "limits.max_pages": 25}
    settings |= {"run.workers": -1, "classify.calibrate": False}  # models are counted
    return Collection.create(tmp_path / "c", topics=file, settings=settings | changes)


def test_one_example_is_enough(tmp_path: Path, small_server: LocalServer) -> None:
    """A model comes of a single text; pages about other things are not taken, a page about it is."""
    taxonomy = f'topics:\n  owls:\n    seeds: ["http://directory.test/"]\n    examples:\n      - text: "{OWLS}"\n'
    collection = make(taxonomy, tmp_path, small_server)
    status = collection.crawl()
    assert status.model.endswith("(svm, 1 example)")
    assert collection.sql("SELECT count(*) FROM pages WHERE relevance >= 0.5").rows == [(0,)]
    page = tmp_path / "page.txt"
    page.write_text("An owl sat in the barn at night and listened for mice in the fields. " * 4)
    assert collection.explain(str(page))["judgement"]["topic"] == "owls"


def test_two_topics_with_the_same_example(tmp_path: Path, small_server: LocalServer) -> None:
    """They cannot be told apart: the crawl goes on, and the same page is always given to the same one."""
    example = f'    examples:\n      - text: "{OWLS}"\n'
    taxonomy = f'topics:\n  owls:\n    seeds: ["http://directory.test/"]\n{example}  strix:\n{example}'
    collection = make(taxonomy, tmp_path, small_server)
    assert collection.crawl().model.endswith("(svm, 2 examples)")
    page = tmp_path / "page.txt"
    page.write_text(OWLS)
    assert collection.explain(str(page))["judgement"] == collection.explain(str(page))["judgement"]


def test_others_of_ones_own(tmp_path: Path, small_server: LocalServer) -> None:
    """A folder of texts takes the place of the default set; one that is not there is named before the crawl begins."""
    others = tmp_path / "others"
    others.mkdir()
    for number in range(5):
        (others / f"{number}.txt").write_text(f"Tables and chairs of wood, made by joiner {number}, for kitchens. " * 8)
    taxonomy = f'topics:\n  owls:\n    seeds: ["http://directory.test/"]\n    examples:\n      - text: "{OWLS}"\n'
    collection = make(taxonomy, tmp_path, small_server, **{"classify.others": str(others)})
    assert collection.crawl().model.endswith("(svm, 1 example)")
    collection.change_settings(
        {"classify.others": str(tmp_path / "missing"), "classify.classifier": "bayes", "limits.max_pages": 30}
    )
    with pytest.raises(InputError, match="missing"):
        collection.crawl()
