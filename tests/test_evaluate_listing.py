"""One run of an experiment, page by page."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from evaluate_local import TABLE, record_local
from opilio.errors import InputError
from opilio.lab.experiments.experiment import Experiment, Web, from_table
from opilio.lab.experiments.listing import EVERY_STEPS, FIRST_STEPS, SHOWN_PARTS, SHOWN_QUEUED, list_run
from opilio.lab.experiments.runner import run_experiment

BAYES = {"kind": "bayes", "settings": {"classify.focus": "soft"}, "negatives": 20}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The local web, recorded."""
    return record_local(tmp_path_factory.mktemp("webs") / "local")


def experiment_on(local: Path, strategies: list[Any], **changes: Any) -> Experiment:
    """One topic of the local web."""
    table = {**TABLE, "topics": {"split": "all", "count": 1}, "tasks": ["from examples"], "strategies": strategies}
    return msgspec.structs.replace(from_table({**table, **changes}), webs=(Web(str(local)),))


def test_a_listing_shows_why_pages_were_taken(local: Path, tmp_path: Path) -> None:
    """The pages are those of the record, each with its strongest reasons; nothing better was queued when it was
    taken, and to look does not change the crawl."""
    experiment = experiment_on(local, ["evidence", "best-first"], judge=BAYES)
    run_experiment(experiment, tmp_path, workers=1)
    for strategy in ("evidence", "best-first"):
        found = list_run(experiment, tmp_path, [f"strategy={strategy}"])
        assert found.recorded
        assert len(found.pages) == 60
        assert {page.truth for page in found.pages} == {"", "target", "example"}
        explained = [page for page in found.pages if page.parts]
        assert bool(explained) == (strategy == "evidence")
        for page in explained:
            sizes = [abs(value) for value in page.parts.values()]
            assert len(sizes) <= SHOWN_PARTS
            assert sizes == sorted(sizes, reverse=True)
        for page in found.pages:
            shown = page.place <= FIRST_STEPS or page.place % EVERY_STEPS == 0
            assert (0 < len(page.queued) <= SHOWN_QUEUED) == shown
            assert page.priority is not None
            assert all(other.priority <= page.priority for other in page.queued)


def test_a_run_that_is_not_in_the_folder_is_simulated(local: Path, tmp_path: Path) -> None:
    """It says that the folder does not hold it, and writes nothing there."""
    found = list_run(experiment_on(local, ["breadth-first"]), tmp_path / "none", ["topic=*"])
    assert not found.recorded
    assert len(found.pages) == 60
    assert not (tmp_path / "none").exists()


def test_a_real_crawl_shows_what_its_record_has(local: Path, tmp_path: Path) -> None:
    """Pages, truth and judgements, but no priorities; without a record there is nothing to show."""
    strategies = [{"strategy": "best-first", "judge": BAYES, "real": True}]
    experiment = experiment_on(local, strategies, budget={"pages": 15})
    with pytest.raises(InputError, match="real crawl is not there"):
        list_run(experiment, tmp_path, ["repeat=0"])
    run_experiment(experiment, tmp_path, workers=1)
    found = list_run(experiment, tmp_path, ["repeat=0"])
    assert found.real
    assert len(found.pages) == 15
    assert all(page.priority is None and not page.queued for page in found.pages)
    assert max(page.relevance for page in found.pages) > 0
