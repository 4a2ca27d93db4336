"""Tries the frozen Windows program, and tests under a Windows Python, under Wine.

    python -m tests.trials.packaging.check_windows --payload DIR/upreel [--only NAME ...]

DIR is the output of `tools.windows_build.build`. The steps, by name:

- smoke: the program's smoke test: window, sample clip, Lite, resources, threads;
- film: `upreel-cli upscale` of a real clip (of the folder in UPREEL_SAMPLES, else the sample) into
  a folder with spaces and Chinese letters; the host's engine compares the result with its source;
- doctor: the self-test;
- runtime: download, cut, damage and removal of a stub runtime; instead of a broken one the program
  uses its own torch (`tests.trials.packaging.check_runtime`);
- torch: the published wheel of torch for the CPU as a runtime: installed, tried, used, and its
  import timed (`tests.trials.packaging.check_torch`);
- workers: several processes make one video, and end with it (`...packaging.check_workers`);
- machines: it makes spans of a film for another process (`tests.trials.packaging.check_machines`);
- tests: the tests of code that is special on Windows: paths, processes, settings, downloads.

Prints each step with its seconds; the exit status is 0 if all passed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.trials.packaging import windows_tests
from tests.trials.packaging.trial import ROOT, SAMPLE, TrialFailed, expect
from tools.windows_build.build import BuildFailed
from tools.windows_build.wine import Wine, WineMissing

_LIMIT_S: Final = 900
_FOLDER: Final = "我的 影片"  # a space, and letters that no European code page has
_DATA_FOLDERS: Final = ("UPREEL_DATA", "UPREEL_CACHE")


@dataclass(frozen=True)
class WindowsTrial:
    """The program under test and the folders of this run."""

    wine: Wine
    payload: Path
    python: Path
    folder: Path  # of this run

    def run(self, program: str, *arguments: str) -> str:
        """Run a program of the payload to its end; its stdout.

        Raises:
            TrialFailed: It ended with another status than 0.
        """
        done = self.wine.run(
            self.payload / program,
            *arguments,
            timeout=_LIMIT_S,
            cwd=self.folder,
            environment={
                name: self.wine.path(self.folder / name.lower()) for name in _DATA_FOLDERS
            },
        )
        if done.returncode:
            command = f"{program} {' '.join(arguments)}"
            output = f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
            raise TrialFailed(f"{command}: status {done.returncode}\n{output}")
        return done.stdout


def smoke(trial: WindowsTrial) -> str:
    """The program's smoke test; its figures."""
    result = trial.folder / "result.json"
    try:
        trial.run("upreel.exe", "--smoke-test", "--out", trial.wine.path(result))
    except TrialFailed as err:
        text = result.read_text(encoding="utf-8") if result.is_file() else "it wrote no result"
        raise TrialFailed(f"{err}\n{text}") from err
    found = json.loads(result.read_text(encoding="utf-8"))
    expect(found["ok"] and found["frozen"], f"smoke test:\n{json.dumps(found, indent=1)}")
    figures = ("first_paint_s", "load_s", "job_s", "colours_finished", "output_frames")
    return ", ".join(f"{name} {found[name]}" for name in figures)


def film(trial: WindowsTrial) -> str:
    """Upscale a real clip; the host's engine compares the result with the source."""
    source = clip()
    folder = trial.folder / _FOLDER
    folder.mkdir()
    copied = Path(shutil.copy2(source, folder / f"片段 {source.name}"))
    output = folder / "结果.mkv"
    arguments = (
        "upscale",
        trial.wine.path(copied),
        "-o",
        trial.wine.path(output),
        "--model",
        "lite",
    )
    trial.run("upreel-cli.exe", *arguments)
    compare = [sys.executable, "-m", "engine", "verify", str(copied), str(output), "--json"]
    done = subprocess.run(compare, cwd=ROOT, capture_output=True, text=True, check=False)
    expect(not done.returncode, f"The result differs:\n{done.stdout}{done.stderr}")
    left = sorted(path.name for path in folder.iterdir())
    expect(left == sorted((copied.name, output.name)), f"the folder of the film has {left}")
    return f"{source.name}: {json.loads(done.stdout).get('frames_out')} frames, equal to its source"


def clip() -> Path:
    """The first clip of UPREEL_SAMPLES, else the program's sample."""
    named = os.environ.get("UPREEL_SAMPLES")
    found = sorted(Path(named).glob("*.mp4")) if named else []
    return found[0] if found else SAMPLE


def doctor(trial: WindowsTrial) -> str:
    """The self-test finds no problem."""
    found = json.loads(trial.run("upreel-cli.exe", "doctor", "--json"))["lines"]
    counts = {
        state: [line["name"] for line in found if line["state"] == state] for state in _STATES
    }
    if counts["problem"]:
        raise TrialFailed(
            json.dumps([line for line in found if line["state"] == "problem"], indent=1)
        )
    return f"{len(counts['ok'])} ok, warnings: {', '.join(counts['warning']) or 'none'}"


_STATES: Final = ("ok", "warning", "problem")


def runtime(trial: WindowsTrial) -> str:
    """All steps with a stub runtime, in the frozen program."""
    return f"{_tried_by('check_runtime', trial) - 1} steps"


def torch(trial: WindowsTrial) -> str:
    """All steps with the published wheel of torch as a runtime; the times of its import."""
    lines = _lines_of("check_torch", trial)
    return "; ".join(line.strip() for line in lines if "bytecode of" in line)


def workers(trial: WindowsTrial) -> str:
    """All steps with several processes at one film."""
    return f"{_tried_by('check_workers', trial)} steps"


def machines(trial: WindowsTrial) -> str:
    """It makes spans for a process of this Linux."""
    return f"{_tried_by('check_machines', trial)} step"


def _tried_by(name: str, trial: WindowsTrial) -> int:
    """Run a trial that takes any program; how many lines it wrote."""
    return len(_lines_of(name, trial))


def _lines_of(name: str, trial: WindowsTrial) -> list[str]:
    """Run a trial that takes any program; the lines that it wrote.

    Raises:
        TrialFailed: It failed.
    """
    program = trial.wine.command(trial.payload / "upreel-cli.exe")
    done = subprocess.run(
        [sys.executable, "-m", f"tests.trials.packaging.{name}", "--windows-paths", *program],
        cwd=ROOT,
        env=trial.wine.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    expect(not done.returncode, f"{done.stdout}{done.stderr}")
    return done.stdout.splitlines()


def tests(trial: WindowsTrial) -> str:
    """The tests of code that is special on Windows, under the Windows Python."""
    return windows_tests.run(trial.wine, trial.python, trial.folder)


STEPS: Final[dict[str, Callable[[WindowsTrial], str]]] = {
    step.__name__: step for step in (smoke, film, doctor, runtime, torch, workers, machines, tests)
}


def check(trial: WindowsTrial, names: list[str]) -> int:
    """Run the named steps; how many failed."""
    failed = 0
    for name in names:
        started = time.monotonic()
        print(f"{name}...", flush=True)
        try:
            outcome = STEPS[name](trial)
        except (TrialFailed, BuildFailed, subprocess.TimeoutExpired) as err:
            failed += 1
            outcome = f"FAILED: {err}"
        print(f"{time.monotonic() - started:6.1f} s  {name}: {outcome}", flush=True)
    return failed


def main() -> int:
    """Parse the arguments and run the trial; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--payload", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS), metavar="NAME")
    parser.add_argument("--prefix", type=Path, metavar="DIR", help="default: next to the payload")
    parser.add_argument("--python", type=Path, metavar="DIR", help="default: next to the payload")
    args = parser.parse_args()
    payload = args.payload.resolve()
    try:
        wine = Wine(args.prefix or payload.parent / "prefix")
    except WineMissing as err:
        print(f"FAILED: {err}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        python = (args.python or payload.parent / "python").resolve()
        trial = WindowsTrial(wine, payload, python, Path(temporary).resolve())
        failed = check(trial, args.only)
        wine.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
