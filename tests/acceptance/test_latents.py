"""Files of latents as a user decodes them: kills lose nothing, memory does not grow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.helpers.program import (
    NEEDS_FFMPEG,
    film_stream,
    frame_hashes,
    is_killed_at,
    make_film,
    run,
    start,
)
from tests.helpers.seedvr2 import write_seedvr2
from tests.helpers.wan import a_latent, write_latent, write_wan

pytestmark = [pytest.mark.slow, NEEDS_FFMPEG]
MB = 1_000_000


@pytest.fixture(scope="module")
def vae(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "wan.safetensors"
    write_wan(path)
    return path


def long_latent(path: Path, length: int) -> Path:
    write_latent(path, a_latent(16, length, 8, 12))
    return path


def test_a_job_killed_while_decoding_and_later_goes_on(tmp_path: Path, vae: Path) -> None:
    source = long_latent(tmp_path / "a.latent", 60)
    words = ("--vae", vae, "--set", "codec=ffv1", "--set", "segment_seconds=1")
    whole, killed = tmp_path / "whole.mkv", tmp_path / "killed.mkv"
    assert run("decode-latent", source, "-o", whole, *words).status == 0
    env = {**os.environ, "UPREEL_DATA": str(tmp_path / "data")}
    command: tuple[str | Path, ...] = ("decode-latent", source, "-o", killed, *words)
    for wanted in (
        {"event": "StageProgress", "stage": "decode"},
        {"event": "StageProgress", "stage": "decode"},
        {"event": "SegmentDone"},
    ):
        assert is_killed_at(wanted, *command, env=env), "it had ended before"
        assert not killed.exists()
        command = ("resume", "--all")
    ended = run("resume", "--all", "--json", env=env)
    assert ended.status == 0, ended.err
    events = map(json.loads, ended.out.splitlines())
    stages = [event["stage"] for event in events if event.get("event") == "StageStarted"]
    assert "run" in stages
    assert "decode" not in stages, "it was decoded already"
    assert frame_hashes(killed) == frame_hashes(whole)
    assert int(film_stream(killed)["nb_read_frames"]) == 237
    assert not list((tmp_path / "data" / "jobs").iterdir())


def test_ten_times_the_latents_take_at_most_50_mb_more(tmp_path: Path, vae: Path) -> None:
    peaks = []
    for length in (21, 210):
        source = long_latent(tmp_path / f"{length}.latent", length)
        out = tmp_path / f"{length}.mkv"
        ended = run("decode-latent", source, "-o", out, "--vae", vae, "--json")
        assert ended.status == 0, ended.err
        peaks.append(json.loads(ended.out.splitlines()[-1])["peak_bytes"])
    assert peaks[1] <= peaks[0] + 50 * MB


def test_latents_go_straight_on_to_seedvr2(tmp_path: Path, vae: Path) -> None:
    files = write_seedvr2(tmp_path / "models")
    source = long_latent(tmp_path / "a.latent", 3)
    out = tmp_path / "out.mp4"
    words = ["--upscale", "seedvr2-3b", "--scale", "2", "--set", f"dit={files.dit}"]
    words += ["--set", f"vae={files.vae}", "--set", f"text_embedding={files.text}"]
    words += ["--set", "strength=10"]  # random numbers restore nothing
    ended = run("decode-latent", source, "-o", out, "--vae", vae, *words)
    assert ended.status == 0, ended.err
    stream = film_stream(out)
    assert (stream["width"], stream["height"], int(stream["nb_read_frames"])) == (192, 128, 9)
    assert stream["r_frame_rate"] == "16/1"


def test_encoding_that_is_interrupted_leaves_nothing(tmp_path: Path, vae: Path) -> None:
    film = make_film(tmp_path / "film.mkv", "192x108", 40)
    words = ("encode-latent", film, "-o", tmp_path / "a.latent", "--vae", vae)
    with start(*words, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        while process.poll() is None and not list(tmp_path.glob("*.spool")):
            time.sleep(0.02)
        assert process.poll() is None, "it had ended before it could be interrupted"
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in error) == (130, False), error
    assert [path.name for path in tmp_path.iterdir()] == ["film.mkv"]
