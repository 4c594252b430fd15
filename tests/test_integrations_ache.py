"""Configurations of ACHE become collections: settings, filters, seeds, examples; and everything is accounted for."""

import json
from pathlib import Path

import pytest

from command_line import call
from opilio import Collection, OpilioError
from opilio.integrations.ache import Kind, read_ache
from opilio.settings import Settings, override
from opilio.topics.tree import ExampleKind

OWL = "<html><title>Owls {0}</title><p>The barn owl hunts voles at night, and feeds its owlets in the barn, {0} times.</p>"
CAR = "<html><title>Cars {0}</title><p>The engine needs oil and the wheels need air, says garage number {0}.</p>"
CONFIG = """
target_storage.data_format.type: WARC
target_storage.data_format.warc.max_file_size: 1000000
target_storage.hard_focus: true
target_storage.store_negative_pages: true
target_storage.visited_page_limit: 5000
target_storage.near_duplicate_detection.enabled: true
target_storage.near_duplicate_detection.similarity: 0.8
link_storage.max_pages_per_domain: 1000000000
link_storage.link_strategy.use_scope: true
link_storage.link_classifier.type: MaxDepthLinkClassifier
link_storage.link_classifier.max_depth: 3
link_storage.recrawl_selector: SitemapsRecrawlSelector
link_storage.recrawl_selector.sitemaps.interval: 30
link_storage.scheduler.host_min_access_interval: 3000
crawler_manager.downloader.user_agent.name: ACHE
crawler_manager.downloader.user_agent.email: owls@example.org
crawler_manager.downloader.max_retry_count: 2
crawler_manager.downloader.valid_mime_types:
 - text/html
 - application/x-asp
crawler_manager.downloader.okhttp3.proxy_host: 127.0.0.1
crawler_manager.downloader.okhttp3.proxy_username: me
crawler_manager.downloader.okhttp3.proxy_password: "s:cret"
crawler_manager.downloader.cookies:
 - {domain: owls.test, cookie: "a=b"}
some.future.key: 3
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration with seeds and training pages, as ACHE's documentation describes them."""
    folder = tmp_path / "config"
    for side, text in (("positive", OWL), ("negative", CAR)):
        (folder / "training" / side).mkdir(parents=True)
        for n in range(6):
            (folder / "training" / side / f"http%3A%2F%2Fa.test%2F{n}").write_text(text.format(n))
    (folder / "training" / "positive" / "empty").touch()
    (folder / "seeds.txt").write_text("http://owls.test/\nhttp://barns.test/ Barns\n")
    (folder / "ache.yml").write_text(CONFIG)
    return folder


def test_settings_are_translated(config: Path) -> None:
    """Each key with a counterpart sets it, in the units of Opilio; the settings are ones that a collection takes."""
    found = read_ache(config)
    expected = {
        "limits.max_pages": 5000, "limits.max_pages_per_host": 0, "limits.max_depth": 3, "scope.stay_on_seed_domains": True,
        "frontier.strategy": "breadth-first", "fetch.host_delay_s": 3.0, "fetch.max_tries": 3, "duplicates.near_jaccard": 0.8,
        "fetch.contact_url": "mailto:owls@example.org", "fetch.accept": {"text/html": Settings().fetch.accept["text/html"]},
        "fetch.proxy": "http://me:s%3Acret@127.0.0.1:8080", "store.warc_max_bytes": 1_000_000,
        "revisit.keep_fresh": True, "revisit.min_s": 1800.0, "robots.sitemaps": True,
    }  # fmt: skip
    assert found.settings == expected
    assert override(Settings(), found.settings)


def test_every_key_is_accounted_for(config: Path) -> None:
    """The table has each key of the file, and a reason for each that has no counterpart; no password is shown."""
    found = read_ache(config)
    shown = " ".join(f"{one.key} {one.value} {one.says}" for one in found.keys)
    proxy = "crawler_manager.downloader.okhttp3.proxy_"
    for line in CONFIG.splitlines():
        if ": " in line and not line.startswith((" ", proxy)):
            assert line.partition(":")[0] in shown
    assert proxy in shown and "s:cret" not in shown and "s%3Acret" not in shown
    left_out = {one.key: one.says for one in found.keys if one.kind is Kind.LEFT_OUT}
    assert "focus-hard" in left_out["target_storage.hard_focus"]
    assert left_out["some.future.key"] and all(left_out.values())


def test_recrawls_give_way_to_a_limit_of_pages(config: Path) -> None:
    """Opilio refuses to keep a host fresh that is full: so the limit counts, and the crawl can start."""
    text = CONFIG.replace("1000000000", "100")
    (config / "ache.yml").write_text(text)
    found = read_ache(config)
    assert found.settings["limits.max_pages_per_host"] == 100
    assert not {name for name in found.settings if name.startswith("revisit.")}


@pytest.mark.parametrize(
    ("filters", "settings"),
    [
        ("global: {type: wildcard, blacklist: ['http*://*.cars.test/*']}",
         {"scope.locked_domains": (*Settings().scope.locked_domains, "cars.test")}),
        ("global: {blacklist: ['http://cars.test/cart/*', '*bad-pattern*', '*index.html*']}",
         {"scope.locked_urls": ("https://cars.test/cart/",)}),
        ("cars.test: {type: regex, blacklist: ['https?:\\/\\/cars\\.test\\/old/.*', 'http://cars.test/p[0-9]+']}",
         {"scope.locked_urls": ("https://cars.test/old/",)}),
        ("global: {whitelist: ['*owls.com*', 'http://barns.test/*']}", {"scope.only_domains": ("owls.com", "barns.test")}),
        ("global: {whitelist: ['http://owls.test/*', '*/forum/*']}", {}),
        ("owls.test: {whitelist: ['http://owls.test/a*']}", {}),
        ("global: 3", {}),
    ],
)  # fmt: skip
def test_link_filters_become_a_scope(config: Path, filters: str, settings: dict[str, object]) -> None:
    """Patterns for hosts and beginnings of URLs are translated. No URL is refused that ACHE would take: an allow list
    that cannot be translated as a whole is left out."""
    (config / "ache.yml").write_text("")
    (config / "link_filters.yml").write_text(filters)
    found = read_ache(config)
    assert found.settings == settings
    override(Settings(), found.settings)
    assert any(one.file == "link_filters.yml" for one in found.keys)


def test_page_classifiers(config: Path) -> None:
    """Patterns of plain words become the words of the topic; a trained model becomes the classifier to train."""
    (config / "model").mkdir()
    file = config / "model" / "pageclassifier.yml"
    file.write_text(
        r"{type: regex, parameters: {title: {regexes: ['(?i).*\bbarn owls?\b.*', '.*(voles|mice).*']}, url: {regexes: ['.*owl.*']}}}"
    )
    assert read_ache(config).tree.topics[0].keywords[:4] == ["barn", "owls", "voles", "mice"]
    file.write_text("{type: smile, parameters: {model_file: m, relevance_threshold: 0.9}}")
    assert read_ache(config).settings["classify.prefer"] == "precision"
    file.write_text("type: url_regex\nparameters: {regular_expressions: ['owls']}")
    assert "owls" not in read_ache(config).tree.topics[0].keywords


def test_a_collection_is_made_that_learns_from_the_training_pages(config: Path, tmp_path: Path) -> None:
    """The command makes a collection whose model takes the positive pages and refuses the negative ones; a dry run makes
    none, and a second run refuses to overwrite it."""
    assert call("migrate", "ache", config, tmp_path / "owls", "--dry-run").returncode == 0
    assert not (tmp_path / "owls").exists()
    ended = call("migrate", "ache", config, tmp_path / "owls", "--json")
    assert ended.returncode == 0, ended.stderr
    shown = json.loads(ended.stdout)
    assert shown["seeds"] == 2 and "proxy" not in json.dumps(shown["settings"])
    owls = Collection(tmp_path / "owls")
    assert owls.settings.limits.max_pages == 5000
    assert sorted(one["positive"] for one in owls.examples()) == [False] * 6 + [True] * 6
    owls.train()
    for side, relevant in (("positive", True), ("negative", False)):
        said = owls.explain(str(config / "training" / side / "http%3A%2F%2Fa.test%2F1"))
        assert (said["judgement"]["relevance"] >= 0.5) is relevant
    again = call("migrate", "ache", config, tmp_path / "owls")
    assert again.returncode == 1 and "holds a collection already" in again.stderr


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [("ache.yml", "a: [", "not valid YAML"), ("ache.yml", "- a", "no keys"), ("seeds.txt", "mailto:a", "no usable URL")],
)  # fmt: skip
def test_files_that_cannot_be_used(config: Path, file: str, text: str, says: str) -> None:
    """The error names the file."""
    (config / file).write_text(text)
    with pytest.raises(OpilioError, match=says) as caught:
        read_ache(config)
    assert file in caught.value.message


def test_wrong_values_are_left_out(config: Path) -> None:
    """A value of another type is reported, and sets nothing; foreign tags are not executed."""
    (config / "ache.yml").write_text("target_storage.visited_page_limit: many\nlink_storage.max_pages_per_domain: -3\n")
    found = read_ache(config)
    assert not found.settings and sum(one.kind is Kind.LEFT_OUT for one in found.keys) == 3
    (config / "ache.yml").write_text("a: !!python/object/apply:os.system ['true']")
    with pytest.raises(OpilioError, match="not valid YAML"):
        read_ache(config)


def test_training_pages_are_found_below_the_configuration(config: Path) -> None:
    """The first folder with `positive` is taken; files without text are counted and left out."""
    found = read_ache(config)
    assert [one.kind for one in found.tree.examples] == [ExampleKind.FILE] * 12
    assert any(one.key == "positive/" or "1 file" in one.says for one in found.keys if one.kind is Kind.LEFT_OUT)
    with pytest.raises(OpilioError, match="no training pages"):
        read_ache(config, training=config)
