"""Host memory that a card reads by itself while the processor does something else.

Not yet run on a GPU.
"""

from __future__ import annotations

import logging
from typing import Any

import torch

logger = logging.getLogger(__name__)

_cuda: Any = torch.cuda  # its runtime has no types


class HostBytes:
    """A stretch of main memory, pinned where the device is a card and the system allows it.

    torch's own pinned memory comes in powers of two, which would waste up to half of it; ordinary
    memory that is registered afterwards has exactly the size that was asked for.

    Args:
        nbytes: How many.
        device: Who reads it.
        pin: Whether to pin it at all.

    Attributes:
        flat: uint8 [nbytes], uninitialised at first.
        pinned: Whether copies from it run beside the processor.
    """

    def __init__(self, nbytes: int, device: torch.device, *, pin: bool = True) -> None:
        self.flat = torch.empty(nbytes, dtype=torch.uint8)
        self.pinned = pin and nbytes > 0 and device.type == "cuda" and self._register(device)

    def release(self) -> None:
        """Unpin it; tensors that look at it stay valid. No copy may be under way."""
        if self.pinned:
            _cuda.cudart().cudaHostUnregister(self.flat.data_ptr())
            self.pinned = False

    def _register(self, device: torch.device) -> bool:
        status = _cuda.cudart().cudaHostRegister(self.flat.data_ptr(), self.flat.nbytes, 0)
        if int(status) == 0:
            return True
        logger.warning("%d bytes could not be pinned (CUDA error %d)", len(self.flat), int(status))
        _swallow(device)
        return False


def _swallow(device: torch.device) -> None:
    """Let torch find the error of a refused call, which it would blame on its next kernel."""
    try:
        torch.zeros(1, device=device).add_(1)
    except RuntimeError as err:
        logger.debug("as expected: %s", err)
