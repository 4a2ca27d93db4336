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
from tests.helpers.farm import certificate_of, computer

Output = pytest.CaptureFixture[str]


def test_without_a_pairing_there_is_nobody_to_work_for(capsys: Output) -> None:
    assert main(["worker"]) == 1
    error = capsys.readouterr().err
    assert "error[unknown-machine]: This computer is paired with none." in error
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
        assert "waits for work" in program.stderr.readline()
        program.send_signal(number)
        assert program.wait(30) == 0
        assert program.stderr.read() == ""
    assert not (tmp_path / "cache" / "lent").exists()
