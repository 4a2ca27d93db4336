"""Killed at ten points in time, resumed after each: the result equals the uninterrupted one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

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
    assert "No job is unfinished" in left.out + left.err
