"""The tests of code that is special on Windows, run under the assembled Windows Python.

    python -m tests.trials.packaging.windows_tests DIR [--cache DIR] [--stdlib DIR]

runs only the tests of archives, whose reader depends on the version of Python, under the packaged
program's version. It needs no packed program: DIR gets the Python, without packages, and Wine's
drive C; a second run reuses them. `check_windows` runs all tests.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.trials.packaging.trial import ROOT, TrialFailed
from tools.windows_build.build import BuildFailed, install_wheels
from tools.windows_build.windows_python import AssemblyFailed, assemble, version_of
from tools.windows_build.wine import Wine, WineMissing

_LIMIT_S: Final = 1800
_TOOLS: Final = ROOT / "installer" / "windows-tests.lock"

ARCHIVES: Final = (
    "tests/engine/core/test_zip_reader.py",
    "tests/engine/delivery/test_unpack_wheel.py",
)
"""Tests that need no package."""

FILES: Final = (
    # archives
    *ARCHIVES,
    # names and paths
    "tests/engine/core/test_atomic_file.py",
    "tests/engine/core/test_paths.py",
    "tests/engine/planner/test_plan_job.py",
    "tests/engine/pipeline/test_output.py",
    "tests/app/desktop",
    # processes
    "tests/engine/hardware/test_process.py",
    "tests/engine/hardware/test_shared_memory.py",
    "tests/engine/hardware/test_devices.py",
    "tests/engine/cli/test_console.py",
    # settings, jobs on the disk
    "tests/engine/settings",
    "tests/engine/jobs/test_job_store.py",
    "tests/engine/runtimes",
    "tests/engine/delivery",
    "tests/engine/jobs/test_presets.py",
    # downloads
    "tests/engine/files/test_artifacts.py",
    "tests/engine/files/test_catalogue.py",
    "tests/engine/files/test_download.py",
    "tests/engine/files/test_http_client.py",
    "tests/engine/files/test_model_files.py",
    "tests/engine/jobs/test_task_runner.py",
    "tests/engine/jobs/test_model_file_service.py",
)

DESELECTED: Final[dict[str, str]] = {
    "tests/engine/files/test_model_files.py::test_only_the_very_file_that_was_hashed_is_opened": (
        "Wine says of a file that it was created when it was changed"
    ),
}
"""Tests that fail because of Wine: id and reason."""


def run(wine: Wine, python: Path, folder: Path) -> str:
    """Run the tests in `FILES`; pytest's last line.

    Args:
        wine: The prefix.
        python: Folder of the assembled Python with the packages.
        folder: For temporary files.

    Raises:
        TrialFailed: A test failed, or they did not run.
        BuildFailed: The tools of the tests cannot be installed.
    """
    arguments = ["--hypothesis-profile", "ci", *FILES]
    for name in DESELECTED:
        arguments += ["--deselect", name]
    return f"{_run(wine, python, folder, arguments)}; {len(DESELECTED)} deselected"


def run_archives(wine: Wine, python: Path, folder: Path) -> str:
    """Run the tests in `ARCHIVES`, as `run`; the Python needs no packages."""
    return _run(wine, python, folder, ["--noconftest", "-p", "no:pytest-qt", *ARCHIVES])


def _run(wine: Wine, python: Path, folder: Path, more: list[str]) -> str:
    tools = python.parent / "test-tools"
    if not tools.is_dir():
        install_wheels(_TOOLS, tools)
    arguments = ["-m", "pytest", "-q", "-rfEs", "-p", "no:cacheprovider", "--basetemp"]
    environment = {
        "PYTHONPATH": wine.path(tools),
        "PYTHONPYCACHEPREFIX": wine.path(folder / "compiled"),
        "UPREEL_DATA": wine.path(folder / "data"),
        "UPREEL_CACHE": wine.path(folder / "cache"),
    }
    done = wine.run(
        python / "python.exe",
        *(*arguments, wine.path(folder / "tests"), *more),
        timeout=_LIMIT_S,
        cwd=ROOT,
        environment=environment,
    )
    last = done.stdout.strip().rpartition("\n")[2]
    if done.returncode or not re.search(r"\d+ passed", last):
        raise TrialFailed(f"{done.stdout[-20_000:]}\n{done.stderr[-2000:]}")
    return last


def main() -> int:
    """Assemble the Python and run the tests of archives; the exit status."""
    parser = argparse.ArgumentParser(description="Run the tests of archives under Wine.")
    parser.add_argument("folder", type=Path, help="target of the Python and Wine's drive C")
    parser.add_argument("--cache", type=Path, default=Path("build/windows-cache"), metavar="DIR")
    parser.add_argument("--stdlib", type=Path, metavar="DIR", help="standard library of a 3.12")
    args = parser.parse_args()
    folder = args.folder.resolve()
    try:
        wine = Wine(folder / "prefix")
        program = assemble(folder / "python", args.cache, args.stdlib)
        print(version_of(wine, program), flush=True)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
            print(run_archives(wine, program.parent, Path(temporary).resolve()))
        wine.close()
    except (AssemblyFailed, BuildFailed, TrialFailed, WineMissing) as err:
        print(f"FAILED: {err}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
