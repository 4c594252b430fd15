"""Pictures of the shore web, drawn by code: one motif for each kind of thing, and no two pictures alike.

A picture is given by its motif and a seed, so it is the same on every machine. The style is that of a field book:
night scenes in a few blues, specimens on cream paper.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from opilio.lab.shore_web.canvas import Canvas, Colour, Point, colour, curve, ellipse, mix

WIDTH_PX, HEIGHT_PX = 480, 300
ICON_PX = 48
_MIDDLE = WIDTH_PX / HEIGHT_PX / 2

_INK = colour("#2b2722")
_PAPERS = [colour(text) for text in ("#f4ecd8", "#eef0e2", "#f3e6da", "#e8edf0")]
_NIGHTS = [
    [colour(text) for text in texts]
    for texts in (
        ("#0a1230", "#16275a", "#35528c"),
        ("#0d1026", "#2a2350", "#7a4a6e"),
        ("#071a24", "#0f3d4a", "#3f7f86"),
        ("#101433", "#3a3c78", "#c98a6b"),
    )
]
_STAR, _MOON, _LAMP = colour("#fdf6dc"), colour("#f6eccb"), colour("#ffd873")

Motif = Callable[[Canvas, random.Random], None]


def picture(motif: str, seed: str) -> bytes:
    """The PNG file of a motif."""
    rng = random.Random(f"{motif} {seed}")
    canvas = Canvas(WIDTH_PX, HEIGHT_PX, rng.choice(_PAPERS))
    MOTIFS[motif](canvas, rng)
    return canvas.png()


def icon(motif: str, paint: str) -> bytes:
    """The PNG file of a site's icon: the sign of a motif in white on the site's colour."""
    canvas = Canvas(ICON_PX, ICON_PX, colour(paint))
    _SIGNS[motif](canvas, colour("#fffdf4"), colour(paint))
    return canvas.png()


# -- scenery that several motifs share


def _night(canvas: Canvas, rng: random.Random, stars: int = 70) -> None:
    canvas.sky(*rng.choice(_NIGHTS))
    _stars(canvas, rng, stars)


def _stars(canvas: Canvas, rng: random.Random, count: int) -> None:
    dots = []
    for _ in range(count):
        x, y = rng.uniform(0, canvas.width), rng.uniform(0, 0.9)
        dots.append((x, y, rng.choice((0.002, 0.0025, 0.004)), rng.uniform(0.35, 1) * (1.05 - y)))
    canvas.dots(dots, _STAR)


def _moon(canvas: Canvas, x: float, y: float, radius: float, phase: float, shade: Colour) -> None:
    """A moon that is lit by a share `phase` (0 new, 1 full) from the right."""
    canvas.glow(x, y, radius * 4, _MOON, 0.35)
    canvas.disc(x, y, radius, mix(shade, _MOON, 0.14))
    angle = np.linspace(-math.pi / 2, math.pi / 2, 30)
    limb = [(x + radius * math.cos(a), y + radius * math.sin(a)) for a in angle]
    edge = radius * (1 - 2 * phase)
    canvas.fill(limb + [(x + edge * math.cos(a), y + radius * math.sin(a)) for a in angle[::-1]], _MOON)
    for dx, dy, size in ((0.35, -0.3, 0.16), (0.1, 0.25, 0.22), (0.5, 0.2, 0.1), (0.15, -0.55, 0.12)):
        if dx > 1 - 2 * phase + size:
            canvas.disc(x + dx * radius, y + dy * radius, size * radius, mix(_MOON, shade, 0.2))


def _sea(canvas: Canvas, rng: random.Random, top: float, near: Colour, far: Colour) -> None:
    """Rows of waves, the nearest at the bottom."""
    rows = 7
    for row in range(rows):
        depth = row / (rows - 1)
        level = top + (1 - top) * depth**1.3 * 0.9
        shift, waves = rng.uniform(0, 6), 14 - 9 * depth
        xs = np.linspace(0, canvas.width, 60)
        ys = level + (0.004 + 0.018 * depth) * np.sin(xs * waves + shift) * (1 + 0.3 * np.sin(xs * 2.3 + shift))
        canvas.fill(
            [(-0.1, 1.1), (-0.1, level), *zip(xs, ys, strict=True), (canvas.width + 0.1, 1.1)], mix(far, near, depth)
        )


def _ground(canvas: Canvas, rng: random.Random, level: float, paint: Colour, rough: float = 0.02) -> None:
    knots = [(x, level + rng.uniform(-rough, rough)) for x in np.linspace(-0.1, canvas.width + 0.1, 9)]
    canvas.fill([*curve(knots), (canvas.width + 0.1, 1.1), (-0.1, 1.1)], paint)


def _twig(canvas: Canvas, rng: random.Random, start: Point, end: Point, paint: Colour) -> None:
    bend = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + rng.uniform(-0.06, 0.06)
    canvas.stroke(curve([start, bend, end]), 0.028, paint, end_width=0.012)
    for share in (0.3, 0.6, 0.8):
        x, y = start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share
        side = rng.choice((-1, 1))
        _leaf(canvas, x, y, rng.uniform(0.09, 0.15), side * rng.uniform(0.7, 1.3) - math.pi / 2, colour("#6f8a4a"))


def _leaf(canvas: Canvas, x: float, y: float, length: float, turn: float, paint: Colour) -> None:
    along, across = (math.cos(turn), math.sin(turn)), (-math.sin(turn), math.cos(turn))
    sides = [(0.0, 0.0), (0.35, 0.2), (0.7, 0.14), (1.0, 0.0)]
    outline = [(u, v) for u, v in sides] + [(u, -v) for u, v in sides[-2:0:-1]]
    points = [
        (x + length * (u * along[0] + v * across[0]), y + length * (u * along[1] + v * across[1])) for u, v in outline
    ]
    canvas.fill(curve(points, closed=True), paint)
    canvas.stroke([(x, y), (x + length * 0.9 * along[0], y + length * 0.9 * along[1])], 0.004, mix(paint, _INK, 0.35))


# -- spiders and harvestmen


def _orb_web(canvas: Canvas, rng: random.Random) -> None:
    canvas.sky(*rng.choice([_NIGHTS[2], _NIGHTS[3], [colour("#31506b"), colour("#86a3a8"), colour("#f0d9b5")]]))
    dark, silk = colour("#18222b"), colour("#fbf8ee")
    _twig(canvas, rng, (-0.05, 0.98), (canvas.width + 0.05, 0.9), dark)
    _twig(canvas, rng, (canvas.width * 0.95, 1.05), (canvas.width * 0.86, -0.05), dark)
    x, y = _MIDDLE + rng.uniform(-0.15, 0.1), 0.46 + rng.uniform(-0.04, 0.04)
    spokes = rng.randint(17, 24)
    angles = [2 * math.pi * (spoke + rng.uniform(-0.2, 0.2)) / spokes for spoke in range(spokes)]
    reach = [0.42 + 0.1 * math.sin(angle) ** 2 * rng.uniform(0.4, 1) for angle in angles]
    far = [
        (x + 1.5 * length * math.cos(a), y + 1.5 * length * math.sin(a))
        for a, length in zip(angles, reach, strict=True)
    ]
    canvas.strokes([[(x, y), end] for end in far], 0.003, silk, 0.75)
    turns, threads, drops = 17, [], []
    for turn in range(2, turns + 1):
        ring: list[Point] = []
        for place in range(spokes + 1):
            angle = angles[place % spokes] + (2 * math.pi if place == spokes else 0)
            length = reach[place % spokes] * (turn + place / spokes) / (turns + 1) * rng.uniform(0.985, 1.015)
            if ring:  # the thread sags towards the middle between two spokes
                before_angle, before = ring[-1]
                inner = (before + length) / 2 * 0.955
                middle = (before_angle + angle) / 2
                knots = [(before_angle, before), (middle, inner), (angle, length)]
                threads.append([(x + r * math.cos(a), y + r * math.sin(a)) for a, r in knots])
                if rng.random() < 0.3:
                    drops.append((x + inner * math.cos(middle), y + inner * math.sin(middle), 0.0065, 1.0))
            ring.append((angle, length))
    canvas.strokes(threads, 0.0025, silk, 0.85)
    canvas.dots(drops, silk)
    _spider(canvas, x, y, 0.055, rng.choice([colour("#8a4b23"), colour("#3d2f2a"), colour("#b8862f")]), rng)


def _spider(canvas: Canvas, x: float, y: float, size: float, paint: Colour, rng: random.Random) -> None:
    dark = mix(paint, _INK, 0.6)
    for side in (-1, 1):
        for leg in range(4):
            up = (-1.5, -0.6, 0.6, 1.7)[leg]
            knee = (x + side * size * (1.1 + 0.15 * (leg in (1, 2))), y + size * up * 0.75)
            foot = (x + side * size * 1.75, y + size * up * 1.45)
            canvas.stroke(curve([(x, y), knee, foot], 6), size * 0.17, dark, end_width=size * 0.07)
    canvas.fill(ellipse(x, y + size * 0.55, size * 0.55, size * 0.7), paint)
    for mark in range(3):
        canvas.disc(x, y + size * (0.25 + 0.3 * mark), size * (0.15 - 0.03 * mark), mix(paint, _MOON, 0.7))
    canvas.fill(ellipse(x, y - size * 0.2, size * 0.38, size * 0.38), dark)


def _harvestman(canvas: Canvas, rng: random.Random) -> None:
    if rng.random() < 0.4:
        canvas.sky(colour("#dfe6d0"), colour("#f3e9cf"))
    ground = colour("#8b8f6a") if rng.random() < 0.5 else colour("#9a8a76")
    _ground(canvas, rng, 0.86, ground)
    for _ in range(26):
        stone = rng.uniform(0, canvas.width), rng.uniform(0.9, 1.0)
        canvas.fill(
            ellipse(*stone, rng.uniform(0.01, 0.04), rng.uniform(0.006, 0.016)),
            mix(ground, _INK, rng.uniform(0.05, 0.3)),
        )
    x, y = _MIDDLE + rng.uniform(-0.1, 0.1), rng.uniform(0.5, 0.58)
    body = rng.choice([colour("#7a4a2a"), colour("#5d5348"), colour("#a3683a"), colour("#8c7b5f")])
    canvas.fill(ellipse(x, 0.9, 0.2, 0.016), _INK, 0.2)
    tips = [-0.66, -0.5, -0.32, -0.14, 0.16, 0.34, 0.52, 0.68]
    for place, tip in enumerate(tips):
        tall = 0.36 if place in (1, 6) else 0.27
        knee = (x + tip * 0.52, y - tall + rng.uniform(-0.03, 0.03))
        shin = (x + tip * 0.86, y + rng.uniform(0.02, 0.08))
        foot = (x + tip + rng.uniform(-0.04, 0.04), rng.uniform(0.87, 0.95))
        hip = (x + 0.05 * tip, y)
        canvas.stroke(curve([hip, knee, shin, foot], 9), 0.0105, mix(body, _INK, 0.65), end_width=0.004)
        canvas.disc(*knee, 0.0085, _INK)
    canvas.fill(ellipse(x, y, 0.075, 0.052), body)
    canvas.fill(
        curve([(x - 0.05, y - 0.02), (x, y - 0.043), (x + 0.05, y - 0.02), (x, y + 0.035)], closed=True),
        mix(body, _INK, 0.45),
    )
    canvas.disc(x, y - 0.05, 0.016, mix(body, _INK, 0.4))
    for side in (-1, 1):
        canvas.disc(x + side * 0.009, y - 0.054, 0.0055, _INK)


def _jumper(canvas: Canvas, rng: random.Random) -> None:
    canvas.sky(colour("#cfe0d4"), colour("#eef2dc"))
    leaf = colour("#7f9f5a")
    _leaf(canvas, -0.2, 0.98, 2.1, -0.12, leaf)
    fur = rng.choice([colour("#4c4038"), colour("#6b5a48"), colour("#2f3136"), colour("#7c4a30")])
    x, y = _MIDDLE + rng.uniform(-0.08, 0.08), 0.52
    for side in (-1, 1):
        for leg in range(4):
            knee = (x + side * (0.3 + 0.07 * leg), y - 0.06 + 0.06 * leg)
            foot = (x + side * (0.27 + 0.1 * leg), y + 0.27 - 0.02 * leg)
            canvas.stroke(
                curve([(x + side * 0.1, y + 0.06), knee, foot], 7), 0.055, mix(fur, _INK, 0.1 * leg), end_width=0.03
            )
    canvas.fill(ellipse(x, y, 0.21, 0.185), fur)
    for tone in (0.0, 0.15, 0.3, 0.45):
        hairs = []
        for _ in range(60):
            angle, far = rng.uniform(0, 2 * math.pi), rng.uniform(0.75, 1.02)
            u, v = 0.21 * math.cos(angle), 0.185 * math.sin(angle)
            hairs.append([(x + far * u, y + far * v), (x + (far + 0.1) * u, y + (far + 0.1) * v)])
        canvas.strokes(hairs, 0.004, mix(fur, _MOON, tone))
    for side in (-1, 1):
        for dx, dy, size in ((0.068, -0.01, 0.066), (0.152, -0.045, 0.032)):
            eye = (x + side * dx, y + dy)
            canvas.disc(*eye, size, colour("#11161a"))
            canvas.disc(eye[0], eye[1] + size * 0.15, size * 0.75, colour("#23404a"))
            canvas.disc(eye[0] - size * 0.3, eye[1] - size * 0.35, size * 0.25, _STAR)
        canvas.stroke(
            curve([(x + side * 0.06, y + 0.12), (x + side * 0.1, y + 0.19), (x + side * 0.05, y + 0.23)]),
            0.05,
            mix(fur, _MOON, 0.75),
            end_width=0.035,
        )


# -- moths


_WINGS = [
    [colour(text) for text in texts]
    for texts in (
        ("#8a6a46", "#d9c29a", "#4a3626", "#e0a34f"),
        ("#5f6b52", "#b9c2a0", "#39402f", "#d8d2b0"),
        ("#7d4055", "#dfa7a0", "#3f2130", "#f0d6a8"),
        ("#6b7280", "#cfd4d6", "#353a44", "#e9c46a"),
        ("#a8642f", "#efcf9a", "#57301a", "#37566b"),
        ("#b9c98c", "#eef0cf", "#6a7d49", "#c98f6b"),
    )
]


def _moth_at(canvas: Canvas, x: float, y: float, size: float, rng: random.Random, *, slender: bool = False) -> None:
    base, light, dark, accent = rng.choice(_WINGS)
    span, drop = (1.12, 0.45) if slender else (rng.uniform(0.92, 1.05), rng.uniform(0.5, 0.7))

    def wing(knots: list[Point], paint: Colour, shrink: float = 1.0, opacity: float = 1.0) -> None:
        root_x, root_y = knots[0]
        for side in (-1, 1):
            outline = [
                (x + side * size * (root_x + (u - root_x) * shrink), y + size * (root_y + (v - root_y) * shrink))
                for u, v in knots
            ]
            canvas.fill(curve(outline, closed=True), paint, opacity)

    hind: list[Point] = [(0.04, 0.02), (0.45, 0.08), (0.66 * span, 0.3), (0.55, drop), (0.28, drop * 0.98), (0.08, 0.4)]
    fore: list[Point] = [
        (0.04, -0.1),
        (0.4, -0.3),
        (0.8 * span, -0.48),
        (0.98 * span, -0.44),
        (0.84 * span, -0.08),
        (0.5, 0.12),
        (0.1, 0.1),
    ]
    wing(hind, mix(base, dark, 0.25))
    wing(hind, mix(base, accent, 0.7), 0.86)
    wing(hind, mix(base, light, 0.4), 0.62)
    wing(fore, mix(base, dark, 0.5))
    wing(fore, base, 0.955)
    for shrink, paint in (
        (0.83, light),
        (0.79, base),
        (0.6, dark),
        (0.565, mix(base, light, 0.55)),
        (0.34, mix(base, dark, 0.35)),
    ):
        wing(fore, paint, shrink)
    has_eyes = rng.random() < 0.55
    for side in (-1, 1):
        for u, v, r in ((0.56, -0.19, 0.07), (0.4, 0.3, 0.075)) if has_eyes else ((0.6, -0.24, 0.03),):
            spot = (x + side * size * u, y + size * v)
            canvas.disc(*spot, size * r, dark)
            canvas.disc(*spot, size * r * 0.72, accent if has_eyes else light)
            if has_eyes:
                canvas.disc(*spot, size * r * 0.4, _INK)
                canvas.disc(spot[0] - size * 0.01, spot[1] - size * 0.015, size * r * 0.14, _STAR)
        feeler = curve(
            [
                (x + side * size * 0.04, y - size * 0.24),
                (x + side * size * 0.16, y - size * 0.42),
                (x + side * size * 0.34, y - size * 0.5),
            ],
            8,
        )
        canvas.stroke(feeler, size * 0.02, dark, end_width=size * 0.01)
        if not slender:
            teeth = []
            for place, (u, v) in enumerate(feeler[2::2]):
                comb = size * 0.075 * (1 - place / 12)
                teeth += [[(u, v), (u + side * comb * 0.3, v - comb)], [(u, v), (u + side * comb, v + comb * 0.5)]]
            canvas.strokes(teeth, size * 0.01, dark)
    canvas.fill(ellipse(x, y + size * 0.2, size * 0.085, size * 0.34), mix(base, dark, 0.4))
    levels = [y + size * (0.12 + 0.08 * band) for band in range(5)]
    canvas.strokes(
        [[(x - size * 0.06, level), (x + size * 0.06, level)] for level in levels], size * 0.022, mix(light, base, 0.3)
    )
    canvas.fill(ellipse(x, y - size * 0.1, size * 0.11, size * 0.16), mix(light, base, 0.45))
    canvas.disc(x, y - size * 0.25, size * 0.06, dark)


def _moth(canvas: Canvas, rng: random.Random) -> None:
    if rng.random() < 0.45:
        _night(canvas, rng, 40)
        _moon(canvas, canvas.width * rng.uniform(0.1, 0.9), 0.2, 0.1, rng.uniform(0.3, 1), _NIGHTS[0][0])
    _moth_at(canvas, _MIDDLE, 0.5, rng.uniform(0.6, 0.68), rng)


def _hawkmoth(canvas: Canvas, rng: random.Random) -> None:
    canvas.sky(*rng.choice([_NIGHTS[1], _NIGHTS[3], [colour("#3b5a5a"), colour("#a9b88f")]]))
    x, y = canvas.width * 0.86, 0.42
    for stem in range(3):
        top = (x + rng.uniform(-0.18, 0.16), y + 0.16 * stem + rng.uniform(-0.05, 0.05))
        canvas.stroke(curve([(x, 1.05), (x + 0.04 * stem, 0.85), top]), 0.014, colour("#4f6b3f"), end_width=0.008)
        for petal in range(5):
            angle = 2 * math.pi * petal / 5 + stem
            canvas.fill(
                ellipse(top[0] + 0.055 * math.cos(angle), top[1] + 0.055 * math.sin(angle), 0.05, 0.028, angle),
                colour("#efe3ea"),
            )
        canvas.disc(*top, 0.022, _LAMP)
    _moth_at(canvas, canvas.width * 0.42, 0.5, rng.uniform(0.55, 0.62), rng, slender=True)


def _caterpillar(canvas: Canvas, rng: random.Random) -> None:
    _twig(canvas, rng, (-0.05, 0.72), (canvas.width + 0.05, 0.62), colour("#7b634a"))
    skin, band = rng.choice(
        [("#8fae4b", "#f1e08a"), ("#40464f", "#d97b3d"), ("#c9a46a", "#5b3d28"), ("#9cc0a0", "#b0506a")]
    )
    count = 13
    for place in range(count):
        along = place / (count - 1)
        x = 0.35 + 0.9 * along
        y = 0.59 - 0.05 * along - 0.09 * abs(math.sin(along * math.pi * 1.5 + 0.4))
        canvas.stroke([(x, y), (x - 0.01, y + 0.085)], 0.02, mix(colour(skin), _INK, 0.4))
        canvas.disc(x, y, 0.067 - 0.012 * abs(along - 0.5), mix(colour(skin), _INK, 0.15))
        canvas.disc(x, y - 0.006, 0.058 - 0.012 * abs(along - 0.5), colour(skin))
        canvas.disc(x, y - 0.022, 0.017, colour(band))
        rays = [-math.pi / 2 + (hair - 2) * 0.35 for hair in range(5)]
        hairs = [[(x, y - 0.04), (x + 0.11 * math.cos(a), y - 0.02 + 0.11 * math.sin(a))] for a in rays]
        canvas.strokes(hairs, 0.003, mix(colour(band), _INK, 0.3))
    canvas.disc(1.27, 0.5, 0.066, mix(colour(skin), _INK, 0.35))
    canvas.disc(1.29, 0.485, 0.013, _STAR)
    canvas.disc(1.294, 0.485, 0.007, _INK)


def _lamp(canvas: Canvas, rng: random.Random) -> None:
    canvas.sky(colour("#0d1420"), colour("#1d2b33"), colour("#2b3a2d"))
    x = _MIDDLE + rng.uniform(-0.3, 0.3)
    canvas.fill([(x - 0.34, 0.2), (x + 0.34, 0.2), (x + 0.36, 0.9), (x - 0.36, 0.9)], colour("#e9e6d4"), 0.9)
    for radius in (0.8, 0.5, 0.28):
        canvas.glow(x, 0.3, radius, _LAMP, 0.55)
    canvas.stroke([(x, -0.1), (x, 0.24)], 0.008, _INK)
    canvas.disc(x, 0.3, 0.055, colour("#fffbe6"))
    for _ in range(11):
        angle, far = rng.uniform(0, 2 * math.pi), rng.uniform(0.18, 0.5)
        _moth_at(
            canvas,
            x + far * 1.3 * math.cos(angle),
            0.48 + far * 0.75 * math.sin(angle),
            rng.uniform(0.045, 0.1),
            rng,
            slender=rng.random() < 0.3,
        )
    _ground(canvas, rng, 0.93, colour("#141a14"))


# -- lighthouses


def _lighthouse(canvas: Canvas, rng: random.Random) -> None:
    night = rng.random() < 0.7
    if night:
        _night(canvas, rng, 60)
    else:
        canvas.sky(colour("#7fa6c4"), colour("#d8dfd2"), colour("#f4d9b0"))
    x = canvas.width * rng.choice((0.28, 0.36, 0.64, 0.72))
    foot, top = 0.8, rng.uniform(0.2, 0.28)
    wide, narrow = rng.uniform(0.085, 0.11), rng.uniform(0.05, 0.062)
    lamp = top - 0.045
    if night:
        for side, tilt in ((-1, rng.uniform(-0.1, 0.06)), (1, rng.uniform(-0.06, 0.1))):
            for spread, opacity in ((0.17, 0.18), (0.1, 0.24), (0.05, 0.3)):
                canvas.fill(
                    [(x, lamp), (x + side * 1.7, lamp + tilt - spread), (x + side * 1.7, lamp + tilt + spread)],
                    _LAMP,
                    opacity,
                )
    else:
        canvas.disc(canvas.width - x, 0.3, 0.09, colour("#fff3cf"))
    _sea(
        canvas,
        rng,
        0.7,
        colour("#12263f") if night else colour("#2f6d84"),
        colour("#3c5f86") if night else colour("#8fb7b8"),
    )
    rock = colour("#20242c") if night else colour("#5d5a55")
    cliff = [
        (x + u, v)
        for u, v in (
            (-0.42, 1.05),
            (-0.34, 0.9),
            (-0.24, 0.86),
            (-0.16, 0.79),
            (0.0, 0.775),
            (0.17, 0.8),
            (0.24, 0.88),
            (0.37, 0.93),
            (0.44, 1.05),
        )
    ]
    canvas.fill([(u, v + rng.uniform(-0.015, 0.015)) for u, v in cliff], rock)
    white, band = (
        colour("#f5efe2"),
        rng.choice([colour("#b5372f"), colour("#26445f"), colour("#2d2b2a"), colour("#c06a2b")]),
    )

    def edge(share: float, side: int) -> Point:
        return x + side * (wide + (narrow - wide) * share), foot + (top - foot) * share

    canvas.fill([edge(0, -1), edge(1, -1), edge(1, 1), edge(0, 1)], white)
    bands, kind = rng.choice((3, 5, 7)), rng.choice(("rings", "spiral", "plain"))
    for place in range(0, bands, 2):
        low, high = place / bands, (place + 1) / bands
        rise = 0.5 / bands if kind == "spiral" else 0.0
        if kind != "plain" or place == 0:
            canvas.fill(
                [edge(low, -1), edge(high, -1), edge(min(1, high + rise), 1), edge(min(1, low + rise), 1)], band
            )
    canvas.fill([edge(0, 1), edge(1, 1), (x + narrow * 0.35, top), (x + wide * 0.3, foot)], _INK, 0.22)
    for share in (0.25, 0.5, 0.75):
        u, v = edge(share, 0)
        canvas.fill(
            [(u - 0.011, v), (u + 0.011, v), (u + 0.011, v - 0.034), (u - 0.011, v - 0.034)], _LAMP if night else _INK
        )
    canvas.fill(
        [
            (x - narrow * 1.5, top),
            (x + narrow * 1.5, top),
            (x + narrow * 1.35, top + 0.022),
            (x - narrow * 1.35, top + 0.022),
        ],
        _INK,
    )
    canvas.fill(
        [
            (x - narrow * 0.72, top),
            (x + narrow * 0.72, top),
            (x + narrow * 0.72, top - 0.085),
            (x - narrow * 0.72, top - 0.085),
        ],
        mix(_LAMP, white, 0.3) if night else colour("#bcd3d6"),
    )
    for bar in (-0.7, -0.25, 0.25, 0.7):
        canvas.stroke([(x + bar * narrow, top), (x + bar * narrow, top - 0.085)], 0.006, _INK)
    canvas.fill(curve([(x - narrow * 0.95, top - 0.083), (x, top - 0.16), (x + narrow * 0.95, top - 0.083)], 6), band)
    canvas.stroke([(x, top - 0.14), (x, top - 0.185)], 0.006, _INK)
    if night:
        canvas.glow(x, lamp, 0.3, _LAMP, 0.75)


def _lens(canvas: Canvas, rng: random.Random) -> None:
    canvas.sky(colour("#1a2430"), colour("#2f4656"))
    x, y = _MIDDLE, 0.5
    glass, edge = rng.choice([("#bfe3dc", "#5e9a97"), ("#d5e6b8", "#7d9a5a"), ("#cfdcf2", "#6f87b5")])
    for side in (-1, 1):
        canvas.stroke([(x + side * 0.36, 0.03), (x + side * 0.36, 0.97)], 0.022, colour("#a87b3c"))
    for row in range(-8, 9):
        v = row * 0.056
        half = 0.33 * math.sqrt(max(0.05, 1 - (row / 10.5) ** 2))
        slant = 0.012 * (1 if row > 0 else -1) * min(1, abs(row))
        prism = [
            (x - half, y + v - 0.02 - slant),
            (x + half, y + v - 0.02 - slant),
            (x + half * 0.96, y + v + 0.02),
            (x - half * 0.96, y + v + 0.02),
        ]
        canvas.fill(prism, mix(colour(edge), colour(glass), 0.75 - 0.05 * abs(row)))
        canvas.stroke([prism[0], prism[1]], 0.004, _STAR, 0.7)
    for ring in range(5):
        canvas.ring(x, y, 0.06 + 0.035 * ring, 0.011, mix(colour(glass), _STAR, 0.4))
    canvas.glow(x, y, 0.6, _LAMP, 0.8)
    canvas.disc(x, y, 0.05, colour("#fffbe0"))
    for ray in range(10):
        angle = rng.uniform(-0.25, 0.25) + (math.pi if ray % 2 else 0)
        canvas.stroke(
            [
                (x + 0.4 * math.cos(angle), y + 0.4 * math.sin(angle)),
                (x + 1.2 * math.cos(angle), y + 1.2 * math.sin(angle)),
            ],
            0.012,
            _LAMP,
            0.25,
        )


# -- tides and shores


def _moon_tide(canvas: Canvas, rng: random.Random) -> None:
    _night(canvas, rng, 50)
    x, phase = canvas.width * rng.uniform(0.3, 0.7), rng.choice((0.12, 0.3, 0.5, 0.72, 1.0))
    shade = _NIGHTS[0][0]
    _moon(canvas, x, 0.27, 0.14, phase, shade)
    _sea(canvas, rng, 0.6, colour("#0c2033"), colour("#35577d"))
    for row in range(16):
        v = 0.62 + 0.023 * row
        half = (0.03 + 0.012 * row) * rng.uniform(0.5, 1.2)
        shift = rng.uniform(-0.02, 0.02) * (1 + row * 0.15)
        canvas.stroke(
            [(x + shift - half, v), (x + shift + half, v)], 0.007, _MOON, 0.15 + 0.5 * phase * rng.uniform(0.5, 1)
        )


def _waves(canvas: Canvas, rng: random.Random) -> None:
    sky = rng.choice([("#f2d7b3", "#f6eedb"), ("#a7c6d2", "#eef1e4"), ("#e8b79a", "#f3e3cf")])
    canvas.sky(colour(sky[0]), colour(sky[1]))
    canvas.disc(canvas.width * rng.uniform(0.2, 0.8), 0.3, 0.1, colour("#fff4d6"))
    deep, foam = rng.choice([colour("#1e5a72"), colour("#27536b"), colour("#2b6f6a")]), colour("#f7f5ea")
    for row in range(5):
        level, size = 0.46 + 0.12 * row, 0.03 + 0.012 * row
        shift, length = rng.uniform(0, 1), 0.26 + 0.07 * row
        xs = np.linspace(-0.1, canvas.width + 0.1, 100)
        at = (xs / length + shift) % 1
        ys = level - size * (1 - np.abs(2 * at - 1) ** 0.7) * 1.8
        crest = list(zip(xs, ys, strict=True))
        canvas.fill([*crest, (canvas.width + 0.1, 1.1), (-0.1, 1.1)], mix(mix(deep, foam, 0.45), deep, row / 4))
        canvas.stroke(crest, 0.009 + 0.002 * row, foam, 0.9)
        canvas.dots(
            [(rng.uniform(0, canvas.width), level + rng.uniform(0.02, 0.08), 0.004, 0.7) for _ in range(12)], foam
        )


def _pool(canvas: Canvas, rng: random.Random) -> None:
    canvas.sky(colour("#3f8a8c"), colour("#1f5f6b"))
    for _ in range(45):
        x, y = rng.uniform(0, canvas.width), rng.uniform(0.2, 1)
        pebble = mix(colour("#9aa08c"), colour("#5d6a66"), rng.random())
        canvas.fill(ellipse(x, y, rng.uniform(0.02, 0.06), rng.uniform(0.015, 0.04), rng.uniform(0, 3)), pebble, 0.8)
    for _ in range(7):
        base = rng.uniform(0, canvas.width)
        weed = colour(rng.choice(("#6d7f2e", "#7a5b2c", "#8c3b4a")))
        sway = [(base + rng.uniform(-0.05, 0.05) * step, 1.02 - 0.11 * step) for step in range(rng.randint(3, 6))]
        canvas.stroke(curve(sway), 0.035, weed, 0.9, end_width=0.01)
    for _ in range(2):
        _starfish(canvas, rng.uniform(0.2, canvas.width - 0.2), rng.uniform(0.4, 0.8), rng.uniform(0.13, 0.19), rng)
    for _ in range(2):
        x, y, flesh = (
            rng.uniform(0.2, canvas.width - 0.2),
            rng.uniform(0.5, 0.9),
            colour(rng.choice(("#b8394a", "#4f9a6b", "#d08a3a"))),
        )
        angles = [2 * math.pi * arm / 22 + rng.uniform(-0.1, 0.1) for arm in range(22)]
        tips = [(x + 0.13 * math.cos(angle), y + 0.1 * math.sin(angle)) for angle in angles]
        canvas.strokes([[(x, y), tip] for tip in tips], 0.018, mix(flesh, _STAR, 0.25))
        canvas.dots([(*tip, 0.009, 1.0) for tip in tips], mix(flesh, _STAR, 0.7))
        canvas.disc(x, y, 0.055, flesh)
    rock = colour("#3a3f3d")
    edge = [(x, 0.12 + rng.uniform(-0.06, 0.05)) for x in np.linspace(-0.1, canvas.width + 0.1, 8)]
    canvas.fill([(-0.1, -0.1), *curve(edge), (canvas.width + 0.1, -0.1)], rock)
    for _ in range(9):
        x, y, size = rng.uniform(0.05, canvas.width - 0.05), rng.uniform(0.01, 0.08), rng.uniform(0.025, 0.045)
        canvas.disc(x, y, size, colour("#b5a98e"))
        ribs = [math.pi * rib / 4 for rib in range(8)]
        canvas.strokes(
            [[(x, y), (x + size * math.cos(a), y + size * math.sin(a))] for a in ribs], 0.004, colour("#7d725b")
        )


def _starfish(canvas: Canvas, x: float, y: float, size: float, rng: random.Random) -> None:
    skin, turn = colour(rng.choice(("#d9793b", "#c2503f", "#b58ab0"))), rng.uniform(0, 1)
    outline = []
    for corner in range(10):
        far = size if corner % 2 == 0 else size * 0.42
        angle = turn + math.pi * corner / 5
        outline.append((x + far * math.cos(angle), y + far * math.sin(angle)))
    canvas.fill(curve(outline, 6, closed=True), mix(skin, _INK, 0.15))
    knobs = [(turn + 2 * math.pi * arm / 5, size * 0.16 * step) for arm in range(5) for step in range(1, 6)]
    canvas.dots([(x + far * math.cos(a), y + far * math.sin(a), 0.008, 1.0) for a, far in knobs], mix(skin, _STAR, 0.6))


def _shell(canvas: Canvas, rng: random.Random) -> None:
    canvas.sky(colour("#f0e2c4"), colour("#e2cfa6"))
    grains = [(rng.uniform(0, canvas.width), rng.uniform(0, 1), 0.004, rng.uniform(0.2, 1)) for _ in range(160)]
    canvas.dots(grains, colour("#a58f63"))
    x, y, growth = _MIDDLE + 0.06, 0.52, rng.uniform(0.15, 0.19)
    light, dark = rng.choice([("#f6e3d0", "#b5745a"), ("#efe9dc", "#7d7f93"), ("#f3d9a8", "#a0632d")])
    canvas.fill(ellipse(x - 0.02, y + 0.32, 0.42, 0.05), _INK, 0.15)
    steps = np.linspace(0, 5.2 * math.pi, 170)
    for angle in steps[::-1]:
        far = 0.016 * math.exp(growth * angle)
        px, py = x + far * math.cos(angle), y + far * math.sin(angle) * 0.92
        stripe = 0.5 + 0.5 * math.sin(angle * 9)
        canvas.disc(px, py, far * 0.46 + 0.004, mix(colour(light), colour(dark), 0.2 + 0.55 * stripe))
        canvas.disc(px - far * 0.1, py - far * 0.13, far * 0.26, mix(colour(light), _STAR, 0.5), 0.25)


# -- lichens and mosses


def _lichen(canvas: Canvas, rng: random.Random) -> None:
    rock = colour(rng.choice(("#8d8b86", "#a39a8c", "#6f7479")))
    canvas.sky(mix(rock, _STAR, 0.12), rock)
    for grain in (_INK, _STAR):
        spread = [(rng.uniform(0, canvas.width), rng.uniform(0, 1)) for _ in range(210)]
        canvas.dots([(x, y, rng.uniform(0.002, 0.009), rng.uniform(0.05, 0.3)) for x, y in spread], grain)
    for _ in range(rng.randint(1, 3)):
        crack = [
            (rng.uniform(0, canvas.width), -0.05),
            (rng.uniform(0, canvas.width), 0.5),
            (rng.uniform(0, canvas.width), 1.05),
        ]
        canvas.stroke(curve(crack), 0.008, mix(rock, _INK, 0.5), end_width=0.003)
    paints = ["#e0a526", "#b9c3a4", "#7c8f62", "#e3dfc8", "#c9752d", "#9fb08c"]
    rng.shuffle(paints)
    spots: list[tuple[float, float, float]] = []
    for place in range(36):
        size = rng.uniform(0.16, 0.25) if place < 12 else rng.uniform(0.04, 0.09)
        x, y = rng.uniform(0.02, canvas.width - 0.02), rng.uniform(0.02, 0.98)
        if all(math.hypot(x - u, y - v) > (size + other) * 0.86 for u, v, other in spots):
            spots.append((x, y, size))
            _rosette(canvas, x, y, size, colour(paints[len(spots) % 3]), rng)


def _rosette(canvas: Canvas, x: float, y: float, size: float, paint: Colour, rng: random.Random) -> None:
    """A lichen: lobes that grew outwards and forked, older and paler in the middle."""
    lobes = max(7, int(size * 62))
    for ring, (far, tone) in enumerate(((1.0, 0.22), (0.86, 0.0), (0.66, 0.12), (0.45, 0.0))):
        outline = []
        for lobe in range(lobes * 2):
            angle = math.pi * (lobe + rng.uniform(-0.15, 0.15)) / lobes
            reaches = (0.9, 1.0, 0.9) if lobe % 2 == 0 else (rng.uniform(0.66, 0.8),)  # a round lobe, a narrow gap
            grown = size * far * rng.uniform(0.93, 1.07)
            for place, reach in enumerate(reaches):
                at = angle + (place - 1) * 1.9 / lobes if lobe % 2 == 0 else angle
                outline.append((x + grown * reach * math.cos(at), y + grown * reach * math.sin(at)))
        shade = mix(paint, _INK, tone) if ring % 2 == 0 else mix(paint, _STAR, 0.1 * ring)
        canvas.fill(curve(outline, 4, closed=True), shade)
    cups = []
    for _ in range(int(size * 110)):
        angle, far = rng.uniform(0, 2 * math.pi), size * 0.55 * math.sqrt(rng.random())
        cups.append((x + far * math.cos(angle), y + far * math.sin(angle), rng.uniform(0.006, 0.013), 1.0))
    if cups:
        canvas.dots(cups, mix(paint, _STAR, 0.45))
        canvas.dots([(u, v, radius * 0.62, 1.0) for u, v, radius, _ in cups], mix(paint, colour("#7a3d18"), 0.65))


def _moss(canvas: Canvas, rng: random.Random) -> None:
    canvas.sky(colour("#dfe7d8"), colour("#b9c9ae"))
    for _ in range(7):
        canvas.glow(rng.uniform(0, canvas.width), rng.uniform(0, 0.5), rng.uniform(0.1, 0.25), colour("#f7f5dc"), 0.5)
    greens = [colour(text) for text in ("#38562c", "#557a35", "#7d9c42", "#a3b955")]
    for layer in range(4):
        level, green = 0.55 + 0.13 * layer, greens[layer]
        hills = [
            (x, level + 0.09 * math.sin(x * 4 + layer * 2) * rng.uniform(0.4, 1))
            for x in np.linspace(-0.1, canvas.width + 0.1, 8)
        ]
        line = curve(hills, 16)
        canvas.fill([*line, (canvas.width + 0.1, 1.1), (-0.1, 1.1)], green)
        for tone in (0.1, 0.3, 0.5):
            tufts = [
                [(x, y + 0.01), (x + rng.uniform(-0.014, 0.014), y - rng.uniform(0.015, 0.035))]
                for x, y in line[rng.randrange(2) :: 2]
            ]
            canvas.strokes(tufts, 0.009, mix(green, greens[-1], tone))
        for x, y in line[rng.randint(3, 6) :: rng.randint(5, 9)] if layer else ():
            lean, tall = rng.uniform(-0.05, 0.05), rng.uniform(0.13, 0.24)
            top = (x + lean, y - tall)
            canvas.stroke(curve([(x, y), (x + lean * 0.3, y - tall * 0.6), top], 6), 0.006, colour("#a5562d"))
            canvas.fill(ellipse(top[0] + 0.008, top[1] + 0.006, 0.012, 0.024, 0.7 + lean * 6), colour("#8c6a2a"))
    for _ in range(6):
        x, y = rng.uniform(0, canvas.width), rng.uniform(0.5, 0.95)
        canvas.disc(x, y, 0.014, colour("#eaf4f0"), 0.85)
        canvas.disc(x - 0.004, y - 0.004, 0.004, _STAR)


# -- the night sky


_FIGURES: dict[str, tuple[tuple[Point, ...], tuple[tuple[int, int], ...]]] = {
    "orion": (
        (
            (0.30, 0.14),
            (0.66, 0.18),
            (0.44, 0.50),
            (0.50, 0.48),
            (0.56, 0.455),
            (0.38, 0.86),
            (0.72, 0.80),
            (0.47, 0.05),
        ),
        ((0, 1), (0, 2), (1, 4), (2, 3), (3, 4), (2, 5), (4, 6), (5, 6), (0, 7), (1, 7)),
    ),
    "plough": (
        ((0.02, 0.28), (0.2, 0.3), (0.34, 0.4), (0.48, 0.46), (0.53, 0.66), (0.86, 0.68), (0.88, 0.4)),
        ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 3)),
    ),
    "cassiopeia": (
        ((0.08, 0.34), (0.28, 0.68), (0.5, 0.42), (0.7, 0.7), (0.93, 0.3)),
        ((0, 1), (1, 2), (2, 3), (3, 4)),
    ),
    "swan": (
        ((0.5, 0.06), (0.48, 0.34), (0.46, 0.6), (0.44, 0.94), (0.16, 0.26), (0.32, 0.34), (0.68, 0.42), (0.9, 0.6)),
        ((0, 1), (1, 2), (2, 3), (4, 5), (5, 1), (1, 6), (6, 7)),
    ),
    "lyre": (
        ((0.52, 0.1), (0.62, 0.3), (0.44, 0.34), (0.5, 0.8), (0.68, 0.74)),
        ((0, 1), (0, 2), (2, 1), (2, 3), (3, 4), (4, 1)),
    ),
}


def _milky_way(canvas: Canvas, rng: random.Random) -> None:
    tilt = rng.uniform(0.5, 1.1)
    for _ in range(40):
        along = rng.uniform(-0.2, 1.8)
        canvas.glow(
            along, 0.9 - tilt * along * 0.6 + rng.uniform(-0.08, 0.08), rng.uniform(0.08, 0.2), colour("#cdd5f5"), 0.1
        )
    places = [(along, 0.9 - tilt * along * 0.6) for along in (rng.uniform(-0.1, 1.7) for _ in range(160))]
    canvas.dots([(x, y + rng.gauss(0, 0.08), 0.0018, rng.uniform(0.3, 0.9)) for x, y in places], _STAR)


def _constellation(canvas: Canvas, rng: random.Random) -> None:
    canvas.sky(*rng.choice(_NIGHTS[:3]))
    _milky_way(canvas, rng)
    _stars(canvas, rng, 60)
    stars, lines = _FIGURES[rng.choice(list(_FIGURES))]
    turn, left = rng.uniform(-0.25, 0.25), _MIDDLE - 0.45
    placed = []
    for u, v in stars:
        dx, dy = (u - 0.5) * 0.92, (v - 0.5) * 0.86
        placed.append(
            (left + 0.45 + dx * math.cos(turn) - dy * math.sin(turn), 0.5 + dx * math.sin(turn) + dy * math.cos(turn))
        )
    for first, second in lines:
        canvas.stroke([placed[first], placed[second]], 0.004, colour("#9fb3e6"), 0.7)
    for x, y in placed:
        canvas.glow(x, y, 0.06, colour("#dfe8ff"), 0.8)
        canvas.disc(x, y, rng.uniform(0.009, 0.015), _STAR)


def _telescope(canvas: Canvas, rng: random.Random) -> None:
    _night(canvas, rng, 90)
    _milky_way(canvas, rng)
    hill = colour("#0a0f16")
    _ground(canvas, rng, 0.86, hill, 0.03)
    x, y = canvas.width * rng.uniform(0.35, 0.6), 0.56
    for foot in (-0.15, 0.02, 0.16):
        canvas.stroke([(x, y), (x + foot, 0.88)], 0.018, hill)
    turn = -rng.uniform(0.6, 0.95)
    along = (math.cos(turn), math.sin(turn))
    tube = [(x - 0.2 * along[0], y - 0.2 * along[1]), (x + 0.32 * along[0], y + 0.32 * along[1])]
    canvas.stroke(tube, 0.085, hill)
    canvas.stroke([tube[1], (tube[1][0] + 0.05 * along[0], tube[1][1] + 0.05 * along[1])], 0.105, hill)
    canvas.stroke([tube[0], (tube[0][0] - 0.06 * along[0], tube[0][1] - 0.06 * along[1])], 0.04, hill)
    person = x - 0.36
    canvas.fill(
        curve(
            [(person - 0.07, 0.9), (person - 0.06, 0.66), (person, 0.6), (person + 0.06, 0.66), (person + 0.08, 0.9)], 8
        ),
        hill,
    )
    canvas.disc(person + 0.02, 0.56, 0.045, hill)


def _planet(canvas: Canvas, rng: random.Random) -> None:
    canvas.sky(colour("#070a18"), colour("#10162e"))
    _stars(canvas, rng, 80)
    x, y, radius = _MIDDLE, 0.5, rng.uniform(0.19, 0.24)
    bands = [
        colour(text)
        for text in rng.choice(
            [
                ("#e6cf9f", "#cfa873", "#f1e3c0", "#b98a58"),
                ("#d9c7a8", "#efe3c6", "#c4a983", "#e6d6b0"),
                ("#cf8f5a", "#e5c49a", "#a8623c", "#f0d9b8"),
            ]
        )
    ]
    ringed, tilt = rng.random() < 0.5, rng.uniform(-0.4, 0.4)

    def ring(front: bool) -> None:
        angle = np.linspace(0, math.pi, 50) + (0 if front else math.pi)
        for far, width, paint in ((1.55, 0.03, bands[1]), (1.78, 0.035, bands[2]), (2.02, 0.022, bands[0])):
            u, v = far * radius * np.cos(angle), far * radius * 0.26 * np.sin(angle)
            canvas.stroke(
                list(
                    zip(
                        x + u * math.cos(tilt) - v * math.sin(tilt),
                        y + u * math.sin(tilt) + v * math.cos(tilt),
                        strict=True,
                    )
                ),
                width,
                paint,
                0.85,
            )

    if ringed:
        ring(front=False)
    canvas.disc(x, y, radius, bands[0])
    for place in range(-6, 7):
        v = place / 7
        half = math.sqrt(1 - v * v) * 0.94
        thick = rng.uniform(0.5, 1.3) * radius / 11
        ends = [(-half * radius, v * radius), (half * radius, v * radius)]
        canvas.stroke(
            [
                (x + a * math.cos(tilt) - b * math.sin(tilt), y + a * math.sin(tilt) + b * math.cos(tilt))
                for a, b in ends
            ],
            thick,
            rng.choice(bands),
        )
    for step in range(12):
        canvas.ring(x, y, radius * (1.02 - 0.012 * step), radius * 0.03, colour("#070a18"), 0.2 * (1 - step / 12))
    if ringed:
        ring(front=True)
    else:
        for moon in (-3.1, -1.9, 1.7, 2.6):
            canvas.disc(x + moon * radius * rng.uniform(0.85, 1.1), y + moon * radius * 0.12, 0.011, _STAR)


def _meteor(canvas: Canvas, rng: random.Random) -> None:
    _night(canvas, rng, 110)
    x, y = canvas.width * rng.uniform(0.55, 0.9), rng.uniform(0.02, 0.15)
    for _ in range(rng.randint(4, 7)):
        angle, near, long = rng.uniform(1.7, 3.0), rng.uniform(0.15, 0.6), rng.uniform(0.15, 0.4)
        points = [
            (x + (near + long * step / 12) * math.cos(angle), y + (near + long * step / 12) * math.sin(angle) * 0.8)
            for step in range(13)
        ]
        for step, (a, b) in enumerate(pairwise(points)):
            canvas.stroke([a, b], 0.002 + 0.0007 * step, _STAR, 0.1 + 0.07 * step)
        canvas.glow(*points[-1], 0.05, _STAR, 0.9)
    dark = colour("#060a10")
    _ground(canvas, rng, 0.9, dark, 0.02)
    for _ in range(14):
        tree, tall = rng.uniform(0, canvas.width), rng.uniform(0.07, 0.2)
        canvas.fill([(tree - tall * 0.22, 0.92), (tree, 0.92 - tall), (tree + tall * 0.22, 0.92)], dark)


# -- anything else


def _tiles(canvas: Canvas, rng: random.Random) -> None:
    """A pattern of tiles, for pages that are about none of this."""
    paints = [
        colour(text)
        for text in rng.choice(
            [
                ("#e4b363", "#ef6461", "#e8e9eb", "#313638"),
                ("#264653", "#2a9d8f", "#e9c46a", "#e76f51"),
                ("#606c38", "#fefae0", "#dda15e", "#bc6c25"),
            ]
        )
    ]
    side = 1 / rng.choice((3, 4, 5))
    for row in range(round(1 / side)):
        for column in range(int(canvas.width / side) + 1):
            x, y = column * side, row * side
            ground, figure = rng.sample(paints, 2)
            canvas.fill([(x, y), (x + side, y), (x + side, y + side), (x, y + side)], ground)
            match rng.randrange(3):
                case 0:
                    canvas.disc(x + side / 2, y + side / 2, side * 0.36, figure)
                case 1:
                    canvas.fill([(x, y), (x + side, y), (x, y + side)], figure)
                case _:
                    canvas.ring(x + side / 2, y + side / 2, side * 0.3, side * 0.16, figure)


MOTIFS: dict[str, Motif] = {
    "orb-web": _orb_web,
    "harvestman": _harvestman,
    "jumper": _jumper,
    "moth": _moth,
    "hawkmoth": _hawkmoth,
    "caterpillar": _caterpillar,
    "lamp": _lamp,
    "lighthouse": _lighthouse,
    "lens": _lens,
    "moon-tide": _moon_tide,
    "waves": _waves,
    "pool": _pool,
    "shell": _shell,
    "lichen": _lichen,
    "moss": _moss,
    "constellation": _constellation,
    "telescope": _telescope,
    "planet": _planet,
    "meteor": _meteor,
    "tiles": _tiles,
}


# -- icons: a sign that can be told apart at 16 pixels


def _sign_web(canvas: Canvas, paint: Colour, ground: Colour) -> None:
    for spoke in range(8):
        angle = math.pi * spoke / 4
        canvas.stroke([(0.5, 0.5), (0.5 + 0.44 * math.cos(angle), 0.5 + 0.44 * math.sin(angle))], 0.04, paint)
    for far in (0.2, 0.36):
        corners = [
            (0.5 + far * math.cos(math.pi * spoke / 4), 0.5 + far * math.sin(math.pi * spoke / 4)) for spoke in range(9)
        ]
        canvas.stroke(corners, 0.04, paint)


def _sign_harvestman(canvas: Canvas, paint: Colour, ground: Colour) -> None:
    for side in (-1, 1):
        for foot, knee in ((0.45, 0.3), (0.33, 0.22), (0.2, 0.14)):
            canvas.stroke(curve([(0.5, 0.55), (0.5 + side * knee, 0.22), (0.5 + side * foot, 0.86)], 8), 0.04, paint)
    canvas.disc(0.5, 0.55, 0.12, paint)


def _sign_moth(canvas: Canvas, paint: Colour, ground: Colour) -> None:
    for side in (-1, 1):
        canvas.fill([(0.5, 0.45), (0.5 + side * 0.44, 0.2), (0.5 + side * 0.36, 0.55), (0.5, 0.6)], paint)
        canvas.fill([(0.5, 0.52), (0.5 + side * 0.3, 0.58), (0.5 + side * 0.22, 0.85), (0.5, 0.66)], paint)
        canvas.disc(0.5 + side * 0.26, 0.4, 0.06, ground)
        canvas.stroke([(0.5, 0.4), (0.5 + side * 0.12, 0.14)], 0.04, paint)


def _sign_lighthouse(canvas: Canvas, paint: Colour, ground: Colour) -> None:
    canvas.fill([(0.42, 0.3), (0.58, 0.3), (0.66, 0.9), (0.34, 0.9)], paint)
    canvas.fill([(0.39, 0.5), (0.61, 0.5), (0.63, 0.64), (0.37, 0.64)], ground)
    canvas.disc(0.5, 0.2, 0.09, paint)
    for side in (-1, 1):
        canvas.fill([(0.5 + side * 0.14, 0.2), (0.5 + side * 0.46, 0.08), (0.5 + side * 0.46, 0.32)], paint, 0.8)


def _sign_waves(canvas: Canvas, paint: Colour, ground: Colour) -> None:
    for level in (0.3, 0.52, 0.74):
        xs = np.linspace(0.1, 0.9, 20)
        canvas.stroke(list(zip(xs, level + 0.06 * np.sin(xs * 16), strict=True)), 0.08, paint)


def _sign_leaf(canvas: Canvas, paint: Colour, ground: Colour) -> None:
    for angle in (-2.4, -1.57, -0.74):
        _leaf(canvas, 0.5, 0.85, 0.68, angle, paint)


def _sign_star(canvas: Canvas, paint: Colour, ground: Colour) -> None:
    corners = [
        (0.5 + far * math.sin(math.pi * place / 4), 0.5 - far * math.cos(math.pi * place / 4))
        for place, far in enumerate((0.45, 0.13) * 4)
    ]
    canvas.fill(corners, paint)


def _sign_moon(canvas: Canvas, paint: Colour, ground: Colour) -> None:
    canvas.disc(0.5, 0.5, 0.36, paint)
    canvas.disc(0.64, 0.42, 0.3, ground)


def _sign_tiles(canvas: Canvas, paint: Colour, ground: Colour) -> None:
    canvas.fill([(0.2, 0.2), (0.8, 0.2), (0.8, 0.8), (0.2, 0.8)], paint)
    canvas.disc(0.5, 0.5, 0.18, ground)


_SIGNS: dict[str, Callable[[Canvas, Colour, Colour], None]] = {
    "web": _sign_web,
    "harvestman": _sign_harvestman,
    "moth": _sign_moth,
    "lighthouse": _sign_lighthouse,
    "waves": _sign_waves,
    "leaf": _sign_leaf,
    "star": _sign_star,
    "moon": _sign_moon,
    "tiles": _sign_tiles,
}
