import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trials.packaging import check_packages, windows_tests
from tests.trials.packaging.check_packages import Step, quick_lane, run, run_stage, stages
from tests.trials.packaging.trial import ROOT, TrialFailed


def test_the_windows_program_is_tried_after_it_was_made_next_to_the_quick_part(tmp_path):
    made, tried = stages(tmp_path, tmp_path, is_quick=False)
    assert stages(tmp_path, tmp_path, is_quick=True) == [(quick_lane(),)]
    assert made[0] == quick_lane()
    for step in (step for lane in (*made, *tried) for step in lane):
        assert importlib.util.find_spec(step.command[2]), step.title
    assert "tools.windows_build.build" in {step.command[2] for lane in made for step in lane}
    payload = str(tmp_path / "windows" / "upreel")
    assert all(payload in step.command for lane in tried for step in lane)
    assert not any(payload in step.command for lane in made for step in lane)


def python(title: str, source: str) -> Step:
    return Step(title, (sys.executable, "-c", source))


def makes(path: Path) -> str:
    return f"import pathlib; pathlib.Path(r'{path}').touch()\n"


def test_lanes_run_in_parallel_and_a_failure_ends_the_other_after_its_step(tmp_path):
    begun, later = tmp_path / "begun", tmp_path / "later"
    waits = f"""
import pathlib
while not pathlib.Path(r"{begun}").exists():
    pass
raise SystemExit(4)"""
    right = python("right", f"{makes(begun)}import time; time.sleep(1)")
    lanes = [(python("wrong", waits),), (right, python("never", makes(later)))]
    with pytest.raises(TrialFailed, match="wrong: status 4"):
        run_stage(lanes)
    assert not later.exists()


def test_the_error_of_a_step_has_its_output(capsys):
    command = (sys.executable, "-c", "print('no disk'); raise SystemExit(4)")
    with pytest.raises(TrialFailed, match=r"(?s)setup: status 4.*no disk"):
        run(Step("setup", command))
    assert run(Step("setup", command, (0, 4))) < 60
    assert "no disk" in capsys.readouterr().out


def test_only_the_tree_that_passed_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(check_packages, "_RECORD", tmp_path / "passed.json")
    monkeypatch.setattr(check_packages, "tree_hash", lambda root: "one")
    assert not check_packages.passed_before("quick")
    check_packages._write_record(["quick"], "one", {"lock": 2})
    assert check_packages.passed_before("quick")
    assert not check_packages.passed_before("whole")
    check_packages._write_record(["whole"], "one", {})
    assert json.loads((tmp_path / "passed.json").read_text())["quick"]["seconds"] == {"lock": 2}
    monkeypatch.setattr(check_packages, "tree_hash", lambda root: "another")
    assert not check_packages.passed_before("quick")


def test_the_listed_windows_tests_exist():
    listed = [*windows_tests.FILES, *windows_tests.DESELECTED]
    assert [name for name in listed if not (ROOT / name.partition("::")[0]).exists()] == []


@pytest.mark.slow
def test_a_runtime_is_installed_damaged_and_removed_by_the_whole_program():
    python = [sys.executable, "-m"]
    command = [*python, "tests.trials.packaging.check_runtime", *python, "engine"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
