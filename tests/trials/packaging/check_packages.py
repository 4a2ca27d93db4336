"""Makes and tries the packages as far as possible on a machine without Windows.

    python -m tests.trials.packaging.check_packages             everything, also for Windows
    python -m tests.trials.packaging.check_packages --quick     Linux program, runtime, lock, setup
    python -m tests.trials.packaging.check_packages --if-changed only if they have changed
    python -m tests.trials.packaging.check_packages --record    record the pass

`--quick` is a part of everything, whose two lanes keep two cores busy. Needs Debian, as root if
Debian packages are missing, and the extra `dev`. Prints each step with its seconds and its output;
the exit status is 0 if all passed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.trials.packaging.packages_tree import RECORD, tree_hash
from tests.trials.packaging.trial import ROOT, TrialFailed
from tools.windows_build.wine import install_missing

_RECORD = ROOT / RECORD
_DEBIAN = ("nsis", "gcc-mingw-w64-x86-64", "wine", "wine64", "osslsigncode", "xvfb")
_NO_INDEX = 3  # exit status of check_lock.py
_LINES_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Step:
    """A command with its title and the exit statuses of a pass."""

    title: str
    command: tuple[str, ...]
    passes_with: tuple[int, ...] = (0,)


Lane = tuple[Step, ...]
"""Steps that run one after the other."""


def quick_lane() -> Lane:
    """Steps of `--quick`, some minutes."""
    return (
        Step("program for Linux, frozen and tested", _module("installer.freeze")),
        Step(
            "trial of a runtime in it",
            _module("tests.trials.packaging.check_runtime", str(_packed("upreel-cli"))),
        ),
        Step(
            "trial of a community model in it",
            _module("tests.trials.packaging.check_community", str(_packed("upreel-cli"))),
        ),
        Step(
            "trial of several processes in it",
            _module("tests.trials.packaging.check_workers", str(_packed("upreel-cli"))),
        ),
        Step(
            "trial of spans that it makes for another process",
            _module("tests.trials.packaging.check_machines", str(_packed("upreel-cli"))),
        ),
        Step("lock for Windows", _module("installer.check_lock"), (0, _NO_INDEX)),
        Step("trial of a stub setup, under Wine", _module("tests.trials.packaging.check_setup")),
    )


def stages(work: Path, downloads: Path, *, is_quick: bool) -> list[tuple[Lane, ...]]:
    """All steps: stages run one after the other, the lanes of a stage in parallel."""
    if is_quick:
        return [(quick_lane(),)]
    windows = str(work / "windows" / "upreel")
    build = _module(
        *("tools.windows_build.build", "--out", str(work / "windows")),
        *("--cache", str(downloads)),
    )

    def trial(title: str, name: str) -> Step:
        return Step(title, _module(f"tests.trials.packaging.{name}", "--payload", windows))

    trials = (
        trial("trial of the Windows program, under Wine", "check_windows"),
        trial("trial of an update, under Wine", "check_update"),
    )
    return [
        (quick_lane(), (Step("program for Windows, frozen under Wine", build),)),
        (trials, (trial("trial of its setup, under Wine", "check_setup"),)),
    ]


def run_stage(lanes: Sequence[Lane]) -> dict[str, int]:
    """Run lanes in parallel; seconds of each step by its title.

    Raises:
        TrialFailed: A step failed; the other lanes end after their present step.
    """
    stopped = threading.Event()

    def run_lane(lane: Lane) -> dict[str, int]:
        seconds = {}
        try:
            for step in lane:
                if not stopped.is_set():
                    seconds[step.title] = round(run(step))
        except BaseException:
            stopped.set()
            raise
        return seconds

    with ThreadPoolExecutor(len(lanes)) as pool:
        running = [pool.submit(run_lane, lane) for lane in lanes]
        return {title: s for lane in running for title, s in lane.result().items()}


def run(step: Step) -> float:
    """Run a step; its seconds.

    Raises:
        TrialFailed: It failed; the message has the end of its output.
    """
    started = time.monotonic()
    done = subprocess.run(
        step.command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    seconds = time.monotonic() - started
    lines = done.stdout.splitlines()
    if done.returncode not in step.passes_with:
        shown = "\n".join(lines[-_LINES_SHOWN:])
        raise TrialFailed(f"{step.title}: status {done.returncode} after {seconds:.0f} s\n{shown}")
    shown = "".join(f"    {line}\n" for line in lines)
    print(f"{step.title}: {seconds:.0f} s\n{shown}", end="", flush=True)  # in one piece: lanes mix
    return seconds


def passed_before(name: str) -> bool:
    """Whether this part ("quick", "whole") passed with the present tree."""
    return bool(_record().get(name, {}).get("tree") == tree_hash(ROOT))


def _record() -> dict[str, dict[str, object]]:
    if not _RECORD.is_file():
        return {}
    found: dict[str, dict[str, object]] = json.loads(_RECORD.read_text(encoding="utf-8"))
    return found


def _write_record(names: Sequence[str], tree: str, seconds: dict[str, int]) -> None:
    entry = {"tree": tree, "day": datetime.now(UTC).date().isoformat(), "seconds": seconds}
    record = _record() | dict.fromkeys(names, entry)
    _RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *arguments)


def _packed(name: str) -> Path:
    return ROOT / "dist" / "upreel" / name


def _install() -> None:
    if os.geteuid() == 0:
        install_missing(_DEBIAN)
    elif missing := [name for name in ("makensis", "osslsigncode") if not shutil.which(name)]:
        raise TrialFailed(f"{' and '.join(missing)} missing: apt-get install {' '.join(_DEBIAN)}")


def main() -> int:
    """Run the steps that the arguments name; the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="only the part that takes minutes")
    parser.add_argument(
        "--if-changed", action="store_true", help="only if the packages have changed"
    )
    parser.add_argument("--record", action="store_true", help="record that this tree passed")
    parser.add_argument("--downloads", type=Path, help="folder that keeps downloads")
    parser.add_argument("--keep", action="store_true", help="keep dist/ and build/")
    options = parser.parse_args()
    name = "quick" if options.quick else "whole"
    if options.if_changed and passed_before(name):
        print(f"packages: unchanged since they passed ({name})")
        return 0
    started, tree = time.monotonic(), tree_hash(ROOT)
    seconds: dict[str, int] = {}
    try:
        _install()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            downloads = (options.downloads or Path(folder) / "downloads").resolve()
            for lanes in stages(Path(folder), downloads, is_quick=options.quick):
                seconds |= run_stage(lanes)
    except TrialFailed as err:
        print(f"FAILED: {err}")
        return 1
    finally:
        if not options.keep:
            for made in ("dist", "build"):
                shutil.rmtree(ROOT / made, ignore_errors=True)
    print(f"packages: all passed ({name}) in {time.monotonic() - started:.0f} s")
    if options.record:
        _write_record(["quick"] if options.quick else ["quick", "whole"], tree, seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
