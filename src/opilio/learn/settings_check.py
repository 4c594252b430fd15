"""Settings of learning that can be found wrong before anything is fetched.

Classifiers are loaded only when they must be: a crawl with the defaults, which are right, or one that learns nothing
starts without them.
"""

from __future__ import annotations

from opilio.errors import SettingsError
from opilio.settings import ClassifySettings, Settings

SVM = "svm"  # the classifier that uses feature spaces


def check_settings(settings: Settings) -> None:
    """Refuse a classifier or a feature space that does not exist."""
    classify = settings.classify
    if classify == ClassifySettings():
        return
    from opilio.classify import CLASSIFIERS  # noqa: PLC0415
    from opilio.features import make_space  # noqa: PLC0415

    CLASSIFIERS.get(classify.classifier)
    if classify.classifier == SVM:
        if not classify.spaces:
            raise SettingsError("[classify] spaces: no feature space", 'For example: spaces = ["terms", "pairs"]')
        for spec in classify.spaces:
            make_space(spec, classify)


def check_guard(settings: Settings) -> None:
    """Refuse a guard that cannot work with the classifier."""
    if settings.learn.guard != "xi-alpha":
        return
    from opilio.classify import CLASSIFIERS  # noqa: PLC0415

    classifier = settings.classify.classifier
    if not hasattr(CLASSIFIERS.get(classifier), "estimates"):
        raise SettingsError(
            f'[learn] guard = "xi-alpha": the classifier {classifier!r} expects nothing of itself',
            'Set learn.guard = "held-out", or use the classifier svm.',
        )
