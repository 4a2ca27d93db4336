from __future__ import annotations

import ast
from pathlib import Path

import psutil
import pytest

from engine.hardware import process
from engine.hardware.process import at_work, stepping_back

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


def test_others_go_first_inside_and_no_longer_after_a_mistake() -> None:
    own = Priority(NORMAL)
    with pytest.raises(KeyError), stepping_back(own):
        assert own.value == BELOW
        raise KeyError
    assert own.value == NORMAL


def test_a_priority_of_the_users_choice_stays() -> None:
    own = Priority(HIGH)
    with stepping_back(own):
        assert own.value == HIGH
    assert own.value == HIGH


def test_a_system_that_refuses_does_not_stop_the_job() -> None:
    own = Priority(NORMAL, refuses=True)
    with stepping_back(own):
        assert own.value == NORMAL


class Kernel:
    """kernel32 with the one call; keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int, int, int]] = []

    def SetProcessInformation(self, _own: object, kind: int, state: object, size: int) -> int:
        told = state._obj
        assert (told.version, size) == (1, 12)
        self.told.append((kind, told.control, told.state, size))
        return 1


def test_power_saving_is_refused_while_working_and_left_to_windows_after() -> None:
    kernel = Kernel()
    with process._full_speed(kernel):
        assert kernel.told == [(4, 1, 0, 12)]
    assert kernel.told[1:] == [(4, 0, 0, 12)]
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


def test_no_console_flashes_up_behind_the_window() -> None:
    not_on_windows = {"engine/hardware/power.py"}
    found = 0
    for room in ("engine", "app"):
        for path in sorted((ROOT / room).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name in not_on_windows:
                continue
            for call in starts_of_programs(path):
                found += 1
                assert "creationflags" in {word.arg for word in call.keywords}, (name, call.lineno)
    assert found
