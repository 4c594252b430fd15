"""One TOML file per collection, read into frozen dataclasses. An unknown key is an error that names the nearest one.

Every setting has its default in `sections.py`, with its unit in its name and its meaning in the comment above it; the
reference page of the settings is made from that file (docs/generate.py). `reading.py` has the ways in and out, and
`checking.py` what is wrong with a value.
"""

from opilio.settings.files import FILE_NAME, from_table, load, override, parse_assignment, to_toml
from opilio.settings.sections import (
    GIB,
    KIB,
    MIB,
    ClassifySettings,
    DocumentSettings,
    DuplicateSettings,
    FederationSettings,
    FetchSettings,
    FrontierSettings,
    LearnSettings,
    LimitSettings,
    OasisSettings,
    RobotsSettings,
    RunSettings,
    ScopeSettings,
    SearchSettings,
    Settings,
    StoreSettings,
    TrapSettings,
)

__all__ = [
    "FILE_NAME",
    "GIB",
    "KIB",
    "MIB",
    "ClassifySettings",
    "DocumentSettings",
    "DuplicateSettings",
    "FederationSettings",
    "FetchSettings",
    "FrontierSettings",
    "LearnSettings",
    "LimitSettings",
    "OasisSettings",
    "RobotsSettings",
    "RunSettings",
    "ScopeSettings",
    "SearchSettings",
    "Settings",
    "StoreSettings",
    "TrapSettings",
    "from_table",
    "load",
    "override",
    "parse_assignment",
    "to_toml",
]
