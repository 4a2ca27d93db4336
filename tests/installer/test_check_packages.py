from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from installer import check_packages
from installer.check_packages import Failed, Step, run, steps


def test_every_script_of_every_step_is_there(tmp_path: Path) -> None:
    for is_quick in (True, False):
        for step in steps(tmp_path, tmp_path, is_quick=is_quick):
            assert importlib.util.find_spec(step.words[2]), step.title


def test_the_quick_part_is_the_first_of_the_whole(tmp_path: Path) -> None:
    quick = steps(tmp_path, tmp_path, is_quick=True)
    assert steps(tmp_path, tmp_path, is_quick=False)[: len(quick)] == quick


def test_a_step_that_fails_says_what_it_said(capsys: pytest.CaptureFixture[str]) -> None:
    words = (sys.executable, "-c", "print('no disk'); raise SystemExit(4)")
    with pytest.raises(Failed, match=r"(?s)setup: status 4.*no disk"):
        run(Step("setup", words))
    assert run(Step("setup", words, (0, 4))) < 60
    assert "no disk" in capsys.readouterr().out


def test_only_the_tree_that_passed_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_packages, "_RECORD", tmp_path / "seen.json")
    assert not check_packages.passed_before("quick")
    monkeypatch.setattr(check_packages, "tree_hash", lambda root: "one")
    check_packages._keep(["quick"], "one", {"lock": 2})
    assert check_packages.passed_before("quick")
    assert not check_packages.passed_before("whole")
    check_packages._keep(["whole"], "one", {})
    assert json.loads((tmp_path / "seen.json").read_text())["quick"]["seconds"] == {"lock": 2}
    monkeypatch.setattr(check_packages, "tree_hash", lambda root: "another")
    assert not check_packages.passed_before("quick")
