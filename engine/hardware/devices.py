"""Cards, processor and memory of this machine."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from engine.hardware import gpu_table, nvml


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """An NVIDIA card as its driver describes it; bytes, free at the moment of asking."""

    name: str
    total_bytes: int
    free_bytes: int
    driver: str
    capability: tuple[int, int] | None  # of CUDA, e.g. (12, 0); None where NVML is too old
    index: int = 0  # of NVML


@cache
def cpu_name() -> str:
    """The processor as its maker calls it, e.g. "AMD Ryzen 7 7700"."""
    if sys.platform == "win32":
        return _windows_cpu_name() or platform.processor()
    return _linux_cpu_name() or platform.processor() or platform.machine()


def cpu_threads() -> int:
    """Threads of the processor that this process may use, at least 1."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def ram() -> tuple[int, int]:
    """Main memory in bytes: all of it, and what can be taken without swapping."""
    memory = psutil.virtual_memory()
    return memory.total, memory.available


def own_ram() -> int:
    """Bytes of main memory that this process alone holds; files it has mapped are left out."""
    memory = psutil.Process().memory_info()
    if sys.platform == "win32":
        return int(memory.private)
    return int(memory.rss - getattr(memory, "shared", 0))


def gpus() -> tuple[Gpu, ...]:
    """All NVIDIA cards that CUDA shows us, in its order; () without a card or a driver.

    The fastest comes first, or as `CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER` say: torch takes
    the first one.
    """
    driver = nvml.text(nvml.ask("nvmlSystemGetDriverVersion"))
    found = []
    for index, handle in enumerate(nvml.handles()):
        memory = nvml.memory(handle)
        capability = nvml.ask("nvmlDeviceGetCudaComputeCapability", handle)
        if memory is not None:
            found.append(
                Gpu(
                    name=nvml.text(nvml.ask("nvmlDeviceGetName", handle)),
                    total_bytes=memory.total,
                    free_bytes=memory.total - memory.used,
                    driver=driver,
                    capability=tuple(capability) if capability else None,
                    index=index,
                )
            )
    if os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        found.sort(key=_speed, reverse=True)
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    return tuple(found if names is None else _visible(found, names))


def _speed(gpu: Gpu) -> tuple[float, tuple[int, int], int]:
    """Cards of the table by what they compute, others by generation and memory behind them."""
    card = gpu_table.find(gpu.name, gpu.total_bytes)
    return (card.single_flops if card else 0.0, gpu.capability or (0, 0), gpu.total_bytes)


def _visible(found: Sequence[Gpu], names: str) -> Iterator[Gpu]:
    """Cards named by their number or by how their id begins; CUDA ends at a wrong one."""
    for name in names.split(","):
        wanted = name.strip()
        if wanted.isdecimal():
            gpu = found[int(wanted)] if int(wanted) < len(found) else None
        else:
            gpu = next((gpu for gpu in found if wanted and _id_of(gpu).startswith(wanted)), None)
        if gpu is None:
            return
        yield gpu


def _id_of(gpu: Gpu) -> str:
    return nvml.text(nvml.ask("nvmlDeviceGetUUID", nvml.handles()[gpu.index]))


def _linux_cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "")


def _windows_cpu_name() -> str:
    if sys.platform != "win32":
        return ""
    import winreg

    place = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, place) as key:
            return str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).strip()
    except OSError:
        return ""
