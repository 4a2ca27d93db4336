"""What torch holds of the card and of main memory for it; looks only once torch is loaded."""

from __future__ import annotations

import sys
from typing import Any

from engine.hardware.gpu_reading import OwnMemory


def card_bytes() -> int:
    """Bytes of the card that torch has reserved in this process; 0 before it uses one."""
    cuda = _cuda()
    return int(cuda.memory_reserved()) if cuda is not None else 0


def pinned_bytes() -> int:
    """Bytes of main memory that are pinned for the card, by torch's own allocator and by us."""
    cuda = _cuda()
    if cuda is None:
        return 0
    found = int(cuda.host_memory_stats().get("allocated_bytes.current", 0))
    ours = sys.modules.get("engine.ops.transfer.pinned")
    return found + (ours.registered_bytes() if ours is not None else 0)


def _cuda() -> Any:
    """torch.cuda where it is loaded and has begun to use a card."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)  # None while another thread is loading it
    is_used = getattr(cuda, "is_initialized", None)
    return cuda if is_used is not None and is_used() else None


OWN = OwnMemory(card_bytes=card_bytes, pinned_bytes=pinned_bytes)
