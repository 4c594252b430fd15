"""The settings of a collection: one TOML file, crawl.toml, read into frozen dataclasses.

`sections.py` declares every setting with its default, its unit in its name and its meaning in the comment above it; the
reference page is generated from it. `systems.py` has the values that make a paper's system. `files.py` reads settings
from files, tables and the command line, checks them and writes them. An unknown name is an error that suggests the
nearest one.
"""

from opilio.settings.files import (
    FILE_NAME,
    current_names,
    defaults_of,
    differences,
    from_table,
    load,
    override,
    own_settings,
    parse_assignment,
    to_toml,
)
from opilio.settings.sections import (
    GIB,
    KIB,
    MIB,
    RENAMED,
    ClassifySettings,
    DocumentSettings,
    DuplicateSettings,
    FederationSettings,
    FetchSettings,
    FrontierSettings,
    LearnSettings,
    LimitSettings,
    OasisSettings,
    RevisitSettings,
    RobotsSettings,
    RunSettings,
    ScopeSettings,
    SearchSettings,
    Settings,
    StoreSettings,
    TrapSettings,
)
from opilio.settings.systems import SYSTEMS, System

__all__ = [
    "FILE_NAME",
    "GIB",
    "KIB",
    "MIB",
    "RENAMED",
    "SYSTEMS",
    "ClassifySettings",
    "DocumentSettings",
    "DuplicateSettings",
    "FederationSettings",
    "FetchSettings",
    "FrontierSettings",
    "LearnSettings",
    "LimitSettings",
    "OasisSettings",
    "RevisitSettings",
    "RobotsSettings",
    "RunSettings",
    "ScopeSettings",
    "SearchSettings",
    "Settings",
    "StoreSettings",
    "System",
    "TrapSettings",
    "current_names",
    "defaults_of",
    "differences",
    "from_table",
    "load",
    "override",
    "own_settings",
    "parse_assignment",
    "to_toml",
]
