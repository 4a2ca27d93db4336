"""Procedural photographs: surfaces, occlusion, light, lens and camera, from one seed.

Scenes are drawn at twice the final size in linear light and then photographed: defocus, shadow,
lens blur, reduction, tone curve, sharpening, noise, 8 bits. The camera matters as much as the
scene: a network that saw only crisp edges sharpens fur and grain that photographs show soft.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont

from tools.training.generated.fields import (
    Array,
    Rng,
    smooth_field,
    spectral_noise,
    warped,
)
from tools.training.generated.textures import natural_colour, random_texture

OVERSAMPLE = 2
"""Drawing scale: scene px per picture px."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lens:
    """Blur of lens and sensor as a Gaussian: log-normal sigma in picture px, within limits."""

    median: float
    spread: float
    least: float
    most: float

    def sigma(self, rng: Rng) -> float:
        """Blur of one picture."""
        drawn = rng.lognormal(np.log(self.median), self.spread)
        return float(np.clip(drawn, self.least, self.most))


# Most published photographs are reduced ones: sharp, with power up to the highest frequency.
SHARP = Lens(median=0.33, spread=0.55, least=0.08, most=1.8)
# As from a camera at full size, or a frame of a video.
SOFT = Lens(median=0.55, spread=0.42, least=0.25, most=2.2)


class Surfaces:
    """Textures that the scenes of one chunk share: drawing one costs more than cutting from it."""

    def __init__(self, rng: Rng, *, count: int = 18, size: int = 768) -> None:
        """Draw `count` surfaces [size, size, 3]; memory count * size**2 * 12 bytes."""
        self._bank = [random_texture(rng, size) for _ in range(count)]

    def cut(self, rng: Rng, size: int) -> Array:
        """A random part of a random surface [size, size, 3], turned, mirrored and rescaled."""
        bank = self._bank[int(rng.integers(len(self._bank)))]
        zoom = float(np.exp(rng.uniform(np.log(0.7), np.log(2.4))))
        side = min(bank.shape[0], int(size / zoom))
        y, x = (int(v) for v in rng.integers(0, bank.shape[0] - side + 1, 2))
        part = np.rot90(bank[y : y + side, x : x + side], int(rng.integers(4)))
        if rng.random() < 0.5:
            part = part[:, ::-1]
        gain = np.exp(rng.normal(0, 0.45) + rng.normal(0, 0.12, 3)).astype(np.float32)
        return _f32(np.clip(_resized(np.ascontiguousarray(part), size) * gain, 0, 1))


def random_picture(rng: Rng, surfaces: Surfaces, size: int, lens: Lens = SHARP) -> np.ndarray:
    """One finished picture uint8 [size, size, 3], sRGB-like."""
    canvas = size * OVERSAMPLE
    kind = rng.random()
    if kind < 0.07:
        linear = page(rng, canvas)
    elif kind < 0.2:  # one surface close up
        linear = surfaces.cut(rng, canvas)
    else:
        linear = leaves(rng, surfaces, canvas)
        if rng.random() < 0.55:
            linear = _in_front(rng, surfaces, linear)
    if rng.random() < 0.7:
        linear = _lit(rng, linear)
    if rng.random() < 0.08:
        linear = _written_on(rng, linear)
    return photograph(rng, linear, lens)


def leaves(rng: Rng, surfaces: Surfaces, size: int) -> Array:
    """Occluding shapes with power-law sizes, each with its own surface, tint and shading."""
    slots = int(rng.integers(3, 8))
    stack = np.stack([surfaces.cut(rng, size) for _ in range(slots)])
    count = int(np.exp(rng.uniform(np.log(8), np.log(450))))
    index = Image.new("I", (size, size), 0)
    draw = ImageDraw.Draw(index)
    smallest = np.exp(rng.uniform(np.log(4), np.log(60)))
    radii = smallest * (1 - rng.random(count)) ** (-1 / rng.uniform(1.2, 2.6))
    style = rng.random(4) + 0.05
    for i, radius in enumerate(np.minimum(radii, size * 0.6), start=1):
        outline = _outline(rng, float(radius), style) + rng.uniform(0, size, 2)
        draw.polygon(list(map(tuple, outline.tolist())), fill=i)
    owner = np.asarray(index, dtype=np.int64)
    slot = rng.integers(0, slots, count + 1)
    spread = rng.uniform(0.05, 0.7)
    tint = np.exp(rng.normal(0, spread, (count + 1, 1)) + rng.normal(0, spread / 4, (count + 1, 3)))
    ys, xs = np.mgrid[0:size, 0:size]
    colour = stack[slot[owner], ys, xs] * tint.astype(np.float32)[owner]
    slope = (rng.normal(0, 0.5, (2, count + 1)) * (rng.random(count + 1) < 0.6)).astype(np.float32)
    shade = slope[0][owner] * (xs / np.float32(size) - np.float32(0.5))
    shade += slope[1][owner] * (ys / np.float32(size) - np.float32(0.5))
    return _f32(np.clip(colour * np.exp(shade)[..., None], 0, 1))


def _outline(rng: Rng, radius: float, style: Array | np.ndarray) -> np.ndarray:
    """Closed outline [n, 2] around the origin: blob, polygon, rectangle or branch."""
    kind = int(rng.choice(4, p=style / style.sum()))
    turn = rng.uniform(0, 2 * np.pi)
    if kind == 0:  # blob: a few random harmonics
        t = np.linspace(0, 2 * np.pi, int(np.clip(radius, 12, 90)), endpoint=False)
        wobble = sum(
            rng.normal(0, 0.5 / n**1.3) * np.cos(n * t + rng.uniform(0, 6)) for n in range(1, 9)
        )
        r = radius * np.exp(np.clip(wobble * rng.uniform(0, 1), -1.5, 1))
        points = np.stack([r * np.cos(t), r * np.sin(t) * rng.uniform(0.3, 1)], axis=1)
    elif kind == 1:
        t = np.sort(rng.uniform(0, 2 * np.pi, int(rng.integers(3, 8))))
        points = np.stack([np.cos(t), np.sin(t)], axis=1) * radius * rng.uniform(0.6, 1.3)
    elif kind == 2:
        w, h = radius, radius * np.exp(rng.uniform(np.log(0.08), 0))
        points = np.array([[-w, -h], [w, -h], [w, h], [-w, h]])
    else:  # branch: a bent strip that gets thinner
        t = np.linspace(0, 1, 10)
        bend = rng.normal(0, 1.2)
        cx = (t - 0.5) * 4 * radius
        cy = bend * radius * (t - 0.5) ** 2 * 2 + radius * 0.15 * np.sin(t * rng.uniform(0, 20))
        half = max(0.7, radius * rng.uniform(0.02, 0.3)) * (1 - rng.uniform(0, 1) * t)
        points = np.concatenate([np.stack([cx, cy + half], 1), np.stack([cx, cy - half], 1)[::-1]])
    c, s = np.cos(turn), np.sin(turn)
    return np.asarray(points @ np.array([[c, s], [-s, c]]))


def _in_front(rng: Rng, surfaces: Surfaces, back: Array) -> Array:
    """Lay a second plane over the scene; one of the two planes may be out of focus."""
    size = back.shape[0]
    front = leaves(rng, surfaces, size) if rng.random() < 0.5 else surfaces.cut(rng, size)
    field = spectral_noise(rng, size, rng.uniform(2.4, 4.2), stretch=rng.uniform(1, 4))
    mask = (field > rng.normal(0.3, 0.6)).astype(np.float32)
    blur = float(np.exp(rng.uniform(np.log(0.6), np.log(9)))) if rng.random() < 0.7 else 0.0
    if rng.random() < 0.75:
        back = blurred(back, blur)
    else:
        front, mask = blurred(front, blur), blurred(mask[..., None], blur)[..., 0]
    if rng.random() < 0.4:  # contact shadow on the background
        shadow = blurred(np.roll(mask, (6, 4), (0, 1))[..., None], rng.uniform(2, 10))
        back = back * (1 - np.float32(rng.uniform(0.1, 0.7)) * shadow)
    return back + mask[..., None] * (front - back)


def _lit(rng: Rng, linear: Array) -> Array:
    """Uneven light, cast shadows with soft edges, highlights."""
    size = linear.shape[0]
    light = smooth_field(rng, size, rng.uniform(1, 4)) * np.float32(rng.uniform(0, 0.5))
    if rng.random() < 0.35:
        edge = spectral_noise(rng, size, rng.uniform(3.0, 4.5))
        softness = np.float32(np.exp(rng.uniform(np.log(0.02), np.log(1.0))))
        light += np.clip(edge / softness, -0.5, 0.5) * np.float32(rng.uniform(0.2, 1.6))
    return _f32(np.clip(linear * np.exp(light)[..., None], 0, 1.5))


def page(rng: Rng, size: int) -> Array:
    """Text, rules, line drawings and colour fields, as in titles, screens and signs."""
    ground, ink = natural_colour(rng), natural_colour(rng)
    if rng.random() < 0.4:
        ground, ink = (np.full(3, v, np.float32) for v in rng.permutation([0.01, 0.92]))
    image = Image.new("RGB", (size, size), _coded(ground))
    draw = ImageDraw.Draw(image)
    for _ in range(int(rng.integers(2, 25))):
        box = np.sort(rng.uniform(0, size, (2, 2)), axis=0).ravel().tolist()
        width = int(rng.integers(1, 9))
        colour = _coded(ink if rng.random() < 0.6 else natural_colour(rng))
        drawing = rng.integers(4)
        if drawing == 0:
            draw.line(box, fill=colour, width=width)
        elif drawing == 1:
            draw.ellipse(box, outline=colour, width=width)
        elif drawing == 2:
            draw.rectangle(box, outline=colour, width=width)
        else:
            start, end = rng.uniform(0, 360, 2).tolist()
            draw.arc(box, start, end, fill=colour, width=width)
    _write(rng, draw, size, ink)
    coded = np.asarray(image, dtype=np.float32) / 255
    return _f32(coded**2)


def _written_on(rng: Rng, linear: Array) -> Array:
    size = linear.shape[0]
    mask = Image.new("RGB", (size, size), 0)
    _write(rng, ImageDraw.Draw(mask), size, np.ones(3, np.float32))
    cover = np.asarray(mask, dtype=np.float32)[..., :1] / 255
    return linear + cover * (natural_colour(rng) - linear)


def _write(rng: Rng, draw: ImageDraw.ImageDraw, size: int, ink: Array) -> None:
    """Lines of random words; the digits and letters of Pillow's built-in face."""
    letters = np.array(list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,;:%&"))
    y = rng.uniform(0, size / 3)
    height = float(np.exp(rng.uniform(np.log(12), np.log(90))))
    while y < size:
        font = ImageFont.load_default(height)
        words = ("".join(rng.choice(letters, int(rng.integers(1, 10)))) for _ in range(12))
        draw.text((rng.uniform(-40, size / 3), y), " ".join(words), fill=_coded(ink), font=font)
        y += height * rng.uniform(1.1, 1.8)
        if rng.random() < 0.2:
            return


def _coded(linear: Array) -> tuple[int, int, int]:
    r, g, b = (np.sqrt(np.clip(linear, 0, 1)) * 255).astype(int).tolist()
    return r, g, b


def photograph(rng: Rng, linear: Array, lens: Lens) -> np.ndarray:
    """Lens, sensor and tone curve: linear scene -> uint8 picture of half its size."""
    if rng.random() < 0.2:
        linear = warped(rng, linear, rng.uniform(0, 20), 3)
    sigma = OVERSAMPLE * lens.sigma(rng)
    linear = blurred(linear, sigma)
    if rng.random() < 0.08:
        linear = _shaken(rng, linear)
    size = linear.shape[0] // OVERSAMPLE
    small = linear.reshape(size, OVERSAMPLE, size, OVERSAMPLE, 3).mean(axis=(1, 3))
    exposure = np.float32(rng.lognormal(0.1, 0.35) * 0.30 / (small.mean() + 0.05))
    small = np.clip(small * np.clip(exposure, 0.5, 3.5), 0, 1)
    noise = rng.exponential(0.010) if rng.random() < 0.7 else 0.0
    if noise:
        grain = rng.standard_normal(small.shape, dtype=np.float32)
        if rng.random() < 0.7:  # demosaicing and denoising make grain a little soft
            grain = blurred(grain, float(rng.uniform(0.35, 0.8))) * 1.7
        small = small + grain * np.float32(noise) * np.sqrt(small + 0.02)
    coded = np.clip(small, 0, 1) ** np.float32(1 / rng.uniform(1.9, 2.4))
    curve = np.float32(rng.uniform(0, 0.5))
    coded = coded + curve * (coded * coded * (3 - 2 * coded) - coded)
    if rng.random() < 0.6:
        halo = blurred(coded, float(rng.uniform(0.5, 1.4)))
        coded = coded + np.float32(rng.uniform(0.1, 0.9)) * (coded - halo)
    return np.asarray(np.clip(coded, 0, 1) * 255 + 0.5).astype(np.uint8)


def blurred(image: Array, sigma: float) -> Array:
    """Gaussian blur of [h, w, c] with reflected edges; nothing below sigma 0.1."""
    if sigma < 0.1:
        return image
    radius = max(1, int(np.ceil(3 * sigma)))
    offsets = torch.arange(-radius, radius + 1, dtype=torch.float32)
    taps = torch.exp(-0.5 * (offsets / sigma) ** 2)
    return _filtered(image, (taps / taps.sum()).tolist(), radius)


def _filtered(image: Array, taps: Sequence[float], radius: int) -> Array:
    planes = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))[:, None]
    kernel = torch.tensor(taps, dtype=torch.float32)
    planes = F.pad(planes, (radius,) * 4, mode="reflect")
    planes = F.conv2d(F.conv2d(planes, kernel[None, None, :, None]), kernel[None, None, None, :])
    return np.asarray(planes[:, 0].numpy().transpose(1, 2, 0), dtype=np.float32)


def _shaken(rng: Rng, linear: Array) -> Array:
    """Straight motion blur of up to 6 picture px."""
    length, angle = rng.uniform(1, 6) * OVERSAMPLE, rng.uniform(0, np.pi)
    steps = np.linspace(-0.5, 0.5, 9) * length
    shifts = [(round(s * np.sin(angle)), round(s * np.cos(angle))) for s in steps]
    return np.asarray(
        np.mean([np.roll(linear, s, (0, 1)) for s in shifts], axis=0), dtype=np.float32
    )


def _resized(image: Array, size: int) -> Array:
    planes = torch.from_numpy(image.transpose(2, 0, 1).copy())[None]
    out = F.interpolate(
        planes, size=(size, size), mode="bicubic", align_corners=False, antialias=True
    )
    return np.asarray(out[0].numpy().transpose(1, 2, 0), dtype=np.float32)


def _f32(values: np.ndarray) -> Array:
    return np.asarray(values, dtype=np.float32)
