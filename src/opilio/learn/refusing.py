"""Counter-examples among the stored pages: what the user denies of them holds, whatever a model says.

A counter-example of a topic is in OTHERS beside it (`Example.positive`): neither the topic has it, nor one that
competes with it. So a page that a model puts there anyway stays above them: in their parent, or in OTHERS.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Self

import msgspec

from opilio.model import Judgement
from opilio.store import Store
from opilio.topics import hierarchy_of
from opilio.topics.hierarchy import ROOT, Hierarchy


@dataclass(frozen=True)
class Refused:
    """The stored pages of which the user says what they are not about."""

    parents: Mapping[int, frozenset[int]]
    """By oid: the nodes of which no topic below has the page."""
    hierarchy: Hierarchy

    @classmethod
    def of(cls, store: Store, examples: Collection[int]) -> Self:
        """Those of a collection; the pages that are `examples` are not among them."""
        hierarchy = hierarchy_of(store.load_topics())
        found: dict[int, frozenset[int]] = {}
        for record in store.load_training():
            if record.positive or record.oid is None or record.oid in examples or record.kcid not in hierarchy.nodes:
                continue
            above = max(hierarchy.nodes[record.kcid].parent, hierarchy.start)
            found[record.oid] = found.get(record.oid, frozenset()) | {above}
        return cls(found, hierarchy)

    def overrule(self, oid: int, said: Judgement) -> Judgement:
        """A judgement, unless it says what the user denies."""
        denied = self.parents.get(oid)
        if not denied or not said.accepted:
            return said
        line = self.hierarchy.line(said.topic)
        above = next((kcid for kcid in line if self.hierarchy.nodes[kcid].parent in denied), None)
        if above is None:
            return said
        parent = self.hierarchy.nodes[above].parent
        stays = parent != self.hierarchy.start
        relevance = said.relevance if self.hierarchy.is_wanted(parent) else 0.0
        return msgspec.structs.replace(said, topic=max(parent, ROOT), accepted=stays, relevance=relevance)
