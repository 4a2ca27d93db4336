"""Case `memory-pressure`: whether torch's limit and the spill guard notice a full GPU.

The GPU is filled beyond its memory on purpose. Where the system refuses (Linux), torch reports it;
Windows moves memory to main memory without a word, and the spill guard has to see that. Seen
on Linux only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from torch import Tensor

from engine.bench.cases.runs import require_gpu
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.core.messages import message
from engine.core.units import bytes_text
from engine.hardware import devices, shared_memory, torch_memory
from engine.hardware.out_of_memory import free_memory
from engine.hardware.spill_guard import Spilled, SpillGuard

_BLOCK_BYTES = 128 * 2**20
_BEYOND_BYTES = 2**30  # that are taken in addition to what is free
_LEFT_RAM_BYTES = 3 * 2**30  # of main memory, so that the system itself does not stall
_SETTLE_S = 0.5  # Windows' counters are late


def pressure_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for torch's limit, then one for memory beyond the GPU's.

    Raises:
        NoUsableGpu: torch has none.
    """
    require_gpu(options)
    free_memory()
    free, total = torch.cuda.mem_get_info()
    limit = max(_BLOCK_BYTES, free // 4)
    with torch_memory.within(torch_memory.gpu_bytes() + limit):
        found = _filled(limit + 2 * _BLOCK_BYTES)
    yield {"pressure": "torch's limit", "limit_mib": limit / 2**20, **found}
    row: Row = {"pressure": "beyond the GPU", "limit_mib": free / 2**20}
    needed, available = _BEYOND_BYTES + _LEFT_RAM_BYTES, devices.ram()[1]
    if available < needed:
        texts = {"needed": bytes_text(needed), "free": bytes_text(available)}
        yield row | {"note": message("bench.too-little-ram", **texts)}
        return
    with torch_memory.within(total):
        yield row | _filled(free + _BEYOND_BYTES)


def _filled(nbytes: int) -> Row:
    """What happens while blocks of the GPU are taken and written; all are given back."""
    is_counted = shared_memory.own_bytes() is not None
    guard = SpillGuard(shared_memory.own_bytes, torch_memory.pinned_bytes)
    row: Row = {"refused": "no", "spill_guard": "silent" if is_counted else "no counter"}
    held: list[Tensor] = []
    try:
        while len(held) * _BLOCK_BYTES < nbytes:
            held.append(torch.empty(_BLOCK_BYTES, dtype=torch.uint8, device="cuda").fill_(1))
            torch.cuda.synchronize()
            guard.check("")
        time.sleep(_SETTLE_S)
        guard.check("")
    except torch.OutOfMemoryError:
        row["refused"] = "yes"
    except Spilled as spilled:
        row |= {"spill_guard": "triggered", "spilled_mib": spilled.spilled_bytes / 2**20}
    row["taken_mib"] = len(held) * _BLOCK_BYTES / 2**20
    held.clear()
    free_memory()
    return row
