from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.geometry import Size
from engine.protocol.media import VideoInfo
from engine.video.read.frames import PlanarFrame
from engine.video.shots import HISTORY, PictureReducer, ShotDetector, compensated_distance, distance
from tests.helpers.plans import a_media

WIDTH, HEIGHT = 192, 108
Picture = np.ndarray  # [3, h, w]: Y, U, V of 4:4:4, 0 to 1


def video_of(chroma: str = "444", bit_depth: int = 8, **changes: Any) -> VideoInfo:
    how = {"size": Size(WIDTH, HEIGHT), "chroma": chroma, "bit_depth": bit_depth}
    return a_media(**{**how, **changes}).video


def scene(seed: int, width: int = WIDTH) -> Picture:
    """A picture of soft blobs with hard edges; another seed is another scene."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:HEIGHT, :width] / 25.0
    planes = np.full((3, HEIGHT, width), 0.5)
    for plane in planes:
        for _ in range(6):
            a, b, phase = random.normal(0, 1, 3)
            plane += random.uniform(-0.12, 0.12) * np.sign(np.sin(a * x + b * y + 6 * phase))
    planes[1:] = 0.5 + 0.4 * (planes[1:] - 0.5)
    return planes.clip(0, 1)


def pan(seed: int, frames: int, step: int = 2) -> list[Picture]:
    whole = scene(seed, WIDTH + frames * step)
    return [whole[:, :, i * step : i * step + WIDTH] for i in range(frames)]


def frames_of(
    pictures: Iterable[Picture], *, peak: int = 255, grain: float = 0.0
) -> list[PlanarFrame]:
    random = np.random.default_rng(7)
    kind = np.uint8 if peak == 255 else np.uint16
    frames = []
    for pts, picture in enumerate(pictures):
        noise = random.normal(0, grain, picture.shape) if grain else 0.0
        noisy = (picture + noise).clip(0, 1)
        planes = tuple(np.rint(plane * peak).astype(kind) for plane in noisy)
        frames.append(PlanarFrame(planes=planes, pts=pts))
    return frames


def starts(frames: Sequence[PlanarFrame], video: VideoInfo | None = None, **options) -> list[int]:
    detector = ShotDetector(video or video_of(), **options)
    return [number for number, frame in enumerate(frames) if detector.starts_shot(frame)]


@cache
def three() -> list[Picture]:
    """Pictures of three shots."""
    return pan(1, 14) + pan(2, 9) + pan(3, 20)


def test_three_shots_are_found_exactly_also_with_grain_and_in_the_dark():
    for light, grain in ((1, 0), (1, 0.08), (0.3, 0.004), (0.08, 0.004)):
        frames = frames_of((picture * light for picture in three()), grain=grain)
        assert starts(frames) == [0, 14, 23], (light, grain)
    assert starts(frames, sensitivity=None) == [0]
    for value in (-1, 101):
        with pytest.raises(ValueError, match=str(value)):
            ShotDetector(video_of(), sensitivity=value)


def test_what_is_a_cut_and_what_is_not():
    single = [scene(seed) for seed in range(10)]
    still, moved = single[4], scene(4, 12 + WIDTH)[:, :, 12:]
    black, grey = (np.full((3, HEIGHT, WIDTH), value) for value in (0.5, 0.3))
    black[0] = 0.06
    for what, pictures, grain, expected in (
        ("every shot a single frame", single, 0, [*range(10)]),
        ("a flash of one frame", pan(1, 20) + pan(2, 1) + pan(1, 20), 0, [0, 20, 21]),
        ("a jump in a quiet shot", [still] * 15 + [moved] * 5, 0.01, [0, 15]),
        ("black at both ends", [black] * 8 + pan(1, 8) + [black] * 8, 0.004, [0, 8, 16]),
        ("a slow camera", pan(5, 40, 1), 0.01, [0]),
        ("a fast camera", pan(5, 40, 9), 0.01, [0]),
        ("noise alone", [grey] * 40, 0.06, [0]),
    ):
        assert starts(frames_of(pictures, grain=grain)) == expected, what


def test_other_depths_and_kinds_of_planes_give_the_same():
    frames = frames_of(three())
    assert starts(frames, video_of("rgb")) == [0, 14, 23]
    half, veiled = [], []
    for frame in frames:
        y, u, v = frame.planes
        half.append(PlanarFrame(planes=(y, u[::2, ::2], v[::2, ::2]), pts=frame.pts))
        alpha = y * np.uint8(frame.pts % 2)
        veiled.append(PlanarFrame(planes=(y, u, v, alpha), pts=frame.pts))
    assert starts(half, video_of("420")) == [0, 14, 23]
    assert starts(veiled) == [0, 14, 23], "alpha is ignored"
    deep = frames_of((picture[:1] for picture in three()), peak=4095)
    assert starts(deep, video_of("gray", bit_depth=12)) == [0, 14, 23]


def test_animation_is_no_cut_with_any_duration_of_a_drawing():
    background, figure = scene(6), scene(7)
    for hold in (1, 2, 3):
        pictures = []
        for i in range(30):
            picture, x = background.copy(), 10 + 3 * (i // hold)
            picture[:, 30:80, x : x + 30] = figure[:, 30:80, :30]
            pictures.append(picture)
        assert starts(frames_of(pictures)) == [0]


def test_a_fade_is_no_cut_but_perhaps_where_it_begins():
    grey = np.array([0.0, 0.5, 0.5])[:, None, None]
    light = [min(1, abs(1 - i / 24)) for i in range(48)]
    pictures = [
        grey + (picture - grey) * k for k, picture in zip(light, pan(8, 48, 1), strict=True)
    ]
    assert len(starts(frames_of(pictures, grain=0.004))) <= 3


@cache
def restless() -> list[PlanarFrame]:
    """Fifty frames of six shots."""
    return frames_of(
        pan(11, 9) + pan(12, 3, 8) + pan(13, 1) + pan(14, 22, 6) + pan(15, 4) + pan(16, 11, 3),
        grain=0.02,
    )


@settings(max_examples=12, deadline=None)
@given(begin=st.integers(0, 50 - HISTORY), sensitivity=st.integers(0, 100))
def test_a_short_history_gives_the_same_cuts_as_all_frames(begin, sensitivity):
    frames = restless()
    assert len(frames) == 50
    whole = starts(frames, sensitivity=sensitivity)
    late = starts(frames[begin:], sensitivity=sensitivity)
    known = begin + HISTORY
    assert [i + begin for i in late if i + begin >= known] == [i for i in whole if i >= known]


def test_more_sensitivity_never_loses_a_cut():
    found = [set(starts(restless(), sensitivity=value)) for value in (0, 30, 60, 90, 100)]
    assert all(less <= more for less, more in pairwise(found))
    assert found[0] < found[-1]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 100), st.integers(1, 100))
def test_pictures_of_any_size_are_compared(width, height):
    random = np.random.default_rng(1)
    y, u, v = (random.integers(0, 256, (height, width), np.uint8) for _ in range(3))
    half = PlanarFrame(planes=(y, u[::2, ::2], v[::2, ::2]), pts=0)
    reducer = PictureReducer(video_of("420", size=Size(width, height)))
    a = reducer.small(half)
    b = reducer.small(PlanarFrame(planes=tuple(255 - p for p in half.planes), pts=1))
    assert distance(a, a) == 0
    for measure in (distance, compensated_distance):
        assert 0 <= measure(a, b) < np.inf
