"""Telling that memory ran out from other mistakes."""

from __future__ import annotations

import torch


def is_out_of_memory(error: BaseException) -> bool:
    """True for a refusal of the card's allocator or of the processor's."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        "not enough memory" in str(error)
    )
