"""Weights that stay in main memory or in a mapped file and visit the device when they are used.

Two or three buffers on the device alternate. While the device computes with one block, the next
one is copied by a stream of its own; nothing is ever copied back. On a CPU the same schedule
runs one step after the other: the file's values are converted block by block.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from engine.core.geometry import spread_indices
from engine.ops.precision import current
from engine.ops.transfer.flat_storage import FlatTensors, put_tensor
from engine.ops.transfer.pinned import HostBytes

_USUAL = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

Happening = Literal["copy", "begin", "end"]


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """A step of the host: for charts of the schedule, and tests."""

    what: Happening  # A copy was issued, work with a block began, or all of it was issued
    block: int  # index of the block
    slot: int  # buffer on the device
    at: float  # s of time.perf_counter(); on a GPU the work itself happens later


class WeightStream:
    """Keeps the weights of each of some modules on the device while it computes.

    Used by one thread at a time.

    Args:
        modules: The blocks in the order of use; their tensors are on the host, mapped or not.
        device: Device on which they compute.
        resident: Number of blocks that stay on the device, spread evenly among the streamed ones,
            so that each copy overlaps with as much computation as possible.
        buffers: Blocks on the device in addition to those.
        dtype: Parameters of usual floating-point types are converted to it; buffers and
            narrower formats stay as they are. None: all stay as they are.
        pin_bytes: Most host memory for prepared copies (for a GPU: pinned ones).
        keep_on_host: Names of tensors that are streamed in resident blocks too.
        trace: Receives an event for each step of the host; may be set later.

    Memory: on the device the resident blocks and, from the first use until `release`, `buffers`
        times the largest streamed one; on the host what is pinned, and for a GPU `buffers` times
        the largest one where not all are.
    """

    def __init__(
        self,
        modules: Sequence[nn.Module],
        *,
        device: str | torch.device,
        resident: int,
        buffers: int = 2,
        dtype: torch.dtype | None = None,
        pin_bytes: int = 0,
        keep_on_host: Callable[[str], bool] | None = None,
        trace: Callable[[StreamEvent], None] | None = None,
    ) -> None:
        if buffers < 1 or resident < 0:
            raise ValueError(f"{buffers} buffers, {resident} resident blocks")
        self.device, self._dtype, self.trace = torch.device(device), dtype, trace
        self._count = len(modules)
        self._hooks: list[RemovableHandle] = []
        stay = spread_indices(len(modules), resident)
        with torch.inference_mode(mode=False), torch.no_grad():
            blocks = {
                index: self._take_in(module, keep_on_host or _nothing if index in stay else _all)
                for index, module in enumerate(modules)
            }
            self._blocks = {index: block for index, block in blocks.items() if block is not None}
            overlaps = self.device.type == "cuda" and current().weights_stream
            kind = GpuBuffers if overlaps else DirectBuffers
            self._buffers = kind(self.device, self._blocks, buffers)
            self._buffers.pin(self._blocks, pin_bytes)

    @property
    def streamed(self) -> tuple[int, ...]:
        """Blocks of which something is streamed, in the order of use."""
        return tuple(self._blocks)

    @property
    def buffer_bytes(self) -> int:
        """Bytes of the buffers on the device, while they exist."""
        return self._buffers.nbytes

    @property
    def pinned_bytes(self) -> int:
        """Host memory that is pinned."""
        held = [block.host for block in self._blocks.values()]
        held += [slot.staging for slot in self._buffers.slots]
        return sum(host.flat.nbytes for host in held if host is not None and host.pinned)

    @contextmanager
    def block(self, index: int) -> Iterator[None]:
        """Inside, the tensors of a block are on the device.

        An error inside ends the visit; the next one finds its block again.

        Raises:
            IndexError: There is no such block, or the stream is closed.
            ValueError: More blocks at a time than there are buffers, or one twice.
            torch.OutOfMemoryError: From the copy.
        """
        self._begin(index)
        try:
            yield
        except BaseException:
            self._end(index)
            raise
        self._end(index)
        self._copy_ahead(index + 1)

    def attach(self, modules: Sequence[nn.Module]) -> Self:
        """Stream each block automatically whenever it is called."""
        for index, module in enumerate(modules):

            def come(*_: object, index: int = index) -> None:
                self._begin(index)

            def go(*_: object, index: int = index) -> None:
                self._end(index)
                self._copy_ahead(index + 1)

            self._hooks.append(module.register_forward_pre_hook(come))
            self._hooks.append(module.register_forward_hook(go, always_call=True))
        return self

    def release(self) -> None:
        """Free the buffers on the device until the next block is used; no block may be in use."""
        self._buffers.give_back()

    def close(self) -> None:
        """Give all buffers back; what was streamed is on the host again."""
        self._buffers.close()
        for hook in self._hooks:
            hook.remove()
        for block in self._blocks.values():
            block.tensors.use_own()
            if block.host is not None:
                block.host.release()
        self._hooks, self._blocks, self._count = [], {}, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, index: int) -> None:
        if not 0 <= index < self._count:
            raise IndexError(f"block {index} of {self._count}")
        if index not in self._blocks:
            return
        self._copy_ahead(index)
        slot = self._slot_of(index)
        if slot is None or slot.busy:
            raise ValueError(f"block {index} twice, or more blocks at a time than buffers")
        self._buffers.wait(slot)
        block = self._blocks[index]
        block.tensors.use(block.tensors_in(slot))
        slot.busy = True
        self._tell("begin", slot)

    def _end(self, index: int) -> None:
        slot = self._slot_of(index)
        if slot is None or not slot.busy:
            return
        self._buffers.release(slot)
        self._blocks[index].tensors.use_own()
        slot.busy = False
        self._tell("end", slot)

    def _copy_ahead(self, index: int) -> None:
        """Have the next blocks from this one on in the buffers; after the last the first again."""
        later = [streamed for streamed in self._blocks if streamed >= index]
        first = [streamed for streamed in self._blocks if streamed < index]
        wanted = (later + first)[: len(self._buffers.slots)]
        for streamed in wanted:
            slot = self._free_slot(wanted) if self._slot_of(streamed) is None else None
            if slot is not None:
                slot.block = None  # after an error the buffer is empty
                self._buffers.copy(self._blocks[streamed], slot)
                slot.block = streamed
                self._tell("copy", slot)

    def _slot_of(self, index: int) -> Slot | None:
        return next((slot for slot in self._buffers.slots if slot.block == index), None)

    def _free_slot(self, wanted: Sequence[int]) -> Slot | None:
        slots = self._buffers.slots
        return next((slot for slot in slots if not slot.busy and slot.block not in wanted), None)

    def _tell(self, what: Happening, slot: Slot) -> None:
        if self.trace is not None and slot.block is not None:
            self.trace(StreamEvent(what, slot.block, slot.index, time.perf_counter()))

    def _take_in(self, module: nn.Module, goes: Callable[[str], bool]) -> StreamedBlock | None:
        """Move tensors that stay to the device; the others, if any, become a streamed block."""
        coming: dict[str, torch.dtype] = {}
        for name, tensor in list(chain(module.named_parameters(), module.named_buffers())):
            if goes(name):
                coming[name] = self._dtype_of(tensor)
            else:
                path, _, leaf = name.rpartition(".")
                there = tensor.to(self.device, self._dtype_of(tensor))
                put_tensor(module.get_submodule(path), leaf, there)
        return StreamedBlock(FlatTensors(module, coming)) if coming else None

    def _dtype_of(self, tensor: Tensor) -> torch.dtype:
        usual = isinstance(tensor, nn.Parameter) and tensor.dtype in _USUAL
        return self._dtype if usual and self._dtype is not None else tensor.dtype


def _all(_: str) -> bool:
    return True


def _nothing(_: str) -> bool:
    return False


# --- buffers on a device that blocks use alternately


_cuda: Any = torch.cuda  # its streams have no types


@dataclass(slots=True, eq=False)
class StreamedBlock:
    """Tensors of a module that are copied to the device for each use."""

    tensors: FlatTensors  # the tensors and their layout
    # The whole copy on the host, ready to go; None: assembled for each use.
    host: HostBytes | None = None
    # The tensors in each buffer that the block has been in.
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
    """One buffer on the device."""

    index: int
    flat: Tensor
    block: int | None = None  # index of its block, also of one that is being copied; None: empty
    busy: bool = False  # whether work is using it
    # Buffer in which a block without a whole copy on the host is assembled.
    staging: HostBytes | None = None
    filled: torch.cuda.Event | None = None  # end of the last copy into it
    released: torch.cuda.Event | None = None  # end of the last work with it


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
