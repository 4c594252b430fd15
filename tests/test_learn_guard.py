"""The guard: a model that archetypes made worse is refused, one that they made better or no worse is not."""

import dataclasses
import math

import pytest

from learn_webs import OTHERS, documents, hierarchy
from opilio.classify import Example, TrainingSet
from opilio.errors import SettingsError
from opilio.learn import GuardVerdict, Trial, check_guard, try_in_process, try_out
from opilio.settings import Settings, override

HELD_OUT = Settings()


def trial(own: list[Example], archetypes: list[Example], *names: str) -> Trial:
    before = TrainingSet(hierarchy(*(names or ("Owls",))), tuple(own), OTHERS)
    after = dataclasses.replace(before, examples=(*own, *archetypes))
    return Trial(before, after, frozenset((one.kcid, one.name) for one in archetypes))


OWLS = documents(1, "owl", 6, owl=0.2)
BETS = documents(1, "bet", 6, positive=False, casino=0.1)
SPAM = documents(1, "spam", 20, owl=0.1, casino=0.6)


@pytest.mark.parametrize("classifier", ["svm", "bayes"])
def test_more_of_the_same_is_accepted(classifier: str) -> None:
    """Pages that are about the topic make no model worse: it is accepted, and a model comes of it."""
    settings = override(HELD_OUT, {"classify.classifier": classifier})
    verdict, trained = try_out(trial(OWLS, documents(1, "more", 12, owl=0.3)), settings, 2)
    assert verdict.accepted
    assert trained is not None
    assert (trained.version, trained.documents) == (2, 18)
    assert verdict.documents == 6
    assert verdict.after >= verdict.before - 0.02


def test_pages_that_pretend_are_refused() -> None:
    """Pages of casinos that mention owls drown the examples: the guard sees it, and says by how much."""
    verdict, trained = try_out(trial([*OWLS, *BETS], SPAM), HELD_OUT, 2)
    assert not verdict.accepted
    assert trained is None
    assert verdict.before > 0.95
    assert verdict.after < verdict.before - 0.02
    assert f"{verdict.before:.3f} before, {verdict.after:.3f} with them" in str(verdict)


def test_one_bad_topic_does_not_take_the_others_with_it() -> None:
    """The archetypes of the topic that fell are left out; the model has those of the other."""
    good = documents(2, "more rivers", 8, river=0.3)
    bad = SPAM
    own = [*OWLS, *BETS, *documents(2, "river", 6, river=0.3)]
    verdict, trained = try_out(trial(own, [*good, *bad], "Owls", "Rivers"), HELD_OUT, 2)
    assert verdict.accepted
    assert list(verdict.left_out) == [1]
    before, after = verdict.left_out[1]
    assert after < before
    assert trained is not None
    assert trained.documents == len(own) + len(good)


def test_the_estimate_of_the_classifier_does_not_see_it() -> None:
    """Why xi-alpha is not the default: archetypes that agree with each other raise what a classifier expects of itself."""
    settings = override(HELD_OUT, {"learn.guard": "xi-alpha"})
    verdict, trained = try_out(trial([*OWLS, *BETS], SPAM), settings, 2)
    assert verdict.accepted
    assert verdict.after > verdict.before
    assert trained is not None
    worse, _ = try_out(Trial(trial(OWLS, SPAM).after, trial(OWLS, []).after, frozenset()), settings, 2)
    assert not worse.accepted, "an estimate that falls is seen"


def test_no_guard_compares_nothing() -> None:
    """With `off` whatever was found is learned."""
    verdict, trained = try_out(trial([*OWLS, *BETS], SPAM), override(HELD_OUT, {"learn.guard": "off"}), 2)
    assert verdict == GuardVerdict(accepted=True, guard="off")
    assert math.isnan(verdict.before)
    assert trained is not None


def test_with_one_example_only_what_is_refused_can_be_asked() -> None:
    """The only example of a topic cannot be held out: what is compared is whether strange documents are taken."""
    verdict, _ = try_out(trial(OWLS[:1], documents(1, "more", 6, owl=0.3)), HELD_OUT, 2)
    assert verdict.documents == 0
    assert verdict.accepted
    shares = [verdict.before * len(OTHERS), verdict.after * len(OTHERS)]
    assert shares == pytest.approx([round(share) for share in shares]), "shares of the texts of OTHERS alone"


def test_a_guard_that_cannot_work_is_refused_at_once() -> None:
    """bayes and oasis expect nothing of themselves: xi-alpha has nothing to compare."""
    check_guard(override(Settings(), {"learn.guard": "xi-alpha"}))
    for classifier in ("bayes", "oasis"):
        with pytest.raises(SettingsError, match="expects nothing of itself"):
            check_guard(override(Settings(), {"learn.guard": "xi-alpha", "classify.classifier": classifier}))


def test_the_same_in_a_process_of_its_own() -> None:
    """Beside the engine the verdict is the same, to the last bit, and so is the model."""
    asked = trial(OWLS[:4], documents(1, "more", 3, owl=0.3))
    settings = override(HELD_OUT, {"classify.classifier": "bayes"})
    started: list[int] = []
    verdict, trained = try_in_process(asked, settings, 7, lambda process: started.append(process.pid))
    here, same = try_out(asked, settings, 7)
    assert len(started) == 1
    assert verdict == here
    assert trained is not None
    assert same is not None
    assert trained.model == same.model
