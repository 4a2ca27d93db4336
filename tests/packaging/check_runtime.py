"""Try download, import, damage and removal of an NVIDIA runtime on a whole program.

    python -m tests.packaging.check_runtime dist/upreel/upreel-cli
    python -m tests.packaging.check_runtime python -m engine
    python -m tests.packaging.check_runtime --windows-paths wine dist/upreel/upreel-cli.exe

A stand-in wheel of a few kilobytes comes from a server on this machine that cuts, lies and is slow.
The program is given folders of its own; nothing of this user's is touched. Prints a line for each
step; the exit status is 0 when all went as it should. Needs the sources' `tests` folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PureWindowsPath

from installer.wine import Listener
from tests.helpers import runtimes
from tests.helpers.faulty_server import Fault, FaultyServer, faulty_server

ROOT = Path(__file__).resolve().parents[2]
_LIMIT_S = 180
_CUT = 700  # bytes


class Failed(Exception):
    """The program did something else than it should."""


class Started:
    """A command that runs; what it says is read meanwhile."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self.words = " ".join(words)
        self._child = subprocess.Popen(
            words,
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        # Wine's services inherit the pipes, so the end of the program is not that of its output.
        streams = (self._child.stdout, self._child.stderr)
        self._says = [Listener(stream) for stream in streams if stream]

    def kill(self) -> None:
        """End it at once."""
        self._child.kill()
        self._child.wait()

    def ended(self) -> tuple[int, str, str]:
        """Wait for its end; status, output and errors.

        Raises:
            Failed: It does not come to an end.
        """
        try:
            status = self._child.wait(_LIMIT_S)
        except subprocess.TimeoutExpired as late:
            self.kill()
            said = "".join(listener.text() for listener in self._says)
            raise Failed(f"{self.words}: no end after {_LIMIT_S} s\n{said}") from late
        return status, self._says[0].text(), self._says[1].text()


class Program:
    """The program under test, with folders of its own."""

    def __init__(self, words: Sequence[str], folder: Path, *, windows_paths: bool) -> None:
        self.words = list(words)
        self.folder = folder
        self.data = folder / "data"
        self._windows = windows_paths
        self._environment = os.environ | {
            "UPREEL_DATA": self.path(self.data),
            "UPREEL_CACHE": self.path(folder / "cache"),
            "UPREEL_RESOURCES": self.path(folder / "resources"),
        }
        self._environment.pop("UPREEL_RUNTIME", None)
        if "-m" in words:  # a checkout takes a runtime only when it is told to
            self._environment["UPREEL_RUNTIME"] = "installed"

    def path(self, path: Path) -> str:
        """A path as the program reads it."""
        return str(PureWindowsPath(f"Z:{path}")) if self._windows else str(path)

    def start(self, *words: str) -> Started:
        """Start it with a command of `runtime`."""
        return Started([*self.words, "runtime", *words], self._environment)

    def run(self, *words: str, status: int = 0, says: str = "") -> str:
        """Run a command to its end.

        Raises:
            Failed: It ended with another status, or does not say that.
        """
        return self.ended(self.start(*words), status=status, says=says)

    def ended(self, child: Started, *, status: int = 0, says: str = "") -> str:
        """What a started command said.

        Raises:
            Failed: As `run`.
        """
        ended_with, out, err = child.ended()
        if ended_with != status:
            raise Failed(f"{child.words}: status {ended_with}, not {status}\n{out}{err}")
        if says not in out + err:
            raise Failed(f"{child.words} does not say {says!r}\n{out}{err}")
        return out

    def upscale(self) -> None:
        """Let it make a second of film: with a torch that can do everything.

        Raises:
            Failed: It does not get to the end.
        """
        source = self.folder / "resources" / "samples" / "upreel_sample.mp4"
        words = ("-o", self.path(self.folder / "result.mkv"), "--stop", "1", "--overwrite")
        self.ended(Started([*self.words, "upscale", self.path(source), *words], self._environment))

    def state(self) -> tuple[str, str]:
        """How the runtime stands, and why this process has the torch that it has."""
        listed = json.loads(self.run("list", "--json"))
        return listed["runtimes"][0]["state"], listed["used"]

    def expect(self, state: str, used: str) -> None:
        """Look at both.

        Raises:
            Failed: One of them is another.
        """
        found = self.state()
        if found[0] != state or used not in found[1]:
            raise Failed(f"{found} instead of {state!r} and {used!r}")


def check(program: Program, server: FaultyServer, wheel: Path) -> None:
    """All steps, one after the other.

    Raises:
        Failed: The program did something else than it should.
    """
    good = server.files[f"/{runtimes.PLACE}"]
    own = program.path(wheel)
    _say("nothing is here")
    program.expect("missing", "No NVIDIA runtime is chosen")
    _say("a connection that is cut again and again: what came stays")
    server.always = Fault(cut_after=_CUT)
    server.faults = [Fault(cut_after=_CUT), *[Fault(cut_after=0)] * 2]
    child = program.start("install", "cu999")
    _wait(lambda: len(server.asked) >= 2)
    child.kill()
    program.expect("partial", "No NVIDIA runtime is chosen")
    server.always, server.faults = Fault(), []
    _say("a wrong byte in what comes: refused, nothing is unpacked")
    server.files[f"/{runtimes.PLACE}"] = good[:-30] + bytes([good[-30] ^ 1]) + good[-29:]
    program.run("install", "cu999", status=1, says="hash-mismatch")
    program.expect("missing", "No NVIDIA runtime is chosen")
    server.files[f"/{runtimes.PLACE}"] = good
    _say("two starts at once: the second is told to wait")
    server.always = Fault(drip=1)
    first = program.start("install", "cu999")
    _wait(lambda: program.state()[0] == "busy")
    program.run("install", "cu999", status=1, says="runtime-busy")
    server.always = Fault()
    server.hurry.set()
    program.ended(first, says=f"takes torch {runtimes.VERSION}")
    _say("the next start takes it")
    program.expect("here", "is installed and chosen")
    program.run("try", says=f"torch {runtimes.VERSION}")
    _say("in use it cannot be removed")
    program.run("remove", "cu999", status=1, says="runtime-busy")
    _say("a library is damaged: the program keeps its own torch, and repairs it")
    library = next(program.data.glob("runtimes/cu999-*/torch/lib/c10.dll"))
    library.write_bytes(b"cut")
    program.expect("broken", "c10.dll is missing or damaged")
    program.upscale()
    program.run("install", "cu999")
    program.expect("here", "is installed and chosen")
    _say("back to its own torch, and away")
    program.run("use", "bundled")
    program.run("remove", "cu999")
    program.expect("missing", "No NVIDIA runtime is chosen")
    _say("the wheel from the disk, without the server; another one is refused")
    server.always = Fault(status=500)
    other = wheel.with_name("torch-0-py3-none-any.whl")
    other.write_bytes(good + b"1")
    program.run("import", program.path(other), status=1, says="hash-mismatch")
    program.run("import", own, says=f"takes torch {runtimes.VERSION}")
    program.expect("here", "is installed and chosen")
    _say("one whose torch ends the program is not chosen again")
    module = next(program.data.glob("runtimes/cu999-*/torch/__init__.py"))
    module.write_text("import os; os._exit(3)".ljust(module.stat().st_size), encoding="utf-8")
    for _ in range(2):
        program.run("try", status=3)
    program.expect("broken", "ended twice")


def _say(step: str) -> None:
    print(f"{time.monotonic() - _BEGIN:5.1f} s  {step}", flush=True)


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise Failed("the program did not come so far")
        time.sleep(0.05)


_BEGIN = time.monotonic()


def main() -> int:
    """Parse the words and check; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--windows-paths", action="store_true", help="the program reads Z:\\tmp for /tmp"
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help="words that start it")
    args = parser.parse_args()
    if not args.program:
        parser.error("name the program")
    with tempfile.TemporaryDirectory() as place, faulty_server() as server:
        folder = Path(place).resolve()
        wheel = runtimes.wheel(folder / "published")
        server.files[f"/{runtimes.PLACE}"] = wheel.read_bytes()
        known = runtimes.catalogue(runtimes.runtime(wheel), index=server.url)
        runtimes.resources(folder / "resources", known)
        try:
            program = Program(args.program, folder, windows_paths=args.windows_paths)
            check(program, server, wheel)
        except Failed as err:
            print(f"FAILED: {err}", file=sys.stderr)
            return 1
    _say("all as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
