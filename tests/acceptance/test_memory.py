"""Peak memory does not depend on the length of the film."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.program import NEEDS_FFMPEG, make_film, upscale
from tests.helpers.seedvr2 import write_seedvr2

pytestmark = [pytest.mark.slow, NEEDS_FFMPEG]
MB = 1_000_000


def peak(folder: Path, size: str, frames: int, *words: str) -> int:
    """Bytes that a film of one shot takes."""
    source = make_film(folder / f"{frames}.mp4", size, frames / 25, sound=not words)
    return upscale(source, folder / f"{frames}_x2.mp4", *words).peak_bytes


def test_ten_times_the_frames_take_at_most_50_mb_more(tmp_path: Path) -> None:
    short, long = (peak(tmp_path, "128x72", frames) for frames in (300, 3000))
    assert long <= short + 50 * MB


def test_ten_times_the_frames_of_seedvr2_take_at_most_50_mb_more(tmp_path: Path) -> None:
    words = [*write_seedvr2(tmp_path / "models").options(), "--model", "seedvr2-3b"]
    words += ["--set", "strength=10", "--set", "shots=off"]
    short, long = (peak(tmp_path, "96x64", frames, *words) for frames in (100, 1000))
    assert long <= short + 50 * MB
