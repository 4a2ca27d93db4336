"""The calls of Windows themselves, on libraries that only write down what they are asked."""

import ctypes
import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from app.desktop.windows_rules import Progress

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there the real ones are called")


_LIBRARIES = ("shell32", "user32", "dwmapi", "ole32", "powrprof", "kernel32")


class Library:
    """Any function of a system library: keeps its words and gives its answer, or 0."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.answers = {"CoCreateInstance": -1}

    def __getattr__(self, name: str) -> Any:
        def call(*words: Any) -> int:
            self.calls.append((name, *words))
            return self.answers.get(name, 0)

        return call


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    found = SimpleNamespace(**{name: Library() for name in _LIBRARIES})
    monkeypatch.setattr(ctypes, "windll", found, raising=False)
    monkeypatch.setattr(subprocess, "CREATE_NO_WINDOW", 0x08000000, raising=False)
    monkeypatch.setitem(sys.modules, "winreg", ModuleType("winreg"))
    return found


@pytest.fixture
def windows(libraries: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delitem(sys.modules, "app.desktop.windows", raising=False)
    with monkeypatch.context() as importing:
        importing.setattr(sys, "platform", "win32")
        module = importlib.import_module("app.desktop.windows")
    yield module
    sys.modules.pop("app.desktop.windows", None)


def test_a_process_has_a_name_unless_it_is_packed(windows, libraries, monkeypatch, tmp_path):
    windows.prepare_process()  # the empty winreg would fail
    windows.let_come_forward()
    windows.colour_title_bar(0x1234, is_dark=True)
    assert libraries.shell32.calls == [("SetCurrentProcessExplicitAppUserModelID", "Upreel.Upreel")]
    assert libraries.user32.calls[0][1].value == 0xFFFFFFFF
    assert libraries.dwmapi.calls[0][2] == 20
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "upreel.exe"))
    windows.prepare_process()  # shares the button of its pinned shortcut
    assert len(libraries.shell32.calls) == 1
    windows.show_progress(1, Progress.RUNNING, 0.5)
    windows.show_progress(1, Progress.NONE, 0.0)
    assert [call[0] for call in libraries.ole32.calls].count("CoCreateInstance") == 1


def test_explorer_is_windows_own_and_no_console_flashes(windows, monkeypatch, tmp_path):
    started: list[tuple[Any, int]] = []
    opened: list[str] = []
    monkeypatch.setattr(
        subprocess, "Popen", lambda command, creationflags: started.append((command, creationflags))
    )
    monkeypatch.setattr(os, "startfile", opened.append, raising=False)
    monkeypatch.setenv("SYSTEMROOT", "D:\\WINNT")
    film = tmp_path / "film.mp4"
    assert windows.show_in_folder(film)
    assert (started, opened) == ([], [str(tmp_path)])  # the film is gone: its folder
    film.write_bytes(b"film")
    assert windows.show_in_folder(film)
    command, flags = started[0]
    assert command.startswith('"D:\\WINNT\\explorer.exe" /select,"')
    assert flags == 0x08000000


def test_sleep_without_force_and_a_refusal_is_told_by_one_byte(windows, libraries, monkeypatch):
    assert not windows.sleep()  # the library answers 0
    assert libraries.powrprof.calls == [("SetSuspendState", False, False, False)]
    for answer, is_taken in ((1, True), (0x7F00, False)):  # only the lowest byte is set
        monkeypatch.setattr(libraries.powrprof, "SetSuspendState", lambda *_, a=answer: a, False)
        assert windows.sleep() is is_taken


@pytest.mark.parametrize("is_on", [True, False])
def test_parts_move_where_animation_effects_are_on(windows, libraries, monkeypatch, is_on):
    def answer(action: int, _size: int, value: Any, _flags: int) -> int:
        assert action == 0x1042
        value._obj.value = int(is_on)
        return 1

    monkeypatch.setattr(libraries.user32, "SystemParametersInfoW", answer, False)
    assert windows.allows_motion() is is_on


def test_windows_own_program_shuts_down_at_once(windows, monkeypatch):
    started: list[list[str]] = []
    monkeypatch.setattr(windows, "start_program", lambda words: bool(started.append(words)) or True)
    monkeypatch.setenv("SYSTEMROOT", "D:\\WINNT")
    assert windows.shut_down()
    assert started == [["D:\\WINNT\\System32\\shutdown.exe", "/s", "/t", "0"]]


def test_a_file_that_a_program_writes_is_refused_to_who_lets_nobody_write(windows, libraries):
    film = Path("film.mp4")
    libraries.kernel32.answers["CreateFileW"] = 0x54
    assert not windows.is_being_written(film)
    (_, name, *request), (close, handle) = libraries.kernel32.calls
    assert name.endswith("film.mp4")
    assert request == [0x80000000, 1, None, 3, 0, None], "to read; others may only read"
    assert (close, handle.value) == ("CloseHandle", 0x54)
    libraries.kernel32.answers["CreateFileW"] = -1
    assert windows.is_being_written(film)
    assert len(libraries.kernel32.calls) == 3, "there is nothing to close"


def test_a_reason_for_a_shutdown_is_replaced_and_taken_back(windows, libraries):
    libraries.user32.answers["ShutdownBlockReasonCreate"] = 1
    assert windows.explain_shutdown(0x1234, "x" * 300)
    assert not windows.explain_shutdown(0x1234, "")
    destroyed, created, last = libraries.user32.calls
    assert [call[0] for call in (destroyed, last)] == ["ShutdownBlockReasonDestroy"] * 2
    assert created[0] == "ShutdownBlockReasonCreate"
    assert (created[1].value, created[2].value) == (0x1234, "x" * 255)
    libraries.user32.answers["ShutdownBlockReasonCreate"] = 0
    assert not windows.explain_shutdown(0x1234, "why")


def test_a_restart_is_asked_for_after_an_update_and_not_after_a_crash(windows, libraries):
    assert windows.restart_after_update(["C:\\my tools\\main.py", "--resume"])
    assert not windows.restart_after_update([])
    (register, line, flags), (forget,) = libraries.kernel32.calls
    assert (register, flags, forget) == (
        "RegisterApplicationRestart",
        3,
        "UnregisterApplicationRestart",
    )
    assert line.value == '"C:\\my tools\\main.py" --resume'
    libraries.kernel32.answers["RegisterApplicationRestart"] = -2147024809  # E_INVALIDARG
    assert not windows.restart_after_update(["--resume"])
