"""Topics: what the crawl looks for, as a tree, whatever the user gave it to start from.

A *topic* has a name, keywords, seeds, *examples* and a place in the tree (`tree.py`). Its number is its `kcid`; the
root's is 0. Each topic has its own queue in the frontier. The tree is made from what the user gives (`inputs.py`):

- bookmarks: folders become topics, their bookmarks seeds and examples (`inputs.py`);
- a taxonomy file, which spells the tree out (`taxonomy.py`, `taxonomy_syntax.py`, `taxonomy_yaml.py`);
- plain lists of URLs and files, which belong to the root (`inputs.py`, `examples.py`);
- a query, whose words become a virtual example of the root.

The user marks topics *good*; all other marks follow from these (`hierarchy.py`). In the database topics are records
(`records.py`), and pure functions compute changes to them (`changes.py`). A page that no topic accepts is in *OTHERS*;
classifiers learn OTHERS from everyday documents that come with Opilio (`others.py`).

Invariants: paths are unique, every topic but the root has a parent, and no topic below a good one is good.
"""

from opilio.topics.changes import (
    Change,
    Merge,
    add_topic,
    describe_marks,
    mark_topic,
    merge_tree,
)
from opilio.topics.examples import add_example, drop_example, parse_example, read_examples
from opilio.topics.hierarchy import Hierarchy, Mark
from opilio.topics.inputs import bookmark_folders, query_topic, read_bookmarks, read_seeds
from opilio.topics.others import OthersDocument, default_others, read_others
from opilio.topics.records import TopicRecord, find_topic, hierarchy_of, records_of
from opilio.topics.taxonomy import read_taxonomy, write_taxonomy
from opilio.topics.tree import ExampleKind, Seed, Topic, TopicTree, TrainingInput

__all__ = [
    "Change",
    "ExampleKind",
    "Hierarchy",
    "Mark",
    "Merge",
    "OthersDocument",
    "Seed",
    "Topic",
    "TopicRecord",
    "TopicTree",
    "TrainingInput",
    "add_example",
    "add_topic",
    "bookmark_folders",
    "default_others",
    "describe_marks",
    "drop_example",
    "find_topic",
    "hierarchy_of",
    "mark_topic",
    "merge_tree",
    "parse_example",
    "query_topic",
    "read_bookmarks",
    "read_examples",
    "read_others",
    "read_seeds",
    "read_taxonomy",
    "records_of",
    "write_taxonomy",
]
