"""The clip of --demo and of the self-test has the properties that its README states."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest

BT709, LIMITED = 1, 1


@pytest.fixture
def clip(samples: Path) -> Path:
    return samples / "upreel_sample.mp4"


def test_clip_is_small(clip: Path) -> None:
    assert 100_000 < clip.stat().st_size <= 400_000


def test_picture_is_96_tagged_frames_in_four_seconds(clip: Path) -> None:
    with av.open(str(clip)) as container:
        stream = container.streams.video[0]
        frames = list(container.decode(stream))
        assert (stream.codec_context.name, stream.width, stream.height) == ("h264", 320, 180)
        assert stream.average_rate == 24
    times = [frame.pts * frame.time_base for frame in frames]
    assert times == [Fraction(n, 24) for n in range(96)]
    first = frames[0]
    assert first.format.name == "yuv420p"
    assert (first.colorspace, first.color_primaries, first.color_trc) == (BT709, BT709, BT709)
    assert first.color_range == LIMITED


def test_picture_moves_and_is_rich_in_detail(clip: Path) -> None:
    with av.open(str(clip)) as container:
        luma = [f.to_ndarray(format="gray").astype(float) for f in container.decode(video=0)]
    changes = [np.abs(b - a).mean() for a, b in pairwise(luma)]
    assert min(changes) > 0.5, "every frame differs from the one before"
    assert np.abs(np.diff(luma[0], axis=1)).mean() > 4
    assert luma[0].max() - luma[0].min() > 180


def test_sound_is_stereo_of_the_same_length_and_neither_silent_nor_clipped(clip: Path) -> None:
    with av.open(str(clip)) as container:
        stream = container.streams.audio[0]
        assert (stream.codec_context.name, stream.sample_rate) == ("aac", 48000)
        assert stream.layout.name == "stereo"
        sound = np.concatenate([f.to_ndarray() for f in container.decode(stream)], axis=1)
    assert sound.shape[1] == pytest.approx(4 * 48000, abs=2048)
    assert 0.2 < np.abs(sound).max() < 0.9
    assert np.abs(sound[0] - sound[1]).mean() > 0.005, "left and right differ"
    assert np.abs(sound[:, -480:]).max() < 0.01, "it ends in silence"
