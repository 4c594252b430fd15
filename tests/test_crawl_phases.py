"""The two phases of a crawl: learning near the seeds, then harvesting from the best hubs."""

import re
from pathlib import Path

import pytest

from conftest import MakeTaught
from opilio import Collection
from opilio.crawl.phases import PAUSED, Phase, phase_at_start, settings_in
from opilio.errors import InputError, SettingsError
from opilio.frontier import Frontier, QueuedUrl, ScopeFilter
from opilio.frontier.classic import SharpFocus
from opilio.model import Judgement
from opilio.settings import Settings, override
from running_crawls import LEARNING, phases_of

OUTSIDE = """
    SELECT count(*) FILTER (WHERE h.domain NOT IN (
        SELECT s.domain FROM hosts s WHERE s.host IN (SELECT regexp_extract(url, '//([^/]+)/', 1) FROM seeds)))
    FROM (SELECT oid FROM visits WHERE kind = 'page' ORDER BY rowid LIMIT ?) v JOIN crawl c USING (oid) JOIN hosts h USING (sid)
"""


def test_learning_then_harvesting(make_taught: MakeTaught) -> None:
    """While learning only the seeds' domains are asked; then a model is trained with archetypes, by weighted votes, and
    the harvest goes beyond them, in the order of the settings."""
    collection = make_taught(limits__max_pages=90, **(LEARNING | {"fetch__in_flight": 1}))  # it sees pages one by one
    status = collection.crawl()
    assert status.pages == 90 and "page limit" in status.reason
    said = phases_of(collection)
    assert said[0].startswith("learning:") and said[-1].startswith("harvesting:")
    assert any("40 pages seen" in text for text in said)
    assert collection.sql(OUTSIDE.replace("?", "40")).rows == [(0,)]
    assert collection.sql(OUTSIDE.replace("?", "1000")).rows[0][0] > 0
    settings = [text for (text,) in collection.sql("SELECT settings FROM models ORDER BY version").rows]
    assert 'meta = "unanimous"' in settings[0] and 'meta = "weighted"' in settings[-1]
    assert collection.sql("SELECT count(*) FROM training WHERE source = 'archetype'").rows[0][0] > 0
    assert collection.sql("SELECT count(*) FROM link_scores").rows[0][0] > 0


def test_a_pause_between_the_phases(make_taught: MakeTaught) -> None:
    """With a pause the crawl ends after learning; archetypes can be rejected; the next crawl harvests, by a model that
    knows of it, and a third one stays in the harvest."""
    beside = {**LEARNING, "learn__synchronous": False, "learn__retrain_after": 5}
    collection = make_taught(limits__max_pages=100, learn__pause=True, **beside)
    assert collection.crawl().reason == PAUSED
    versions = len(collection.models())
    seen = collection.status().pages
    told = re.match(r"learning is over: (\d+) pages seen", phases_of(collection)[-1])
    assert told is not None
    assert 40 <= int(told[1]) <= seen <= 40 + collection.settings.fetch.in_flight, (
        "it learns on while a model is trained"
    )
    [(url, kcid)] = collection.sql("SELECT name, kcid FROM training WHERE source = 'archetype' LIMIT 1").rows
    [(path,)] = collection.sql(f"SELECT path FROM topics WHERE kcid = {kcid}").rows
    collection.reject_archetype(path, url)
    assert collection.crawl().pages == 100
    assert len(collection.models()) > versions
    assert phases_of(collection)[-1].startswith("harvesting:")
    again = collection.crawl(settings={"limits.max_pages": 105})
    assert again.pages == 105 and sum(text.startswith("harvesting:") for text in phases_of(collection)) == 1


def test_learning_that_runs_dry_is_over(make_taught: MakeTaught) -> None:
    """With nothing to follow near the seeds the harvest begins early."""
    collection = make_taught(limits__max_pages=60, **(LEARNING | {"learn__learning_depth": 0}))
    assert collection.crawl().pages == 60
    assert any("nothing more to follow" in text for text in phases_of(collection))


def test_phases_need_something_to_learn(make_taught: MakeTaught, tmp_path: Path) -> None:
    """Without examples, or with a classifier that learns nothing, phases are refused before anything is fetched."""
    with pytest.raises(SettingsError, match="classifier that learns"):
        make_taught(learn__phases=True, classify__classifier="keywords")
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("http://a.test/\n")
    with pytest.raises(InputError, match="needs examples"):
        Collection.create(tmp_path / "c", seeds=seeds, settings={"learn.phases": True}).crawl()


def test_phase_and_settings_at_the_start() -> None:
    """A crawl goes on in its phase; after a pause it harvests; without phases nothing changes."""
    phased = override(Settings(), {"learn.phases": True})
    assert phase_at_start(Settings(), Phase.LEARNING) is Phase.NONE
    assert phase_at_start(phased, Phase.NONE) is phase_at_start(phased, Phase.LEARNING) is Phase.LEARNING
    assert phase_at_start(phased, Phase.PAUSED) is phase_at_start(phased, Phase.HARVESTING) is Phase.HARVESTING
    assert settings_in(Phase.NONE, phased) is phased
    assert settings_in(Phase.LEARNING, phased).classify.meta == "unanimous"
    assert settings_in(Phase.HARVESTING, phased).classify.meta == "weighted"


def test_sharp_focus() -> None:
    """The deepest URL comes first, seeds before all; what is too deep, of another domain, or reached through too many
    pages of other classes waits in the database."""
    settings = override(Settings(), {"fetch.host_delay_s": 0.0, "frontier.tunnel_steps": 1})
    strategy = SharpFocus(settings.frontier, ["a.test"], max_depth=3)
    frontier = Frontier(settings, strategy, ScopeFilter(settings.scope, frozenset()))

    def add(oid: int, host: str, depth: int, steps: int = 0) -> None:
        url = QueuedUrl(oid, f"http://{host}/{oid}", frontier.host(host), 0, depth, 0.5)
        url.steps = steps
        frontier.tiers.prioritise([url])
        frontier.tiers.add(url)

    add(0, "a.test", 1)
    add(1, "www.a.test", 3)
    add(2, "a.test", 4)
    add(3, "b.test", 1)
    add(4, "b.test", 0)
    add(5, "a.test", 2, steps=1)
    add(6, "a.test", 2, steps=2)
    for host in frontier.hosts:
        host.contacted_s = 1.0
    assert [lease.oid for lease in frontier.take(2.0, 10)] == [4, 1, 5, 0]
    assert frontier.waiting == 3
    page = QueuedUrl(9, "http://a.test/9", frontier.host("a.test"), 2, 1, 0.5)
    page.steps = 1
    assert strategy.steps_at(page, Judgement(2, True, 0.9, 0.9)) == 0
    assert strategy.steps_at(page, Judgement(3, True, 0.9, 0.9)) == 2
    assert strategy.steps_at(page, None) == 2
