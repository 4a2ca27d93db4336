"""Surfaces: square colour textures in linear light, made of random fields and strokes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw

from tools.training.generated.fields import (
    Array,
    Rng,
    cells_field,
    normalised,
    smooth_field,
    spectral_noise,
    stepped,
    streamed,
    warped,
)


def natural_colour(rng: Rng) -> Array:
    """One reflectance [3] in linear light: mostly muted, of log-uniform brightness."""
    level = np.exp(rng.uniform(np.log(0.02), np.log(0.85)))
    chroma = rng.exponential(0.16)
    warm, green = rng.normal(0.35, 0.8), rng.normal(0, 0.5)
    log_ratio = chroma * np.array([warm - 0.3 * green, green, -1.2 * warm - 0.3 * green])
    if rng.random() < 0.15:
        log_ratio = log_ratio + rng.normal(0, 0.9, 3)
    return np.asarray(np.clip(level * np.exp(log_ratio), 0.004, 0.97), dtype=np.float32)


def colourise(rng: Rng, field: Array, contrast: float) -> Array:
    """A field as a colour surface: brightness follows it in the log domain, hue a little."""
    base = natural_colour(rng)
    tilt = rng.normal(1.0, 0.18, 3).astype(np.float32)
    if rng.random() < 0.25:
        tilt = rng.normal(0.8, 0.7, 3).astype(np.float32)
    log_gain = field[..., None] * (tilt * np.float32(contrast))
    if rng.random() < 0.5:
        other = smooth_field(rng, field.shape[0], rng.uniform(2, 30))
        log_gain = log_gain + other[..., None] * rng.normal(0, 0.15, 3).astype(np.float32)
    return np.asarray(np.clip(base * np.exp(np.clip(log_gain, -4, 2.5)), 0, 1), dtype=np.float32)


def _contrast(rng: Rng) -> float:
    """Standard deviation of log reflectance: many faint surfaces, few strong ones."""
    return float(np.clip(rng.lognormal(np.log(0.22), 0.75), 0.02, 1.1))


def _noise(rng: Rng, size: int) -> Array:
    stretch = 1.0 if rng.random() < 0.5 else float(np.exp(rng.uniform(0, 2.3)))
    return spectral_noise(
        rng, size, rng.uniform(1.0, 3.2), stretch=stretch, angle=rng.uniform(0, np.pi)
    )


def flat(rng: Rng, size: int) -> Array:
    """A plain surface, at most a slow change of shade."""
    return colourise(rng, smooth_field(rng, size, rng.uniform(1, 4)), rng.uniform(0, 0.25))


def cloudy(rng: Rng, size: int) -> Array:
    """Power-law noise: plaster, skin, clouds, stone; sometimes with uneven strength."""
    field = _noise(rng, size)
    if rng.random() < 0.6:  # a product of scales has the heavy tails of photographs
        field = normalised(field * np.exp(_noise(rng, size) * np.float32(rng.uniform(0.3, 1.0))))
    return colourise(rng, field, _contrast(rng))


def ridged(rng: Rng, size: int) -> Array:
    """Folds and veins: bark, marble, wrinkles, water."""
    field = np.abs(_noise(rng, size)) ** np.float32(rng.uniform(0.4, 1.2))
    field = normalised(field) * np.float32(rng.choice([-1, 1]))
    field = normalised(field + np.float32(rng.uniform(0, 0.6)) * _noise(rng, size))
    return colourise(rng, field, _contrast(rng))


def patched(rng: Rng, size: int) -> Array:
    """Level sets of fractal noise: foliage against sky, lichen, spots, camouflage."""
    field = spectral_noise(rng, size, rng.uniform(2.0, 3.6), stretch=rng.uniform(1, 2.5))
    levels = np.sort(rng.normal(0, 1, int(rng.integers(1, 6)))).astype(np.float32)
    steps = stepped(field, levels, rng.uniform(0.02, 0.4))
    detail = _noise(rng, size) * np.float32(rng.uniform(0, 0.5))
    return colourise(rng, normalised(steps + detail), _contrast(rng) * 1.5)


def flowing(rng: Rng, size: int) -> Array:
    """Fur, hair, straw and brushed surfaces."""
    field = streamed(rng, size, int(2 ** rng.integers(3, 7)), rng.uniform(1, 7))
    field = field + np.float32(rng.uniform(0, 1.2)) * smooth_field(rng, size, rng.uniform(3, 40))
    return colourise(rng, normalised(field), _contrast(rng) * 1.2)


def cellular(rng: Rng, size: int) -> Array:
    """Stones, tiles, leather, bubbles, scales."""
    first, second, value = cells_field(
        rng, size, np.exp(rng.uniform(np.log(5), np.log(70))), rng.uniform(0.2, 1.0)
    )
    gap = np.clip((second - first) / np.float32(rng.uniform(0.05, 0.5)), 0, 1)
    dome = 1 - first * first * np.float32(rng.uniform(0, 1.2))
    field = gap * (dome + np.float32(rng.uniform(0, 1.5)) * value)
    field = normalised(field) + _noise(rng, size) * np.float32(rng.uniform(0, 0.6))
    return colourise(rng, warped(rng, normalised(field), rng.uniform(0, 9), 9), _contrast(rng))


def woven(rng: Rng, size: int) -> Array:
    """Cloth, bricks, shingles, blinds: one or two periodic directions, bent a little."""
    ys, xs = np.mgrid[0:size, 0:size].astype(np.float32)
    angle = rng.uniform(0, np.pi)
    u = np.cos(angle) * xs + np.sin(angle) * ys
    v = -np.sin(angle) * xs + np.cos(angle) * ys
    period = np.exp(rng.uniform(np.log(5), np.log(50)))
    ratio = np.exp(rng.normal(0, 0.5))
    a = np.sin(u * np.float32(2 * np.pi / period))
    b = np.sin(v * np.float32(2 * np.pi / (period * ratio)) + rng.uniform(0, 6))
    kind = rng.integers(4)
    wave = (a, a * b, np.maximum(a, b), a + b * np.sign(a))[kind]
    hard = np.float32(np.exp(rng.uniform(0, 2.5)))
    field = np.tanh(wave * hard + np.float32(rng.uniform(-0.5, 0.5)))
    field = field + _noise(rng, size) * np.float32(rng.uniform(0, 0.7))
    return colourise(rng, warped(rng, normalised(field), rng.uniform(0, 12), 5), _contrast(rng))


def littered(rng: Rng, size: int) -> Array:
    """Gravel, leaf litter, seeds, crowds: very many small overlapping pieces."""
    image = Image.fromarray(_as_bytes(cloudy(rng, size)))
    draw = ImageDraw.Draw(image)
    mean, spread = natural_colour(rng), rng.uniform(0.1, 0.7)
    smallest = np.exp(rng.uniform(np.log(2.0), np.log(12)))
    count = int(min(3500, rng.uniform(0.3, 1.5) * (size / smallest) ** 2 / 8))
    radii = np.minimum(smallest * (1 - rng.random(count)) ** (-1 / rng.uniform(1.5, 3)), 60)
    squash = rng.uniform(0.15, 1.0)
    lean = rng.uniform(0, np.pi)
    for i in range(count):
        x, y = rng.uniform(0, size, 2)
        turn = lean + rng.normal(0, 0.6)
        t = np.arange(7) * (2 * np.pi / 7) + rng.uniform(0, 1)
        px, py = radii[i] * np.cos(t), radii[i] * squash * np.sin(t) * rng.uniform(0.6, 1.4)
        points = np.stack(
            [x + np.cos(turn) * px - np.sin(turn) * py, y + np.sin(turn) * px + np.cos(turn) * py]
        )
        colour = np.clip(mean * np.exp(rng.normal(0, spread) + rng.normal(0, 0.08, 3)), 0, 1)
        draw.polygon(list(map(tuple, points.T.tolist())), fill=_ink(colour))
    return _from_bytes(image)


def stroked(rng: Rng, size: int) -> Array:
    """Single hairs, grass blades, twigs and needles over a dark ground."""
    image = Image.fromarray(_as_bytes(cloudy(rng, size) * np.float32(rng.uniform(0.2, 1))))
    draw = ImageDraw.Draw(image)
    mean, spread = natural_colour(rng), rng.uniform(0.15, 0.6)
    flow = smooth_field(rng, size, rng.uniform(1, 5)) * np.float32(rng.uniform(0.1, 1.2))
    lean, scatter = rng.uniform(0, 2 * np.pi), rng.uniform(0.03, 0.9)
    length, width = np.exp(rng.uniform(np.log(14), np.log(160))), rng.uniform(0.6, 3.5)
    count = int(min(4500, rng.uniform(0.15, 1.5) * size * size / (length * width)))
    for x, y in rng.uniform(0, size, (count, 2)):
        turn = lean + flow[int(y), int(x)] + rng.normal(0, scatter)
        bend = rng.normal(0, 0.5)
        reach = length * rng.uniform(0.4, 1.3)
        t = np.array([0, 0.33, 0.67, 1.0])
        px = x + reach * t * np.cos(turn + bend * t)
        py = y + reach * t * np.sin(turn + bend * t)
        colour = np.clip(mean * np.exp(rng.normal(0, spread) + rng.normal(0, 0.06, 3)), 0, 1)
        line = list(zip(px.tolist(), py.tolist(), strict=True))
        draw.line(line, fill=_ink(colour), width=max(1, round(width * rng.uniform(0.5, 1.5))))
    return _from_bytes(image)


def _as_bytes(linear: Array) -> np.ndarray:
    """Square-root coded bytes: finer steps in the dark than linear bytes would have."""
    return (np.sqrt(np.clip(linear, 0, 1)) * 255 + 0.5).astype(np.uint8)


def _from_bytes(image: Image.Image) -> Array:
    coded: Array = np.asarray(image, dtype=np.float32) / np.float32(255)
    return coded * coded


def _ink(linear: Array) -> tuple[int, int, int]:
    r, g, b = (np.sqrt(linear) * 255).astype(int).tolist()
    return r, g, b


_KINDS: tuple[tuple[Callable[[Rng, int], Array], float], ...] = (
    (flat, 1.2),
    (cloudy, 2.6),
    (ridged, 1.0),
    (patched, 1.4),
    (flowing, 1.4),
    (cellular, 0.9),
    (woven, 0.9),
    (littered, 1.0),
    (stroked, 1.2),
)


def random_texture(rng: Rng, size: int) -> Array:
    """One surface [size, size, 3] in linear light, 0 to 1, of a randomly chosen kind."""
    shares = np.array([share for _, share in _KINDS])
    make = _KINDS[int(rng.choice(len(_KINDS), p=shares / shares.sum()))][0]
    return make(rng, size)
