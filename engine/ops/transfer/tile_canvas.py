"""Transfer of finished tiles to the host: rounded on the device, copied meanwhile, added there.

The weights of tiles are integers that add up to 65535 at every pixel (tiling.blend.tile_weights). A
value v within [0, 1] times a weight W is at most W, also after rounding, because W is an
integer; so the sum of all rounded tiles is at most 65535 and 16 bits never overflow.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.core.errors import NumericOverflow
from engine.core.geometry import Box, Size
from engine.ops.precision import current

_WHITE = 65535
_PENDING = 2  # parts that are being copied to the host at a time


class TileSink:
    """A clip on the host in 16 bits, assembled from tiles.

    Each value differs from the blend of the same tiles in exact arithmetic by at most 0.52 codes
    for each tile that counts there (half a code of rounding, the rest float32), of 65535 codes.
    Out of range is clipped before it is blended.

    Memory: the canvas, 6 bytes for each pixel of each frame, on the host. On a CUDA device also two
    parts in pinned host memory, and on the device the codes of at most three parts and one frame of
    a part in float32 and int32.
    """

    def __init__(self, frames: int, size: Size) -> None:
        # int16 adds as uint16 does, bit for bit, and torch has no sums of uint16
        self._canvas = torch.zeros((frames, size.height, size.width, 3), dtype=torch.int16)
        self._transfer: _Transfer | None = None
        self._are_finite: list[Tensor] = []  # of each part, on the stream that it came on
        self._narrow = ""

    def add(self, part: Tensor, window: Box, start: int, weight: Tensor | None = None) -> None:
        """Round a part on its device and send it to the canvas.

        Args:
            part: Some frames of a tile, without what is outside of its window:
                [T, 3, window.height, window.width] in [-1, 1], not clipped.
            window: Its box on the canvas.
            start: Its first frame.
            weight: [height, width] float32, whole numbers up to 65535; None: 65535 everywhere.
        """
        least, most = torch.aminmax(part.detach())
        self._are_finite.append(torch.isfinite(least) & torch.isfinite(most))  # without waiting
        self._narrow = str(part.dtype).removeprefix("torch.")
        codes = quantised(part, _WHITE if weight is None else weight)
        place = _PartPlace(start, window, adds=weight is not None)
        if self._transfer is None:
            self._transfer = _transfer_from(part.device, self._arrive)
        self._transfer.send(codes, place)

    def check(self) -> None:
        """Raise if a part since the last check had a value that is NaN or infinite.

        One value is read back from the device, so this waits for all of its work so far.

        Raises:
            NumericOverflow: NaN or infinite; the planner takes a wider format.
        """
        are_finite, self._are_finite = self._are_finite, []
        if not are_finite or bool(torch.stack(are_finite).all()):
            return
        raise NumericOverflow("decoder", dtype=self._narrow)

    def result(self) -> Tensor:
        """The clip [T, H, W, 3], uint16, on the host; waits for pending parts.

        Raises:
            NumericOverflow: As `check`.
        """
        self.check()
        if self._transfer is not None:
            self._transfer.finish()
            self._transfer = None  # a cycle with this sink would keep the canvas
        return self._canvas.view(torch.uint16)

    def _arrive(self, codes: Tensor, place: _PartPlace) -> None:
        box = place.window
        frames = self._canvas[place.start : place.start + len(codes)]
        target = frames[:, box.y : box.bottom, box.x : box.right]
        if place.adds:
            target += codes
        else:
            target.copy_(codes)


def quantised(part: Tensor, weight: Tensor | int) -> Tensor:
    """Values times a weight as integers, channels last, on the part's own device.

    Args:
        part: [T, 3, H, W] in [-1, 1], any float dtype; clipped.
        weight: Code of 1.0: one for all, or for each pixel [H, W] float32 whole numbers.

    Returns:
        [T, H, W, 3] int16 with the bits of uint16, contiguous.
    """
    frames = part.permute(0, 2, 3, 1)
    codes = torch.empty(frames.shape, dtype=torch.int16, device=part.device)
    factor = weight[..., None].to(part.device) if isinstance(weight, Tensor) else weight
    for frame, into in zip(frames, codes, strict=True):
        values = frame.to(torch.float32, memory_format=torch.contiguous_format, copy=True)
        values.mul_(0.5).add_(0.5).clamp_(0, 1).mul_(factor).round_()
        into.copy_(values.to(torch.int32))  # int32 to int16 keeps the bits; float32 would not
    return codes


@dataclass(frozen=True, slots=True)
class _PartPlace:
    """Destination of a part on the canvas, and whether it is added to values that are there."""

    start: int
    window: Box
    adds: bool


Arrive = Callable[[Tensor, _PartPlace], None]


class _Transfer(Protocol):
    """Transfer of codes from the device to the host."""

    def send(self, codes: Tensor, place: _PartPlace) -> None: ...

    def finish(self) -> None: ...


def _transfer_from(device: torch.device, arrive: Arrive) -> _Transfer:
    overlaps = device.type == "cuda" and current().copy_stream
    return _StreamTransfer(device, arrive) if overlaps else _DirectTransfer(arrive)


class _DirectTransfer:
    """Copies at once: for the CPU, where nothing is copied, and devices without streams."""

    def __init__(self, arrive: Arrive) -> None:
        self._arrive = arrive

    def send(self, codes: Tensor, place: _PartPlace) -> None:
        self._arrive(codes.cpu(), place)

    def finish(self) -> None:
        pass


@dataclass(slots=True)
class _PendingPart:
    """A part in pinned memory; valid once `done` has happened."""

    buffer: Tensor
    pinned: Tensor  # the buffer, shaped as codes
    codes: Tensor
    place: _PartPlace
    done: torch.cuda.Event


class _StreamTransfer:
    """Copies into pinned memory on a stream of its own, while the device computes the next part.

    Tested with streams that copy as late as they are allowed to.

    Memory: two pinned buffers as large as the largest part; a third part waits for the first.
    """

    def __init__(self, device: torch.device, arrive: Arrive) -> None:
        self._device = device
        self._arrive = arrive
        cuda: Any = torch.cuda  # its streams and events have no types
        self._stream = cuda.Stream(device)
        self._event = cuda.Event
        self._buffers = [_pinned(0) for _ in range(_PENDING)]
        self._pending: deque[_PendingPart] = deque()
        # Where an error drops this, memory that copies still read must not serve others.
        weakref.finalize(self, _await_all, self._pending).atexit = False

    def send(self, codes: Tensor, place: _PartPlace) -> None:
        if len(self._pending) == _PENDING:
            self._receive()
        buffer, pinned = self._free_buffer(codes)
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            pinned.copy_(codes, non_blocking=True)
            done = self._event()
            done.record(self._stream)
        self._pending.append(_PendingPart(buffer, pinned, codes, place, done))

    def finish(self) -> None:
        while self._pending:
            self._receive()

    def _receive(self) -> None:
        """Wait for the oldest part; its codes are held until then and not overwritten."""
        part = self._pending.popleft()
        part.done.synchronize()
        self._arrive(part.pinned, part.place)
        self._buffers.append(part.buffer)

    def _free_buffer(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        buffer = self._buffers.pop(0)
        if buffer.nbytes < codes.nbytes:
            buffer = _pinned(codes.nbytes)
        return buffer, buffer[: codes.nbytes].view(codes.dtype).view(codes.shape)


def _await_all(pending: deque[_PendingPart]) -> None:
    for part in pending:
        part.done.synchronize()


def _pinned(size: int) -> Tensor:
    return torch.empty(size, dtype=torch.uint8, pin_memory=current().pinned_transfers)
