"""The taskbar's calls on a stand-in with the same table of functions."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from app.desktop.windows_rules import Progress, Taskbar

_P, _I, _U64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64


class Shell:
    """ole32 and the object it makes: eleven functions, of which three may be called."""

    def __init__(self, answer: int = 0) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.asked: list[str] = []
        self._answer = answer
        init = ctypes.CFUNCTYPE(ctypes.c_int32, _P)(lambda _: self._heard("init"))
        value = ctypes.CFUNCTYPE(ctypes.c_int32, _P, _P, _U64, _U64)(
            lambda _, window, done, of: self._heard("value", window, done, of)
        )
        state = ctypes.CFUNCTYPE(ctypes.c_int32, _P, _P, _I)(
            lambda _, window, state: self._heard("state", window, state)
        )
        self._kept = (init, value, state)
        table = (_P * 11)()
        for place, function in ((3, init), (9, value), (10, state)):
            table[place] = ctypes.cast(function, _P)
        self._table = table
        self._object = _P(ctypes.addressof(table))

    def _heard(self, *what: Any) -> int:
        self.calls.append(what)
        return 0

    def CLSIDFromString(self, text: ctypes.c_wchar_p, _place: object) -> int:
        self.asked.append(str(text.value))
        return 0

    def CoCreateInstance(self, *words: Any) -> int:
        words[4]._obj.value = ctypes.addressof(self._object)
        return self._answer


def test_progress_is_shown_in_thousandths_with_its_state() -> None:
    shell = Shell()
    taskbar = Taskbar(shell)
    taskbar.show(0x1234, Progress.RUNNING, 0.25)
    taskbar.show(0x1234, Progress.PAUSED, 7.0)
    taskbar.show(0x1234, Progress.UNKNOWN)
    taskbar.show(0x1234, Progress.NONE)
    assert shell.calls == [
        ("init",),
        ("state", 0x1234, 2),
        ("value", 0x1234, 250, 1000),
        ("state", 0x1234, 8),
        ("value", 0x1234, 1000, 1000),
        ("state", 0x1234, 1),
        ("state", 0x1234, 0),
    ]
    assert shell.asked[0].startswith("{56FDF344")


def test_a_session_without_a_taskbar_is_told() -> None:
    with pytest.raises(OSError, match="0x80040154"):
        Taskbar(Shell(answer=0x80040154 - 2**32))
