"""Which programs hold memory of a card."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import psutil

from engine.hardware import devices, nvml, shared_memory
from engine.protocol.gpu_reading import Holder

_MB = 2**20
_MOST = 8  # that anybody reads
_LEAST_MB = 16  # every window holds a few


def others() -> tuple[Holder, ...]:
    """Programs beside this one on the card that jobs run on, the largest first; () without one."""
    card = next(iter(devices.gpus()), None)
    if card is None:
        return ()
    handle = nvml.handles()[card.index]
    used = card.total_bytes - card.free_bytes
    ours = frozenset({psutil.Process().pid})
    return ranked(amounts(nvml.processes(handle), shared_memory.card(used)), ours)


def amounts(
    driver: Mapping[int, int | None], windows: shared_memory.Adapter | None
) -> dict[int, int | None]:
    """Bytes by process: Windows knows where its driver is silent.

    Args:
        driver: What NVML says.
        windows: What Windows counts; None elsewhere.
    """
    found = dict(driver)
    if windows is not None:
        found |= {pid: use.dedicated for pid, use in windows.processes.items()}
    return found


def ranked(found: Mapping[int, int | None], ours: Iterable[int]) -> tuple[Holder, ...]:
    """Programs by name, the largest first, those of unknown size last; processes are added up.

    Args:
        found: Bytes by process id; None where nobody knows.
        ours: Processes to leave out.
    """
    sums: dict[str, int | None] = {}
    for pid in found.keys() - set(ours):
        name, size = _name(pid), found[pid]
        if name:
            known = sums.get(name)
            sums[name] = known if size is None else size + (known or 0)
    holders = [
        Holder(name=name, mb=None if size is None else size // _MB)
        for name, size in sums.items()
        if size is None or size >= _LEAST_MB * _MB
    ]
    holders.sort(key=lambda holder: (-(holder.mb or 0), holder.name.casefold()))
    return tuple(holders[:_MOST])


def _name(pid: int) -> str:
    """Of the program's file; "" where it has ended or is none of this user's business."""
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return ""
