"""Killed at any time and resumed: the result equals the uninterrupted one."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.helpers.jobs import KINDS, options_of, settings_of
from tests.helpers.program import (
    NEEDS_FFMPEG,
    files_in,
    film_stream,
    frame_hashes,
    frame_times,
    is_killed_at,
    make_film,
    packet_hashes,
    run,
    start,
    upscale,
)

pytestmark = [pytest.mark.slow, NEEDS_FFMPEG]
WORDS = ("--set", "segment_seconds=0.5", "--set", "treatment=faithful")


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_job_killed_ten_times_equals_the_uninterrupted_one(suffix: str, tmp_path: Path) -> None:
    source = make_film(tmp_path / f"source{suffix}", "192x108", 16, sound=True)
    whole = tmp_path / f"whole{suffix}"
    plain = upscale(source, whole, *WORDS)
    folder = tmp_path / "out"
    folder.mkdir()
    result = folder / f"result{suffix}"
    rng = random.Random(suffix)
    words: tuple[str | Path, ...] = ("upscale", source, "-o", result, *WORDS)
    for number in range(10):
        stage, delay = "run", rng.uniform(0.0, plain.wall_s / 10)
        if number in (8, 9):
            stage, delay = ("mux", "verify")[number - 8], rng.uniform(0, 0.02)
        is_killed = is_killed_at({"stage": stage}, *words, delay_s=delay)
        assert is_killed, f"it ended before kill number {number + 1}, {stage} + {delay:.2f} s"
        assert not result.exists()
        words = ("resume", "--all")
    ended = run("resume", "--all")
    assert ended.status == 0, ended.err
    assert int(film_stream(result)["nb_read_frames"]) == 400
    assert frame_hashes(result) == frame_hashes(whole)
    assert frame_times(result) == frame_times(whole)
    assert packet_hashes(result, "a:0") == packet_hashes(source, "a:0")
    assert files_in(folder) == [result.name]
    assert run("verify", source, result).status == 0
    left = run("resume")
    assert "No unfinished jobs" in left.out + left.err


def make(*words: str | Path, env: Mapping[str, str]) -> None:
    """Run to the result, which is accepted where random weights only make it unlike the source."""
    ended = run(*words, env=env)
    if ended.status:
        assert "FAILED checks: likeness\n" in ended.out, ended.err
        ended = run("resume", "--all", "--accept", env=env)
    assert ended.status == 0, ended.err


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_killed_inside_a_shot_goes_on_with_the_same_pictures(
    kind: str, tmp_path: Path
) -> None:
    source = make_film(tmp_path / "one shot.mp4", "96x64", 16)
    changes: dict[str, object] = {"strength": 30, "shots": "off"} if kind == "seedvr2" else {}
    words = options_of(settings_of(kind, tmp_path, segment_seconds=1, **changes))
    whole, killed = tmp_path / "whole.mkv", tmp_path / "killed.mkv"
    env = {**os.environ, "UPREEL_DATA": str(tmp_path / "data")}
    make("upscale", source, "-o", whole, *words, env=env)
    with start("upscale", source, "-o", killed, *words, env=env) as process:
        notes = tmp_path / "data" / "jobs"
        while process.poll() is None and not list(notes.glob("*/segment_000009.json")):
            time.sleep(0.01)
        assert process.poll() is None, "it had ended before it could be killed"
        process.kill()
    assert not killed.exists()
    make("resume", "--all", env=env)
    assert frame_hashes(killed) == frame_hashes(whole)
