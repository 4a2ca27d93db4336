"""A small copy in host memory that a GPU makes without the processor waiting for it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from engine.ops.transfer.pinned import pins


class HostCopy:
    """Copy of a tensor; made at once where there is no pinned memory.

    Args:
        x: Contiguous, on any device; may be dropped and changed afterwards.

    Memory: a pinned block of torch's own, given back with this object.
    """

    def __init__(self, x: Tensor) -> None:
        cuda: Any = torch.cuda  # its events have no types
        self._done: Any = None
        if not pins(x.device):
            self._values = x.cpu()
            return
        self._values = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
        self._values.copy_(x, non_blocking=True)
        self._done = cuda.Event()
        self._done.record(cuda.current_stream(x.device))

    @property
    def is_here(self) -> bool:
        """Whether `values` would not wait."""
        return self._done is None or bool(self._done.query())

    def values(self) -> Tensor:
        """The copy; waits until it is whole."""
        if self._done is not None:
            self._done.synchronize()
        return self._values
