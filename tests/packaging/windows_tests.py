"""The parts of our tests that know Windows, under the assembled Windows Python."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from installer import wine_shims
from installer.build_windows import install_for_windows
from installer.wine import Wine

ROOT: Final = Path(__file__).resolve().parents[2]
_LIMIT_S: Final = 1800
_TOOLS: Final = ROOT / "installer" / "windows-tests.lock"

FILES: Final = (
    # names and paths
    "tests/engine/core/test_atomic_file.py",
    "tests/engine/core/test_windows_paths.py",
    "tests/engine/planner/test_target.py",
    "tests/engine/pipeline/test_output.py",
    "tests/app/desktop",
    # processes
    "tests/engine/hardware/test_process.py",
    "tests/engine/hardware/test_power.py",
    "tests/engine/hardware/test_shared_memory.py",
    "tests/engine/hardware/test_devices.py",
    "tests/engine/cli/test_code_page.py",
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

DESELECTED: Final[dict[str, str]] = {}
"""Tests that fail for what Wine is, not for what we do: id and reason."""


class TestsFailed(Exception):
    """A test failed, or they did not run."""


def run(wine: Wine, python: Path, folder: Path) -> str:
    """Run `FILES`; pytest's last line.

    Args:
        wine: The prefix.
        python: Folder of the assembled Python with the packages.
        folder: For temporary files.

    Raises:
        TestsFailed: As it says.
    """
    tools = python.parent / "test-tools"
    if not tools.is_dir():
        install_for_windows(["--require-hashes", "-r", str(_TOOLS)], tools)
    words = ["-m", "pytest", "-q", "-rfEs", "-p", "no:cacheprovider", "--basetemp"]
    words += [wine.path(folder / "tests"), "--hypothesis-profile", "ci", *FILES]  # not by time
    for name in DESELECTED:
        words += ["--deselect", name]
    environment = wine_shims.ENVIRONMENT | {
        "PYTHONPATH": wine.path(tools),
        "PYTHONPYCACHEPREFIX": wine.path(folder / "compiled"),
        "UPREEL_DATA": wine.path(folder / "data"),
        "UPREEL_CACHE": wine.path(folder / "cache"),
    }
    done = wine.run(
        python / "python.exe", *words, timeout=_LIMIT_S, cwd=ROOT, environment=environment
    )
    last = done.stdout.strip().rpartition("\n")[2]
    if done.returncode or not re.search(r"\d+ passed", last):
        raise TestsFailed(f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}")
    return f"{last}; {len(DESELECTED)} left out"
