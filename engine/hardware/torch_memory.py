"""torch's memory on the GPU and its limit; readings do not load torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.hardware.gpu_reading import OwnMemory

_LEAST_SHARE = 0.01  # of a GPU; less is an internal error


def gpu_bytes() -> int:
    """Bytes of the GPU that torch has reserved in this process; 0 before it uses one."""
    cuda = _cuda()
    return int(cuda.memory_reserved()) if cuda is not None else 0


def pinned_bytes() -> int:
    """Bytes of main memory that are pinned for the GPU, by torch's own allocator and by us."""
    cuda = _cuda()
    if cuda is None:
        return 0
    found = int(cuda.host_memory_stats().get("allocated_bytes.current", 0))
    ours = sys.modules.get("engine.ops.transfer.pinned")
    return found + (ours.registered_bytes() if ours is not None else 0)


@contextmanager
def within(budget_bytes: int) -> Iterator[None]:
    """Limit torch inside to these bytes of the first GPU; beyond it raises an OutOfMemoryError.

    So torch refuses before Windows moves GPU memory to main memory.

    Args:
        budget_bytes: Of the plan; 0 where a processor computes: nothing is limited.
    """
    import torch

    if not budget_bytes or not torch.cuda.is_available():
        yield
        return
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(share_of(budget_bytes, total), 0)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, 0)


def share_of(budget_bytes: int, total_bytes: int) -> float:
    """A budget as a share of the GPU's memory."""
    return max(_LEAST_SHARE, min(1.0, budget_bytes / total_bytes))


def _cuda() -> Any:
    """torch.cuda where it is loaded and uses a GPU; None elsewhere."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)  # None while another thread is loading it
    is_used = getattr(cuda, "is_initialized", None)
    return cuda if is_used is not None and is_used() else None


OWN = OwnMemory(gpu_bytes=gpu_bytes, pinned_bytes=pinned_bytes)
