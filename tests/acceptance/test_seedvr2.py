"""SeedVR2 with very small models as a user runs it: memory does not grow, kills lose nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.program import NEEDS_FFMPEG, ffmpeg, upscale
from tests.helpers.seedvr2_files import SeedVr2Files, write_seedvr2

pytestmark = [pytest.mark.slow, NEEDS_FFMPEG]
MB = 1_000_000


def peak(folder: Path, files: SeedVr2Files, frames: int) -> int:
    """Peak of a film that is one shot."""
    source = folder / f"{frames}.mp4"
    ffmpeg(
        *("-f", "lavfi", "-i", f"testsrc2=size=96x64:rate=25:duration={frames / 25}"),
        *("-c:v", "libx264", "-preset", "fast", source),
    )
    output = folder / f"{frames}_x2.mp4"
    words = [*files.options(), "--model", "seedvr2-3b"]
    ended = upscale(source, output, *words, "--set", "strength=10", "--set", "shots=off")
    print(  # noqa: T201 - figures are what this is for
        f"\n{frames} frames: peak {ended.peak_bytes / MB:.0f} MB, {ended.wall_s:.0f} s, "
        f"{frames / ended.wall_s:.1f} frames/s"
    )
    return ended.peak_bytes


def test_ten_times_the_frames_take_at_most_50_mb_more(tmp_path: Path) -> None:
    files = write_seedvr2(tmp_path / "models")
    short, long = peak(tmp_path, files, 100), peak(tmp_path, files, 1000)
    assert long <= short + 50 * MB
