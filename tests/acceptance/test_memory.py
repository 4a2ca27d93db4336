"""Peak memory does not depend on the length of the film."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.program import NEEDS_FFMPEG, ffmpeg, upscale

pytestmark = [pytest.mark.slow, NEEDS_FFMPEG]
MB = 1_000_000


def peak(folder: Path, frames: int) -> int:
    source = folder / f"{frames}.mp4"
    ffmpeg(
        *("-f", "lavfi", "-i", f"testsrc2=size=128x72:rate=25:duration={frames / 25}"),
        *("-f", "lavfi", "-i", f"sine=440:sample_rate=48000:duration={frames / 25}"),
        *("-c:v", "libx264", "-preset", "fast", "-c:a", "aac", source),
    )
    ended = upscale(source, folder / f"{frames}_x2.mp4")
    print(
        f"\n{frames} frames: peak {ended.peak_bytes / MB:.0f} MB, {ended.wall_s:.0f} s, "
        f"{frames / ended.wall_s:.1f} frames/s"
    )
    return ended.peak_bytes


def test_ten_times_the_frames_take_at_most_50_mb_more(tmp_path: Path) -> None:
    short, long = peak(tmp_path, 300), peak(tmp_path, 3000)
    assert long <= short + 50 * MB
