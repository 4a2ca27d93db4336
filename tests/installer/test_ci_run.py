import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "run"


@pytest.mark.programs("bash")
def test_it_is_valid_bash_and_runs_the_two_commands_of_readme_unchanged():
    subprocess.run(["bash", "-n", SCRIPT], check=True)
    assert sys.platform == "win32" or os.access(SCRIPT, os.X_OK)
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    commands = [line for line in readme if line.startswith("python3 -m venv")]
    assert len(commands) == 2
    assert commands[0].endswith("-o upreel_sample_x2.mp4")
    assert 'pip install -e ".[dev]"' in commands[1]
    tests = ".venv/bin/python -m pytest -n 2 --dist loadfile"
    assert commands[1].endswith(f" && {tests}")
    text = SCRIPT.read_text(encoding="utf-8")
    assert f'tests="{tests}"' in text, "it installs everything without this part"
    assert "grep '^python3 -m venv' README.md" in text
    assert 'check bash -c "${commands[0]}"' in text
    assert 'bash -c "${commands[1]}"' in text
