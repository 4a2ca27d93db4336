"""Requests to Windows, without its calls: Explorer's command line, taskbar, choice of GPU."""

from __future__ import annotations

import ctypes
import enum
from pathlib import PureWindowsPath
from typing import Any

from engine.core import paths

_LONGEST = 259  # characters; what Explorer takes, whatever is allowed to others


def command_for(file: PureWindowsPath, windows: PureWindowsPath) -> str:
    """Opens a folder with a file marked; only a folder above it where its path is too long.

    Explorer wants `/select,"path"` as one raw text: arguments in a list would be quoted.
    A name cannot hold quotation marks, so it cannot end the text either.

    Args:
        file: An absolute path, with or without the prefix of long paths.
        windows: Windows' own folder; no other explorer.exe may be started.
    """
    program = windows / "explorer.exe"
    path = PureWindowsPath(paths.shown(file))
    if len(str(path)) <= _LONGEST:
        return f'"{program}" /select,"{path}"'
    return f'"{program}" "{folder_for(path)}"'


def folder_for(path: PureWindowsPath) -> PureWindowsPath:
    """The nearest folder above a file whose path Explorer takes."""
    return next(
        (above for above in path.parents if len(str(above)) <= _LONGEST),
        PureWindowsPath(path.anchor),
    )


KEY = r"Software\Microsoft\DirectX\UserGpuPreferences"
_FAST_CHIP = "GpuPreference=2;"  # "High performance" in Windows' settings


def prefer_fast_gpu(registry: Any, program: str) -> bool:
    """Ask for the fast chip of a laptop, unless the user has chosen for this program already.

    Some laptops let a program see the GPU only then. The setup's uninstaller takes it back.

    Args:
        registry: The module `winreg`.
        program: Path of the program file.

    Returns:
        Whether something was written; it counts from the next start on.

    Raises:
        OSError: The registry cannot be written.
    """
    access = registry.KEY_READ | registry.KEY_SET_VALUE
    with registry.CreateKeyEx(registry.HKEY_CURRENT_USER, KEY, 0, access) as key:
        try:
            registry.QueryValueEx(key, program)
        except FileNotFoundError:
            registry.SetValueEx(key, program, 0, registry.REG_SZ, _FAST_CHIP)
            return True
    return False


_CLASS = "{56FDF344-FD6D-11D0-958A-006097C9A090}"
_FACE = "{EA1AFB91-9E28-4B86-90E9-5E9F8A5EEFAF}"
_IN_PROCESS = 1  # CLSCTX_INPROC_SERVER
_HR_INIT, _SET_VALUE, _SET_STATE = (
    3,
    9,
    10,
)  # places in the table, after those of the interface that it extends
_FULL = 1000


class Progress(enum.IntEnum):
    """State that the button shows; values of TBPFLAG."""

    NONE = 0
    UNKNOWN = 1
    RUNNING = 2
    FAILED = 4
    PAUSED = 8


class Taskbar:
    """The taskbar, as far as it shows progress.

    Args:
        ole: `ole32.dll`, or something with its CLSIDFromString and CoCreateInstance.

    Raises:
        OSError: There is none: another shell, or a session without a desktop.
    """

    def __init__(self, ole: Any) -> None:
        self._object = ctypes.c_void_p()
        class_, face = _Guid(), _Guid()
        _check(ole.CLSIDFromString(ctypes.c_wchar_p(_CLASS), ctypes.byref(class_)))
        _check(ole.CLSIDFromString(ctypes.c_wchar_p(_FACE), ctypes.byref(face)))
        place = ctypes.byref(self._object)
        _check(
            ole.CoCreateInstance(ctypes.byref(class_), None, _IN_PROCESS, ctypes.byref(face), place)
        )
        _check(self._method(_HR_INIT)(self._object))

    def show(self, window_id: int, progress: Progress, share: float = 0.0) -> None:
        """Show a state, and with those that have one the finished part, 0 to 1.

        Errors of the taskbar (Explorer has been ended) are ignored.
        """
        window = ctypes.c_void_p(window_id)
        state = self._method(_SET_STATE, ctypes.c_void_p, ctypes.c_int)
        state(self._object, window, int(progress))
        if progress not in (Progress.NONE, Progress.UNKNOWN):
            done = round(_FULL * min(1.0, max(0.0, share)))
            value = self._method(_SET_VALUE, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)
            value(self._object, window, done, _FULL)

    def _method(self, place: int, *arguments: Any) -> Any:
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, *arguments)
        table = ctypes.cast(self._object, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p)))
        return kind(table[0][place])


class _Guid(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_uint8 * 16),)


def _check(result: int) -> None:
    if result < 0:
        raise OSError(f"the taskbar answers 0x{result & 0xFFFFFFFF:08x}")
