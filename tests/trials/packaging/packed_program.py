"""A whole program under trial: packed, from the sources, or packed for Windows and under Wine."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PureWindowsPath

import psutil

from tests.trials.packaging.trial import ROOT, TrialFailed, expect, run_step
from tools.windows_build.wine import PipeReader

LIMIT_S = 600  # for anything: under Wine on a busy machine
_POLL_S = 0.05


class RunningCommand:
    """A started command; threads read its output."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.text = " ".join(command)
        self._child = subprocess.Popen(
            command,
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        # Wine's services inherit the pipes, so the end of the program is not that of its output.
        streams = (self._child.stdout, self._child.stderr)
        self._outputs = [PipeReader(stream) for stream in streams if stream]

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._child.poll() is None

    def interrupt(self) -> None:
        """As Ctrl-C does; Wine passes it on. Not for Windows itself."""
        self._child.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill the process."""
        self._child.kill()
        self._child.wait()

    def wait(self, limit_s: float = LIMIT_S) -> tuple[int, str, str]:
        """Wait for its end; exit status, stdout and stderr.

        Raises:
            TrialFailed: It does not end in time.
        """
        try:
            status = self._child.wait(limit_s)
        except subprocess.TimeoutExpired as late:
            self.kill()
            output = "".join(reader.text() for reader in self._outputs)
            raise TrialFailed(f"{self.text}: no end after {limit_s} s\n{output}") from late
        return status, self._outputs[0].text(), self._outputs[1].text()


class PackedProgram:
    """The program under trial, with data folders of its own.

    Args:
        command: That starts it.
        folder: Of the trial.
        windows_paths: It reads Z:\\tmp for /tmp.
        resources: Folder of other resources than its own.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        windows_paths: bool,
        resources: Path | None = None,
    ) -> None:
        self.command = list(command)
        self.folder = folder
        self.data = folder / "data"
        self.is_for_windows = windows_paths
        self.environment = os.environ | {
            "UPREEL_DATA": self.path(self.data),
            "UPREEL_CACHE": self.path(folder / "cache"),
        }
        if resources is not None:
            self.environment["UPREEL_RESOURCES"] = self.path(resources)
        self.environment.pop("UPREEL_RUNTIME", None)
        self._started: list[RunningCommand] = []

    def path(self, path: Path) -> str:
        """A path as the program reads it."""
        return str(PureWindowsPath(f"Z:{path}")) if self.is_for_windows else str(path)

    def start(self, *arguments: str) -> RunningCommand:
        """Start it with these arguments."""
        child = RunningCommand([*self.command, *arguments], self.environment)
        self._started.append(child)
        return child

    def close(self) -> None:
        """Kill what still runs, after a trial that failed."""
        for child in self._started:
            if child.is_running:
                child.kill()

    def run(self, *arguments: str, status: int = 0, output: str = "") -> str:
        """Run it to its end; its stdout.

        Raises:
            TrialFailed: It ended with another status, or without this output.
        """
        return self.wait(self.start(*arguments), status=status, output=output)

    def wait(self, child: RunningCommand, *, status: int = 0, output: str = "") -> str:
        """Output of a started command.

        Raises:
            TrialFailed: As `run`.
        """
        actual, out, err = child.wait()
        expect(actual == status, f"{child.text}: status {actual}, not {status}\n{out}{err}")
        expect(output in out + err, f"{child.text}: no {output!r} in the output\n{out}{err}")
        return out

    def spawned(self) -> list[psutil.Process]:
        """Processes that the program has started from itself."""
        name = self.command[-1]
        own = PureWindowsPath(name) if self.is_for_windows else Path(name).resolve()
        found = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or [""]
            started = PureWindowsPath(words[0]).as_posix()
            if "--multiprocessing-fork" in words and started.endswith(own.as_posix()):
                found.append(process)
        return found


def until(condition: Callable[[], bool], otherwise: str) -> None:
    """Wait for a condition.

    Raises:
        TrialFailed: It does not come; the message is `otherwise`.
    """
    end = time.monotonic() + LIMIT_S
    while not condition():
        expect(time.monotonic() < end, otherwise)
        time.sleep(_POLL_S)


def try_program(description: str, steps: Mapping[str, Callable[[PackedProgram], None]]) -> int:
    """The main function of a trial: run its steps with the program that the arguments name.

    Args:
        description: For `--help`.
        steps: By their titles.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--windows-paths", action="store_true", help="the program reads Z:\\tmp for /tmp"
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help="command that starts it")
    args = parser.parse_args()
    if not args.program:
        parser.error("the program is missing")
    # Shells have what they start in the background ignore Ctrl-C, and so would the program.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary).resolve()
        program = PackedProgram(args.program, folder, windows_paths=args.windows_paths)
        try:
            for title, step in steps.items():
                run_step(title, lambda step=step: step(program))
        except TrialFailed as err:
            sys.stderr.write(f"FAILED: {err}\n")
            return 1
        finally:
            program.close()
    return 0
