"""The clip of --demo and of the self-test has the properties that its README states."""

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


def test_picture_is_96_tagged_frames_in_four_seconds(clip):
    with av.open(str(clip)) as container:
        stream = container.streams.video[0]
        frames = list(container.decode(stream))
        assert (stream.codec_context.name, stream.width, stream.height) == ("h264", 320, 180)
        assert stream.average_rate == 24
        sound = container.streams.audio[0]
        assert (sound.codec_context.name, sound.layout.name) == ("aac", "stereo")
    assert 100_000 < clip.stat().st_size <= 400_000
    times = [frame.pts * frame.time_base for frame in frames]
    assert times == [Fraction(n, 24) for n in range(96)]
    first = frames[0]
    assert first.format.name == "yuv420p"
    assert (first.colorspace, first.color_primaries, first.color_trc) == (BT709, BT709, BT709)
    assert first.color_range == LIMITED
    luma = [frame.to_ndarray(format="gray", threads=1).astype(float) for frame in frames]
    assert min(np.abs(b - a).mean() for a, b in pairwise(luma)) > 0.5, "every frame differs"
    assert np.abs(np.diff(luma[0], axis=1)).mean() > 4, "rich in detail"
