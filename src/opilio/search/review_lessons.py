"""What was judged in a review becomes something to learn from."""

from __future__ import annotations

from opilio.learn.feedback import refuse, take
from opilio.search.review import list_verdicts
from opilio.search.review_groups import NO, YES
from opilio.store import Store
from opilio.topics import find_topic, hierarchy_of

_TAKEN = "SELECT kcid FROM pages WHERE oid = $1 AND relevance >= 0.5"


def learn_review(store: Store, topic: str) -> dict[str, int]:
    """Make examples of the pages that were judged relevant, and counter-examples of the others; how many of each.

    A page that a topic below the reviewed one took becomes an example of that one: the reviewer did not say otherwise.
    In a review of a root that has topics, a page that none of them took teaches none.
    """
    records = store.load_topics()
    hierarchy, kcid = hierarchy_of(records), find_topic(records, topic).kcid
    below, counts = hierarchy.below(kcid), {YES: 0, NO: 0}
    for page in list_verdicts(store, topic):
        if page["verdict"] == YES:
            rows = store.query(_TAKEN, [page["oid"]]).rows
            learns = rows[0][0] if rows and rows[0][0] in below else kcid
            if learns == hierarchy.start:  # the root has topics: which of them it is about, the reviewer did not say
                continue
            take(store, hierarchy, learns, page["url"], page["oid"])
        elif page["verdict"] == NO:
            refuse(store, hierarchy, kcid, page["url"], page["oid"])
        if page["verdict"] in counts:
            counts[page["verdict"]] += 1
    return counts
