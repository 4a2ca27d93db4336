"""Clips to learn from, cut from the videos and pictures of a folder."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from engine.core.errors import InputError
from engine.pipeline.stages.restore import SourceColours
from engine.protocol.media import MediaInfo
from engine.video.read.frame_reader import FrameReader
from engine.video.read.frames import PlanarFrame
from engine.video.read.probe import probe
from engine.video.shots import ShotDetector

log = logging.getLogger(__name__)

Clips = np.ndarray
"""uint8 [n, T, side, side, 3], RGB."""
Rng = np.random.Generator


def clips_in(folder: Path, *, frames: int, side: int, count: int, seed: int) -> Clips:
    """Clips of all videos and pictures in a folder and those below it, the same for the same seed.

    Each file gives an equal share, drawn evenly from all of its frames; no clip reaches over a cut.
    A picture is a video of one frame. Files that cannot be read are reported and left out.

    Args:
        folder: Folder with videos; interlaced ones are taken as they are stored.
        frames: Number of frames of a clip.
        side: Side of its frames, px; videos with smaller frames give nothing.
        count: Most clips.
        seed: Seed of the drawing.

    Raises:
        argparse.ArgumentError: Nothing was found.

    Memory: the clips, and the frames of one.
    """
    return np.stack(_found(folder, frames, side, count, seed, is_whole=False))


def images_in(folder: Path, *, side: int, count: int, seed: int) -> list[np.ndarray]:
    """Whole frames of the videos and images in a folder, chosen like clips of one frame.

    Args:
        folder: Folder with videos and images, read as `clips_in` does.
        side: Least height and width, px.
        count: Most images.
        seed: Seed of the drawing.

    Returns:
        uint8 [h, w, 3] each.

    Raises:
        argparse.ArgumentError: Nothing was found.

    Memory: the images.
    """
    return [clip[0] for clip in _found(folder, 1, side, count, seed, is_whole=True)]


def _found(
    folder: Path, frames: int, side: int, count: int, seed: int, *, is_whole: bool
) -> list[np.ndarray]:
    rng = np.random.default_rng([seed, 13])
    films = list(_films_in(folder, side))
    share = -(-count // max(1, len(films)))
    cut = None if is_whole else side
    found = [clip for media in films for clip in _clips_of(media, frames, cut, share, rng)]
    if not found:
        size = f"{frames} x {side} x {side} px"
        raise argparse.ArgumentError(None, f"no shot of a film in {folder} has {size}")
    log.info("%d clips of %d files", min(len(found), count), len(films))
    return [found[place] for place in rng.permutation(len(found))[:count]]


def _films_in(folder: Path, side: int) -> Iterator[MediaInfo]:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            media = probe(path)
        except InputError as err:
            log.warning("%s is left out: %s", path.name, err)
            continue
        if media.holds_latents or min(media.video.size.width, media.video.size.height) < side:
            log.warning("%s is left out: smaller than %d px", path.name, side)
            continue
        yield media


def _clips_of(
    media: MediaInfo, frames: int, side: int | None, most: int, rng: Rng
) -> list[np.ndarray]:
    """At most n of its clips, each equally likely: later ones replace earlier ones. None: whole."""
    colours = SourceColours(media.video, "cpu")
    size = media.video.size
    fitting = (size.width // side) * (size.height // side) if side else 1
    chosen: list[np.ndarray] = []
    seen = 0
    for window in _windows(media, frames):
        places = [int(rng.integers(one + 1)) for one in range(seen, seen + fitting)]
        wanted = [place for place in places if place < most]
        seen += fitting
        if not wanted:
            continue
        pictures = colours.rgb(window)[0].clamp_(0, 1).mul_(255).round_().byte()
        whole = pictures.permute(0, 2, 3, 1).numpy()
        for place in wanted:
            clip = _random_cut(whole, side, rng) if side else whole
            if len(chosen) < most:
                chosen.append(clip)
            else:
                chosen[place] = clip
    return chosen


def _windows(media: MediaInfo, frames: int) -> Iterator[Sequence[PlanarFrame]]:
    """Frames that follow one another within a shot, each in one window at most."""
    detector = ShotDetector(media.video)
    waiting: list[PlanarFrame] = []
    with FrameReader(media) as reader:
        for frame in reader:
            if detector.starts_shot(frame):
                waiting = []
            waiting.append(frame)
            if len(waiting) == frames:
                yield waiting
                waiting = []


def _random_cut(whole: np.ndarray, side: int, rng: Rng) -> np.ndarray:
    y, x = (int(rng.integers(size - side + 1)) for size in whole.shape[1:3])
    return whole[:, y : y + side, x : x + side].copy()
