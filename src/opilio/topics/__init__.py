"""What the crawl looks for: a tree of topics behind every form of input.

A *topic* has a name, keywords, seeds and *examples*, and a place in the tree; its number is its `kcid`, the root's is
0. Folders of a bookmark file become topics and their bookmarks seeds and examples (`bookmarks.py`); a taxonomy file
says all this by hand (`taxonomy.py`); plain lists of URLs and files are about the root (`seeds.py`, `examples.py`), and
so are the words of a query, which are a virtual example. Each topic has its own queue in the frontier.

The user marks topics *good*; what the others are follows from it (`hierarchy.py`). Once stored, topics are records
(`records.py`), which pure functions change (`changes.py`). What no topic takes is in *OTHERS*, about which classifiers
learn from everyday documents that come with Opilio (`others.py`).

A tree never holds two topics of the same path, every topic but the root has a parent, and none below a good topic is
good.
"""

from opilio.topics.bookmarks import read_bookmarks
from opilio.topics.changes import (
    Change,
    Merge,
    add_topic,
    mark_topic,
    merge_tree,
    move_topic,
    remove_topic,
    rename_topic,
)
from opilio.topics.examples import add_example, drop_example, parse_example, read_examples
from opilio.topics.hierarchy import Hierarchy, Mark
from opilio.topics.inputs import query_topic, read_seeds
from opilio.topics.others import OthersDocument, default_others, read_others
from opilio.topics.records import TopicRecord, find_topic, hierarchy_of, records_of, tree_of
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
    "default_others",
    "drop_example",
    "find_topic",
    "hierarchy_of",
    "mark_topic",
    "merge_tree",
    "move_topic",
    "parse_example",
    "query_topic",
    "read_bookmarks",
    "read_examples",
    "read_others",
    "read_seeds",
    "read_taxonomy",
    "records_of",
    "remove_topic",
    "rename_topic",
    "tree_of",
    "write_taxonomy",
]
