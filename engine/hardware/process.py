"""Treatment of this process by the system while it works, and the start of further processes.

Elsewhere than on Windows priorities stay: one that was lowered cannot be raised again there.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import logging
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any

import psutil

logger = logging.getLogger(__name__)

NO_CONSOLE = 0
"""`creationflags` of every program that we start: no console window appears."""
if sys.platform == "win32":
    NO_CONSOLE = subprocess.CREATE_NO_WINDOW

_NORMAL, _BELOW_NORMAL = 0x20, 0x4000  # NORMAL_PRIORITY_CLASS, BELOW_NORMAL_PRIORITY_CLASS
_POWER_THROTTLING = 4  # ProcessPowerThrottling
_EXECUTION_SPEED = 1


@contextlib.contextmanager
def at_work(*, on_processor: bool) -> Iterator[None]:
    """No power throttling; a lower priority than other programs where the CPU computes.

    Otherwise Windows 11 moves the program of a minimised window to slow cores. A GPU must not wait
    for the CPU, so jobs on a GPU keep their priority.
    """
    if sys.platform != "win32":
        yield
        return
    with (
        _full_speed(ctypes.windll.kernel32),
        below_normal_priority(psutil.Process()) if on_processor else contextlib.nullcontext(),
    ):
        yield


@contextlib.contextmanager
def below_normal_priority(process: Any) -> Iterator[None]:
    """Windows' priority "below normal" inside, unless the user has chosen another one."""
    try:
        was_normal = process.nice() == _NORMAL
        if was_normal:
            process.nice(_BELOW_NORMAL)
    except (psutil.Error, OSError) as err:
        logger.info("the priority could not be changed: %s", err)
        was_normal = False
    try:
        yield
    finally:
        if was_normal:
            with contextlib.suppress(psutil.Error, OSError):
                process.nice(_NORMAL)


class _Throttling(ctypes.Structure):
    """PROCESS_POWER_THROTTLING_STATE; a `control` bit without its `state` bit turns it off."""

    _fields_ = (
        ("version", ctypes.c_uint32),
        ("control", ctypes.c_uint32),
        ("state", ctypes.c_uint32),
    )


@contextlib.contextmanager
def _full_speed(kernel: Any) -> Iterator[None]:
    """No throttling of this process to save power, by `kernel32.dll`."""
    _set_throttling(kernel, _Throttling(1, _EXECUTION_SPEED, 0))
    try:
        yield
    finally:
        _set_throttling(kernel, _Throttling(1, 0, 0))  # Windows decides


def _set_throttling(kernel: Any, state: _Throttling) -> None:
    call = getattr(kernel, "SetProcessInformation", None)  # since Windows 8
    if call is None:
        return
    own = ctypes.c_void_p(-1)  # GetCurrentProcess
    if not call(own, _POWER_THROTTLING, ctypes.byref(state), ctypes.sizeof(state)):
        logger.info("Windows refused to change power throttling")


# --- what it loads


def load_for_good(module: str) -> None:
    """Load a module with its heavy libraries, which stay as long as this process.

    Their objects, 300,000 with torch, are garbage at no time. Without `gc.freeze` each full
    collection traverses them, also at the end of Python: 130 ms with the interpreter's lock held,
    in which the window does not react, and in which a worker does not compute.
    """
    if module in sys.modules:
        return
    was_enabled = gc.isenabled()
    gc.disable()  # three full collections while loading, and almost no garbage
    try:
        importlib.import_module(module)
        gc.freeze()  # before the next collection, which would traverse all that is new
    finally:
        if was_enabled:
            gc.enable()


# --- no sleep


@contextlib.contextmanager
def keep_awake(reason: str = "A video is being upscaled") -> Iterator[None]:
    """Prevent sleep of an idle machine inside; enter and exit in the same thread.

    The screen may turn off. Windows: a request of this thread, which ends with it. Linux: a lock of
    systemd-logind where its tool is installed; it ends with this process, also when it is killed.
    """
    with _no_sleep(reason):
        yield


if sys.platform == "win32":
    _CONTINUOUS = 0x80000000
    _SYSTEM_REQUIRED = 0x00000001

    @contextlib.contextmanager
    def _no_sleep(_reason: str) -> Iterator[None]:
        request = ctypes.windll.kernel32.SetThreadExecutionState
        request.argtypes, request.restype = [ctypes.c_uint32], ctypes.c_uint32
        if not request(_CONTINUOUS | _SYSTEM_REQUIRED):
            logger.info("Windows refused the request to stay awake")
        try:
            yield
        finally:
            request(_CONTINUOUS)

else:

    @contextlib.contextmanager
    def _no_sleep(reason: str) -> Iterator[None]:
        lock = _systemd_lock(reason)
        try:
            yield
        finally:
            if lock is not None:
                _end(lock)

    def _systemd_lock(reason: str) -> subprocess.Popen[bytes] | None:
        tool = shutil.which("systemd-inhibit")
        if tool is None:
            return None
        # `cat` ends when our end of its pipe closes, also when this process is killed.
        command = [tool, "--what=sleep:idle", "--who=Upreel", f"--why={reason}", "cat"]
        try:
            return subprocess.Popen(  # noqa: S603 - no shell; the reason is one word of it
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                creationflags=NO_CONSOLE,
            )
        except OSError as err:
            logger.info("systemd-inhibit does not start: %s", err)
            return None

    def _end(lock: subprocess.Popen[bytes]) -> None:
        if lock.stdin is not None:
            lock.stdin.close()
        try:
            lock.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            lock.kill()
            lock.wait()


# --- further processes

_starting = threading.Lock()


class OwnProcess(SpawnProcess):
    """A process that runs its target alone, not the script of the process that starts it.

    Python would import that script there. One that upscales without asking for `__main__`, as
    short scripts of users do, would upscale once more.
    """

    def start(self) -> None:
        """Start the process."""
        with _starting:
            script, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
            try:
                super().start()
            finally:
                sys.modules["__main__"] = script


class OwnProcesses(SpawnContext):
    """The context of `multiprocessing` whose processes are of that kind."""

    Process = OwnProcess
