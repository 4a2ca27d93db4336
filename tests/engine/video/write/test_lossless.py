from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from engine.core.errors import OutputUnwritable
from engine.core.geometry import Size
from engine.protocol.media import VideoInfo
from engine.video.read.decode import FrameReader
from engine.video.read.probe import probe
from engine.video.write.lossless import LosslessWriter

VIDEO = VideoInfo(
    index=0,
    codec="latent",
    size=Size(37, 21),
    pixel_format="gbrp16le",
    chroma="rgb",
    bit_depth=16,
    frame_rate=Fraction(24000, 1001),
)


def some_frames(count: int) -> list[list[np.ndarray]]:
    noise = np.random.default_rng(count).integers(0, 65536, (count, 3, 21, 37), dtype=np.uint16)
    return [list(frame) for frame in noise]


@pytest.mark.parametrize("rate", [Fraction(16), Fraction(24000, 1001), Fraction(1, 2)])
def test_every_number_and_every_time_come_back(tmp_path: Path, rate: Fraction) -> None:
    path = tmp_path / "Fílm %d.avi"
    frames = some_frames(5)
    with LosslessWriter(path, replace(VIDEO, frame_rate=rate)) as film:
        for planes in frames:
            film.write(planes)
    media = probe(path)
    assert (media.video.frame_rate, media.video.time_base) == (rate, 1 / rate)
    assert (media.video.frame_count, media.video.frame_count_is_exact) == (5, True)
    with FrameReader(media, start=2 / rate) as reader:
        found = list(reader)
    assert [frame.pts for frame in found] == [2, 3, 4]
    for frame, planes in zip(found, frames[2:], strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(frame.planes, planes, strict=True))


def test_a_film_that_was_not_finished_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "film.avi"
    with pytest.raises(KeyboardInterrupt), LosslessWriter(path, VIDEO) as film:
        film.write(some_frames(1)[0])
        assert not path.exists()
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_the_same_frames_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.avi", "b.avi"):
        with LosslessWriter(tmp_path / name, VIDEO) as film:
            film.write(some_frames(1)[0])
    assert (tmp_path / "a.avi").read_bytes() == (tmp_path / "b.avi").read_bytes()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    film = LosslessWriter(tmp_path / "none" / "film.avi", VIDEO)
    with pytest.raises(OutputUnwritable), film:
        film.write(some_frames(1)[0])
