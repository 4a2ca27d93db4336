"""How the card feels at one moment: memory of ours and others', load, heat, power, link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.hardware import (
    devices,
    gpu_processes,
    nvml,
    shared_memory,
)
from engine.hardware.devices import Gpu
from engine.hardware.gpu_table import LANE_BYTES_S
from engine.protocol.gpu_reading import GpuReading

_MB = 2**20
# CUDA itself keeps some tens of MB in main memory: less than this is no spilling (not yet seen on a
# card).
_QUIET_BYTES = 192 * _MB


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMemory:
    """What this program knows of its own memory; asked from the sampler's thread, quickly."""

    card_bytes: Callable[[], int] = lambda: 0  # that torch has reserved
    pinned_bytes: Callable[[], int] = lambda: 0  # of main memory, for the card


def read(family: frozenset[int], own: OwnMemory) -> GpuReading | None:
    """The card that jobs run on; None without one.

    Args:
        family: Ids of this process and its children.
        own: For what neither the driver nor Windows tells.
    """
    card = next(iter(devices.gpus()), None)
    handles = nvml.handles()
    if card is None or card.index >= len(handles):  # a driver that starts anew forgets its cards
        return None
    handle = handles[card.index]
    used = card.total_bytes - card.free_bytes
    windows = shared_memory.card(used)
    processes = gpu_processes.amounts(nvml.processes(handle), windows)
    ours = min(used, _ours(processes, family, own))
    load = nvml.ask("nvmlDeviceGetUtilizationRates", handle)
    return GpuReading(
        name=card.name,
        total_mb=card.total_bytes // _MB,
        ours_mb=ours // _MB,
        others_mb=(used - ours) // _MB,
        load_percent=int(load.gpu) if load else 0,
        temperature_c=int(nvml.ask("nvmlDeviceGetTemperature", handle, 0) or 0),
        driver=card.driver,
        spilled_mb=_spilled(own) // _MB,
        power_w=round((nvml.ask("nvmlDeviceGetPowerUsage", handle) or 0) / 1000),
        link=link_text(link(handle)),
        holders=gpu_processes.ranked(processes, family),
    )


def _ours(processes: dict[int, int | None], family: frozenset[int], own: OwnMemory) -> int:
    """By driver or Windows; at least what torch knows: in containers process ids are others."""
    known = sum(processes[pid] or 0 for pid in family & processes.keys())
    return max(known, own.card_bytes())


def _spilled(own: OwnMemory) -> int:
    shared = shared_memory.ours()
    if not shared:
        return 0
    spilled = shared - own.pinned_bytes()
    return spilled if spilled >= _QUIET_BYTES else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The way between a card and main memory.

    Attributes:
        generation: Of PCIe that card and slot can; at rest cards go slower.
        width: Lanes in use.
        card_generation: That the card could in another slot; as `generation` where unknown.
        card_width: Lanes that the card has.
    """

    generation: int
    width: int
    card_generation: int
    card_width: int

    @property
    def bandwidth(self) -> float:
        """Bytes a second one way, in theory."""
        return self.width * LANE_BYTES_S.get(self.generation, 0.0)

    @property
    def board_bandwidth(self) -> float:
        """Bytes a second that the card could take in another slot."""
        return self.card_width * LANE_BYTES_S.get(self.card_generation, 0.0)


def link(handle: Any) -> Link | None:
    """What NVML says of the link of a card; None where it does not."""
    width = nvml.ask("nvmlDeviceGetCurrPcieLinkWidth", handle)
    generation = nvml.ask("nvmlDeviceGetMaxPcieLinkGeneration", handle)
    if not width or not generation:
        return None
    return Link(
        generation=int(generation),
        width=int(width),
        card_generation=int(
            nvml.ask("nvmlDeviceGetGpuMaxPcieLinkGeneration", handle) or generation
        ),
        card_width=int(nvml.ask("nvmlDeviceGetMaxPcieLinkWidth", handle) or width),
    )


def link_text(found: Link | None) -> str:
    """For people: "PCIe 4.0 x16"; "" where nothing is known."""
    return "" if found is None else f"PCIe {found.generation}.0 x{found.width}"


def link_of(card: Gpu) -> Link | None:
    """The link of a card of `devices.gpus`; None where nothing is known."""
    handles = nvml.handles()
    return link(handles[card.index]) if card.index < len(handles) else None
