"""Settings of learning that can be found wrong before anything is fetched."""

from __future__ import annotations

from opilio.errors import SettingsError
from opilio.settings import Classify, Settings

SVM = "svm"  # the classifier that looks at feature spaces


def check_settings(settings: Settings) -> None:
    """Refuse a classifier or a feature space that there is not."""
    classify = settings.classify
    if classify == Classify():  # the defaults are right, and a crawl that learns nothing need not load a classifier
        return
    from opilio.classify import CLASSIFIERS  # noqa: PLC0415
    from opilio.features import make_space  # noqa: PLC0415

    CLASSIFIERS.get(classify.classifier)
    if classify.classifier == SVM:
        if not classify.spaces:
            raise SettingsError("[classify] spaces: no feature space", 'For example: spaces = ["terms", "pairs"]')
        for spec in classify.spaces:
            make_space(spec, classify)
