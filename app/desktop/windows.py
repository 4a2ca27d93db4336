"""Windows: Explorer, taskbar identity, dark title bar."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

_APP_ID = "Upreel.Upreel"
_ANYBODY = ctypes.c_uint32(0xFFFFFFFF)  # ASFW_ANY
_DARK_TITLE_BAR = 20  # DWMWA_USE_IMMERSIVE_DARK_MODE


def show_in_folder(path: Path) -> bool:
    """Open Explorer with the file marked.

    Explorer wants `/select,"path"` as one raw text: a list would be quoted the other way.
    """
    try:
        subprocess.Popen(f'explorer /select,"{path}"')
    except OSError:
        return False
    return True


def prepare_process() -> None:
    """Own button in the taskbar, with our icon instead of Python's."""
    ctypes.windll.shell32.SetCurrentProcessExplicitAppUserModelID(_APP_ID)


def let_come_forward() -> None:
    """Only the program that was started last may put a window in front, or whom it names."""
    ctypes.windll.user32.AllowSetForegroundWindow(_ANYBODY)


def colour_title_bar(window_id: int, *, is_dark: bool) -> None:
    """Dark or light title bar; Windows versions without it answer with an error we can ignore."""
    value = ctypes.c_int(is_dark)
    ctypes.windll.dwmapi.DwmSetWindowAttribute(
        ctypes.c_void_p(window_id), _DARK_TITLE_BAR, ctypes.byref(value), ctypes.sizeof(value)
    )
