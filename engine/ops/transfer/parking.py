"""Main memory where tensors of a GPU wait until the GPU needs them again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from engine.ops.transfer.pinned import HostBytes

_ALIGNMENT = 64  # bytes, of every tensor in a buffer


class Parking:
    """Buffers that are pinned once and used again for the same key.

    What lies in a buffer is valid until the key is parked again. Tensors that are in main memory
    already stay where they are.

    Args:
        pin_bytes: Most bytes that are pinned; buffers beyond are pageable.

    Memory: a buffer of the size of its tensors for each key, until `release`.
    """

    def __init__(self, pin_bytes: int = 0) -> None:
        self._left = pin_bytes
        self._buffers: dict[Hashable, HostBytes] = {}

    def park(self, key: Hashable, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Copies in main memory, with the strides of dense tensors; all copied on return.

        From a pinned buffer they can go back while the CPU does other work. They leave it
        in the order of the stream, so that nothing is overwritten that is still read.

        Args:
            key: Key of the buffer.
            tensors: All on one device.
        """
        if not tensors or tensors[0].device.type == "cpu":
            return list(tensors)
        starts, size = _places(tensors)
        buffer = self._buffer(key, size, tensors[0].device)
        parked = [_shaped(buffer.flat[start:], x) for start, x in zip(starts, tensors, strict=True)]
        for target, x in zip(parked, tensors, strict=True):
            target.copy_(x, non_blocking=buffer.pinned)
        if buffer.pinned:
            torch.cuda.current_stream(tensors[0].device).synchronize()
        return parked

    def release(self) -> None:
        """Give the buffers back; what lies in them stays valid."""
        for buffer in self._buffers.values():
            buffer.release()
        self._buffers = {}

    def _buffer(self, key: Hashable, size: int, device: torch.device) -> HostBytes:
        found = self._buffers.pop(key, None)
        if found is None or found.flat.nbytes < size:
            if found is not None:
                self._left += found.flat.nbytes if found.pinned else 0
                found.release()
            found = HostBytes(size, device, pin=size <= self._left)
            self._left -= size if found.pinned else 0
        self._buffers[key] = found
        return found


def _places(tensors: Sequence[Tensor]) -> tuple[list[int], int]:
    """Offsets of tensors in a buffer, and its size; bytes."""
    starts, end = [], 0
    for x in tensors:
        starts.append(end)
        end += -(-x.nbytes // _ALIGNMENT) * _ALIGNMENT
    return starts, end


def _shaped(flat: Tensor, like: Tensor) -> Tensor:
    """The first bytes of a buffer as a tensor of the same shape, dtype and, if dense, strides."""
    values = flat[: like.nbytes].view(like.dtype)
    strides = torch.empty_like(like, device="meta").stride()
    return values.as_strided(like.shape, strides)
