"""Old name of `opilio.lab`: what the documentation named here, for this release."""

import warnings

from opilio.lab.experiments import Analysed, analyse
from opilio.lab.webs import RecordedTransport, RecordedWeb, Serving, record

__all__ = ["Analysed", "RecordedTransport", "RecordedWeb", "Serving", "analyse", "record"]

warnings.warn("opilio.evaluate is now opilio.lab.webs and opilio.lab.experiments", FutureWarning, stacklevel=2)
