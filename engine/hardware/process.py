"""How Windows treats this process while it works: what goes first, and at which speed.

Elsewhere nothing is changed: a priority that was lowered cannot be raised again there.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil

NO_CONSOLE = 0
"""`creationflags` of every program that we start: no black window flashes up."""
if sys.platform == "win32":
    NO_CONSOLE = subprocess.CREATE_NO_WINDOW

_NORMAL, _BELOW_NORMAL = 0x20, 0x4000  # NORMAL_PRIORITY_CLASS, BELOW_NORMAL_PRIORITY_CLASS
_POWER_THROTTLING = 4  # ProcessPowerThrottling
_EXECUTION_SPEED = 1

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def at_work(*, on_processor: bool) -> Iterator[None]:
    """Full speed behind other windows; other programs go first where the processor does the work.

    Without the first Windows 11 moves the program of a minimised window to slow cores. A card
    has to be fed at once, so jobs on a card keep their priority.
    """
    if sys.platform != "win32":
        yield
        return
    with (
        _full_speed(ctypes.windll.kernel32),
        stepping_back(psutil.Process()) if on_processor else contextlib.nullcontext(),
    ):
        yield


@contextlib.contextmanager
def stepping_back(process: Any) -> Iterator[None]:
    """Windows' priority "below normal" inside, unless somebody has chosen another one."""
    try:
        is_ours = process.nice() == _NORMAL
        if is_ours:
            process.nice(_BELOW_NORMAL)
    except (psutil.Error, OSError) as err:
        logger.info("the priority stays as it is: %s", err)
        is_ours = False
    try:
        yield
    finally:
        if is_ours:
            with contextlib.suppress(psutil.Error, OSError):
                process.nice(_NORMAL)


class _Throttling(ctypes.Structure):
    """PROCESS_POWER_THROTTLING_STATE; a bit of `control` without its bit of `state` means never."""

    _fields_ = (
        ("version", ctypes.c_uint32),
        ("control", ctypes.c_uint32),
        ("state", ctypes.c_uint32),
    )


@contextlib.contextmanager
def _full_speed(kernel: Any) -> Iterator[None]:
    """`kernel32.dll` is told that this process is not to be slowed down to save power."""
    _set_throttling(kernel, _Throttling(1, _EXECUTION_SPEED, 0))
    try:
        yield
    finally:
        _set_throttling(kernel, _Throttling(1, 0, 0))  # as Windows likes


def _set_throttling(kernel: Any, state: _Throttling) -> None:
    call = getattr(kernel, "SetProcessInformation", None)  # since Windows 8
    if call is None:
        return
    own = ctypes.c_void_p(-1)  # GetCurrentProcess
    if not call(own, _POWER_THROTTLING, ctypes.byref(state), ctypes.sizeof(state)):
        logger.info("Windows does not let its power saving be chosen")
