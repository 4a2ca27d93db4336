"""The near layer of the sample clip: meadow, fence, sign, leaves, and the cat."""

from __future__ import annotations

import numpy as np
from sample_paint import SCALE, Array, Canvas, Colour, Points, fractal_line, fractal_noise
from sample_scene import (
    FRAMES,
    HEIGHT,
    PAN_NEAR,
    WIDTH,
    mix,
    paint_grass,
    ramp,
    rgb,
    sow_grass,
)

WORLD = WIDTH + PAN_NEAR * FRAMES // SCALE + 4  # px
CAT = (188.0, 131.0)  # px, where it sits in the world
SIGN = (269.0, 92.0)  # px, middle of its upper edge


class NearLayer:
    """Everything close to the camera; the still parts are painted once."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.still = Canvas(WORLD, HEIGHT)
        paint_meadow(self.still, rng)
        paint_fence(self.still, rng)
        paint_sign(self.still, rng)
        paint_cat(self.still, rng)
        self.front = [blade for blade in sow_grass(rng, WORLD, 2300) if blade.y > 156]
        self.leaves = grow_leaves(rng)
        self.tail_hairs = rng.random((260, 4))

    def at(self, frame: int) -> Canvas:
        """Return the layer as the camera sees it at `frame`."""
        first = PAN_NEAR * frame
        left = first / SCALE
        view = Canvas(WIDTH, HEIGHT)
        view.data = self.still.data[:, first : first + WIDTH * SCALE].copy()
        paint_tail(view, self.tail_hairs, frame, left)
        paint_face(view, frame, (CAT[0] - left, CAT[1]))
        shifted = Shifted(view, left)
        paint_grass(shifted, self.front, frame, left)
        paint_branch(shifted, self.leaves, frame)
        return view


class Shifted(Canvas):
    """A view that is painted on in world positions."""

    def __init__(self, view: Canvas, left: float) -> None:
        self.width, self.height, self.data = view.width, view.height, view.data
        self.left = left

    def ellipse(
        self, centre: tuple[float, float], radii: tuple[float, float], angle: float, colour: Colour
    ) -> None:
        """Fill an ellipse whose centre is a world position."""
        super().ellipse((centre[0] - self.left, centre[1]), radii, angle, colour)

    def stroke(self, points: Points, widths: tuple[float, float], colour: Colour) -> None:
        """Draw a polyline given in world positions."""
        super().stroke([(x - self.left, y) for x, y in points], widths, colour)


def paint_meadow(canvas: Canvas, rng: np.random.Generator) -> None:
    """Paint the ground under the grass, with a wavy far edge."""
    height, width = canvas.data.shape[:2]
    rows = (np.arange(height) / SCALE)[:, None]
    edge = 141 + 2.5 * fractal_line(rng, width, 1.4)
    mask = np.clip((rows - edge[None, :]) * SCALE, 0, 1).astype(np.float32)
    colour = ramp(
        [(138, "#6f7f3f"), (150, "#3f5a34"), (180, "#152b20")], np.broadcast_to(rows, mask.shape)
    )
    grain = fractal_noise(rng, height, width, 0.6, stretch=2.5)[..., None] * 0.035
    canvas.blend(0, 0, mask, np.clip(colour + grain, 0, 1).astype(np.float32))
    for blade in sow_grass(rng, WORLD, 500):
        small = 0.45 * blade.height
        foot = edge[min(int(blade.x * SCALE), width - 1)] + (blade.y - 148) * 0.5
        tip = (blade.x + blade.lean * small, foot - small)
        canvas.stroke([(blade.x, foot), tip], (0.45, 0.12), blade.colour)


def paint_board(canvas: Canvas, rng: np.random.Generator, corners: Points, colour: Colour) -> None:
    """Paint a plank with a grain that runs along it and a lit upper edge."""
    canvas.polygon(corners, colour)
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = corners
    for _ in range(int(max(abs(bx - ax), abs(dy - ay)) * 0.5)):
        u, v, w = rng.random(3)
        start = (ax + (dx - ax) * u + (bx - ax) * v * 0.7, ay + (dy - ay) * u + (by - ay) * v * 0.7)
        end = (start[0] + (bx - ax) * w * 0.3, start[1] + (by - ay) * w * 0.3)
        shade = mix(colour, rgb("#1d1512") if rng.random() < 0.6 else rgb("#d8b98e"), 0.35)
        canvas.stroke([start, end], (0.3, 0.2), shade)
    canvas.stroke([(ax, ay), (bx, by)], (0.5, 0.5), rgb("#e6c694"))
    canvas.stroke([(dx, dy), (cx, cy)], (0.4, 0.4), rgb("#2b1f1a"))


def paint_fence(canvas: Canvas, rng: np.random.Generator) -> None:
    """Paint two rails and their posts."""
    for y, slope in ((131.0, 0.4), (145.0, -0.3)):
        for x in range(-20, WORLD, 70):
            corners = [(x, y), (x + 70, y + slope), (x + 70, y + 4.4 + slope), (x, y + 4.6)]
            paint_board(canvas, rng, corners, rgb("#7a5d46"))
    for x in range(-25, WORLD + 70, 70):
        corners = [(x, 168.0), (x, 125.5), (x + 5.5, 125.0), (x + 5.5, 168.0)]
        paint_board(canvas, rng, corners, rgb("#69503e"))


def paint_sign(canvas: Canvas, rng: np.random.Generator) -> None:
    """Paint a wooden sign: large letters, small letters, and lines that come ever closer."""
    x, y = SIGN
    for side in (-32.0, 28.0):
        post = [(x + side, 168.0), (x + side, y - 3), (x + side + 4, y - 3), (x + side + 4, 168.0)]
        paint_board(canvas, rng, post, rgb("#5b4334"))
    for row in range(3):
        top = y + row * 13
        corners = [(x - 46, top), (x + 46, top), (x + 46, top + 12.4), (x - 46, top + 12.4)]
        paint_board(canvas, rng, corners, rgb("#e9d9b6"))
    ink = rgb("#2a211d")
    canvas.text("UPREEL", (x, y + 2), 8.8, rgb("#12615a"))
    canvas.text("SMALL IN - LARGE OUT", (x, y + 17), 4.6, ink)
    canvas.text("MILL 600 M", (x - 22, y + 30), 4.6, ink)
    position, gap = x + 4.0, 3.2
    while position < x + 42:
        canvas.stroke([(position, y + 28.6), (position, y + 36)], (gap * 0.45, gap * 0.45), ink)
        position += gap
        gap = max(gap * 0.94, 1.1)


def fur_colour(x: float, y: float, light: float) -> Colour:
    """Give the tabby coat's colour at (x, y) px from where the cat sits; light 0 to 1."""
    stripe = 0.5 + 0.5 * np.sin(y * 0.95 + 2.2 * np.sin(abs(x) * 0.28) + 0.6 * np.sin(x * 0.9))
    base = mix(rgb("#c9792f"), rgb("#7a3d18"), float(stripe) ** 2)
    chest = max(0.0, 1 - (x / 5.5) ** 2 - ((y + 17) / 13) ** 2)
    return mix(
        mix(base, rgb("#fff1dc"), min(1.0, 1.6 * chest)), rgb("#ffe9c0"), 0.5 * max(light, 0.0)
    )


def paint_fur(
    canvas: Canvas, rng: np.random.Generator, shape: tuple[float, float, float, float], count: int
) -> None:
    """Cover an ellipse (x, y, half width, half height from where the cat sits) with hairs."""
    cx, cy, rx, ry = shape
    for v in np.sort(rng.random(count) * 2 - 1):
        u = float((rng.random() * 2 - 1) * np.sqrt(max(1 - v * v, 0)) * 1.02)
        x, y = cx + u * rx, cy + float(v) * ry
        light = (u * 0.9 - 0.25) + rng.normal() * 0.28
        shade = mix(
            fur_colour(x, y, light), rgb("#2a1509"), float(np.clip(0.35 - 0.55 * light, 0, 0.6))
        )
        length = 2.2 + 1.8 * rng.random()
        tip = (x + u * 1.5 + rng.normal() * 0.4, y + length)
        canvas.stroke(
            [(CAT[0] + x, CAT[1] + y), (CAT[0] + tip[0], CAT[1] + tip[1])], (0.55, 0.15), shade
        )


def paint_cat(canvas: Canvas, rng: np.random.Generator) -> None:
    """Paint the cat without face and tail: haunches, chest, paws, head and ears."""
    x, y = CAT
    dark = rgb("#5e3015")
    for cx, cy, rx, ry in (
        (0, -13, 14, 14),
        (0, -24, 9.5, 14),
        (-8, -5.5, 6.5, 6),
        (8, -5.5, 6.5, 6),
    ):
        canvas.ellipse((x + cx, y + cy), (rx, ry), 0, dark)
    paint_fur(canvas, rng, (0, -13, 14, 13.5), 1300)
    paint_fur(canvas, rng, (0, -24, 9.5, 13), 700)
    for side in (-1, 1):
        paint_fur(canvas, rng, (side * 8.5, -6, 6, 5), 260)
    for side in (-1, 1):
        canvas.ellipse((x + side * 4, y - 0.5), (3.6, 2.2), 0, rgb("#f7e6cc"))
        for toe in (-1, 0.2, 1.4):
            canvas.stroke(
                [(x + side * 4 + toe, y - 0.4), (x + side * 4 + toe, y + 1.4)], (0.3, 0.3), dark
            )
    for side in (-1, 1):
        ear = [(x + side * 10.6, y - 37), (x + side * 9.4, y - 52), (x + side * 1.6, y - 46)]
        canvas.polygon(ear, rgb("#9a5423"))
        canvas.polygon(
            [(x + side * 9, y - 41), (x + side * 8.4, y - 49), (x + side * 4, y - 45)],
            rgb("#e2a08a"),
        )
        for _ in range(60):
            u, v = rng.random(2)
            foot = (x + side * (3 + 6 * u), y - 44 + 3 * v)
            canvas.stroke(
                [foot, (foot[0] + side * 0.8, foot[1] - 3.5 * v - 1)], (0.4, 0.12), rgb("#f3d9b5")
            )
    canvas.ellipse((x, y - 38), (11.4, 9.6), 0, dark)
    paint_fur(canvas, rng, (0, -39, 11.2, 8.6), 1100)


def paint_face(view: Canvas, frame: int, place: tuple[float, float]) -> None:
    """Paint eyes (they blink once and look at the sun), muzzle, nose and whiskers."""
    x, y = place
    closed = max(0.0, 1 - abs(frame - 62) / 4)
    for side in (-1, 1):
        centre = (x + side * 4.7, y - 39.5)
        view.ellipse(centre, (2.9, 2.5 * (1 - closed) + 0.35), 0, rgb("#1c120c"))
        if closed < 0.7:
            tall = 2.1 * (1 - closed)
            view.ellipse(centre, (2.4, tall), 0, rgb("#8fc75a"))
            view.ellipse((centre[0] + 0.3, centre[1]), (0.75, tall), 0, rgb("#10130c"))
            view.ellipse((centre[0] + 0.9, centre[1] - 0.9), (0.55, 0.5), 0, rgb("#ffffff"))
        view.ellipse((x + side * 2.2, y - 34), (2.9, 2.2), 0, rgb("#fff4e4"))
    view.polygon([(x - 1.5, y - 36.6), (x + 1.5, y - 36.6), (x, y - 34.9)], rgb("#d1766c"))
    mouth = [
        (x - 2.4, y - 33),
        (x - 0.9, y - 32.7),
        (x, y - 34.9),
        (x + 0.9, y - 32.7),
        (x + 2.4, y - 33),
    ]
    view.stroke(mouth, (0.4, 0.4), rgb("#5a2c1c"))
    for side in (-1, 1):
        for row in range(3):
            rise = (row - 1) * 2.2 + 0.5 * np.sin(frame / 9 + row)
            points = [
                (x + side * 3.2, y - 34.4 + row * 0.7),
                (x + side * 9.5, y - 34.8 + row * 0.8 + rise * 0.35),
                (x + side * 16, y - 33.6 + rise),
            ]
            view.stroke(points, (0.38, 0.14), rgb("#fffaf0"))


def paint_tail(view: Canvas, hairs: Array, frame: int, left: float) -> None:
    """Paint the tail that hangs over the rail and sways."""
    sway = np.sin(2 * np.pi * frame / 64)
    t = np.linspace(0, 1, 24)
    xs = CAT[0] - left + 11 + 9 * t - 5 * t * t + sway * 7 * t**2
    ys = CAT[1] - 3 + 32 * t - 9 * np.clip(t - 0.75, 0, 1) * 4 * t
    for i in range(23):
        stripe = 0.5 + 0.5 * np.sin(i * 1.15)
        colour = mix(rgb("#b96d2a"), rgb("#63300f"), float(stripe))
        view.stroke([(xs[i], ys[i]), (xs[i + 1], ys[i + 1])], (4.4, 4.4), colour)
    for along, across, length, tone in hairs:
        i = min(int(along * 23), 22)
        side = across * 2 - 1
        foot = (float(xs[i] + side * 2.0), float(ys[i]))
        tip = (foot[0] + side * (0.8 + length), foot[1] + 1.6 + length)
        view.stroke([foot, tip], (0.5, 0.15), mix(rgb("#6b3413"), rgb("#f0b878"), float(tone)))


def grow_leaves(rng: np.random.Generator) -> list[tuple[float, float, float, float, Colour]]:
    """Scatter the leaves of the branch: x, y, angle, size (px), colour; the dark ones first."""
    leaves = []
    for _ in range(620):
        along = rng.random() ** 0.8
        x = WORLD + 6 - along * 150 + rng.normal() * 7
        y = 5 + 20 * np.sin(along * 2.6) + rng.normal() * (11 - 5 * along)
        light = float(np.clip(rng.random() + 0.25 * (0.5 - (y - 10) / 40), 0, 1))
        colour = mix(
            mix(rgb("#16301f"), rgb("#5f8a34"), light), rgb("#f2c84f"), max(light - 0.78, 0) * 2.2
        )
        leaves.append(
            (
                float(x),
                float(y),
                float(rng.normal() * 0.7 + 1.0),
                float(1.6 + 2.6 * rng.random()),
                colour,
            )
        )
    return sorted(leaves, key=lambda leaf: sum(leaf[4]))


def paint_branch(
    canvas: Canvas, leaves: list[tuple[float, float, float, float, Colour]], frame: int
) -> None:
    """Paint the branch that hangs into the picture from the upper right."""
    bark = rgb("#33241d")
    spine = [(WORLD + 6 - a * 150, 3 + 20 * np.sin(a * 2.6)) for a in np.linspace(0, 0.96, 12)]
    canvas.stroke(spine, (4.0, 0.6), bark)
    for i in range(1, 11):
        x, y = spine[i]
        canvas.stroke([(x, y), (x - 7, y + 7), (x - 11, y + 15 - i * 0.6)], (0.9, 0.25), bark)
    for x, y, angle, size, colour in leaves:
        phase = 2 * np.pi * frame / 48 + x * 0.07
        turn = angle + 0.22 * np.sin(phase + y * 0.3)
        centre = (x + 0.7 * np.sin(phase), y + 0.4 * np.cos(phase * 2))
        canvas.ellipse(centre, (size, size * 0.42), turn, colour)
        tip = (np.cos(turn) * size * 0.9, np.sin(turn) * size * 0.9)
        if size > 2.6:
            vein = mix(colour, rgb("#f6eebf"), 0.45)
            canvas.stroke(
                [
                    (centre[0] - tip[0], centre[1] - tip[1]),
                    (centre[0] + tip[0], centre[1] + tip[1]),
                ],
                (0.25, 0.15),
                vein,
            )
