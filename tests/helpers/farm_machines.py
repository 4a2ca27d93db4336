"""Machines of a farm on this one: programs with a certificate and folders of their own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from engine.farm.endpoint import Endpoint, own_endpoint
from engine.farm.fit import LentDevice, own_devices
from engine.farm.identity import Peers
from tests.helpers.farm import certificate_of, computer

_ROOT = Path(__file__).parents[2]
_END_S = 30.0


def processor() -> LentDevice:
    """What a machine of a test lends."""
    return next(one for one in own_devices() if not one.gpu)


class Machine:
    """A program that works for another machine, which has to know its certificate.

    Attributes:
        said: What it has printed, line by line.
    """

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address = folder, address
        self.models = folder / "models"
        self.models.mkdir(parents=True, exist_ok=True)
        self.said: list[str] = []
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Begin; it loads its libraries when there is work for the first time."""
        words = [sys.executable, "-m", "tests.helpers.farm_machine", str(self.folder), self.address]
        own = {name: str(self.folder / name) for name in ("data", "cache", "models")}
        env = {**os.environ, **{f"UPREEL_{name.upper()}": path for name, path in own.items()}}
        env["PYTHONPATH"] = str(_ROOT)
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=_ROOT
        )
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def tell(self, word: str) -> None:
        """Pause or resume it."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def go_wrong(self, fault: str) -> None:
        """Let something go wrong from now on, as `farm_machine` names it; "" for nothing."""
        (self.folder / "fault").write_text(fault)

    @property
    def computing(self) -> list[psutil.Process]:
        """The processes that compute."""
        if self._process is None:
            return []
        with contextlib.suppress(psutil.NoSuchProcess):
            return [
                one
                for one in psutil.Process(self._process.pid).children()
                if "spawn_main" in " ".join(one.cmdline())
            ]
        return []

    def signal(self, number: int) -> None:
        """Send a signal to the processes that compute."""
        for one in self.computing:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(number)

    @property
    def leftovers(self) -> list[Path]:
        """What it has written for others and not removed."""
        return [
            Path(folder, name)
            for folder, _, names in os.walk(self.folder / "lent")  # folders may go meanwhile
            for name in names
        ]

    def end(self) -> int:
        """End it; its exit status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        status = process.wait(_END_S)
        process.stdout.close()
        return status

    def kill(self) -> None:
        """The machine is switched off."""
        process, self._process = self._process, None
        assert process is not None
        everything = [process, *psutil.Process(process.pid).children(recursive=True)]
        for one in everything:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGKILL)
        process.wait()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with contextlib.suppress(ValueError):
            for line in process.stdout:
                self.said.append(line.strip())


def paired(folder: Path, count: int, *, silence: str = "30s") -> tuple[Endpoint, list[Machine]]:
    """An endpoint and some machines that are not started yet and may join."""
    host = folder / "host"
    machines = [Machine(folder / f"machine_{number}", "") for number in range(1, count + 1)]
    with computer(host):
        own_endpoint()
        for number, one in enumerate(machines, start=1):
            certificate = certificate_of(one.folder / "data")
            Peers().add(certificate, f"machine {number}", "")
        endpoint = replace(own_endpoint(free_port()), network="127.0.0.1", silence=silence)
    for one in machines:
        one.address = f"127.0.0.1:{endpoint.port}"
        with computer(one.folder / "data"):
            Peers().add(certificate_of(host), "host", one.address)
            own_endpoint()
    return endpoint, machines


@contextlib.contextmanager
def running(machines: Sequence[Machine]) -> Iterator[None]:
    """Inside, they run; at the end nothing of them is left."""
    for one in machines:
        one.start()
    try:
        yield
    finally:
        ends = [one.end() for one in machines]
        assert not any(ends), ends
        assert not any(one.leftovers for one in machines)
        for one in machines:
            shutil.rmtree(one.folder / "lent", ignore_errors=True)


def until(what: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.05)


def free_port() -> int:
    """A port of this machine that is free."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port
