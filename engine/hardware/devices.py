"""GPUs, CPU and memory of this computer, the data types they compute in, and pretended GPUs."""

from __future__ import annotations

import multiprocessing
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import psutil

from engine.core.errors import SettingsError
from engine.core.registry import machine_value
from engine.core.units import parse_memory
from engine.hardware import gpu_table, nvml
from engine.hardware.gpu_table import GpuSpec

# Linux's names of instructions that multiply bfloat16 values: x86 AVX-512 and AMX, then ARM.
_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
# Intel's AVX-512 alone takes longer for bfloat16 than for float32: Lite 1.7 times, Lite Plus 1.5
# times (a Xeon of 2023 without AMX). AMD's takes 0.6 times as long for Lite (Zen 5).
_INTEL_BF16_FLAGS = frozenset({"amx_bf16"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """An NVIDIA GPU as its driver describes it; free bytes at the time of the query."""

    name: str
    total_bytes: int
    free_bytes: int
    driver: str
    capability: tuple[int, int] | None  # CUDA capability, e.g. (12, 0); None where NVML is too old
    index: int = 0  # number in NVML
    number: int = 0  # number in CUDA: another one where CUDA_VISIBLE_DEVICES hides GPUs
    uuid: str = ""  # "GPU-" and more; "" where unknown


@cache
def cpu_name() -> str:
    """The CPU's product name, e.g. "AMD Ryzen 7 7700"."""
    if sys.platform == "win32":
        return _windows_cpu_name() or platform.processor()
    return next(_linux_cpu("model name"), "") or platform.processor() or platform.machine()


def cpu_threads() -> int:
    """Threads of the CPU that this process may use, at least 1."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def cpu_has_bf16() -> bool:
    """Whether the CPU multiplies bfloat16 in hardware, so that it is worth using.

    On Linux from /proc; elsewhere from torch, which this loads.
    """
    wanted = _INTEL_BF16_FLAGS if "intel" in cpu_name().lower() else _BF16_FLAGS
    if sys.platform == "linux":
        flags = next(_linux_cpu("flags", "Features"), "")
        return bool(wanted & set(flags.split()))
    return bool(wanted & set(cpu_flags().split()))


@cache
def cpu_flags() -> str:
    """The CPU's instructions for vectors and matrices, as torch, which this loads, names them."""
    import torch

    found = torch.cpu.get_capabilities()
    return " ".join(sorted(name for name, value in found.items() if value is True))


def ram() -> tuple[int, int]:
    """Main memory in bytes: all of it, and what can be taken without swapping."""
    memory = psutil.virtual_memory()
    return memory.total, memory.available


def own_ram() -> int:
    """Bytes of main memory that only this program uses, without mapped files.

    Processes that it started with `multiprocessing` count: those of GPUs, and workers.
    """
    pids = (os.getpid(), *(one.pid for one in multiprocessing.active_children()))
    return sum(map(_own_ram, pids))


def _own_ram(pid: int | None) -> int:
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.Error:  # it has ended since
        return 0
    if sys.platform == "win32":
        return int(memory.private)
    return int(memory.rss - getattr(memory, "shared", 0))


def gpus() -> tuple[Gpu, ...]:
    """All NVIDIA GPUs that CUDA shows, in its order; () without a GPU or a driver.

    CUDA and NVML number them by their slots: `engine.runtimes.environment` sees to it.
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
                    uuid=nvml.text(nvml.query("nvmlDeviceGetUUID", handle)),
                )
            )
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    shown = found if names is None else _visible(found, names)
    return tuple(replace(gpu, number=number) for number, gpu in enumerate(shown))


def _visible(found: Sequence[Gpu], names: str) -> Iterator[Gpu]:
    """GPUs named by their number or by the beginning of their id; CUDA ends at a wrong one."""
    for part in names.split(","):
        name = part.strip()
        if name.isdecimal():
            gpu = found[int(name)] if int(name) < len(found) else None
        else:
            gpu = next((gpu for gpu in found if name and gpu.uuid.startswith(name)), None)
        if gpu is None:
            return
        yield gpu


def as_gpus(specs: Sequence[GpuSpec]) -> tuple[Gpu, ...]:
    """Pretended GPUs as a driver would describe them, with nothing in use."""
    return tuple(
        Gpu(
            name=spec.name,
            total_bytes=spec.memory_bytes,
            free_bytes=spec.memory_bytes,
            driver="",
            capability=spec.capability,
            number=number,
        )
        for number, spec in enumerate(specs)
    )


# --- which of several GPUs

# values of the setting `device` that name no GPU
AUTO, ALL, CPU, ANY_GPU = "auto", "all", "cpu", "cuda"
UNNAMED = (AUTO, ALL, CPU, ANY_GPU, "")


def chosen(wanted: str, found: Sequence[Gpu]) -> Gpu | None:
    """The GPU that a value of the setting `device` means; None where there is no such one.

    Of several equal GPUs it is the first: a job may have been kept before there were several.

    Args:
        wanted: "auto" and "cuda" mean the fastest, as does "cpu", whose plans say what is here,
            and "all", where only one can be meant; else a number ("1", "cuda:1"), an id, or a name
            or a part of it that only one has ("5070 Ti").
        found: Devices to choose from.
    """
    if wanted in UNNAMED:
        return max(found, key=_speed, default=None)
    meant = _meant(wanted, found)
    return meant[0] if len({gpu.name for gpu in meant}) == 1 else None


def together(found: Sequence[Gpu], excluded: Sequence[str] = ()) -> tuple[Gpu, ...]:
    """The GPUs that "all" means, the fastest first; () where there are none at all.

    Args:
        found: Devices to choose from.
        excluded: Names that the setting `excluded_gpus` has, perhaps of GPUs that are not here.

    Raises:
        SettingsError: All of them are excluded.
    """
    left_out = {gpu for name in excluded for gpu in _meant(name, found)}
    left = [gpu for gpu in found if gpu not in left_out]
    if found and not left:
        raise SettingsError("all-gpus-excluded", names=tuple(gpu.name for gpu in found))
    return tuple(sorted(left, key=_speed, reverse=True))


def named_each(excluded: Sequence[str], found: Sequence[Gpu]) -> str:
    """The setting `excluded_gpus` as it is kept in jobs: of alike GPUs a name means all.

    Raises:
        SettingsError: One of the names is that of no GPU.
    """
    values = list[str]()
    for name in excluded:
        meant = _meant(name, found)
        if not meant:
            named(name, found)  # raises
        values += (value for gpu in meant if (value := value_of(gpu, found)) not in values)
    return ", ".join(values)


def value_of(gpu: Gpu, found: Sequence[Gpu]) -> str:
    """The value of the setting `device` for a GPU: a name, where several have it the id.

    A number changes with the slots; a name means the same in another machine.
    """
    if sum(other.name == gpu.name for other in found) == 1:
        return gpu.name
    return gpu.uuid or f"{ANY_GPU}:{gpu.number}"


def named(wanted: str, found: Sequence[Gpu]) -> str:
    """A value of the setting `device` as it is kept in jobs and presets.

    Raises:
        SettingsError: No GPU has that name or number, or several have; names those that are here.
    """
    if wanted in UNNAMED:
        return wanted or AUTO
    meant = _meant(wanted, found)
    if len(meant) != 1:
        case = "several-gpus" if meant else "no-such-gpu"
        known = tuple(f"{ANY_GPU}:{one.number} ({one.name})" for one in found)
        raise SettingsError(case, name=wanted, known=(AUTO, CPU, *known))
    return value_of(meant[0], found)


def _meant(wanted: str, found: Sequence[Gpu]) -> tuple[Gpu, ...]:
    text = gpu_table.plain_name(wanted)
    number = text.removeprefix(f"{ANY_GPU}:")
    if number != text or (number.isdecimal() and len(number) < 3):  # names have longer ones
        return tuple(gpu for gpu in found if str(gpu.number) == number)
    names = {gpu: gpu_table.plain_name(gpu.name) for gpu in found}
    exact = tuple(gpu for gpu in found if text in (names[gpu], gpu.uuid.casefold()))
    return exact or tuple(gpu for gpu in found if text in names[gpu])


def _speed(gpu: Gpu) -> tuple[float, tuple[int, int], int]:
    """GPUs of the table by their FLOP/s, others after them by generation; then by memory."""
    spec = gpu_table.find(gpu.name, gpu.total_bytes)
    return (spec.single_flops if spec else 0.0, gpu.capability or (0, 0), gpu.total_bytes)


_used = AUTO


def use(wanted: str) -> str:
    """Choose the GPU that this process's readings are about, as the setting does; the one before.

    `torch_memory.selected` also makes torch compute there.
    """
    global _used
    before, _used = _used, wanted
    return before


def in_use() -> Gpu | None:
    """The GPU of the job that runs, else the fastest; None without one."""
    found = gpus()
    return chosen(_used, found) or chosen(AUTO, found)


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
    place = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
    return str(machine_value(place, "ProcessorNameString") or "").strip()


# --- GPUs of the table that plans are made for in place of this computer's

GPU_VARIABLE = "UPREEL_PRETEND_GPU"
VRAM_VARIABLE = "UPREEL_PRETEND_VRAM"


def pretended(*names: str, memory: str = "") -> tuple[GpuSpec, ...]:
    """The GPUs that texts request; () where all are empty.

    Args:
        names: Names in the table, with a size where GPUs of one name differ: "RTX 3080 10 GB". None
            with a memory means this computer's own GPUs.
        memory: Size that each is given, as "16GiB"; "" for what it has.

    Raises:
        SettingsError: There is no such GPU, or no such size, or more than one of that name.
    """
    size = parse_memory(memory) if memory else 0
    wanted = tuple(filter(None, map(str.strip, names)))
    if wanted or not size:
        return tuple(gpu_table.requested(name, size) for name in wanted)
    own = in_use()
    if own is None:
        raise SettingsError("no-gpu-to-pretend")
    return (gpu_table.named(own.name, size),)


def from_environment() -> tuple[GpuSpec, ...]:
    """The GPUs that the environment requests, parted by commas; () where it requests none.

    Raises:
        SettingsError: It requests an impossible one; the hint names the variables.
    """
    names = os.environ.get(GPU_VARIABLE, "").split(",")
    try:
        return pretended(*names, memory=os.environ.get(VRAM_VARIABLE, ""))
    except SettingsError as err:
        problem, variables = err.as_message, (GPU_VARIABLE, VRAM_VARIABLE)
        raise SettingsError(
            "in-environment", problem=problem, advice=problem.hint, variables=variables
        ) from err


def fastest(specs: Sequence[GpuSpec]) -> GpuSpec | None:
    """The one of pretended GPUs that jobs run on where none is chosen."""
    gpu = chosen(AUTO, as_gpus(specs))
    return None if gpu is None else specs[gpu.number]
