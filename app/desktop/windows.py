"""Windows: Explorer, files in use, taskbar, foreground, dark title bar, sleep, shutdown.

All such calls of the window are here; decisions that need no Windows are in `windows_rules`.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import subprocess
import sys
import winreg
from collections.abc import Sequence
from pathlib import Path, PureWindowsPath

from app.desktop.programs import start_program
from app.desktop.windows_rules import Progress, Taskbar, command_for, prefer_fast_gpu
from engine.core import paths

assert sys.platform == "win32"  # other systems lack these functions, as type checkers know
_log = logging.getLogger(__name__)
_APP_ID = "Upreel.Upreel"
_ANYBODY = ctypes.c_uint32(0xFFFFFFFF)  # ASFW_ANY
_READ, _SHARES_READING, _OPEN_EXISTING = 0x80000000, 1, 3  # GENERIC_READ, FILE_SHARE_READ
_NO_HANDLE = -1  # INVALID_HANDLE_VALUE
_MOST_REASON = 255  # characters, MAX_STR_BLOCKREASON without its end
_NOT_AFTER_CRASH, _NOT_AFTER_HANG = 1, 2  # RESTART_NO_CRASH, RESTART_NO_HANG
_CLIENT_AREA_ANIMATION = 0x1042  # SPI_GETCLIENTAREAANIMATION
_DARK_TITLE_BAR = 20  # DWMWA_USE_IMMERSIVE_DARK_MODE


def allows_motion() -> bool:
    """Whether "Animation effects" are on in the settings of Windows."""
    is_on = ctypes.c_int(1)
    ctypes.windll.user32.SystemParametersInfoW(_CLIENT_AREA_ANIMATION, 0, ctypes.byref(is_on), 0)
    return bool(is_on.value)


def show_in_folder(path: Path) -> bool:
    """Open Explorer with the file marked; the folder alone where the file is gone."""
    whole = paths.openable(path)
    try:
        if not whole.exists():
            os.startfile(paths.shown(whole.parent))  # noqa: S606 - a folder opens, no file
            return True
        subprocess.Popen(  # noqa: S603 - Explorer by its full path; the file is only marked
            command_for(PureWindowsPath(whole), _folder()),
            creationflags=subprocess.CREATE_NO_WINDOW,
        )
    except OSError:
        return False
    return True


def prepare_process() -> None:
    """Own button in the taskbar, with our icon instead of Python's; the fast chip of a laptop.

    A packed program gets its button from Windows: a name of its own would part it from the shortcut
    that a user has pinned, which has none, and a second button would appear.
    """
    if not _is_packed():
        ctypes.windll.shell32.SetCurrentProcessExplicitAppUserModelID(_APP_ID)
    if _is_installed():
        try:
            prefer_fast_gpu(winreg, sys.executable)
        except OSError as err:
            _log.info("no graphics chip could be chosen: %s", err)


def show_progress(window_id: int, progress: Progress, share: float = 0.0) -> None:
    """Progress on the window's button in the taskbar."""
    taskbar = _taskbar()
    if taskbar is not None:
        taskbar.show(window_id, progress, share)


def let_come_forward() -> None:
    """Only the program started last may put a window in front, or a program that it names."""
    ctypes.windll.user32.AllowSetForegroundWindow(_ANYBODY)


def colour_title_bar(window_id: int, *, is_dark: bool) -> None:
    """Dark or light title bar; Windows versions without it answer with an error we can ignore."""
    value = ctypes.c_int(is_dark)
    ctypes.windll.dwmapi.DwmSetWindowAttribute(
        ctypes.c_void_p(window_id), _DARK_TITLE_BAR, ctypes.byref(value), ctypes.sizeof(value)
    )


def is_being_written(path: Path) -> bool:
    """Whether a program has a file open to write to it, as Explorer while it copies.

    Windows refuses to open it for a reader that shares it with no writer.
    """
    kernel = ctypes.windll.kernel32
    name = str(paths.openable(path))
    handle = kernel.CreateFileW(name, _READ, _SHARES_READING, None, _OPEN_EXISTING, 0, None)
    if handle == _NO_HANDLE:
        return True
    kernel.CloseHandle(ctypes.c_void_p(handle))
    return False


def sleep() -> bool:
    """Put this computer to sleep, and return when it is awake again."""
    is_forced = is_hibernation = leaves_wake_events_off = False
    answer = ctypes.windll.powrprof.SetSuspendState(
        is_hibernation, is_forced, leaves_wake_events_off
    )
    return bool(answer & 0xFF)  # BOOLEAN, one byte


def shut_down() -> bool:
    """Shut this computer down; programs with unsaved work are not ended by force."""
    program = _folder() / "System32" / "shutdown.exe"
    return start_program([str(program), "/s", "/t", "0"])


def explain_shutdown(window_id: int, reason: str) -> bool:
    """Show a reason on the screen on which Windows lists programs that hold up a shutdown.

    Args:
        window_id: A window of the calling thread.
        reason: A sentence; "" takes the last one back.

    Returns:
        Whether Windows shows it.
    """
    user, window = ctypes.windll.user32, ctypes.c_void_p(window_id)
    user.ShutdownBlockReasonDestroy(window)  # a second reason is refused
    if not reason:
        return False
    return bool(user.ShutdownBlockReasonCreate(window, ctypes.c_wchar_p(reason[:_MOST_REASON])))


def restart_after_update(arguments: Sequence[str]) -> bool:
    """Let Windows start this program again after a restart for an update, not after a crash.

    Windows does so only for a process that is a minute old.

    Args:
        arguments: Arguments of the new process; none takes the request back.

    Returns:
        Whether Windows has accepted the request.
    """
    kernel = ctypes.windll.kernel32
    if not arguments:
        kernel.UnregisterApplicationRestart()
        return False
    line = ctypes.c_wchar_p(subprocess.list2cmdline(arguments))
    return bool(kernel.RegisterApplicationRestart(line, _NOT_AFTER_CRASH | _NOT_AFTER_HANG) == 0)


def _folder() -> PureWindowsPath:
    """Folder of Windows: its programs are started by their full paths."""
    return PureWindowsPath(os.environ.get("SYSTEMROOT", "C:\\Windows"))


def _is_installed() -> bool:
    """Whether a setup put us here: only its uninstaller clears the registry again."""
    return _is_packed() and any(Path(sys.executable).parent.glob("unins*.exe"))


def _is_packed() -> bool:
    """Whether this is a program file of our own instead of Python's."""
    return bool(getattr(sys, "frozen", False))


@functools.cache
def _taskbar() -> Taskbar | None:
    try:
        return Taskbar(ctypes.windll.ole32)
    except OSError as err:
        _log.info("no progress in the taskbar: %s", err)
        return None
