"""SeedVR2 with very small models as a user runs it: a killed job loses nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.helpers.program import NEEDS_FFMPEG, frame_hashes, make_film, run, start, upscale
from tests.helpers.seedvr2 import write_seedvr2

pytestmark = [pytest.mark.slow, NEEDS_FFMPEG]


def test_a_job_killed_inside_a_shot_goes_on_with_the_same_pictures(tmp_path: Path) -> None:
    files = write_seedvr2(tmp_path / "models")
    source = make_film(tmp_path / "one shot.mp4", "96x64", 16)
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
