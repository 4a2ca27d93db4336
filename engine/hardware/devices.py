"""GPUs, processor and memory of this machine, and the data types they compute in."""

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

# Linux's names of instructions that multiply bfloat16 values: x86 AVX-512 and AMX, then ARM.
_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """An NVIDIA GPU as its driver describes it; free bytes at the time of the query."""

    name: str
    total_bytes: int
    free_bytes: int
    driver: str
    capability: tuple[int, int] | None  # of CUDA, e.g. (12, 0); None where NVML is too old
    index: int = 0  # of NVML


@cache
def cpu_name() -> str:
    """The processor's product name, e.g. "AMD Ryzen 7 7700"."""
    if sys.platform == "win32":
        return _windows_cpu_name() or platform.processor()
    return next(_linux_cpu("model name"), "") or platform.processor() or platform.machine()


def cpu_threads() -> int:
    """Threads of the processor that this process may use, at least 1."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def cpu_has_bf16() -> bool:
    """Whether the processor multiplies bfloat16 in hardware, so that it is worth using.

    On Linux from /proc; elsewhere from torch, which this loads.
    """
    if sys.platform == "linux":
        flags = next(_linux_cpu("flags", "Features"), "")
        return bool(_BF16_FLAGS & set(flags.split()))
    import torch

    found = torch.cpu.get_capabilities()
    return bool(found.get("avx512_bf16") or found.get("amx_bf16") or found.get("bf16"))


def ram() -> tuple[int, int]:
    """Main memory in bytes: all of it, and what can be taken without swapping."""
    memory = psutil.virtual_memory()
    return memory.total, memory.available


def own_ram() -> int:
    """Bytes of main memory that only this process uses, without mapped files."""
    memory = psutil.Process().memory_info()
    if sys.platform == "win32":
        return int(memory.private)
    return int(memory.rss - getattr(memory, "shared", 0))


def gpus() -> tuple[Gpu, ...]:
    """All NVIDIA GPUs that CUDA shows, in its order; () without a GPU or a driver.

    The first is the one that torch takes: the fastest, unless CUDA_DEVICE_ORDER or such is set.
    """
    driver = nvml.text(nvml.query("nvmlSystemGetDriverVersion"))
    found = []
    for index, handle in enumerate(nvml.handles()):
        memory = nvml.memory(handle)
        capability = nvml.query("nvmlDeviceGetCudaComputeCapability", handle)
        if memory is not None:
            found.append(
                Gpu(
                    name=nvml.text(nvml.query("nvmlDeviceGetName", handle)),
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
    """GPUs of the table by their FLOP/s, others after them by generation and memory."""
    spec = gpu_table.find(gpu.name, gpu.total_bytes)
    return (spec.single_flops if spec else 0.0, gpu.capability or (0, 0), gpu.total_bytes)


def _visible(found: Sequence[Gpu], names: str) -> Iterator[Gpu]:
    """GPUs named by their number or by the beginning of their id; CUDA ends at a wrong one."""
    for part in names.split(","):
        name = part.strip()
        if name.isdecimal():
            gpu = found[int(name)] if int(name) < len(found) else None
        else:
            gpu = next((gpu for gpu in found if name and _id_of(gpu).startswith(name)), None)
        if gpu is None:
            return
        yield gpu


def _id_of(gpu: Gpu) -> str:
    return nvml.text(nvml.query("nvmlDeviceGetUUID", nvml.handles()[gpu.index]))


def _linux_cpu(*names: str) -> Iterator[str]:
    """Values of these fields in /proc/cpuinfo."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in names:
            yield value.strip()


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
