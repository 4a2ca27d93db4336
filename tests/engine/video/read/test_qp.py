"""Reading the quantiser of H.264."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from engine.core.errors import SourceMissing
from engine.video.read.qp import mean_quantiser


def written(path: Path, codec: str, options: dict[str, str]) -> Path:
    rng = np.random.default_rng(3)
    picture = rng.integers(0, 255, (68, 100, 3)).astype(np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=Fraction(25), options=options)
        stream.height, stream.width, stream.pix_fmt = 64, 96, "yuv420p"
        for t in range(4):
            cut = np.ascontiguousarray(picture[t : t + 64, t : t + 96])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(cut, format="rgb24")))
        container.mux(stream.encode(None))
    return path


@pytest.mark.parametrize("quantiser", [18, 35])
def test_constant_quantiser_is_read_back(tmp_path: Path, quantiser: int) -> None:
    options = {"qp": str(quantiser), "x264-params": "ipratio=1:pbratio=1:aq-mode=0"}
    path = written(tmp_path / "a.mp4", "libx264", options)
    assert mean_quantiser(path) == pytest.approx(quantiser, abs=0.5)


def test_other_codecs_say_nothing(tmp_path: Path) -> None:
    assert mean_quantiser(written(tmp_path / "a.mkv", "ffv1", {})) is None


def test_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(SourceMissing):
        mean_quantiser(tmp_path / "none.mp4")
