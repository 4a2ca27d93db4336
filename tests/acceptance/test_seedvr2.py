"""SeedVR2 with very small models as a user runs it: memory does not grow, kills lose nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.helpers.program import NEEDS_FFMPEG, ffmpeg, frame_hashes, run, start, upscale
from tests.helpers.seedvr2 import SeedVr2Files, write_seedvr2

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
    print(
        f"\n{frames} frames: peak {ended.peak_bytes / MB:.0f} MB, {ended.wall_s:.0f} s, "
        f"{frames / ended.wall_s:.1f} frames/s"
    )
    return ended.peak_bytes


def test_ten_times_the_frames_take_at_most_50_mb_more(tmp_path: Path) -> None:
    files = write_seedvr2(tmp_path / "models")
    short, long = peak(tmp_path, files, 100), peak(tmp_path, files, 1000)
    assert long <= short + 50 * MB


def test_a_job_killed_inside_a_shot_goes_on_with_the_same_pictures(tmp_path: Path) -> None:
    files = write_seedvr2(tmp_path / "models")
    source = tmp_path / "one shot.mp4"
    ffmpeg(
        *("-f", "lavfi", "-i", "testsrc2=size=96x64:rate=25:duration=16"),
        *("-c:v", "libx264", "-preset", "fast", source),
    )
    words = [*files.options(), "--model", "seedvr2-3b", "--set", "strength=30"]
    words += ["--set", "shots=off", "--set", "codec=ffv1", "--set", "segment_seconds=1"]
    whole, killed = tmp_path / "whole.mkv", tmp_path / "killed.mkv"
    upscale(source, whole, *words)
    env = {**os.environ, "UPREEL_DATA": str(tmp_path / "data")}
    with start("upscale", source, "-o", killed, *words, env=env) as process:
        notes = tmp_path / "data" / "jobs"
        while process.poll() is None and not list(notes.glob("*/segment_000009.json")):
            time.sleep(0.05)
        assert process.poll() is None, "it had ended before it could be killed"
        process.kill()
    assert not killed.exists()
    ended = run("resume", "--all", env=env)
    assert ended.status == 0, ended.err
    assert frame_hashes(killed) == frame_hashes(whole)
