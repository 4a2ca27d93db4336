"""The scene of the sample clip: an evening by a lake, with a windmill, a sign and a cat.

Each thing is there because upscalers are judged by it: letters, thin straight lines that turn,
leaves, grass and fur, smooth sky, water. Layers pan at different speeds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sample_paint import SCALE, Array, Canvas, Colour, fractal_line, fractal_noise, over

WIDTH, HEIGHT = 320, 180  # px
FRAMES = 96
PAN_NEAR, PAN_MIDDLE, PAN_FAR = 2, 1, 0.5  # canvas points a frame (whole points stay sharp)
HORIZON = 104  # px
SUN = (222.0, 74.0)


def rgb(code: str) -> Colour:
    """Return the colour of "#rrggbb" as three numbers from 0 to 1."""
    return tuple(int(code[i : i + 2], 16) / 255 for i in (1, 3, 5))  # type: ignore[return-value]


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """Blend two colours; share 0 gives the first."""
    return tuple(a + (b - a) * share for a, b in zip(first, second, strict=True))  # type: ignore[return-value]


def ramp(stops: list[tuple[float, str]], position: Array) -> Array:
    """Look up smooth colours [..., 3] at `position` between the stops' places."""
    places = [place for place, _ in stops]
    colours = np.array([rgb(code) for _, code in stops])
    return np.stack([np.interp(position, places, colours[:, i]) for i in range(3)], -1).astype(
        np.float32
    )


def paint_sky(rng: np.random.Generator) -> Array:
    """Paint sky, sun and clouds, [h, w, 3] in canvas points; 40 px wider than a frame."""
    width = (WIDTH + 40) * SCALE
    y = (np.arange(HEIGHT * SCALE) / SCALE)[:, None]
    x = (np.arange(width) / SCALE)[None, :]
    stops = [(0, "#233a66"), (40, "#4a6f9c"), (72, "#c79aa0"), (92, "#ffc98a"), (108, "#ffe3b0")]
    sky = ramp(stops, np.broadcast_to(y, (HEIGHT * SCALE, width)).astype(np.float32))
    distance = np.hypot(x - SUN[0], (y - SUN[1]) * 1.15)
    glow = (0.42 * np.exp(-distance / 22) + 0.24 * np.exp(-distance / 90))[..., None]
    sky = sky + glow.astype(np.float32) * np.array([1.0, 0.66, 0.30], np.float32)
    disc = np.clip((9.5 - distance) * SCALE / 2, 0, 1)[..., None]
    sky = sky * (1 - disc) + disc * np.array([1.0, 0.98, 0.90])
    shape = fractal_noise(rng, HEIGHT * SCALE, width, 1.55, stretch=3.2)
    cover = np.clip((shape - 0.45) * 0.55, 0, 1) * np.clip(1.15 - y / 84, 0, 1) ** 0.7
    lit = np.clip(0.45 + (shape - np.roll(shape, -10, 0)) * 1.1 + y / 150, 0, 1)
    light = ramp([(0, "#6d7296"), (0.5, "#e0a79c"), (1, "#ffe9c8")], lit.astype(np.float32))
    share = 0.82 * (cover**0.7)[..., None]
    return np.clip(sky * (1 - share) + light * share, 0, 1).astype(np.float32)


def paint_mountains(rng: np.random.Generator) -> Canvas:
    """Paint three ridges, each nearer one darker, with a grain of forest on the last."""
    canvas = Canvas(WIDTH + 40, HEIGHT)
    columns = canvas.data.shape[1]
    rows = (np.arange(canvas.data.shape[0]) / SCALE)[:, None]
    ridges = [
        (82, 8, "#8f86a6", "#e2b6a4"),
        (91, 5, "#5f6a8c", "#c69f9a"),
        (99, 2.2, "#2f4a55", "#6f726c"),
    ]
    for height, swing, top, foot in ridges:
        line = fractal_line(rng, columns, 1.5) * swing
        spikes = np.abs(fractal_line(rng, columns, 0.45)) * (1.1 if height > 95 else 0.15)
        edge = height + line - spikes
        mask = np.clip((rows - edge[None, :]) * SCALE, 0, 1) * (rows < HORIZON + 1)
        share = np.clip((rows - edge[None, :]) / (HORIZON - height + 12), 0, 1)
        grain = fractal_noise(rng, *canvas.data.shape[:2], 0.9)[..., None] * 0.018
        colour = ramp([(0, top), (1, foot)], share.astype(np.float32)) + grain
        canvas.blend(0, 0, mask.astype(np.float32), colour.astype(np.float32))
    return canvas


def water(scene: Array, frame: int, ripples: Array) -> Array:
    """Mirror what is above the horizon into the lake, broken by ripples that drift."""
    top = HORIZON * SCALE
    rows = np.arange(scene.shape[0] - top)
    depth = rows / SCALE
    drift = np.roll(ripples, (frame // 2, 3 * frame), (0, 1))[rows, : scene.shape[1]]
    source = np.clip(
        top - 1 - rows[:, None] * 1.35 + drift * (2 + depth[:, None] * 0.45), 0, top - 1
    )
    mirrored = scene[source.astype(int), np.arange(scene.shape[1])[None, :]]
    tint = np.array(rgb("#2c5566"), np.float32)
    share = np.clip(0.22 + depth / 130, 0, 0.55)[:, None, None]
    path = np.exp(
        -(((np.arange(scene.shape[1]) / SCALE - SUN[0]) / (9 + depth[:, None] * 0.5)) ** 2)
    )
    sparkle = np.clip(drift - 1.6 + 1.5 * path, 0, 1)[..., None]
    glint = sparkle * np.array([0.55, 0.40, 0.20], np.float32)
    scene[top:] = np.clip(mirrored * (1 - share) + tint * share + glint, 0, 1)
    return scene


def paint_mill(canvas: Canvas, frame: int, x: float) -> None:
    """Draw a windmill on its spit of land: boards, a railing, and four lattice sails that turn."""
    ground = [
        (x - 52, 107),
        (x - 30, 104),
        (x - 8, 102.5),
        (x + 16, 103),
        (x + 44, 106),
        (x + 60, 107.5),
    ]
    canvas.polygon([*ground, (x + 40, 110), (x - 40, 110)], rgb("#26393a"))
    tower = [(x - 8, 103.5), (x - 4.6, 72), (x + 4.6, 72), (x + 8, 103.5)]
    canvas.polygon(tower, rgb("#5b4640"))
    canvas.polygon([(x + 1, 103.5), (x + 1, 72), (x + 4.6, 72), (x + 8, 103.5)], rgb("#8d6a52"))
    for row in range(11):
        y = 74.5 + row * 2.7
        half = 4.7 + (y - 72) * 0.108
        canvas.stroke([(x - half, y), (x + half, y)], (0.3, 0.3), rgb("#40302d"))
    canvas.polygon([(x - 5.6, 72), (x, 65.5), (x + 5.6, 72)], rgb("#7c3f36"))
    for y, glow in ((80, "#ffd98a"), (91, "#ffcf78")):
        canvas.polygon(
            [(x - 1.3, y), (x + 1.3, y), (x + 1.3, y + 3.4), (x - 1.3, y + 3.4)], rgb(glow)
        )
        canvas.stroke([(x, y), (x, y + 3.4)], (0.35, 0.35), rgb("#40302d"))
    canvas.stroke([(x - 10, 93), (x + 10, 93)], (0.7, 0.7), rgb("#3b2d2a"))
    for step in range(11):
        canvas.stroke(
            [(x - 10 + 2 * step, 90.6), (x - 10 + 2 * step, 93)], (0.3, 0.3), rgb("#3b2d2a")
        )
    canvas.stroke([(x - 10, 90.6), (x + 10, 90.6)], (0.35, 0.35), rgb("#3b2d2a"))
    for sail in range(4):
        paint_sail(canvas, (x, 72.5), frame * 0.026 + sail * np.pi / 2 + 0.35)


def paint_sail(canvas: Canvas, hub: tuple[float, float], angle: float) -> None:
    """Draw one sail: a spar and a lattice on one side of it."""
    along = np.array([np.cos(angle), np.sin(angle)])
    across = np.array([-along[1], along[0]])

    def at(distance: float, side: float) -> tuple[float, float]:
        return (
            float(hub[0] + along[0] * distance + across[0] * side),
            float(hub[1] + along[1] * distance + across[1] * side),
        )

    wood = rgb("#f3e3c6")
    canvas.stroke([at(0, 0), at(29, 0)], (0.95, 0.6), rgb("#3a2a28"))
    for side in (2.0, 4.2, 6.2):
        canvas.stroke([at(6, side), at(28.5, side)], (0.38, 0.38), wood)
    for step in range(10):
        canvas.stroke([at(6 + 2.5 * step, 0), at(6 + 2.5 * step, 6.2)], (0.38, 0.38), wood)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blade:
    """One blade of grass: where it stands, how tall (px), which way it leans, and its colour."""

    x: float
    y: float
    height: float
    lean: float
    phase: float
    colour: Colour


def sow_grass(rng: np.random.Generator, width: int, count: int) -> list[Blade]:
    """Scatter blades over the meadow, the far ones first."""
    dark, light, gold = rgb("#1d3a2a"), rgb("#7fa548"), rgb("#d9c069")
    blades = []
    for y in np.sort(148 + 40 * rng.random(count) ** 1.2):
        near = (y - 148) / 40
        colour = mix(
            mix(dark, light, float(rng.random()) ** 1.5), gold, float(rng.random()) ** 4 * 0.8
        )
        height = 7 + (7 + 13 * near) * rng.random()
        x, lean, phase = rng.random() * width, rng.normal() * 0.25, rng.random() * 0.9
        blades.append(
            Blade(
                x=float(x),
                y=float(y),
                height=float(height),
                lean=float(lean),
                phase=float(phase),
                colour=colour,
            )
        )
    return blades


def paint_grass(canvas: Canvas, blades: list[Blade], frame: int, left: float) -> None:
    """Draw the blades in view as they bend in a wind that runs through the meadow."""
    for blade in blades:
        if not left - 20 < blade.x < left + WIDTH + 20:
            continue
        wind = np.sin(2 * np.pi * frame / 48 - blade.x / 26 + blade.phase) * 0.16 + 0.12
        bend = (blade.lean + wind) * blade.height
        points = [
            (blade.x + bend * t * t, blade.y - blade.height * (t - 0.12 * t * t * abs(wind)))
            for t in (0.0, 0.35, 0.7, 1.0)
        ]
        canvas.stroke(points, (0.5 + blade.height / 26, 0.15), blade.colour)


def compose(frame: int, parts: tuple[Array, Canvas, Array], middle: Canvas, near: Canvas) -> Array:
    """Put the layers of one frame together, [180 * SCALE, 320 * SCALE, 3]."""
    sky, mountains, ripples = parts
    far = round(frame * PAN_FAR)
    scene = sky[:, far // 2 : far // 2 + WIDTH * SCALE].copy()
    scene = over(scene, mountains.data[:, far : far + WIDTH * SCALE])
    scene = water(over(scene, middle.data), frame, ripples)
    scene = over(scene, middle.data)
    return over(scene, near.data)
