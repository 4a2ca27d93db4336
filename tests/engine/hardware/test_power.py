from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from engine.hardware.power import keep_awake

linux_only = pytest.mark.skipif(sys.platform == "win32", reason="Windows asks its kernel")


@linux_only
def test_without_systemd_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with keep_awake():
        pass


@linux_only
def test_the_lock_is_held_inside_and_ends_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "systemd-inhibit"
    tool.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\ncat\necho end > {tmp_path}/end\n'
    )
    tool.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda _: str(tool))
    with keep_awake("test"):
        assert not (tmp_path / "end").exists()
    assert (tmp_path / "end").exists()
    assert "--why=test" in (tmp_path / "arguments").read_text()


@linux_only
def test_a_tool_that_does_not_start_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: str(tmp_path / "missing"))
    with keep_awake():
        pass
