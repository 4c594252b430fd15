"""Settings of learning that can be found wrong before anything is fetched."""

from __future__ import annotations

from opilio.classify import CLASSIFIERS
from opilio.errors import SettingsError
from opilio.features import make_space
from opilio.settings import Settings

SVM = "svm"  # the classifier that looks at feature spaces


def check_settings(settings: Settings) -> None:
    """Refuse a classifier or a feature space that there is not."""
    classify = settings.classify
    CLASSIFIERS.get(classify.classifier)
    if classify.classifier == SVM:
        if not classify.spaces:
            raise SettingsError("[classify] spaces: no feature space", 'For example: spaces = ["terms", "pairs"]')
        for spec in classify.spaces:
            make_space(spec, classify)
