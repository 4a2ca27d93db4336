from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_runtime_is_installed_damaged_and_removed_by_the_whole_program() -> None:
    command = [
        sys.executable,
        "-m",
        "tests.packaging.check_runtime",
        sys.executable,
        "-m",
        "engine",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
