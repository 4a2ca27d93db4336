"""Commands `machines` and `worker`, on the real engine."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.cli.main import main, run
from engine.core import paths
from engine.core.errors import EngineError
from engine.farm import commands
from engine.farm.identity import Peers, own_identity
from engine.farm.pairing import ask
from tests.helpers.clips import make_clip
from tests.helpers.command_line import CommandLine, Terminal
from tests.helpers.farm import User, Waiting, certificate_of, computer, in_thread, peers_of
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


Make = Callable[..., Waiting]


def test_paired_computers_are_listed_and_forgotten(
    command_line: CommandLine, tmp_path: Path
) -> None:
    assert "no paired computers" in command_line("machines").out
    peer = Peers().add(certificate_of(tmp_path / "a"), "Studio PC", "10.0.0.2:47110")
    ended = command_line("machines")
    assert ended.status == 0
    assert f"Studio PC  {peer.fingerprint[:16]}  10.0.0.2:47110" in ended.out
    (answer,) = command_line("machines", "--json").objects
    about = {"name": "Studio PC", "fingerprint": peer.fingerprint, "address": "10.0.0.2:47110"}
    assert answer["machines"] == [about]
    assert answer["fingerprint"] == own_identity().fingerprint
    ended = command_line("machines", "forget", "office")
    assert ended.status == 1
    assert "error[unknown-machine]" in ended.err
    assert command_line("machines", "forget", "studio pc", "--json").objects == [about]
    assert Peers().all() == ()


@pytest.mark.parametrize(("typed", "status"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_a_pairing_shows_the_words_and_asks(
    command_line: CommandLine,
    waiting: Make,
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    status: int,
) -> None:
    other = waiting()
    monkeypatch.setattr(commands, "_READING_S", 0.0)
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    ended = command_line("machines", "pair", other.address)
    assert ended.status == status, ended.err
    assert other.user.is_shown.wait(10)
    assert "Paired computers can run code on each other" in ended.err
    assert ended.err.count(" ".join(other.user.offers[0].words)) == 2 - status
    assert isinstance(other.ended, EngineError) == (status == 1)
    assert len(Peers().all()) == len(other.peers) == 1 - status
    assert ("paired" in ended.out) == (status == 0)
    assert ("error[pairing-failed]" in ended.err) == (status == 1)


def test_a_line_that_was_typed_before_the_words_came_confirms_nothing(
    command_line: CommandLine, waiting: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = waiting()
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert command_line("machines", "pair", other.address).status == 1
    assert other.peers == []


def test_a_script_confirms_nothing(command_line: CommandLine, waiting: Make) -> None:
    other = waiting()
    for words in ([], ["--json"]):
        assert command_line("machines", "pair", other.address, *words).status == 1
    assert other.peers == []
    ended = command_line("machines", "pair", other.address, "--port", "5")
    assert ended.status == 2


@pytest.mark.usefixtures("quick_announcements")
def test_a_computer_waits_until_a_pairing_is_confirmed(
    command_line: CommandLine,
    waiting: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commands, "_READING_S", 0.0)
    monkeypatch.setattr(commands, "_WAIT_S", 0.01)
    monkeypatch.setattr(sys, "stdin", Terminal("y\ny\n"))
    said, other = io.StringIO(), tmp_path / "other"
    monkeypatch.setattr(sys, "stderr", said)
    waits = in_thread(
        paths.data_folder(),
        lambda: run(["machines", "pair", "--port", "0"], lambda: command_line.services),
    )
    end = time.monotonic() + 10
    while not (found := re.search(r"computer at \S+:(\d+)", said.getvalue())):
        assert time.monotonic() < end
        time.sleep(0.02)
    address = f"127.0.0.1:{found[1]}"
    refused = in_thread(other, lambda: ask(address, User(False).show))
    assert refused.exception(20) is not None
    assert not waits.done(), "one that fails there does not end the waiting"
    assert in_thread(other, lambda: ask(address, User().show)).result(20)
    assert waits.result(20) == 0
    assert len(Peers().all()) == len(peers_of(other)) == 1
