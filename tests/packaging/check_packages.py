"""Make and try the packages, as far as a machine without Windows can.

    python -m tests.packaging.check_packages              the whole: also the program for Windows
    python -m tests.packaging.check_packages --quick  Linux program, runtime, lock, setup of a stub
    python -m tests.packaging.check_packages --if-changed     only when something has changed since
    python -m tests.packaging.check_packages --record     keep what passed in packages_seen.json

`--quick` is a part of the whole, whose two lanes keep two cores busy. Needs Debian, with root's
rights where packages are missing, and the extra `dev`. One line for each step with its seconds and
what it said; the exit status is 0 when all passed.
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

from installer.wine import install_missing
from tests.packaging.packages_tree import SEEN, tree_hash

ROOT = Path(__file__).resolve().parents[2]
_RECORD = ROOT / "installer" / SEEN
_DEBIAN = ("nsis", "gcc-mingw-w64-x86-64", "wine", "wine64", "osslsigncode", "xvfb")
_NO_INDEX = 3  # exit status of check_lock.py
_LINES_SHOWN = 40


class Failed(Exception):
    """A step did not pass."""


@dataclass(frozen=True, slots=True)
class Step:
    """A command and what it shows."""

    title: str
    words: tuple[str, ...]
    may_end_with: tuple[int, ...] = (0,)


Lane = tuple[Step, ...]
"""Steps one after the other."""


def quick_lane() -> Lane:
    """What takes minutes."""
    return (
        Step("program for Linux, frozen and tested", _module("installer.freeze")),
        Step("runtime in it", _module("tests.packaging.check_runtime", str(_packed("upreel-cli")))),
        Step("lock for Windows", _module("installer.check_lock"), (0, _NO_INDEX)),
        Step("setup of a stub, under Wine", _module("tests.packaging.check_setup")),
    )


def stages(work: Path, downloads: Path, *, is_quick: bool) -> list[tuple[Lane, ...]]:
    """All steps: stages one after the other, the lanes of one beside each other."""
    if is_quick:
        return [(quick_lane(),)]
    windows = str(work / "windows" / "upreel")
    build = _module(
        "installer.build_windows", "--out", str(work / "windows"), "--cache", str(downloads)
    )
    tried = (
        Step(
            "it, tried under Wine", _module("tests.packaging.check_windows", "--payload", windows)
        ),
        Step(
            "an update of it, under Wine",
            _module("tests.packaging.check_update", "--payload", windows),
        ),
    )
    setup = Step(
        "its setup, under Wine", _module("tests.packaging.check_setup", "--payload", windows)
    )
    return [
        (quick_lane(), (Step("program for Windows, frozen under Wine", build),)),
        (tried, (setup,)),
    ]


def run_stage(lanes: Sequence[Lane]) -> dict[str, int]:
    """Run lanes beside each other; seconds of each step by its title.

    Raises:
        Failed: Of the first step that did not pass; other lanes end behind their present step.
    """
    over = threading.Event()

    def through(lane: Lane) -> dict[str, int]:
        seconds = {}
        try:
            for step in lane:
                if not over.is_set():
                    seconds[step.title] = round(run(step))
        except BaseException:
            over.set()
            raise
        return seconds

    with ThreadPoolExecutor(len(lanes)) as pool:
        ended = [pool.submit(through, lane) for lane in lanes]
        return {title: s for lane in ended for title, s in lane.result().items()}


def run(step: Step) -> float:
    """Run a step; its seconds.

    Raises:
        Failed: With the end of what it said.
    """
    started = time.monotonic()
    done = subprocess.run(
        step.words,
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
    if done.returncode not in step.may_end_with:
        told = "\n".join(lines[-_LINES_SHOWN:])
        raise Failed(f"{step.title}: status {done.returncode} after {seconds:.0f} s\n{told}")
    told = "".join(f"    {line}\n" for line in lines)
    print(f"{step.title}: {seconds:.0f} s\n{told}", end="", flush=True)  # at once: lanes talk too
    return seconds


def passed_before(name: str) -> bool:
    """Whether the part passed with this very tree."""
    return bool(_record().get(name, {}).get("tree") == tree_hash(ROOT))


def _record() -> dict[str, dict[str, object]]:
    if not _RECORD.is_file():
        return {}
    found: dict[str, dict[str, object]] = json.loads(_RECORD.read_text(encoding="utf-8"))
    return found


def _keep(names: Sequence[str], tree: str, seconds: dict[str, int]) -> None:
    entry = {"tree": tree, "day": datetime.now(UTC).date().isoformat(), "seconds": seconds}
    kept = _record() | dict.fromkeys(names, entry)
    _RECORD.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def _module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *arguments)


def _packed(name: str) -> Path:
    return ROOT / "dist" / "upreel" / name


def _install() -> None:
    if os.geteuid() == 0:
        install_missing(_DEBIAN)
    elif missing := [name for name in ("makensis", "osslsigncode") if not shutil.which(name)]:
        raise Failed(f"{' and '.join(missing)} missing: apt-get install {' '.join(_DEBIAN)}")


def main() -> int:
    """Run what the arguments ask for; the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the part that takes minutes")
    parser.add_argument("--if-changed", action="store_true", help="only when the tree is another")
    parser.add_argument("--record", action="store_true", help="keep the tree that passed")
    parser.add_argument("--downloads", type=Path, help="folder that keeps what was downloaded")
    parser.add_argument("--keep", action="store_true", help="leave dist/ and build/")
    options = parser.parse_args()
    name = "quick" if options.quick else "whole"
    if options.if_changed and passed_before(name):
        print(f"packages: nothing they depend on has changed since they passed ({name})")
        return 0
    started, tree = time.monotonic(), tree_hash(ROOT)
    seconds: dict[str, int] = {}
    try:
        _install()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            downloads = (options.downloads or Path(folder) / "downloads").resolve()
            for lanes in stages(Path(folder), downloads, is_quick=options.quick):
                seconds |= run_stage(lanes)
    except Failed as err:
        print(f"FAILED: {err}")
        return 1
    finally:
        if not options.keep:
            for place in ("dist", "build"):
                shutil.rmtree(ROOT / place, ignore_errors=True)
    print(f"packages: all passed ({name}) in {time.monotonic() - started:.0f} s")
    if options.record:
        _keep(["quick"] if options.quick else ["quick", "whole"], tree, seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
