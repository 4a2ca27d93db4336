"""Scenes of a video that tell models apart: dark, moving, textured, with text, with flat areas."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from engine.core.file_access import advised
from engine.protocol.excerpt import SCENE_KINDS, Scene
from engine.protocol.media import MediaInfo
from engine.video.read.examination import Luma, decoded_until, luma_of
from engine.video.read.media_file import open_input

SECONDS = 4.0  # time limit
_LOOKS = 24  # places that are looked at, evenly over the video
_WIDTH = 480  # px that a frame is thinned out to
_APART_S = 2.0  # least time between two scenes
_BLACK, _LIT = 0.04, 0.25  # mean luma: nothing to see below, an even area counts from
_STROKE, _EVEN = 0.2, 0.008  # step between neighbours that a letter makes; of an even area


@dataclass(frozen=True, slots=True)
class _Look:
    """A frame and what it measures, each kind as more for more telling."""

    seconds: float
    scores: dict[str, float]


def telling_scenes(media: MediaInfo, *, seconds: float = SECONDS) -> tuple[Scene, ...]:
    """Scenes, at most one of each kind, in the order of the video; () if nothing can be decoded.

    Never raises: it only proposes.

    Memory: two frames. Time: `seconds`, and the decoding of some frames.
    """
    if media.kind != "video" or media.holds_latents:
        return ()
    nothing: list[_Look] = []
    looks = advised(lambda: _looks(media, time.monotonic() + seconds), nothing)
    found: list[Scene] = []
    for kind in SCENE_KINDS:
        free = [
            one for one in looks if all(abs(one.seconds - p.seconds) >= _APART_S for p in found)
        ]
        best = max(free, key=lambda one: one.scores[kind], default=None)
        if best is not None and best.scores[kind] > 0:
            found.append(Scene(kind=kind, seconds=best.seconds))
    return tuple(sorted(found, key=lambda place: place.seconds))


def _looks(media: MediaInfo, deadline: float) -> list[_Look]:
    video, looks = media.video, []
    with open_input(media.path) as container:
        stream: Any = container.streams[video.index]
        step = float((video.duration or 0) / video.time_base) / _LOOKS  # units of the time base
        for number in range(_LOOKS):
            if time.monotonic() > deadline:
                break
            place = video.start_pts + round(step * (number + 0.5))
            container.seek(place, stream=stream)
            after = decoded_until(container, stream, deadline)
            # the key frame before the place where it is near, else one at the place
            near = (f for f in after if f.pts is not None and f.pts >= place - step / 2)
            frames = list(islice(near, 2))
            if not frames:
                continue
            first = float((frames[0].pts or 0) * video.time_base - media.start)
            lumas = [_thinned(luma_of(frame, video)) for frame in frames]
            looks.append(_Look(first, {k: m(lumas) for k, m in _MEASURES.items()}))
    return looks


def _thinned(luma: Luma) -> Luma:
    step = max(1, luma.shape[1] // _WIDTH)
    return luma[::step, ::step]


def _dark(lumas: list[Luma]) -> float:
    mean = float(lumas[0].mean())
    return _LIT - mean if mean > _BLACK else 0.0


def _motion(lumas: list[Luma]) -> float:
    return float(np.abs(lumas[-1] - lumas[0]).mean())


def _texture(lumas: list[Luma]) -> float:
    """Steps between neighbours that are no edges of letters."""
    steps = _steps(lumas[0])
    return float(np.where(steps < _STROKE, steps, 0.0).mean())


def _text(lumas: list[Luma]) -> float:
    """Share of steep steps: strokes of letters stand close together."""
    return float((_steps(lumas[0]) >= _STROKE).mean())


def _flat(lumas: list[Luma]) -> float:
    """Share of lit pixels that hardly differ from their neighbours."""
    luma = lumas[0]
    is_even = _steps(luma) < _EVEN
    return float((is_even & (luma[:, 1:] > _LIT)).mean())


def _steps(luma: Luma) -> Luma:
    return np.abs(np.diff(luma, axis=1))


_MEASURES: dict[str, Callable[[list[Luma]], float]] = {
    "dark": _dark,
    "motion": _motion,
    "text": _text,
    "texture": _texture,
    "flat": _flat,
}
