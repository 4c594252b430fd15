"""Documents to judgements: which topic a page fits best, and how well.

So far one judge: the words that name the topics, compared with the page (`keywords.py`). It needs no training, runs in
the workers, and is what Best-N-First steers by in its paper.
"""

from opilio.classify.keywords import KeywordJudge

__all__ = ["KeywordJudge"]
