"""The small local web as a recorded one, and a small experiment on it."""

from pathlib import Path
from typing import Any

from evaluate_webs import make_web, page, redirect
from opilio.localweb import build

TABLE: dict[str, Any] = {
    "name": "tiny",
    "webs": ["local"],
    "tasks": ["from examples", "from neighbours"],
    "topics": {"split": "all", "count": 3},
    "budget": {"pages": 60},
    "strategies": [
        "bfs1",
        {"strategy": "breadth-first"},
        {"strategy": "best-first", "label": "by labels", "judge": "truth"},
    ],
    "measures": {
        "curves": ["recall", "harvest", "static lexical", "dynamic linkage"],
        "table": ["recall@20", "recall", "auc"],
        "points": 5,
        "top": [5, 20],
    },
}


def record_local(folder: Path) -> Path:
    """Record the small local web, with its topics as labels."""
    web = build("small")
    answers = [page(one.url, one.body, (one.topic,) if one.topic else ()) for one in web.pages.values()]
    answers += [redirect(url, target) for url, (_, target) in web.redirects.items() if url not in web.pages]
    make_web(folder, answers)
    return folder
