"""Tries several processes at one film with a packed program, which starts itself again for them.

    python -m tests.trials.packaging.check_workers dist/upreel/upreel-cli
    python -m tests.trials.packaging.check_workers --windows-paths wine dist/upreel/upreel-cli.exe

Prints a line for each step with its seconds; the exit status is 0 if all passed.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from engine.video.read.frame_reader import FrameReader
from engine.video.read.probe import probe
from tests.trials.packaging.packed_program import PackedProgram, RunningCommand, try_program, until
from tests.trials.packaging.trial import SAMPLE, expect

_POLL_S = 0.05
_FILM = ("--stop", "2", "--set", "codec=ffv1", "--set", "segment_seconds=0.5", "--json")
_WORKERS = 2


def start(program: PackedProgram, output: Path, workers: int) -> RunningCommand:
    """Have half of the sample made with Lite by so many processes."""
    source, result = program.path(SAMPLE), program.path(output)
    options = ("--model", "lite", "--workers", str(workers), *_FILM)
    return program.start("upscale", source, "-o", result, *options)


def planes_of(film: Path) -> list[np.ndarray]:
    """The planes of all frames."""
    with FrameReader(probe(film)) as reader:
        return [plane.copy() for frame in reader for plane in frame.planes]


def makes_the_same(program: PackedProgram) -> None:
    """One process and several make the same film, and leave no process.

    Raises:
        TrialFailed: They do not.
    """
    films = [program.folder / f"made by {count}.mkv" for count in (1, _WORKERS)]
    program.wait(start(program, films[0], 1))
    child, most = start(program, films[1], _WORKERS), 0
    while child.is_running and most < _WORKERS:
        most = max(most, len(program.spawned()))
        time.sleep(_POLL_S)
    events = [json.loads(line) for line in program.wait(child).splitlines()]
    expect(most == _WORKERS, f"{most} processes at the same time, not {_WORKERS}")
    warnings = [event for event in events if event["event"] == "Warned"]
    expect(not warnings, f"warnings: {warnings}")  # one would be that no worker is left
    one, several = map(planes_of, films)
    expect(len(one) > 0 and len(one) == len(several), "the films have other frames")
    expect(all(map(np.array_equal, one, several)), "the films differ")
    until(lambda: not program.spawned(), "processes are left")


def end_with_it(program: PackedProgram) -> None:
    """Workers end when the program is killed.

    Raises:
        TrialFailed: They do not.
    """
    child = start(program, program.folder / "killed.mkv", _WORKERS)
    until(lambda: len(program.spawned()) == _WORKERS, "the workers do not start")
    expect(child.is_running, "the program ended before it could be killed")
    child.kill()
    until(lambda: not program.spawned(), "processes are left")


if __name__ == "__main__":
    steps = {
        "several processes make the same film": makes_the_same,
        "they end with a program that is killed": end_with_it,
    }
    sys.exit(try_program(__doc__.splitlines()[0], steps))
