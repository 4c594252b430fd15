"""A canvas: smooth shapes on an array of pixels, written as PNG.

Coordinates are in units of the picture's height: y goes from 0 (top) to 1 (bottom), x from 0 to `width / height`. The
same drawing so has any size. Edges are smooth because each shape is blended by how much of a pixel it covers.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Colour = tuple[float, float, float]
Point = tuple[float, float]
Points = Sequence[Point] | npt.NDArray[np.float64]
_PATCH_STEP_PX = 3  # between two patches of a line: fewer patches, or smaller ones
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def colour(text: str) -> Colour:
    """The colour of `#rrggbb`."""
    return int(text[1:3], 16) / 255, int(text[3:5], 16) / 255, int(text[5:7], 16) / 255


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """`first` with a share of `second`."""
    red, green, blue = (a + (b - a) * share for a, b in zip(first, second, strict=True))
    return red, green, blue


def curve(points: Points, steps: int = 10, *, closed: bool = False) -> npt.NDArray[np.float64]:
    """A smooth line through `points` (a Catmull-Rom spline), as many short straight ones."""
    knots = np.asarray(points, dtype=np.float64)
    ends = (knots[-1:], knots[:2]) if closed else (knots[:1], knots[-1:])
    knots = np.concatenate([ends[0], knots, ends[1]])
    t = np.linspace(0, 1, steps, endpoint=False)[:, None]
    a, b, c, d = (knots[place : len(knots) - 3 + place, None] for place in range(4))
    line = 0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3)
    return np.concatenate([line.reshape(-1, 2), knots[-2:-1]])


def ellipse(x: float, y: float, rx: float, ry: float, turn: float = 0.0) -> npt.NDArray[np.float64]:
    """The outline of an ellipse, turned by an angle."""
    angle = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    u, v = rx * np.cos(angle), ry * np.sin(angle)
    return np.stack([x + u * np.cos(turn) - v * np.sin(turn), y + u * np.sin(turn) + v * np.cos(turn)], axis=1)


def _numbered(counts: npt.NDArray[np.int_]) -> tuple[npt.NDArray[np.int_], npt.NDArray[np.int_]]:
    """For counts (2, 3): whose each is (0, 0, 1, 1, 1), and its number there (0, 1, 0, 1, 2)."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


class Canvas:
    """An opaque picture under way."""

    def __init__(self, width_px: int, height_px: int, paper: Colour) -> None:
        self.width_px, self.height_px = width_px, height_px
        self.width = width_px / height_px
        self.pixels = np.empty((height_px, width_px, 3), dtype=np.float32)
        self.pixels[:] = paper

    def sky(self, *colours: Colour) -> None:
        """Fill the picture from top to bottom with `colours`, each melting into the next."""
        place = np.linspace(0, len(colours) - 1, self.height_px)
        for channel in range(3):
            column = np.interp(place, range(len(colours)), [each[channel] for each in colours])
            self.pixels[:, :, channel] = column[:, None]

    def fill(self, outline: Points, paint: Colour, opacity: float = 1.0) -> None:
        """A filled polygon: each edge adds what it covers of its rows to all pixels on its right."""
        x0, y0 = (np.asarray(outline, dtype=np.float64) * self.height_px).T
        x1, y1 = np.roll(x0, -1), np.roll(y0, -1)
        low, high = np.minimum(y0, y1).clip(0), np.maximum(y0, y1).clip(None, self.height_px)
        inside = low < high
        if not inside.any():
            return
        x0, y0, x1, y1, low, high = (values[inside] for values in (x0, y0, x1, y1, low, high))
        # An edge is cut at every row it passes, and there into pieces no wider than a pixel.
        first = np.floor(low).astype(int)
        edge, step = _numbered(np.ceil(high).astype(int) - first)
        row = first[edge] + step
        top, bottom = np.maximum(row, low[edge]), np.minimum(row + 1, high[edge])
        slope = ((x1 - x0) / (y1 - y0))[edge]
        enter, leave = x0[edge] + (top - y0[edge]) * slope, x0[edge] + (bottom - y0[edge]) * slope
        count = np.ceil(np.abs(leave - enter)).clip(1).astype(int)
        piece, step = _numbered(count)
        at = (enter[piece] + (leave - enter)[piece] * (step + 0.5) / count[piece]).clip(0, self.width_px)
        weight = ((bottom - top) * np.sign(y1 - y0)[edge] / count)[piece]
        left, right = int(at.min()), min(int(at.max()) + 2, self.width_px + 1)
        rows, columns = slice(int(row.min()), int(row.max()) + 1), right - left + 2
        cell = (row[piece] - rows.start) * columns + np.floor(at).astype(int) - left
        share = at - np.floor(at)
        size = (rows.stop - rows.start) * columns
        cover = np.bincount(cell, weight * (1 - share), size) + np.bincount(cell + 1, weight * share, size + 1)[:size]
        cover = np.abs(cover.reshape(-1, columns).cumsum(axis=1))[:, : self.width_px - left].clip(0, 1)
        self._blend(left, rows.start, cover, paint, opacity)

    def disc(self, x: float, y: float, radius: float, paint: Colour, opacity: float = 1.0) -> None:
        """A filled circle."""
        box = self._box(x, y, x, y, radius)
        if box is not None:
            left, top, xs, ys = box
            distance = np.hypot(xs - x * self.height_px, ys - y * self.height_px)
            self._blend(left, top, np.clip(radius * self.height_px - distance + 0.5, 0, 1), paint, opacity)

    def dots(self, dots: Sequence[tuple[float, float, float, float]], paint: Colour) -> None:
        """Many small circles of one colour: x, y, radius, opacity of each."""
        x, y, radius, opacity = np.asarray(dots, dtype=np.float64).T
        self._draw_segments(np.stack([x, y, x, y], axis=1), 2 * radius, opacity, paint)

    def ring(self, x: float, y: float, radius: float, width: float, paint: Colour, opacity: float = 1.0) -> None:
        """A circle's line."""
        box = self._box(x, y, x, y, radius + width)
        if box is not None:
            left, top, xs, ys = box
            distance = np.abs(np.hypot(xs - x * self.height_px, ys - y * self.height_px) - radius * self.height_px)
            self._blend(left, top, np.clip(width * self.height_px / 2 - distance + 0.5, 0, 1), paint, opacity)

    def stroke(
        self, points: Points, width: float, paint: Colour, opacity: float = 1.0, *, end_width: float | None = None
    ) -> None:
        """A line through `points` with round ends; it thins to `end_width`."""
        line = np.asarray(points, dtype=np.float64)
        segments = np.concatenate([line[:-1], line[1:]], axis=1)
        widths = np.linspace(width, width if end_width is None else end_width, len(segments))
        self._draw_segments(segments, widths, np.full(len(segments), opacity), paint)

    def strokes(self, lines: Sequence[Points], width: float, paint: Colour, opacity: float = 1.0) -> None:
        """Many lines of one width and colour; where they cross, no line shines through another."""
        pieces = [np.asarray(line, dtype=np.float64) for line in lines]
        segments = np.concatenate([np.concatenate([line[:-1], line[1:]], axis=1) for line in pieces])
        self._draw_segments(segments, np.full(len(segments), width), np.full(len(segments), opacity), paint)

    def glow(self, x: float, y: float, radius: float, paint: Colour, opacity: float = 1.0) -> None:
        """Light around a point, fading out."""
        box = self._box(x, y, x, y, radius)
        if box is not None:
            left, top, xs, ys = box
            near = np.clip(
                1 - np.hypot(xs - x * self.height_px, ys - y * self.height_px) / (radius * self.height_px), 0, 1
            )
            self._blend(left, top, near * near, paint, opacity)

    def png(self) -> bytes:
        """The picture as a PNG file; each row is stored as its difference from the row above, which packs well."""
        rows = np.clip(self.pixels * 255 + 0.5, 0, 255).astype(np.uint8).reshape(self.height_px, -1)
        above = np.vstack([np.zeros_like(rows[:1]), rows[:-1]])
        marked = np.empty((self.height_px, rows.shape[1] + 1), dtype=np.uint8)
        marked[:, 0] = 2  # the filter named Up
        marked[:, 1:] = rows - above
        head = struct.pack(">IIBBBBB", self.width_px, self.height_px, 8, 2, 0, 0, 0)
        parts = (b"IHDR", head), (b"IDAT", zlib.compress(marked.tobytes(), 4)), (b"IEND", b"")
        return _SIGNATURE + b"".join(
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
            for kind, data in parts
        )

    def _draw_segments(
        self,
        segments: npt.NDArray[np.float64],
        widths: npt.NDArray[np.float64],
        opacities: npt.NDArray[np.float64],
        paint: Colour,
    ) -> None:
        """Lines from (x, y) to (x, y): patches of pixels along each, covered by how near the line is."""
        x0, y0, x1, y1 = (segments * self.height_px).T
        thick = np.maximum(widths * self.height_px, 0.5)
        opacities = opacities * np.minimum(1.0, widths * self.height_px / thick)  # finer than half a pixel: fainter
        side = int(np.ceil(thick.max())) + _PATCH_STEP_PX + 2
        count = np.ceil(np.hypot(x1 - x0, y1 - y0) / _PATCH_STEP_PX).astype(int) + 1
        line, step = _numbered(count)
        share = step / (count - 1).clip(1)[line]
        corner_x = np.floor(x0[line] + (x1 - x0)[line] * share - side / 2).astype(int)
        corner_y = np.floor(y0[line] + (y1 - y0)[line] * share - side / 2).astype(int)
        columns, rows = corner_x[:, None, None] + np.arange(side), corner_y[:, None, None] + np.arange(side)[:, None]
        dx, dy = (x1 - x0)[line, None, None], (y1 - y0)[line, None, None]
        u, v = columns + 0.5 - x0[line, None, None], rows + 0.5 - y0[line, None, None]
        along = ((u * dx + v * dy) / np.maximum(dx * dx + dy * dy, 1e-9)).clip(0, 1)
        near = thick[line, None, None] / 2 + 0.5 - np.hypot(u - along * dx, v - along * dy)
        cover = near.clip(0, 1) * opacities[line, None, None]
        seen = (cover > 0) & (columns >= 0) & (columns < self.width_px) & (rows >= 0) & (rows < self.height_px)
        if not seen.any():
            return
        at_row, at_column = np.broadcast_to(rows, seen.shape)[seen], np.broadcast_to(columns, seen.shape)[seen]
        left, top = int(at_column.min()), int(at_row.min())
        layer = np.zeros((int(at_row.max()) - top + 1, int(at_column.max()) - left + 1))
        np.maximum.at(layer, (at_row - top, at_column - left), cover[seen])
        self._blend(left, top, layer, paint, 1.0)

    def _box(
        self, left: float, top: float, right: float, bottom: float, margin: float
    ) -> tuple[int, int, npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
        """The pixels of a region: its corner, and the middles of its columns and rows; None outside the picture."""
        size, rim = self.height_px, margin * self.height_px + 1
        x0, y0 = max(0, int(left * size - rim)), max(0, int(top * size - rim))
        x1, y1 = min(self.width_px, int(right * size + rim) + 1), min(size, int(bottom * size + rim) + 1)
        if x0 >= x1 or y0 >= y1:
            return None
        return x0, y0, np.arange(x0 + 0.5, x1)[None, :], np.arange(y0 + 0.5, y1)[:, None]

    def _blend(self, left: int, top: int, cover: npt.NDArray[np.float64], paint: Colour, opacity: float) -> None:
        rows, columns = cover.shape
        part = self.pixels[top : top + rows, left : left + columns]
        share = (cover * opacity).astype(np.float32)[:, :, None]
        part += (np.asarray(paint, dtype=np.float32) - part) * share
