"""One slice through the fast form, counting the bytes that are alive instead of computing.

What `vae_fast`, `fast_parts`, `fast_resample`, `taps` and `frame_conv` take and give back, in their
order and under their names: whoever changes memory there changes it here. The tests compare both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from engine.geometry import Size
from engine.models.cost_ledger import Kind, Ledger, Work
from engine.models.parts import Attention, Block, Conv, Entry, Exit
from engine.models.seedvr2.parts import Part, Up

_PHASE_BYTES = 96 * 2**20  # as in fast_resample
_SCORES_BYTES = 64 * 2**20  # as in single_head
_NORM_BYTES = 2 * 2**20  # a block of a norm on a processor
_KEYS = 512  # of a block of torch's attention on a processor


@dataclass(frozen=True, slots=True)
class Slice:
    """Frames at the start of the parts, and whether the clip starts and ends with them."""

    frames: int
    first: bool
    last: bool


class Walk:
    """One slice on its way.

    Args:
        work: What is asked.
        ledger: Of the clip.
        piece: The slice.
        size: Of a frame at the start.
        channels: At the start.

    Attributes:
        frames: In the stream at the moment.
        size: Of a frame at the moment.
        channels: At the moment.
    """

    def __init__(self, work: Work, ledger: Ledger, piece: Slice, size: Size, channels: int) -> None:
        self.frames, self.size, self.channels = piece.frames, size, channels
        self._first, self._last = piece.first, piece.last
        self._work, self._ledger = work, ledger
        self._switches = work.switches
        ledger.take("stream", self.stream_bytes)

    @property
    def stream_bytes(self) -> int:
        """Bytes of the residual stream."""
        return self.frames * self._frame(self.channels)

    def run(self, parts: list[Part]) -> None:
        """Through all parts."""
        for part in parts:
            match part:
                case Entry(conv):
                    self._entry(conv)
                case Exit(conv):
                    self._exit(conv)
                case Block():
                    self._block(part)
                case Attention(width):
                    self._attention(width)
                case Up():
                    self._folded_up(part) if self._switches.upsampler_fold else self._up(part)

    def _frame(self, channels: int, pad: int = 0) -> int:
        return channels * (self.size.width + pad) * (self.size.height + pad) * self._work.item

    def _entry(self, conv: Conv) -> None:
        before = self.stream_bytes
        with self._window(conv, norm=False):
            self._over(conv, "stream")
        self._ledger.drop("stream", before)
        self._leave(conv)

    def _exit(self, conv: Conv) -> None:
        with self._window(conv):
            self._ledger.drop("stream", self.stream_bytes)
            self._over(conv, "stream")
        self._leave(conv)

    def _leave(self, conv: Conv) -> None:
        """The stream has the frames, size and width that a convolution gives."""
        self.frames = self._steps(conv)
        self.size = Size(
            self.size.width // conv.space_stride, self.size.height // conv.space_stride
        )
        self.channels = conv.outer

    def _block(self, block: Block) -> None:
        ledger, before = self._ledger, self.stream_bytes
        with self._window(block.first):
            self._over(block.first, "inner")
        inner = self.frames * self._frame(block.first.outer)
        self.channels = block.first.outer
        with self._window(block.second):
            ledger.drop("inner", inner)
            if block.shortcut is not None:
                self._apply(block.shortcut, 1, self.frames, "stream")
                ledger.drop("stream", before)
            if self._switches.in_place:
                self._over(block.second, None)
                return
            self._over(block.second, "inner")
            ledger.take("stream", self.stream_bytes)
        ledger.drop("stream", self.stream_bytes)
        ledger.drop("inner", self.stream_bytes)

    def _attention(self, width: int) -> None:
        whole = self.stream_bytes
        self._open_window(whole, "attention")
        with self._ledger.held("sums", self._norm_bytes(width, silu=False)):
            pass
        copies = 3 if self._switches.channels_last else 4
        with self._ledger.held("inner", copies * whole):
            tokens = self.size.pixels
            with self._ledger.held("sums", self._scores_bytes(tokens) + 4 * self.frames * tokens):
                self._ledger.take("inner", whole, "attention")
            results = 1 if self._switches.in_place else 2
            with self._ledger.held("inner", results * whole, "attention"):
                pass
        self._ledger.drop("inner", whole)
        self._close_window(whole)

    def _scores_bytes(self, tokens: int) -> int:
        if self._work.device == "cpu":
            queries = 256 if tokens >= 768 else 64 if tokens >= 192 else 32
            return queries * ((4 + self._work.item % 4) * _KEYS + 4 * (self.channels + 2))
        if self._switches.chunked_attention:
            return 2 * min(_SCORES_BYTES, tokens * tokens * 4)
        return 2 * self.frames * tokens * tokens * self._work.item

    def _up(self, up: Up) -> None:
        ledger = self._ledger
        before, wide = self.stream_bytes, self.frames * self._frame(up.widen.outer)
        self._apply(up.widen, 1, self.frames, "inner")
        ledger.drop("stream", before)
        self.frames, self.size = up.times * self.frames, self.size.scaled(2)
        ledger.take("stream", self.stream_bytes, up.conv.name)
        ledger.drop("inner", wide)
        dropped = self._frame(up.conv.inner) if self._first and up.times > 1 else 0
        if dropped:
            self.frames -= 1
        self._entry(up.conv)
        ledger.drop("stream", dropped)

    def _folded_up(self, up: Up) -> None:
        ledger, frame, source = self._ledger, self._frame(self.channels), self.stream_bytes
        kept = (up.conv.taps - 1) // up.times
        frames = self.frames
        total = up.times * frames - (up.times - 1) * self._first
        ledger.take("stream", 4 * total * frame, up.conv.name)
        if not self._first:
            ledger.take("inner", (kept + frames) * frame, up.conv.name)
        self._keep(up.conv, kept * frame)
        if not self._first:
            ledger.drop("stream", source)
        self._phases(up, kept + 1)
        if self._first:
            ledger.drop("stream", source)
        else:
            ledger.drop("inner", (kept + frames) * frame)
        self.frames, self.size = total, self.size.scaled(2)

    def _phases(self, up: Up, reach: int) -> None:
        """The small convolutions of a folded upsampler, some source frames at a time."""
        one = up.times * 4 * self._frame(self.channels, 1)
        kernel = up.times * 4 * 4 * up.conv.kernel // up.conv.side**2
        rest = self.frames
        if self._first:
            rest = max(0, rest - 2)
            self._phases_of_two(up, one, kernel)
        if not rest:
            return
        chunk = max(1, _PHASE_BYTES // one) if self._switches.chunked_upsampling else rest
        chunk = min(chunk, rest)
        inner = self._frame(self.channels)
        extra = self._extra_bytes(kernel, reach, chunk * inner, (chunk + reach - 1) * inner)
        if self._work.adds_up and not self._work.adds_in_place:
            extra += chunk * one
        with (
            self._ledger.held("sums", extra),
            self._ledger.held("phases", chunk * one, up.conv.name),
        ):
            pass

    def _phases_of_two(self, up: Up, one: int, kernel: int) -> None:
        """The phases of a clip's first two source frames, one after the other."""
        work = self._work
        if self.frames == 1:
            extra, phases = 2 * kernel * work.item // up.times, one // up.times
        else:
            extra, phases = 4 * kernel * work.item, one
            if not work.is_3d:
                extra += 2 * self._frame(self.channels)
            extra += one if work.adds_up and not work.adds_in_place else 0
        with self._ledger.held("sums", extra), self._ledger.held("phases", phases, up.conv.name):
            pass

    @contextmanager
    def _window(self, conv: Conv, *, norm: bool = True) -> Iterator[None]:
        """The window of a convolution, filled; inside it is convolved."""
        if conv.side == 1:
            yield
            return
        size = (self._before(conv) + self.frames) * self._frame(conv.inner, conv.pad)
        filling = self._norm_bytes(conv.inner) if norm else 0
        if self._switches.ring_buffers:
            self._open_window(size, conv.name)
            with self._ledger.held("sums", filling, conv.name):
                pass
        else:
            self._joined(conv, filling)
        self._keep(conv, conv.history * self._frame(conv.inner, conv.pad))
        yield
        if not self._switches.ring_buffers:
            self._ledger.drop("window", size)
        else:
            self._close_window(size)

    def _joined(self, conv: Conv, filling: int) -> None:
        """A window without a ring: filled, padded, joined, each in fresh memory."""
        ledger, padded = self._ledger, self.frames * self._frame(conv.inner, conv.pad)
        fresh = self.frames * self._frame(conv.inner)
        ledger.take("window", fresh, conv.name)
        with ledger.held("sums", filling, conv.name):
            pass
        if conv.pad:
            ledger.take("window", padded, conv.name)
            ledger.drop("window", fresh)
        before = self._before(conv)
        if before:
            ledger.take("window", padded + before * self._frame(conv.inner, conv.pad), conv.name)
            ledger.drop("window", padded)

    def _open_window(self, size: int, name: str) -> None:
        if self._switches.planned_buffers:
            self._ledger.plan(size, name)
        else:
            self._ledger.take("window", size, name)

    def _close_window(self, size: int) -> None:
        if not self._switches.planned_buffers:
            self._ledger.drop("window", size)

    def _keep(self, conv: Conv, size: int) -> None:
        if not self._last:
            self._ledger.keep(conv.name, size)

    def _before(self, conv: Conv) -> int:
        if not self._first:
            return conv.history
        return 0 if self._folds else conv.taps - 1

    @property
    def _folds(self) -> bool:
        switches = self._switches
        return switches.first_frame_fold or (switches.image_mode and self.frames == 1)

    def _steps(self, conv: Conv) -> int:
        return (self.frames - self._first) // conv.time_stride + self._first

    def _norm_bytes(self, channels: int, *, silu: bool = True) -> int:
        """What a norm takes beside its input and its result."""
        if not self._switches.fused_norm:
            return (2 if silu else 1) * self.frames * self._frame(channels)
        if self._work.device == "cuda" and self._switches.kernels:
            return 0
        frame = channels * self.size.pixels * max(4, self._work.item)
        return frame if self._work.device == "cuda" else min(frame, _NORM_BYTES)

    def _over(self, conv: Conv, out: Kind | None) -> None:
        """Convolve a window into a new result, or add it to the stream."""
        steps = self._steps(conv)
        if not (self._first and self._folds and conv.taps > 1):
            self._regular(conv, steps, out)
        elif self.frames == 1:
            self._apply(conv, 1, 1, out)
        else:
            self._over_first(conv, steps, out)

    def _over_first(self, conv: Conv, steps: int, out: Kind | None) -> None:
        """As `FrameConv.run_first` on several frames."""
        ledger, head, result = self._ledger, 2 if conv.time_stride == 1 else 1, self._result(conv)
        if self._work.adds_up and head == 2:
            self._apply(conv, 1, steps, out)
            with ledger.held("sums", result, conv.name):
                pass
            if steps > head:
                self._apply(conv, conv.taps - 1, steps - head, None)
            return
        with ledger.held("sums", head * result, conv.name):
            with ledger.held("sums", self._folding_bytes(conv), conv.name):
                pass
            if steps > head:
                self._regular(conv, steps - head, "sums")
            ledger.take(out or "sums", steps * result, conv.name)
            ledger.drop("sums", (steps - head) * result)
        if out is None:
            ledger.drop("sums", steps * result)

    def _folding_bytes(self, conv: Conv) -> int:
        """Tables of the first frame, made anew in each clip."""
        exact = max(4, self._work.item)
        return conv.kernel * ((conv.taps + 1) * exact + self._work.item)

    def _regular(self, conv: Conv, steps: int, out: Kind | None) -> None:
        """As `FrameConv.run`."""
        winograd = self._switches.temporal_winograd and conv.taps > 1 and conv.time_stride == 1
        if not winograd or steps < 2:
            self._apply(conv, conv.taps, steps, out)
            return
        even, result = steps - steps % 2, self._result(conv)
        inputs = even // 2 * self._frame(conv.inner)
        products = 4 * (even // 2) * result
        with self._ledger.held("sums", (4 * inputs if even > 2 else 0) + products, conv.name):
            with self._ledger.held("sums", inputs + 2 * conv.kernel * self._work.item, conv.name):
                pass
            self._ledger.take(out or "sums", steps * result, conv.name)
            with self._ledger.held("sums", (steps - even) * result, conv.name):
                pass
        if out is None:
            self._ledger.drop("sums", steps * result)

    def _apply(self, conv: Conv, taps: int, steps: int, out: Kind | None) -> None:
        """As `Taps.apply`."""
        work, result = self._work, steps * self._result(conv)
        part = steps * self._frame(conv.inner, conv.pad)
        window = (self._before(conv) + self.frames) * self._frame(conv.inner, conv.pad)
        extra = self._extra_bytes(conv.kernel, taps, part, window)
        if taps == 1 or work.adds_up:
            extra += part if conv.time_stride > 1 and steps > 1 else 0
            adds = out is None or taps > 1
            extra += result if adds and not work.adds_in_place else 0
        elif out is None:
            extra += result
        if work.is_half and conv.side == 1 and not self._switches.channels_last:
            extra += self._frame(conv.inner)  # oneDNN's own
        with self._ledger.held("sums", extra, conv.name):
            if out is not None:
                self._ledger.take(out, result, conv.name)

    def _extra_bytes(self, kernel: int, taps: int, part: int, window: int) -> int:
        """Copies of weights and of frames while a convolution runs.

        Args:
            kernel: Numbers of one tap.
            taps: How many.
            part: Bytes of the frames that one tap sees.
            window: Bytes of the frames that all taps see.
        """
        weights, scattered = kernel * self._work.item, not self._switches.channels_last
        if taps == 1 or self._work.adds_up:
            return 2 * weights + part * scattered
        if self._work.is_3d:
            return taps * weights + window * scattered
        return 2 * taps * weights + taps * part * (1 + scattered)

    def _result(self, conv: Conv) -> int:
        """Bytes of a frame that a convolution gives."""
        pixels = self.size.pixels // conv.space_stride**2
        return conv.outer * pixels * self._work.item
