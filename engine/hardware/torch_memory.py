"""torch's memory on the GPU and its limit, and its events; readings do not load torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from engine.core import gpu_loss
from engine.hardware import devices, shared_memory
from engine.hardware.gpu_reading import OwnMemory
from engine.protocol.report import MemoryPeak

_LEAST_SHARE = 0.01  # of a GPU; less is an internal error
_elsewhere = (0, 0, 0)  # in the process of the GPU that a job runs in: see `note_elsewhere`


def note_elsewhere(reserved: int, pinned: int, shared: int) -> None:
    """Keep what another process of this program has reported of its memory, in bytes.

    Args:
        reserved: Bytes of the GPU in use that torch has reserved there.
        pinned: Bytes of main memory pinned there.
        shared: Bytes of GPU memory that Windows keeps in main memory for it.
    """
    global _elsewhere
    _elsewhere = reserved, pinned, shared


def gpu_bytes(number: int | None = None) -> int:
    """Bytes of a GPU that torch has reserved in this program; 0 before it uses one.

    Args:
        number: Number of the CUDA device; None: the GPU in use, whatever the thread.
    """
    cuda, (elsewhere, *_) = _cuda(), _elsewhere
    if cuda is None and not elsewhere:
        return 0
    gpu = devices.in_use()
    used = 0 if gpu is None else gpu.number
    number = used if number is None else number
    own = 0 if cuda is None else int(cuda.memory_reserved(number))
    return own + (elsewhere if number == used else 0)


def take_peak() -> MemoryPeak | None:
    """The most of this thread's GPU since the last call; None before torch uses a GPU."""
    found = take_tensor_peak()
    if found is None:
        return None
    free, total = _cuda().mem_get_info()
    return replace(found, used=int(total - free))


def take_tensor_peak() -> MemoryPeak | None:
    """Memory of this process alone, without asking the driver about other programs."""
    cuda = _cuda()
    if cuda is None:
        return None
    found = cuda.memory_stats()
    cuda.reset_peak_memory_stats()
    allocated = int(found.get("allocated_bytes.all.peak", 0))
    return MemoryPeak(
        # "async" does not count what was requested
        requested=int(found.get("requested_bytes.all.peak", 0)) or allocated,
        allocated=allocated,
        reserved=int(found.get("reserved_bytes.all.peak", 0)),
    )


def timing_event() -> Any:
    """An event after all work so far of this thread's stream; None before torch uses a GPU."""
    cuda = _cuda()
    if cuda is None:
        return None
    event = cuda.Event(enable_timing=True)
    event.record()
    return event


def pinned_bytes() -> int:
    """Bytes of main memory that are pinned for the GPU, by torch's own allocator and by us."""
    cuda, found = _cuda(), _elsewhere[1]
    if cuda is None:
        return found
    found += int(cuda.host_memory_stats().get("allocated_bytes.current", 0))
    ours = sys.modules.get("engine.ops.transfer.pinned")
    return found + (ours.registered_bytes() if ours is not None else 0)


@contextmanager
def selected(device: str = devices.AUTO) -> Iterator[None]:
    """Inside, "cuda" means one GPU in this thread, and readings and limits are about that one.

    Args:
        device: Device as in the settings of a job; the fastest GPU where it names none installed.
    """
    import torch

    before = devices.use(device)
    gpu = devices.in_use()
    has_gpu = gpu is not None and device != devices.CPU and torch.cuda.is_available()
    try:
        with torch.cuda.device(gpu.number) if gpu is not None and has_gpu else nullcontext():
            yield
    finally:
        devices.use(before)


@contextmanager
def within(budget_bytes: int) -> Iterator[None]:
    """Limit torch inside to these bytes of this thread's GPU; beyond it raises an OutOfMemoryError.

    So torch refuses before Windows moves GPU memory to main memory.

    Args:
        budget_bytes: Budget of the plan; 0 where the CPU computes: nothing is limited.
    """
    import torch

    if not budget_bytes or not torch.cuda.is_available():
        yield
        return
    number = torch.cuda.current_device()
    total = torch.cuda.get_device_properties(number).total_memory
    torch.cuda.set_per_process_memory_fraction(share_of(budget_bytes, total), number)
    try:
        yield
    finally:
        if not gpu_loss.is_remembered():
            torch.cuda.set_per_process_memory_fraction(1.0, number)


def share_of(budget_bytes: int, total_bytes: int) -> float:
    """A budget as a share of the GPU's memory."""
    return max(_LEAST_SHARE, min(1.0, budget_bytes / total_bytes))


def _cuda() -> Any:
    """torch.cuda where it is loaded and uses a GPU; None elsewhere."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)  # None while another thread is loading it
    is_used = getattr(cuda, "is_initialized", None)
    return cuda if is_used is not None and is_used() else None


OWN = OwnMemory(
    gpu_bytes=gpu_bytes,
    pinned_bytes=pinned_bytes,
    shared_bytes=lambda: (shared_memory.own_bytes() or 0) + _elsewhere[2],
)
