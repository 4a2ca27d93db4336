"""Progress on the button in Windows' taskbar: ITaskbarList3, called through its table of functions.

Windows' 64-bit calls are those of C, so that the same code meets a stand-in in tests anywhere.
"""

from __future__ import annotations

import ctypes
import enum
from typing import Any

_CLASS = "{56FDF344-FD6D-11D0-958A-006097C9A090}"
_FACE = "{EA1AFB91-9E28-4B86-90E9-5E9F8A5EEFAF}"
_IN_PROCESS = 1  # CLSCTX_INPROC_SERVER
_HR_INIT, _SET_VALUE, _SET_STATE = 3, 9, 10  # places in the table, behind those of what it extends
_FULL = 1000


class Progress(enum.IntEnum):
    """What the button shows; values of TBPFLAG."""

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

        An error of the taskbar (Explorer has been ended) is nobody's concern.
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
