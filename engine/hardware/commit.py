r"""Memory that the system still promises to programs, which can be less than what is free.

Windows promises ("commits") no more than RAM and page files together. With a small page file, or
none, it refuses memory while much of the RAM is free: other programs were promised more than they
use. WDDM, the driver model of GeForce GPUs, also commits main memory for every byte on the GPU, to
have a place for it when another program needs the GPU: so a GPU can refuse memory that it has. The
sums were not seen on Windows yet.

Linux promises without limit unless its administrator chose strict accounting
(vm.overcommit_memory=2), or the process has a limit of address space (ulimit -v).
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from engine.core.registry import machine_value

Cause = Literal[
    "no-page-file", "fixed-page-file", "managed-page-file", "overcommit", "address-space"
]
"""Reason why the limit is as low as it is; the advice to the user differs."""

_MEMORY_KEY = r"SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management"
_MIB, _GIB = 2**20, 2**30
_KEPT_ON_DRIVE = _GIB  # Windows leaves that much of a drive free when a page file grows
_MANAGED_SHARE = 8  # a page file of its own choice takes at most 1 / 8 of the drive


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Promises of memory: the limit, and what is left of it."""

    limit_bytes: int  # limit of the system, or of this process where it has its own
    left_bytes: int  # for all programs together, with what page files can still grow
    growth_bytes: int = 0  # part of `left_bytes` that page files do not have yet
    counts_vram: bool = False  # memory of GPUs is promised from it too
    cause: Cause = "no-page-file"


def commit() -> Commit | None:
    """Current state; None where the system promises memory without a limit. Takes microseconds."""
    if sys.platform == "win32":
        return _of_windows()
    if sys.platform == "linux":
        return _of_linux()
    return None


# --- Windows


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX; its "page file" is the commit limit."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        *(
            (name, ctypes.c_uint64)
            for name in (
                *("total_ram", "free_ram", "total_commit", "free_commit"),
                *("total_virtual", "free_virtual", "free_extended_virtual"),
            )
        ),
    )


def _of_windows() -> Commit | None:
    status = _memory_status()
    if status is None:
        return None
    total_ram, limit, left = status
    files = _page_files()
    growth = _growth(files, limit - total_ram, total_ram)
    cause: Cause = "no-page-file"
    if files:
        cause = "fixed-page-file" if all(most for _, most in files) else "managed-page-file"
    return Commit(
        limit_bytes=limit,
        left_bytes=left + growth,
        growth_bytes=growth,
        counts_vram=True,
        cause=cause,
    )


if sys.platform == "win32":

    def _memory_status() -> tuple[int, int, int] | None:
        """RAM, commit limit and what is left of that, bytes; None where Windows does not say."""
        status = _MemoryStatus()
        status.length = ctypes.sizeof(status)
        if not ctypes.WinDLL("kernel32").GlobalMemoryStatusEx(ctypes.byref(status)):
            return None
        return status.total_ram, status.total_commit, status.free_commit

else:

    def _memory_status() -> tuple[int, int, int] | None:
        """RAM, commit limit and what is left of that, bytes; None where Windows does not say."""
        return None


def _page_files() -> tuple[tuple[Path, int], ...]:
    r"""Drive and largest size of each page file, in bytes; 0 where Windows chooses the size.

    The registry has lines as r"C:\pagefile.sys 4096 8192" (MiB), "... 0 0" for a size that Windows
    chooses, and r"?:\pagefile.sys" where it also chooses the drive. Wine has one line, as a text.
    """
    value, found = machine_value(_MEMORY_KEY, "PagingFiles") or (), []
    for line in map(str, [value] if isinstance(value, str) else value):
        if not line.strip():
            continue
        name, *sizes = line.rsplit(None, 2)
        most = int(sizes[-1]) if sizes and sizes[-1].isdecimal() else 0
        drive = os.environ.get("SYSTEMDRIVE", "C:") if name.startswith("?") else name[:2]
        found.append((Path(f"{drive}\\"), most * _MIB))
    return tuple(found)


def _growth(files: Sequence[tuple[Path, int]], now: int, ram: int) -> int:
    """Bytes by which page files can still grow.

    Args:
        files: Drive and largest size of each; 0 where Windows chooses it: three times the RAM, but
            no more than its share of the drive.
        now: Present size of all together.
        ram: Installed memory.
    """
    most = room = 0
    for drive, size in files:
        try:
            disk = shutil.disk_usage(drive)
        except OSError:
            continue
        most += size or min(max(3 * ram, 4 * _GIB), disk.total // _MANAGED_SHARE)
        room += max(0, disk.free - _KEPT_ON_DRIVE)
    return max(0, min(most - now, room))


# --- Linux


def _of_linux() -> Commit | None:
    found = [one for one in (_strict_accounting(), _address_space()) if one is not None]
    return min(found, key=lambda one: one.left_bytes, default=None)


def _strict_accounting() -> Commit | None:
    """Limit of the system; None where it promises more than there is, as is usual."""
    try:
        if Path("/proc/sys/vm/overcommit_memory").read_text("ascii").strip() != "2":
            return None
        words = map(str.split, Path("/proc/meminfo").read_text("ascii").splitlines())
    except OSError:
        return None
    sizes = {name: 1024 * int(size) for name, size, *_ in words}
    limit, used = (sizes.get(name, 0) for name in ("CommitLimit:", "Committed_AS:"))
    return Commit(limit_bytes=limit, left_bytes=max(0, limit - used), cause="overcommit")


def _address_space() -> Commit | None:
    """Limit of this process; None where it has none."""
    if sys.platform == "win32":
        return None
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    left = limit - psutil.Process().memory_info().vms
    return Commit(limit_bytes=limit, left_bytes=max(0, left), cause="address-space")
