"""Rules of Windows, on stand-ins: Explorer's command line, choice of GPU, taskbar."""

import contextlib
import ctypes
from collections.abc import Iterator
from functools import partial
from pathlib import PureWindowsPath
from typing import Any

import pytest

from app.desktop.windows_rules import KEY, Progress, Taskbar, command_for, prefer_fast_gpu

WINDOWS = PureWindowsPath("C:\\Windows")
EXPLORER = '"C:\\Windows\\explorer.exe"'


def test_a_file_is_marked_by_its_ordinary_path_and_too_long_for_it_its_folder_opens():
    for file, marked in (
        ("C:\\My films, 2026\\a & b.mp4", "C:\\My films, 2026\\a & b.mp4"),
        ("\\\\nas\\films\\片段.mkv", "\\\\nas\\films\\片段.mkv"),
        ("\\\\?\\C:\\films\\a.mp4", "C:\\films\\a.mp4"),
        ("\\\\?\\UNC\\nas\\films\\a.mp4", "\\\\nas\\films\\a.mp4"),
    ):
        assert command_for(PureWindowsPath(file), WINDOWS) == f'{EXPLORER} /select,"{marked}"'
    folder = PureWindowsPath("C:\\films", "a" * 200)
    file = PureWindowsPath(f"\\\\?\\{folder}", "b" * 100, "film.mp4")
    assert command_for(file, WINDOWS) == f'{EXPLORER} "{folder}"'


PROGRAM = "C:\\Users\\me\\AppData\\Local\\Programs\\Upreel\\upreel.exe"


class Registry:
    """As winreg, with one key."""

    HKEY_CURRENT_USER, REG_SZ, KEY_READ, KEY_SET_VALUE = 1, 1, 0x20019, 2

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    @contextlib.contextmanager
    def CreateKeyEx(self, root: int, key: str, _reserved: int, access: int) -> Iterator[str]:
        assert (root, access) == (1, 0x2001B)
        yield key

    def QueryValueEx(self, key: str, name: str) -> tuple[str, int]:
        if name not in self.values:
            raise FileNotFoundError(2, name)
        return self.values[name], 1

    def SetValueEx(self, key: str, name: str, _reserved: int, kind: int, value: str) -> None:
        assert (key, kind) == (KEY, 1)
        self.values[name] = value


def test_the_fast_chip_is_asked_for_once_and_what_the_user_has_chosen_stays():
    registry = Registry()
    assert prefer_fast_gpu(registry, PROGRAM)
    assert registry.values == {PROGRAM: "GpuPreference=2;"}
    registry.values[PROGRAM] = "GpuPreference=1;"
    assert not prefer_fast_gpu(registry, PROGRAM)
    assert registry.values == {PROGRAM: "GpuPreference=1;"}


_P, _I, _U64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64


class Shell:
    """ole32 and the object it makes: eleven functions, of which three may be called."""

    def __init__(self, answer: int = 0) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.asked: list[str] = []
        self._answer = answer
        self._table, self._kept = (_P * 11)(), []
        for place, name, kinds in (
            (3, "init", ()),
            (9, "value", (_P, _U64, _U64)),
            (10, "state", (_P, _I)),
        ):
            function = ctypes.CFUNCTYPE(ctypes.c_int32, _P, *kinds)(partial(self._heard, name))
            self._kept.append(function)
            self._table[place] = ctypes.cast(function, _P)
        self._object = _P(ctypes.addressof(self._table))

    def _heard(self, name: str, _this: object, *what: Any) -> int:
        self.calls.append((name, *what))
        return 0

    def CLSIDFromString(self, text: ctypes.c_wchar_p, _place: object) -> int:
        self.asked.append(str(text.value))
        return 0

    def CoCreateInstance(self, *words: Any) -> int:
        words[4]._obj.value = ctypes.addressof(self._object)
        return self._answer


def test_progress_is_shown_in_thousandths_with_its_state():
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
    with pytest.raises(OSError, match="0x80040154"):
        Taskbar(Shell(answer=0x80040154 - 2**32))
