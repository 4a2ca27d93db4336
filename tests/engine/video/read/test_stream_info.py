import math
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from engine.core.errors import SourceMissing
from engine.video.read.stream_info import mean_quantiser, rotation_of_matrix


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


def written(path: Path, codec: str, options: dict[str, str]) -> Path:
    picture = np.random.default_rng(3).integers(0, 255, (68, 100, 3)).astype(np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=Fraction(25), options=options)
        stream.height, stream.width, stream.pix_fmt = 64, 96, "yuv420p"
        for t in range(4):
            part = np.ascontiguousarray(picture[t : t + 64, t : t + 96])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(part, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def test_the_quantiser_of_h264_is_read_back_and_that_of_others_is_unknown(tmp_path: Path) -> None:
    for quantiser in (18, 35):
        options = {"qp": str(quantiser), "x264-params": "ipratio=1:pbratio=1:aq-mode=0"}
        path = written(tmp_path / "a.mp4", "libx264", options)
        assert mean_quantiser(path) == pytest.approx(quantiser, abs=0.5)
    assert mean_quantiser(written(tmp_path / "a.mkv", "ffv1", {})) is None
    with pytest.raises(SourceMissing):
        mean_quantiser(tmp_path / "none.mp4")
