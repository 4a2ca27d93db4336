"""Try the frozen Windows program, and our tests under a Windows Python, under Wine.

    python -m tests.packaging.check_windows --payload DIR/upreel [--only NAME ...]

DIR is what build_windows.py has made. The steps, by name:

- smoke: the program's own test: window, sample clip, Lite, resources, threads;
- film: `upreel-cli upscale` of a real clip (of the folder in UPREEL_SAMPLES, else the sample) into
  a folder with spaces and Chinese letters; the result is compared with its source on this side;
- doctor: what the self-test says;
- runtime: download, cut, damage and removal of a stand-in runtime, and that a broken one is left
  aside for the program's own torch (`tests.packaging.check_runtime`);
- tests: the parts of our tests that know Windows: paths, processes, settings, downloads.

Prints a line for each with its seconds; the exit status is 0 when all went as it should.
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

from installer import wine_shims
from installer.wine import Wine, WineMissing
from tests.packaging import windows_tests

ROOT = Path(__file__).resolve().parents[2]
_LIMIT_S: Final = 900
_SAMPLE: Final = ROOT / "resources" / "samples" / "upreel_sample.mp4"
_FOLDER: Final = "我的 影片"  # spaces and letters that no code page of Europe has


class Failed(Exception):
    """The program did something else than it should."""


@dataclass(frozen=True)
class Trial:
    """What the steps work with."""

    wine: Wine
    payload: Path
    python: Path
    folder: Path  # of this run

    def run(self, program: str, *words: str) -> str:
        """Run a program of the payload to its end; what it said on standard output.

        Raises:
            Failed: It ended with another status than 0.
        """
        done = self.wine.run(
            self.payload / program,
            *words,
            timeout=_LIMIT_S,
            cwd=self.folder,
            environment=self.environment(),
        )
        if done.returncode:
            said = f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
            raise Failed(f"{program} {' '.join(words)}: status {done.returncode}\n{said}")
        return done.stdout

    def environment(self) -> dict[str, str]:
        """Folders of this run's own, beside what Wine needs."""
        own = {name: self.wine.path(self.folder / name.lower()) for name in _OWN_FOLDERS}
        return own | wine_shims.ENVIRONMENT


_OWN_FOLDERS: Final = ("UPREEL_DATA", "UPREEL_CACHE")


def smoke(trial: Trial) -> str:
    """The program tests itself; what it measured."""
    result = trial.folder / "result.json"
    try:
        trial.run("upreel.exe", "--smoke-test", "--out", trial.wine.path(result))
    except Failed as err:
        said = result.read_text(encoding="utf-8") if result.is_file() else "nothing was written"
        raise Failed(f"{err}\n{said}") from err
    seen = json.loads(result.read_text(encoding="utf-8"))
    if not seen["ok"] or not seen["frozen"]:
        raise Failed(f"The smoke test says:\n{json.dumps(seen, indent=1)}")
    figures = ("first_paint_s", "load_s", "job_s", "colours_finished", "output_frames")
    return ", ".join(f"{name} {seen[name]}" for name in figures)


def film(trial: Trial) -> str:
    """Upscale a real clip; this side's engine compares the result with the source."""
    source = clip()
    folder = trial.folder / _FOLDER
    folder.mkdir()
    copied = Path(shutil.copy2(source, folder / f"片段 {source.name}"))
    output = folder / "结果.mkv"
    words = ("upscale", trial.wine.path(copied), "-o", trial.wine.path(output), "--model", "lite")
    trial.run("upreel-cli.exe", *words)
    compare = [sys.executable, "-m", "engine", "verify", str(copied), str(output), "--json"]
    done = subprocess.run(compare, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"The result is not as its source:\n{done.stdout}{done.stderr}")
    left = sorted(path.name for path in folder.iterdir())
    if left != sorted((copied.name, output.name)):
        raise Failed(f"Beside the film lie {left}")
    return f"{source.name}: {json.loads(done.stdout).get('frames_out')} frames, as its source"


def clip() -> Path:
    """The first clip of UPREEL_SAMPLES, else the sample that comes with the program."""
    named = os.environ.get("UPREEL_SAMPLES")
    found = sorted(Path(named).glob("*.mp4")) if named else []
    return found[0] if found else _SAMPLE


def doctor(trial: Trial) -> str:
    """The self-test has nothing to complain of."""
    found = json.loads(trial.run("upreel-cli.exe", "doctor", "--json"))["lines"]
    counts = {
        state: [line["name"] for line in found if line["state"] == state] for state in _STATES
    }
    if counts["problem"]:
        raise Failed(json.dumps([line for line in found if line["state"] == "problem"], indent=1))
    return f"{len(counts['ok'])} ok, warnings: {', '.join(counts['warning']) or 'none'}"


_STATES: Final = ("ok", "warning", "problem")


def runtime(trial: Trial) -> str:
    """Everything about a stand-in runtime, in the frozen program."""
    program = trial.wine.command(trial.payload / "upreel-cli.exe")
    environment = trial.wine.environment | wine_shims.ENVIRONMENT
    done = subprocess.run(
        [sys.executable, "-m", "tests.packaging.check_runtime", "--windows-paths", *program],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Failed(f"{done.stdout}{done.stderr}")
    return f"{len(done.stdout.splitlines()) - 1} steps"


def tests(trial: Trial) -> str:
    """Our tests that know Windows, under the Windows Python."""
    return windows_tests.run(trial.wine, trial.python, trial.folder)


STEPS: Final[dict[str, Callable[[Trial], str]]] = {
    step.__name__: step for step in (smoke, film, doctor, runtime, tests)
}


def check(trial: Trial, names: list[str]) -> int:
    """Do the named steps; how many failed."""
    failed = 0
    for name in names:
        started = time.monotonic()
        print(f"{name}...", flush=True)
        try:
            said = STEPS[name](trial)
        except (Failed, windows_tests.TestsFailed, subprocess.TimeoutExpired) as err:
            failed += 1
            said = f"FAILED: {err}"
        print(f"{time.monotonic() - started:6.1f} s  {name}: {said}", flush=True)
    return failed


def main() -> int:
    """Parse the words and check; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--payload", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS), metavar="NAME")
    parser.add_argument("--prefix", type=Path, metavar="DIR", help="default: beside the payload")
    parser.add_argument("--python", type=Path, metavar="DIR", help="default: beside the payload")
    args = parser.parse_args()
    payload = args.payload.resolve()
    try:
        wine = Wine(args.prefix or payload.parent / "prefix")
        wine_shims.install(wine)
    except (WineMissing, wine_shims.CannotAssemble) as err:
        print(f"FAILED: {err}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        python = (args.python or payload.parent / "python").resolve()
        trial = Trial(wine, payload, python, Path(place).resolve())
        failed = check(trial, args.only)
        wine.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
