"""A crawl in a process that is made to be killed; apart from the tests, so that the process loads no more than it needs."""

import os

from opilio import Collection


def crawl(folder: str) -> None:
    """Crawl as the first process of a group, with which its workers can be killed."""
    os.setsid()
    Collection(folder).crawl()
