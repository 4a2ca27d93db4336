from __future__ import annotations

import ast
import shutil
import sys
from pathlib import Path

import psutil
import pytest

from engine.hardware import process
from engine.hardware.process import at_work, below_normal_priority, keep_awake

ROOT = Path(__file__).parents[3]
NORMAL, BELOW, HIGH = 0x20, 0x4000, 0x80


class Priority:
    """A process of Windows."""

    def __init__(self, value: int, *, refuses: bool = False) -> None:
        self.value, self._refuses = value, refuses

    def nice(self, value: int | None = None) -> int | None:
        if value is None:
            return self.value
        if self._refuses:
            raise psutil.AccessDenied
        self.value = value
        return None


def test_the_priority_is_lower_inside_and_restored_after_an_error() -> None:
    own = Priority(NORMAL)
    with pytest.raises(KeyError), below_normal_priority(own):
        assert own.value == BELOW
        raise KeyError
    assert own.value == NORMAL


def test_a_priority_chosen_by_the_user_stays() -> None:
    own = Priority(HIGH)
    with below_normal_priority(own):
        assert own.value == HIGH
    assert own.value == HIGH


def test_a_system_that_refuses_does_not_stop_the_job() -> None:
    own = Priority(NORMAL, refuses=True)
    with below_normal_priority(own):
        assert own.value == NORMAL


class Kernel:
    """kernel32 with the one call; keeps its arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, int, int]] = []

    def SetProcessInformation(self, _own: object, kind: int, state: object, size: int) -> int:
        given = state._obj
        assert (given.version, size) == (1, 12)
        self.calls.append((kind, given.control, given.state, size))
        return 1


def test_power_throttling_is_off_inside_and_restored_after() -> None:
    kernel = Kernel()
    with process._full_speed(kernel):
        assert kernel.calls == [(4, 1, 0, 12)]
    assert kernel.calls[1:] == [(4, 0, 0, 12)]
    with process._full_speed(object()):  # an old Windows
        pass


def test_elsewhere_nothing_changes() -> None:
    before = psutil.Process().nice()
    with at_work(on_processor=True):
        assert psutil.Process().nice() == before or process.sys.platform == "win32"
    assert psutil.Process().nice() == before


def starts_of_programs(path: Path) -> list[ast.Call]:
    """Calls of subprocess in a file, but those of functions that Windows never reaches."""
    return [
        node
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("run", "Popen", "call", "check_output", "check_call")
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "subprocess"
    ]


def test_started_programs_open_no_console() -> None:
    found = 0
    for room in ("engine", "app"):
        for path in sorted((ROOT / room).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            for call in starts_of_programs(path):
                found += 1
                assert "creationflags" in {word.arg for word in call.keywords}, (name, call.lineno)
    assert found


linux_only = pytest.mark.skipif(sys.platform == "win32", reason="Windows has a call for it")


@linux_only
def test_without_systemd_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with keep_awake():
        pass


@linux_only
def test_the_system_stays_awake_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_tool_that_does_not_start_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: str(tmp_path / "missing"))
    with keep_awake():
        pass
