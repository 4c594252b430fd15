"""What the crawl looks for: a tree of topics behind every form of input.

A *topic* has a name, keywords and seeds, and a place in the tree; its number is its `kcid`, the root's is 0. Folders of
a bookmark file become topics and their bookmarks seeds (`bookmarks.py`); a plain list of URLs seeds the root; the
words of a query are the root's keywords (`seeds.py`). Each topic has its own queue in the frontier.

A tree never holds two topics of the same path, and every topic but the root has a parent that comes before it.
"""

from opilio.topics.bookmarks import read_bookmarks
from opilio.topics.seeds import query_topic, read_seeds
from opilio.topics.tree import Seed, Topic, TopicTree

__all__ = ["Seed", "Topic", "TopicTree", "query_topic", "read_bookmarks", "read_seeds"]
