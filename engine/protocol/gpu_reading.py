"""State of a GPU at one time: plain data, for gauges and plans."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A program that uses memory of a GPU; MB are 2**20 bytes."""

    name: str  # name of its file, as "chrome.exe"
    mb: int | None  # None where the driver does not report it


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU at one time; MB are 2**20 bytes."""

    name: str
    number: int = 0  # number in CUDA, which tells several GPUs apart
    total_mb: int
    ours_mb: int
    others_mb: int
    load_percent: int
    temperature_c: int
    driver: str = ""
    spilled_mb: int = 0  # memory of this process that Windows moved to main memory
    power_w: int = 0
    link: str = ""  # "PCIe 4.0 x16"
    processes: tuple[GpuProcess, ...] = ()  # other programs, the largest first
    is_pretended: bool = False  # not in this computer: only plans are made for it
