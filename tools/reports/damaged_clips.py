"""Short clips with the damage that videos have, each with what it was before.

They are made of photographs that are never trained on, of a drawing and, where there is one, of a
film; FFmpeg's programs damage them, not the recipes of the training.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter, shift
from skimage import data

from tools.reports.photographs import Picture, installed_photographs

FRAMES = 24
STILL = 12
"""Frames that stand at the beginning of one clip."""
_WIDTH, _HEIGHT = 640, 360
_ROOM = 1.2  # size of a picture to pan over, of that of a clip
_FFMPEG = ("ffmpeg", "-v", "error", "-y")

Frames = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """One clip.

    Attributes:
        name: Damage, for a table.
        original: uint8 [FRAMES, 360, 640, 3].
        damaged: Half as large.
        stands: The first `STILL` frames are one picture.
    """

    name: str
    original: Frames
    damaged: Frames
    stands: bool = False


def clips(film: Path | None = None) -> list[Clip]:
    """The clips; that of a phone only with a film of at least 640x360 px.

    Raises:
        FileNotFoundError: FFmpeg's program is not installed, or scikit-image has no photographs.
        subprocess.CalledProcessError: FFmpeg refuses the film.
    """
    photographs = installed_photographs()
    made = [
        _dvd(photographs["motorcycle_left"]),
        _vhs(photographs["astronaut"]),
        _web(photographs["coffee"]),
        _noisy(data.rocket(), "noise of a dark scene, H.264", stands=True),
        _noisy(photographs["camera"], "noise on fine texture, H.264"),
        _soft(photographs["chelsea"]),
        _lines(),
    ]
    return [_phone(film), *made] if film else made


# --- damage


def _phone(film: Path) -> Clip:
    size = f"scale={_WIDTH}:{_HEIGHT}:force_original_aspect_ratio=increase,crop={_WIDTH}:{_HEIGHT}"
    raw = subprocess.run(
        [*_FFMPEG, "-i", str(film), "-frames:v", str(FRAMES), "-vf", f"{size},format=rgb24",
         "-f", "rawvideo", "-"],
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    original = np.frombuffer(raw, np.uint8).reshape(-1, _HEIGHT, _WIDTH, 3)
    seen = _halved(original) + np.random.default_rng(1).normal(0, 3, (len(original), 180, 320, 3))
    smooth = gaussian_filter(seen, (0, 0.5, 0.5, 0))
    sharp = smooth + 0.8 * (smooth - gaussian_filter(smooth, (0, 1, 1, 0)))
    coded = _coded(sharp, "-c:v libx264 -b:v 350k -preset veryfast")
    name = "phone: noise, sharpened, H.264 at 0.35 Mbit/s"
    return Clip(name=name, original=original, damaged=coded)


def _dvd(photograph: Picture) -> Clip:
    original = _pan(photograph, (2.2, 0.7))
    interlaced = "-c:v mpeg2video -q:v 5 -bf 2 -g 12 -flags +ildct+ilme -top 1"
    coded = _coded(_halved(original), interlaced, after="setfield=tff,bwdif=mode=0:deint=all")
    return Clip(name="DVD: interlaced MPEG-2, deinterlaced", original=original, damaged=coded)


def _vhs(photograph: Picture) -> Clip:
    original, rng = _pan(photograph, (1.0, 1.5)), np.random.default_rng(2)
    red, green, blue = np.moveaxis(_halved(original), -1, 0)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    smooth = gaussian_filter(luma, (0, 0.2, 1.0))
    ringing = smooth + 0.8 * (smooth - gaussian_filter(smooth, (0, 0, 1.4)))
    tape = ringing + rng.normal(0, 4, luma.shape)
    chroma = [
        shift(gaussian_filter(part + rng.normal(0, 6, luma.shape), (0, 0.8, 3.2)), (0, 0, 2))
        for part in (red - luma, blue - luma)
    ]
    red, blue = (tape + part for part in chroma)
    frames = np.stack([red, (tape - 0.299 * red - 0.114 * blue) / 0.587, blue], axis=-1)
    places = np.arange(frames.shape[2])
    for line in frames.reshape(-1, *frames.shape[2:]):
        jitter = rng.normal(0, 0.25)
        for colour in line.T:
            colour[:] = np.interp(places, places + jitter, colour)
    coded = _coded(frames, "-c:v mpeg2video -q:v 4 -bf 2 -g 12")
    name = "VHS: blurred and moved chroma, noise, ringing, jitter, MPEG-2"
    return Clip(name=name, original=original, damaged=coded)


def _web(photograph: Picture) -> Clip:
    original = _pan(photograph, (-1.5, 0.5), zoom=0.995, turn=0.001)
    first = _coded(_halved(original), "-c:v libx264 -crf 26 -preset veryfast")
    coded = _coded(first, "-c:v libvpx-vp9 -crf 38 -b:v 0 -deadline realtime -cpu-used 7")
    return Clip(name="web: H.264, then VP9", original=original, damaged=coded)


def _noisy(photograph: Picture, name: str, *, stands: bool = False) -> Clip:
    original = _pan(photograph, (1.6, 0.4))
    if stands:
        original[:STILL] = original[STILL]
    seen = _halved(original)
    noise = np.random.default_rng(3).normal(0, 7, seen.shape)
    coded = _coded(seen + noise, "-c:v libx264 -crf 20 -preset fast")
    return Clip(name=name, original=original, damaged=coded, stands=stands)


def _soft(photograph: Picture) -> Clip:
    original = _pan(photograph, (0.8, -0.6), zoom=1.002)
    smooth = gaussian_filter(_halved(original), (0, 0.8, 0.8, 0))
    coded = _coded(smooth, "-c:v libx264 -crf 22")
    return Clip(name="soft, as generated videos, H.264", original=original, damaged=coded)


def _lines() -> Clip:
    original = _pan(_drawing(), (2.0, 0.5))
    coded = _coded(_halved(original), "-c:v libx264 -crf 27 -preset veryfast")
    return Clip(name="drawn lines, H.264", original=original, damaged=coded)


# --- pictures and encoders


def _drawing() -> Picture:
    """Flat shapes with dark outlines, and arcs."""
    rng = np.random.default_rng(4)
    image = Image.new("RGB", (2 * _WIDTH, 2 * _HEIGHT), (214, 226, 240))
    draw = ImageDraw.Draw(image)
    for index in range(60):
        x, y, size = rng.uniform(0, 2 * _WIDTH), rng.uniform(0, 2 * _HEIGHT), rng.uniform(40, 260)
        fill, width = tuple(int(v) for v in rng.integers(60, 250, 3)), int(rng.integers(3, 8))
        if index % 2:
            box = (x, y, x + size, y + size * rng.uniform(0.5, 1.2))
            draw.ellipse(box, fill=fill, outline=(20, 18, 30), width=width)
        else:
            corners = [tuple(v) for v in rng.uniform(-size, size, (5, 2)) + np.array((x, y))]
            draw.polygon(corners, fill=fill, outline=(25, 20, 35), width=width)
    for _ in range(40):
        x, y = rng.uniform(0, _WIDTH), rng.uniform(0, _HEIGHT)
        box = (x, y, x + rng.uniform(100, _WIDTH), y + rng.uniform(100, _HEIGHT))
        start = rng.uniform(0, 180)
        draw.arc(box, start, start + rng.uniform(60, 180), fill=(15, 15, 25), width=3)
    return np.asarray(image.resize((900, 506), Image.Resampling.LANCZOS))


def _pan(
    picture: Picture, speed: tuple[float, float], *, zoom: float = 1.0, turn: float = 0.0
) -> Frames:
    """A window over a picture: px, size and turn (rad) a frame."""
    image = Image.fromarray(picture)
    factor = max(1.0, _ROOM * _WIDTH / image.width, _ROOM * _HEIGHT / image.height)
    size = (round(image.width * factor), round(image.height * factor))
    image = image.resize(size, Image.Resampling.LANCZOS)
    frames = []
    for time in range(-FRAMES // 2, FRAMES // 2):
        size_now, angle = zoom**time, turn * time
        along, across = size_now * np.cos(angle), size_now * np.sin(angle)
        x, y = image.width / 2 + speed[0] * time, image.height / 2 + speed[1] * time
        left = x - (along * _WIDTH + across * _HEIGHT) / 2
        top = y - (along * _HEIGHT - across * _WIDTH) / 2
        frames.append(
            image.transform(
                (_WIDTH, _HEIGHT),
                Image.Transform.AFFINE,
                (along, across, left, -across, along, top),
                Image.Resampling.BICUBIC,
            )
        )
    return np.stack([np.asarray(frame) for frame in frames])


def _halved(frames: Frames) -> Floats:
    size = (_WIDTH // 2, _HEIGHT // 2)
    small = [Image.fromarray(frame).resize(size, Image.Resampling.BOX) for frame in frames]
    return np.stack([np.asarray(frame) for frame in small]).astype(np.float64)


def _coded(frames: Floats | Frames, options: str, *, after: str = "null") -> Frames:
    """Frames after an encoder, a decoder and a filter of FFmpeg's."""
    height, width = frames.shape[1:3]
    raw = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -r 25 -i -".split()
    exact = "flags=accurate_rnd+full_chroma_int"
    there = f"scale=out_color_matrix=bt601:{exact},format=yuv420p"
    back = f"{after},scale=in_color_matrix=bt601:{exact}+bicubic,format=rgb24"
    with TemporaryDirectory() as folder:
        file = Path(folder) / "clip.mkv"
        values = np.clip(frames, 0, 255).astype(np.uint8)
        _run([*raw, "-vf", there, *options.split(), str(file)], values.tobytes())
        found = _run(["-i", str(file), "-vf", back, "-f", "rawvideo", "-"])
    return np.frombuffer(found, np.uint8).reshape(-1, height, width, 3)[: len(frames)]


def _run(arguments: Sequence[str], given: bytes = b"") -> bytes:
    return subprocess.run(
        [*_FFMPEG, *arguments], input=given, capture_output=True, check=True
    ).stdout
