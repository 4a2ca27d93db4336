"""The tests of code that is special on Windows, run under the assembled Windows Python."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.packaging.trial import ROOT, TrialFailed
from tools.windows_build.build import install_wheels
from tools.windows_build.wine import Wine

_LIMIT_S: Final = 1800
_TOOLS: Final = ROOT / "installer" / "windows-tests.lock"

FILES: Final = (
    # names and paths
    "tests/engine/core/test_atomic_file.py",
    "tests/engine/core/test_windows_paths.py",
    "tests/engine/planner/test_plan_job.py",
    "tests/engine/pipeline/test_output.py",
    "tests/app/desktop",
    # processes
    "tests/engine/hardware/test_process.py",
    "tests/engine/hardware/test_shared_memory.py",
    "tests/engine/hardware/test_devices.py",
    "tests/engine/cli/test_console.py",
    "tests/engine/cli/test_runtime.py",
    # settings, jobs on the disk
    "tests/engine/settings",
    "tests/engine/jobs/test_job_store.py",
    "tests/engine/runtimes",
    "tests/engine/jobs/test_presets.py",
    # downloads
    "tests/engine/model_files/test_catalogue.py",
    "tests/engine/model_files/test_download.py",
    "tests/engine/downloads",
    "tests/engine/model_files/test_store.py",
    "tests/engine/updates",
    "tests/engine/jobs/test_task_runner.py",
    "tests/engine/jobs/test_model_file_service.py",
)

DESELECTED: Final[dict[str, str]] = {
    "tests/engine/model_files/test_store.py::test_only_the_very_file_that_was_hashed_is_opened": (
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
    tools = python.parent / "test-tools"
    if not tools.is_dir():
        install_wheels(_TOOLS, tools)
    arguments = ["-m", "pytest", "-q", "-rfEs", "-p", "no:cacheprovider", "--basetemp"]
    arguments += [wine.path(folder / "tests"), "--hypothesis-profile", "ci", *FILES]
    for name in DESELECTED:
        arguments += ["--deselect", name]
    environment = {
        "PYTHONPATH": wine.path(tools),
        "PYTHONPYCACHEPREFIX": wine.path(folder / "compiled"),
        "UPREEL_DATA": wine.path(folder / "data"),
        "UPREEL_CACHE": wine.path(folder / "cache"),
    }
    done = wine.run(
        python / "python.exe", *arguments, timeout=_LIMIT_S, cwd=ROOT, environment=environment
    )
    last = done.stdout.strip().rpartition("\n")[2]
    if done.returncode or not re.search(r"\d+ passed", last):
        raise TrialFailed(f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}")
    return f"{last}; {len(DESELECTED)} deselected"
