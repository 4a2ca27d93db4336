"""Host memory that a GPU reads and writes by itself while the CPU does other work."""

from __future__ import annotations

import logging
import weakref
from typing import Any

import torch
from torch import Tensor

from engine.ops.precision import current

logger = logging.getLogger(__name__)

_cuda: Any = torch.cuda  # its runtime has no types
_registered: dict[int, int] = {}  # bytes by address


def registered_bytes() -> int:
    """Main memory that is pinned now by `HostBytes`; from any thread."""
    return sum(tuple(_registered.values()))


def pins(device: torch.device) -> bool:
    """Whether transfers of a device use pinned memory."""
    return device.type == "cuda" and current().pinned_transfers


class HostBytes:
    """A buffer of main memory, pinned where the device is a GPU and the system allows it.

    torch's own pinned memory comes in powers of two, which would waste up to half of it; ordinary
    memory that is registered afterwards has exactly the size that was asked for. It is released
    with this object at the latest.

    Args:
        nbytes: Its size.
        device: Device that reads it.
        pin: False leaves it pageable.

    Attributes:
        flat: uint8 [nbytes], uninitialised at first.
    """

    def __init__(self, nbytes: int, device: torch.device, *, pin: bool = True) -> None:
        self.flat = torch.empty(nbytes, dtype=torch.uint8)
        self._unpin: weakref.finalize[..., HostBytes] | None = None
        if pin and nbytes and pins(device) and _register(self.flat, device):
            self._unpin = weakref.finalize(self, _unregister, self.flat.data_ptr(), device)

    @property
    def pinned(self) -> bool:
        """Whether copies from it run while the CPU does other work."""
        return self._unpin is not None and self._unpin.alive

    def release(self) -> None:
        """Unpin it once no copy is pending; tensors that view it stay valid."""
        if self._unpin is not None:
            self._unpin()


def _register(flat: torch.Tensor, device: torch.device) -> bool:
    status = int(_cuda.cudart().cudaHostRegister(flat.data_ptr(), flat.nbytes, 0))
    if status:
        logger.warning("%d bytes could not be pinned (CUDA error %d)", flat.nbytes, status)
        _swallow(device)
    else:
        _registered[flat.data_ptr()] = flat.nbytes
    return status == 0


def _unregister(address: int, device: torch.device) -> None:
    _cuda.synchronize(device)
    _cuda.cudart().cudaHostUnregister(address)
    _registered.pop(address, None)


def _swallow(device: torch.device) -> None:
    """Let torch find the error of a refused call, which it would blame on its next kernel."""
    try:
        torch.zeros(1, device=device).add_(1)
    except RuntimeError as err:
        logger.debug("as expected: %s", err)


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
