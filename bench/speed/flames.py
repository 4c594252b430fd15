"""Draws a flame graph: where a process of a crawl spends its time, as one small SVG without scripts or paths.

    py-spy record --native -f raw -o worker.raw -p PID
    python -m bench.speed.flames worker.raw worker.svg [--title "A worker"] [--from PATTERN]

py-spy writes one line for each stack that it saw, and how often. Samples in which a thread only waits are left out. Of
frames in C the library is shown; imports are one frame, for what is below them says little. With `--from`, a stack
begins at the outermost frame that matches the pattern, and what has none is one frame, `other`.
"""

from __future__ import annotations

import argparse
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

WIDTH, ROW = 1200, 16
CHAR_WIDTH = 6.2
MAX_DEPTH = 24
WAITS = re.compile(r"SimpleQueue_get|epoll_p?wait[^;]*$")
FRAME = re.compile(r"(.+?) \((.+?)(?::\d+)?\)$")
LIBRARIES = ("turbohtml", "duckdb", "curl", "numpy", "arrow", "msgspec", "ada")
SOURCES = ("opilio/", "asyncio/", "pycurl/")


@dataclass
class Node:
    """A frame below the same frames, and how often it was seen."""

    samples: int = 0
    below: dict[str, Node] = field(default_factory=dict)


def frames_of(stack: str) -> Iterator[str]:
    """The frames of a stack as they are shown, outermost first."""
    last = ""
    for frame in stack.split(";"):
        found = FRAME.match(frame)
        if found is None:
            continue
        name, where = found.groups()
        if "importlib" in where:
            yield "imports"
            return
        if where.endswith(".py"):
            place = next((where[where.rindex(one) :] for one in SOURCES if one in where), Path(where).name)
            shown = f"{name} ({place})"
        elif "gc_collect" in name:
            shown = "[garbage collector]"
        else:
            shown = next((f"[{one}]" for one in LIBRARIES if one in where), "")
        if shown and shown != last:
            yield shown
            last = shown


def read(path: Path, start: str) -> Node:
    """The tree of all stacks."""
    top = Node()
    for line in path.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        if WAITS.search(stack):
            continue
        frames = list(frames_of(stack))
        if start and frames[-1:] != ["imports"]:
            begin = next((place for place, frame in enumerate(frames) if re.search(start, frame)), -1)
            frames = frames[begin:] if begin >= 0 else ["other"]
        node = top
        node.samples += int(count)
        for frame in frames[-1:] if frames[-1:] == ["imports"] else frames[:MAX_DEPTH]:
            node = node.below.setdefault(frame, Node())
            node.samples += int(count)
    return top


def boxes(
    node: Node, total: int, least: float, x: float = 0.0, depth: int = 0
) -> Iterator[tuple[float, int, str, float]]:
    """Place, depth, frame and share of every frame that has at least `least` of all samples."""
    for frame, below in sorted(node.below.items(), key=lambda item: -item[1].samples):
        share = below.samples / total
        if share >= least:
            yield x, depth, frame, share
            yield from boxes(below, total, least, x, depth + 1)
        x += share


def colour(frame: str) -> str:
    """Blue for libraries in C, orange for the analysis, yellow for the rest."""
    shade = sum(map(ord, frame)) % 30
    if frame.startswith("["):
        return f"rgb({130 + shade},{165 + shade},220)"
    return f"rgb(235,{150 + shade},80)" if "analyze" in frame else f"rgb(240,{200 + shade},{120 + shade})"


def draw(top: Node, title: str, least: float) -> str:
    """The graph, callers above what they call."""
    placed = list(boxes(top, top.samples, least))
    height = (max(depth for _, depth, _, _ in placed) + 1) * ROW + 36
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace"',
        ' font-size="10">',
        f'<title>{html.escape(title)}</title><rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="4" y="18" font-size="13">{html.escape(title)}</text>',
    ]
    for x, depth, frame, share in placed:
        left, top_px, width, room = x * WIDTH, 28 + depth * ROW, share * WIDTH, int(share * WIDTH / CHAR_WIDTH)
        label = frame if len(frame) <= room else frame[: room - 1] + "…" if room > 4 else ""
        parts.append(
            f"<g><title>{html.escape(frame)}: {share:.1%}</title>"
            f'<rect x="{left:.1f}" y="{top_px}" width="{max(width - 0.5, 0.5):.1f}" height="{ROW - 1}" '
            f'fill="{colour(frame)}"/><text x="{left + 3:.1f}" y="{top_px + 11}">{html.escape(label)}</text></g>'
        )
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", type=Path)
    parser.add_argument("svg", type=Path)
    parser.add_argument("--title", default="")
    parser.add_argument("--from", dest="start", default="")
    parser.add_argument("--least", type=float, default=0.005, help="leave out what has a smaller share")
    options = parser.parse_args()
    options.svg.write_text(draw(read(options.raw, options.start), options.title, options.least))


if __name__ == "__main__":
    main()
