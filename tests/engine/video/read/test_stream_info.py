import math
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import av
import pytest

from engine.core.errors import SourceMissing
from engine.video.read.stream_info import (
    mean_quantiser,
    rotation_of,
    rotation_of_matrix,
    sample_bits_of,
)
from tests.helpers.clips import make_clip


def matrix(degrees: float, *, mirrored: bool = False) -> list[int]:
    """Rotate clockwise with y down, then mirror left and right; 16.16 values in rows of three."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    sign = -1 if mirrored else 1
    rows = [[sign * cos, sin, 0], [sign * -sin, cos, 0], [0, 0, 16384]]
    return [round(value * 65536) for row in rows for value in row]


def test_a_display_matrix_is_read_to_the_nearest_right_angle() -> None:
    for degrees in (0, 90, 180, 270):
        for mirrored in (False, True):
            assert rotation_of_matrix(matrix(degrees, mirrored=mirrored)) == (degrees, mirrored)
    assert [rotation_of_matrix(matrix(angle))[0] for angle in (80, -3, 359)] == [90, 0, 0]


def test_a_rotation_in_old_metadata_is_a_number_or_none() -> None:
    frame = SimpleNamespace(side_data=(), rotation=0)
    for text, degrees in {"90": 90, "-90.5": 270, "1e400": 0, "nan": 0, "1e999999999": 0}.items():
        assert rotation_of(frame, "h264", {"rotate": text}) == (degrees, False), text


def test_bits_of_samples_are_those_that_a_lossless_codec_states() -> None:
    for codec, form, bits in (
        ("flac", "s16", 16),
        ("flac", "s32", 32),
        ("alac", "s16p", 16),
        ("alac", "s32p", 24),
        ("wavpack", "s32p", 0),
    ):
        encoder = av.CodecContext.create(codec, "w")
        encoder.format, encoder.layout, encoder.rate = form, "stereo", 48_000
        encoder.time_base, encoder.options = Fraction(1, 48_000), {"strict": "experimental"}
        encoder.open()
        assert sample_bits_of(codec, bytes(encoder.extradata or b"")) == bits, (codec, form)
    assert sample_bits_of("tta", b"TTA1\1\0\2\0\x18\0\x80\xbb\0\0") == 24
    for codec in ("flac", "alac", "tta"):
        assert sample_bits_of(codec, b"\0" * 8) == 0, "a header that is cut short"


def test_the_quantiser_of_h264_is_read_back_and_that_of_others_is_unknown(tmp_path: Path) -> None:
    for quantiser in (18, 35):
        options = {"qp": str(quantiser), "x264-params": "ipratio=1:pbratio=1:aq-mode=0"}
        path = make_clip(tmp_path / "a.mp4", frames=4, options=options)
        assert mean_quantiser(path) == pytest.approx(quantiser, abs=0.5)
        odd = make_clip(tmp_path / "odd.mp4", size=(64, 48), interlaced="tt", options=options)
        assert mean_quantiser(odd) == pytest.approx(quantiser, abs=1)  # three rows of blocks
    assert mean_quantiser(make_clip(tmp_path / "a.mkv", codec="ffv1")) is None
    with pytest.raises(SourceMissing):
        mean_quantiser(tmp_path / "none.mp4")
