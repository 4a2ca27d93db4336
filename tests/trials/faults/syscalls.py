"""Jobs of which one system call, or one allocation of FFmpeg's libraries, fails."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.trials.faults.group import Unavailable
from tests.trials.faults.jobs import Place
from tests.trials.faults.kills import JobGroup
from tests.trials.faults.outcomes import CRASH, FFMPEG, Outcome

_MALLOC = "allocation in FFmpeg"
_CRASHES = ("SIGSEGV", "SIGABRT")  # of FFmpeg: a pointer to nothing, an assertion
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.ENOMEM)
SKIPPED = Outcome("")  # there is no such call


class SystemCalls(JobGroup):
    """The rows are the kinds of `shim.c`, in its order; each call fails once with each error."""

    name = "syscalls"
    rows = (
        *("open", "read", "write", "fsync", "rename", "unlink", "mkdir", "stat", "list"),
        _MALLOC,
    )
    usual = len(rows) * len(ERRORS) * 250

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._shim = ctypes.CDLL(None)
        self._shim.faults_count.restype = ctypes.c_long
        self._counts = self._counted()
        most = max(
            count for row, count in zip(self.rows, self._counts, strict=True) if row != _MALLOC
        )
        if most * len(self.rows) * len(ERRORS) > self.usual:
            raise RuntimeError(f"{most} calls of one kind: a run of everything would not try all")

    @classmethod
    def environment(cls, folder: Path) -> Mapping[str, str]:
        """The shim, compiled here, is preloaded."""
        return {"LD_PRELOAD": str(compiled(folder))}

    def run(self, number: int) -> Outcome:
        """Fail one call, then finish the job without one; FFmpeg may crash for want of memory."""
        kind = number % len(self.rows)
        rest, which = divmod(number // len(self.rows), len(ERRORS))
        error, call = ERRORS[which], rest + 1
        if self.rows[kind] == _MALLOC:  # of thousands, and they fail in one way only
            error = errno.ENOMEM
            call = self.chances(number).randint(1, self._counts[kind])
        elif call > self._counts[kind]:
            return SKIPPED
        place = self.place()
        ended = place.upscale(before=lambda: self._arm(place, kind, call, error))
        note = f"{self.rows[kind]} {call} of {self._counts[kind]}, {errno.errorcode[error]}"
        first = known(self.rows[kind], ended.outcome)
        found = (first if first.is_bad else self.wrong(place)) or self.finished(place) or first
        return Outcome(found.kind, found.code, f"{note}: {found.detail}")

    def _arm(self, place: Place, kind: int, call: int, error: int) -> None:
        self._shim.faults_arm(os.fsencode(place.folder), kind, ctypes.c_long(call), error)

    def _counted(self) -> list[int]:
        """Calls of each kind in an undisturbed job."""
        place = self.place()
        file = self.folder / "counts"

        def count() -> None:
            found = [self._shim.faults_count(kind) for kind in range(len(self.rows))]
            file.write_text(" ".join(map(str, found)))

        place.upscale(before=lambda: self._arm(place, -1, 0, 0), after=count)
        return [int(word) for word in file.read_text().split()]


def known(row: str, outcome: Outcome) -> Outcome:
    """How a run ended; a crash after an allocation that FFmpeg was refused is one of FFmpeg's."""
    is_known = row == _MALLOC and outcome.kind == CRASH and outcome.code in _CRASHES
    return replace(outcome, kind=FFMPEG) if is_known else outcome


def compiled(folder: Path) -> Path:
    """The shim as a library.

    Raises:
        Unavailable: This is not Linux with glibc, or there is no compiler.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if sys.platform != "linux" or "gnu" not in (sysconfig.get_config_var("MULTIARCH") or "gnu"):
        raise Unavailable("the shim is for Linux with glibc")
    if compiler is None:
        raise Unavailable("there is no C compiler")
    source, target = Path(__file__).with_name("shim.c"), folder / "shim.so"
    if not target.is_file():
        words = [compiler, "-shared", "-fPIC", "-O2", "-o", target, source, "-ldl"]
        subprocess.run(words, check=True)
    return target
