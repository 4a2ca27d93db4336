"""`worker` on the real engine, as a program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cli.main import main
from engine.farm.identity import Peers
from tests.helpers.clips import make_clip
from tests.helpers.farm import certificate_of, computer
from tests.helpers.farm_machines import free_port
from tests.helpers.jobs import planes_of

Output = pytest.CaptureFixture[str]


def test_without_a_pairing_there_is_nobody_to_work_for(capsys: Output) -> None:
    assert main(["worker"]) == 1
    error = capsys.readouterr().err
    assert "error[unknown-machine]: This computer is not paired with any other computer." in error
    assert "machines pair" in error


def test_an_address_that_is_none_is_refused(tmp_path: Path, capsys: Output) -> None:
    Peers().add(certificate_of(tmp_path), "studio", "")
    assert main(["worker", "--address", "studio:port"]) == 1
    assert "error[machine-unreachable]" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_waits_until_it_is_ended(number: int, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with computer(data):
        Peers().add(certificate_of(tmp_path / "host"), "studio", "")
    env = {**os.environ, "UPREEL_DATA": str(data), "UPREEL_CACHE": str(tmp_path / "cache")}
    words = [sys.executable, "-m", "engine", "worker", "--address", "127.0.0.1:9"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=env) as program:
        assert program.stderr is not None
        assert "is waiting for work" in program.stderr.readline()
        program.send_signal(number)
        assert program.wait(30) == 0
        assert program.stderr.read() == ""
    assert not (tmp_path / "cache" / "lent").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_it_makes_parts_of_a_film_of_another_computer(tmp_path: Path) -> None:
    film = make_clip(tmp_path / "film.mkv", frames=100, size=(64, 48), audio_tracks=1)
    host, helper = tmp_path / "host", tmp_path / "helper"
    with computer(host):
        Peers().add(certificate_of(helper), "helper", "")
    with computer(helper):
        Peers().add(certificate_of(host), "studio", "")
    port = free_port()
    upscale = [sys.executable, "-m", "engine", "upscale", str(film), "--model", "lite"]
    wanted = ("codec=ffv1", "container=mkv", "treatment=faithful", "segment_seconds=0.5")
    own = [word for one in wanted for word in ("--set", one)]
    let_in = ["--set", "machines=all", "--set", f"farm_port={port}"]
    worker = [sys.executable, "-m", "engine", "worker", "--address", f"127.0.0.1:{port}"]

    def env(data: Path) -> dict[str, str]:
        return {**os.environ, "UPREEL_DATA": str(data), "UPREEL_CACHE": str(data / "cache")}

    with subprocess.Popen(worker, stderr=subprocess.PIPE, text=True, env=env(helper)) as program:
        together = [*upscale, *own, *let_in, "-o", str(tmp_path / "together.mkv")]
        done = subprocess.run(together, capture_output=True, text=True, env=env(host), check=False)
        assert done.returncode == 0, done.stderr
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 0
        assert program.stderr is not None
        assert f"working for 127.0.0.1:{port}" in program.stderr.read()
    alone = [*upscale, *own, "-o", str(tmp_path / "alone.mkv")]
    subprocess.run(alone, env=env(host), check=True)
    pictures = zip(
        planes_of(tmp_path / "together.mkv"), planes_of(tmp_path / "alone.mkv"), strict=True
    )
    assert all((one == two).all() for one, two in pictures)
