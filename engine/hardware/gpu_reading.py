"""Snapshot of the GPU: memory, programs, load, temperature, power, PCIe link."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from engine.hardware import devices, nvml, shared_memory
from engine.hardware.devices import Gpu
from engine.hardware.gpu_table import LANE_BYTES_S, GpuSpec
from engine.protocol.gpu_reading import GpuProcess, GpuReading

_MB = 2**20
# CUDA itself keeps some tens of MB in RAM; up to this size (unmeasured) it is no spilling.
_QUIET_BYTES = 192 * _MB
_MOST_PROGRAMS = 8  # in the list
_LEAST_MB = 16  # of a program in the list; every window uses a few MB


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMemory:
    """Functions that return this program's own memory, called in the sampler's thread; quick."""

    gpu_bytes: Callable[[], int] = lambda: 0  # memory that torch has reserved
    pinned_bytes: Callable[[], int] = lambda: 0  # pinned RAM
    # GPU memory that Windows keeps in RAM; None off Windows.
    shared_bytes: Callable[[], int | None] = lambda: shared_memory.own_bytes()


def read(family: frozenset[int], own: OwnMemory) -> GpuReading | None:
    """State of the GPU that jobs run on; None without one.

    Args:
        family: Ids of this process and its children.
        own: Values that neither the driver nor Windows reports.
    """
    gpu = devices.in_use()
    return None if gpu is None else _read(gpu, family, own)


def read_others(family: frozenset[int]) -> tuple[GpuReading, ...]:
    """State of all other GPUs, in the order of their slots; spilled memory is unknown: 0.

    Args:
        family: Result of `read`.
    """
    gpu = devices.in_use()
    others = (one for one in devices.gpus() if gpu is not None and one.number != gpu.number)
    found = (_read(one, family) for one in others)
    return tuple(reading for reading in found if reading is not None)


def pretended(specs: Sequence[GpuSpec]) -> tuple[GpuReading, ...]:
    """Readings of GPUs that are not in this computer, the one that jobs are planned for first."""
    gpus = devices.as_gpus(specs)
    first = devices.chosen(devices.AUTO, gpus)
    return tuple(
        GpuReading(
            name=gpu.name,
            number=gpu.number,
            total_mb=gpu.total_bytes // _MB,
            ours_mb=0,
            others_mb=(gpu.total_bytes - gpu.free_bytes) // _MB,
            load_percent=0,
            temperature_c=0,
            is_pretended=True,
        )
        for gpu in sorted(gpus, key=lambda gpu: gpu is not first)
    )


def _read(gpu: Gpu, family: frozenset[int], own: OwnMemory | None = None) -> GpuReading | None:
    handles = nvml.handles()
    if gpu.index >= len(handles):  # a driver that restarts forgets its GPUs
        return None
    handle = handles[gpu.index]
    used = gpu.total_bytes - gpu.free_bytes
    processes = bytes_by_process(nvml.processes(handle), shared_memory.adapter(used))
    known = sum(processes[pid] or 0 for pid in family & processes.keys())
    if own is not None:  # in containers process ids differ
        known = max(known, own.gpu_bytes())
    ours = min(used, known)
    load = nvml.query("nvmlDeviceGetUtilizationRates", handle)
    return GpuReading(
        name=gpu.name,
        number=gpu.number,
        total_mb=gpu.total_bytes // _MB,
        ours_mb=ours // _MB,
        others_mb=(used - ours) // _MB,
        load_percent=int(load.gpu) if load else 0,
        temperature_c=int(nvml.query("nvmlDeviceGetTemperature", handle, 0) or 0),
        driver=gpu.driver,
        spilled_mb=0 if own is None else _spilled(own) // _MB,
        power_w=round((nvml.query("nvmlDeviceGetPowerUsage", handle) or 0) / 1000),
        link=link_text(link(handle)),
        processes=programs(processes, family),
    )


def _spilled(own: OwnMemory) -> int:
    shared = own.shared_bytes()
    if not shared:
        return 0
    spilled = shared - own.pinned_bytes()
    return spilled if spilled >= _QUIET_BYTES else 0


# --- other programs


def other_programs() -> tuple[GpuProcess, ...]:
    """Other programs on the GPU that jobs run on, the largest first; () without a GPU."""
    gpu = devices.in_use()
    if gpu is None:
        return ()
    handle = nvml.handles()[gpu.index]
    used = gpu.total_bytes - gpu.free_bytes
    ours = frozenset({os.getpid(), os.getppid()})  # the window's process starts that of a GPU
    return programs(bytes_by_process(nvml.processes(handle), shared_memory.adapter(used)), ours)


def bytes_by_process(
    driver: Mapping[int, int | None], windows: shared_memory.Adapter | None
) -> dict[int, int | None]:
    """Bytes on a GPU by process id: Windows reports them where its driver does not.

    Args:
        driver: Reading of NVML.
        windows: Counters of Windows; None elsewhere.
    """
    found = dict(driver)
    if windows is not None:
        found |= {pid: use.dedicated for pid, use in windows.processes.items()}
    return found


def programs(found: Mapping[int, int | None], ours: Iterable[int]) -> tuple[GpuProcess, ...]:
    """Processes summed up by program, the largest first, those of unknown size last.

    Args:
        found: Bytes by process id; None where unknown.
        ours: Processes to leave out.
    """
    sums: dict[str, int | None] = {}
    for pid in found.keys() - set(ours):
        name, size = _name(pid), found[pid]
        if name:
            known = sums.get(name)
            sums[name] = known if size is None else size + (known or 0)
    listed = [
        GpuProcess(name=name, mb=None if size is None else size // _MB)
        for name, size in sums.items()
        if size is None or size >= _LEAST_MB * _MB
    ]
    listed.sort(key=lambda program: (-(program.mb or 0), program.name.casefold()))
    return tuple(listed[:_MOST_PROGRAMS])


def _name(pid: int) -> str:
    """Name of a process's program; "" if it has ended or is hidden from this user."""
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return ""


# --- PCIe


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieLink:
    """Connection between a GPU and RAM."""

    generation: int  # the highest that GPU and slot support; an idle GPU uses a lower one
    width: int  # lanes in use
    # Generation the GPU supports in another slot; as `generation` where unknown.
    gpu_generation: int
    gpu_width: int  # lanes of the GPU

    @property
    def bandwidth(self) -> float:
        """Bytes per second in one direction, in theory."""
        return self.width * LANE_BYTES_S.get(self.generation, 0.0)

    @property
    def gpu_bandwidth(self) -> float:
        """Bytes per second that the GPU supports in another slot."""
        return self.gpu_width * LANE_BYTES_S.get(self.gpu_generation, 0.0)


def link(handle: Any) -> PcieLink | None:
    """The link of a GPU; None where NVML does not report it."""
    width = nvml.query("nvmlDeviceGetCurrPcieLinkWidth", handle)
    generation = nvml.query("nvmlDeviceGetMaxPcieLinkGeneration", handle)
    if not width or not generation:
        return None
    return PcieLink(
        generation=int(generation),
        width=int(width),
        gpu_generation=int(
            nvml.query("nvmlDeviceGetGpuMaxPcieLinkGeneration", handle) or generation
        ),
        gpu_width=int(nvml.query("nvmlDeviceGetMaxPcieLinkWidth", handle) or width),
    )


def link_text(found: PcieLink | None) -> str:
    """Text of a link for users: "PCIe 4.0 x16"; "" for None."""
    return "" if found is None else f"PCIe {found.generation}.0 x{found.width}"


def link_of(gpu: Gpu) -> PcieLink | None:
    """The link of a GPU of `devices.gpus`; None where unknown."""
    handles = nvml.handles()
    return link(handles[gpu.index]) if gpu.index < len(handles) else None
