"""The script that checks a checkout from scratch runs the commands of README."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "run"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permission")
def test_it_is_executable() -> None:
    assert os.access(SCRIPT, os.X_OK)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_it_is_valid_bash() -> None:
    subprocess.run(["bash", "-n", SCRIPT], check=True)


def test_readme_has_its_two_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    commands = [line for line in readme if line.startswith("python3 -m venv")]
    assert len(commands) == 2
    assert commands[0].endswith("-o upreel_sample_x2.mp4")
    assert 'pip install -e ".[dev]"' in commands[1]
    tests = ".venv/bin/python -m pytest -n 2 --dist loadfile"
    assert commands[1].endswith(f" && {tests}")
    assert f'tests="{tests}"' in SCRIPT.read_text(encoding="utf-8"), (
        "it installs everything without this part"
    )


def test_it_runs_the_commands_of_readme_unchanged() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    assert "grep '^python3 -m venv' README.md" in text
    assert 'check bash -c "${commands[0]}"' in text
    assert 'bash -c "${commands[1]}"' in text


def test_tests_run_last() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    tests = text.index('bash -c "${commands[1]}"')
    for check in (
        "ruff format --check",
        "ruff check .",
        "--platform win32",
        "lint-imports",
        "tests.golden",
        "check_packages --quick --if-changed",
    ):
        assert 0 < text.index(check) < tests
    assert "echo" not in text[tests:]
    assert "heading" not in text[tests:]
