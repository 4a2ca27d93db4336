"""Buffers on a device that blocks of weights use alternately, and the copies into them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from engine.ops.transfer.flat_storage import FlatTensors
from engine.ops.transfer.pinned import HostBytes

_cuda: Any = torch.cuda  # its streams have no types


@dataclass(slots=True, eq=False)
class StreamedBlock:
    """Tensors of a module that are copied to the device for each use.

    Attributes:
        tensors: Which, and their layout.
        host: The whole copy on the host, ready to go; None: assembled for each use.
        views: The tensors in each buffer that the block has been in.
    """

    tensors: FlatTensors
    host: HostBytes | None = None
    views: dict[int, list[Tensor]] = field(default_factory=dict)

    def tensors_in(self, slot: Slot) -> list[Tensor]:
        """Its tensors in a buffer."""
        if slot.index not in self.views:
            self.views[slot.index] = self.tensors.views(slot.flat)
        return self.views[slot.index]

    def write(self, flat: Tensor) -> None:
        """Assemble it in bytes on the host."""
        if self.host is None:
            self.tensors.pack(flat)
        else:
            flat[: self.tensors.nbytes].copy_(self.host.flat)


@dataclass(slots=True, eq=False)
class Slot:
    """One buffer on the device.

    Attributes:
        block: Index of its block, also of one that is being copied; None: empty.
        busy: Whether work is using it.
        staging: Buffer in which a block without a whole copy on the host is assembled.
        filled, released: When the last copy into it, and the last work with it, are done.
    """

    index: int
    flat: Tensor
    block: int | None = None
    busy: bool = False
    staging: HostBytes | None = None
    filled: torch.cuda.Event | None = None
    released: torch.cuda.Event | None = None


class DirectBuffers:
    """Buffers that are filled at once, without a stream; allocated when they are first filled."""

    def __init__(
        self, device: torch.device, blocks: Mapping[int, StreamedBlock], count: int
    ) -> None:
        self.device, self._blocks = device, blocks
        self._size = max((block.tensors.nbytes for block in blocks.values()), default=0)
        self.slots = [Slot(index, self._memory(0)) for index in range(min(count, len(blocks)))]

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers, allocated or not."""
        return self._size * len(self.slots)

    def pin(self, blocks: Mapping[int, StreamedBlock], most_bytes: int) -> None:
        """Keep the first blocks ready on the host, in no more bytes than these."""
        for block in blocks.values():
            most_bytes -= block.tensors.nbytes
            if most_bytes < 0:
                break
            block.host = HostBytes(block.tensors.nbytes, self.device)
            block.tensors.pack(block.host.flat)
            block.tensors.settle(block.host.flat)

    def copy(self, block: StreamedBlock, slot: Slot) -> None:
        """Fill a buffer that no work is using."""
        self._open(slot)
        block.write(slot.flat)

    def wait(self, slot: Slot) -> None:
        """Work that is issued from now on finds the buffer filled."""

    def release(self, slot: Slot) -> None:
        """Work that was issued so far is the last to read it."""

    def give_back(self) -> None:
        """Free the memory on the device until the next copy; no work may be using it."""
        for block in self._blocks.values():
            block.views.clear()
        for slot in self.slots:
            slot.flat, slot.block = self._memory(0), None  # its events stay: staging may be read

    def _open(self, slot: Slot) -> bool:
        """Allocate a buffer that has no memory; whether it had none."""
        if slot.flat.nbytes:
            return False
        slot.flat = self._memory(self._size)
        return True

    def _memory(self, size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8, device=self.device)

    def close(self) -> None:
        """Give everything back."""
        self.give_back()
        for slot in self.slots:
            if slot.staging is not None:
                slot.staging.release()
        self.slots = []


class GpuBuffers(DirectBuffers):
    """Buffers on a GPU, filled by a stream of its own during the computation.

    A copy waits for the last work with its buffer, and work waits for its copy, both on the GPU:
    the host runs ahead of either.
    """

    def __init__(
        self, device: torch.device, blocks: Mapping[int, StreamedBlock], count: int
    ) -> None:
        super().__init__(device, blocks, count)
        self._copies: torch.cuda.Stream = _cuda.Stream(device)

    def pin(self, blocks: Mapping[int, StreamedBlock], most_bytes: int) -> None:
        """Keep the first blocks ready, and if not all, pin memory to assemble the others in."""
        if sum(block.tensors.nbytes for block in blocks.values()) > most_bytes:
            pin = self.nbytes <= most_bytes
            most_bytes -= self.nbytes
            for slot in self.slots:
                slot.staging = HostBytes(self._size, self.device, pin=pin)
        super().pin(blocks, most_bytes)

    def copy(self, block: StreamedBlock, slot: Slot) -> None:
        """Fill a buffer as soon as the work with it is done."""
        if self._open(slot):  # earlier users of the memory
            self._copies.wait_stream(torch.cuda.current_stream(self.device))
        source = block.host or slot.staging
        if source is None:
            raise ValueError("a block that is not on the host needs memory to be assembled in")
        if source is slot.staging:
            if slot.filled is not None:
                slot.filled.synchronize()  # the GPU still reads the block before
            block.write(source.flat)
        if slot.released is not None:
            self._copies.wait_event(slot.released)
        size = block.tensors.nbytes
        with torch.cuda.stream(self._copies):
            slot.flat[:size].copy_(source.flat[:size], non_blocking=True)
        slot.filled = self._copies.record_event()

    def wait(self, slot: Slot) -> None:
        """The computing stream waits for the copy."""
        if slot.filled is not None:
            torch.cuda.current_stream(self.device).wait_event(slot.filled)

    def release(self, slot: Slot) -> None:
        """The next copy waits for the computing stream."""
        slot.released = torch.cuda.current_stream(self.device).record_event()

    def give_back(self) -> None:
        """Free the memory on the GPU, for work that is issued from now on."""
        torch.cuda.current_stream(self.device).wait_stream(self._copies)
        super().give_back()

    def close(self) -> None:
        """Give everything back once the GPU is done with it."""
        torch.cuda.synchronize(self.device)
        super().close()
