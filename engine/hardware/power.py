"""Keeps the machine awake while a job runs; the screen may go dark."""

from __future__ import annotations

import contextlib
import logging
import shutil
import subprocess
import sys
from collections.abc import Iterator

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def keep_awake(why: str = "A film is being upscaled") -> Iterator[None]:
    """No sleep for lack of use while inside; enter and leave on the same thread.

    Windows: a request of this thread, gone with it. Linux: a lock of systemd-logind where its tool
    is installed, else nothing; the lock ends with this process, also when that is killed.
    """
    with _lock(why):
        yield


if sys.platform == "win32":
    import ctypes

    _CONTINUOUS = 0x80000000
    _SYSTEM_REQUIRED = 0x00000001

    @contextlib.contextmanager
    def _lock(_why: str) -> Iterator[None]:
        request = ctypes.windll.kernel32.SetThreadExecutionState
        request.argtypes, request.restype = [ctypes.c_uint32], ctypes.c_uint32
        if not request(_CONTINUOUS | _SYSTEM_REQUIRED):
            logger.info("Windows refused to stay awake")
        try:
            yield
        finally:
            request(_CONTINUOUS)

else:

    @contextlib.contextmanager
    def _lock(why: str) -> Iterator[None]:
        lock = _systemd_lock(why)
        try:
            yield
        finally:
            if lock is not None:
                _end(lock)

    def _systemd_lock(why: str) -> subprocess.Popen[bytes] | None:
        tool = shutil.which("systemd-inhibit")
        if tool is None:
            return None
        # `cat` ends when our end of its pipe closes, whatever becomes of this process.
        command = [tool, "--what=sleep:idle", "--who=Upreel", f"--why={why}", "cat"]
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
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
