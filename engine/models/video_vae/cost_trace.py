"""Operations and memory of one slice through a fast variant, counted without computing.

What `engine.models.video_vae` and `engine.ops.conv` compute, take and give back, in their order:
whoever changes that there changes it here. What only one family has is in its own trace. Tests
compare both with torch's counts, on a processor and on a pretended GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar, Literal

from engine.core.geometry import Size
from engine.models.video_vae.layer_specs import (
    Attention,
    Block,
    Conv,
    Entry,
    Exit,
)
from engine.models.video_vae.workload import (
    Flops,
    Kind,
    LiveBytes,
    Slice,
    VaeWorkload,
)

_SCORES_BYTES = 64 * 2**20  # as in single_head
_NORM_BYTES = 2 * 2**20  # a block of a norm on a processor
_PIECE_BYTES = 96 * 2**20  # as in temporal_conv
_KEYS = 512  # of a block of torch's attention on a processor


class CostTrace:
    """One slice on its way.

    Args:
        work: What is asked.
        live: Of the clip.
        piece: The slice.
        size: Of a frame at the start.
        channels: At the start.

    Attributes:
        past: What stands before a clip, see `engine.ops.conv.frame_conv.ConvShape`.
        frames: In the stream now.
        size: Of a frame now.
        channels: Now.
        flops: Operations so far.
    """

    past: ClassVar[Literal["copies", "zeros"]] = "copies"

    def __init__(
        self, work: VaeWorkload, live: LiveBytes, piece: Slice, size: Size, channels: int
    ) -> None:
        self.frames, self.size, self.channels = piece.frames, size, channels
        self.first, self.last = piece.first, piece.last
        self.work, self.live = work, live
        self.switches = work.switches
        self.flops = Flops(0, 0)
        live.take("stream", self.stream_bytes)

    @property
    def stream_bytes(self) -> int:
        """Bytes of the residual stream."""
        return self.frames * self.frame_bytes(self.channels)

    def run(self, parts: Sequence[object]) -> None:
        """Through all parts."""
        for part in parts:
            self.part(part)

    def part(self, part: object) -> None:
        """Through one; a family adds what only it has."""
        match part:
            case Entry(conv):
                self.entry(conv)
            case Exit(conv):
                self._exit(conv)
            case Block():
                self._block(part)
            case Attention(width):
                self._attention(width)
            case _:
                raise ValueError(f"unknown memory of {part}")

    def frame_bytes(self, channels: int, pad: int = 0) -> int:
        """Bytes of one frame of so many channels and of the current size."""
        return channels * (self.size.width + pad) * (self.size.height + pad) * self.work.item

    def entry(self, conv: Conv) -> None:
        """Through a convolution of its own."""
        before = self.stream_bytes
        with self.window(conv, norm=False):
            self.over(conv, "stream")
        self.live.drop("stream", before)
        self.leave(conv)

    def _exit(self, conv: Conv) -> None:
        with self.window(conv):
            self.live.drop("stream", self.stream_bytes)
            self.over(conv, "stream")
        self.leave(conv)

    def leave(self, conv: Conv) -> None:
        """The stream has the frames, size and width that a convolution gives."""
        self.frames = self._steps(conv)
        self.size = Size(
            self.size.width // conv.space_stride, self.size.height // conv.space_stride
        )
        self.channels = conv.outer

    def _block(self, block: Block) -> None:
        live, before = self.live, self.stream_bytes
        with self.window(block.first):
            self.over(block.first, "inner")
        inner = self.frames * self.frame_bytes(block.first.outer)
        self.channels = block.first.outer
        with self.window(block.second):
            live.drop("inner", inner)
            if block.shortcut is not None:
                self.point(block.shortcut, "stream")
                live.drop("stream", before)
            if self.switches.in_place:
                self.over(block.second, None)
                return
            self.over(block.second, "inner")
            live.take("stream", self.stream_bytes)
        live.drop("stream", self.stream_bytes)
        live.drop("inner", self.stream_bytes)

    def _attention(self, width: int) -> None:
        whole, tokens = self.stream_bytes, self.size.pixels
        projections, products = 4 * tokens * width**2, 2 * tokens**2 * width
        self.flops += Flops(0, 2 * self.frames * (projections + products))
        self._open_window(whole, "attention")
        with self.live.held("sums", self._filling_bytes(width, silu=False)):
            pass
        copies = 3 if self.switches.channels_last else 4
        with self.live.held("inner", copies * whole):
            with self.live.held("sums", self._scores_bytes(tokens) + 4 * self.frames * tokens):
                self.live.take("inner", whole, "attention")
            results = 1 if self.switches.in_place else 2
            with self.live.held("inner", results * whole, "attention"):
                pass
        self.live.drop("inner", whole)
        self._close_window(whole)

    def _scores_bytes(self, tokens: int) -> int:
        if self.work.device == "cpu":
            queries = 256 if tokens >= 768 else 64 if tokens >= 192 else 32
            return queries * ((4 + self.work.item % 4) * _KEYS + 4 * (self.channels + 2))
        if self.switches.chunked_attention:
            return 2 * min(_SCORES_BYTES, tokens * tokens * 4)
        return 2 * self.frames * tokens * tokens * self.work.item

    @contextmanager
    def window(self, conv: Conv, *, norm: bool = True) -> Iterator[None]:
        """The window of a convolution, filled; inside it is convolved."""
        before = self._before(conv)
        if not (norm or before or conv.pad):
            self._keep_tail(conv, before)
            yield
            return
        size = (before + self.frames) * self.frame_bytes(conv.inner, conv.pad)
        filling = self._filling_bytes(conv.inner) if norm else 0
        if self.switches.ring_buffers:
            self._open_window(size, conv.name)
            with self.live.held("sums", filling, conv.name):
                pass
        else:
            self._joined(conv, filling)
        self._keep_tail(conv, before)
        yield
        if not self.switches.ring_buffers:
            self.live.drop("window", size)
        else:
            self._close_window(size)

    def _joined(self, conv: Conv, filling: int) -> None:
        """A window without a ring: filled, padded, joined, each in fresh memory."""
        live, padded = self.live, self.frames * self.frame_bytes(conv.inner, conv.pad)
        fresh = self.frames * self.frame_bytes(conv.inner)
        live.take("window", fresh, conv.name)
        with live.held("sums", filling, conv.name):
            pass
        if conv.pad:
            live.take("window", padded, conv.name)
            live.drop("window", fresh)
        before = self._before(conv)
        if before:
            live.take("window", padded + before * self.frame_bytes(conv.inner, conv.pad), conv.name)
            live.drop("window", padded)

    def _open_window(self, size: int, name: str) -> None:
        if self.switches.planned_buffers:
            self.live.plan(size, name)
        else:
            self.live.take("window", size, name)

    def _close_window(self, size: int) -> None:
        if not self.switches.planned_buffers:
            self.live.drop("window", size)

    def _keep_tail(self, conv: Conv, before: int) -> None:
        """Keep the end of a window; what is shorter than that is filled up first."""
        kept = conv.history * self.frame_bytes(conv.inner, conv.pad)
        is_short = before + self.frames < conv.history and self.past == "zeros" and not self.last
        with self.live.held("sums", kept * is_short, conv.name):
            self.keep(conv.name, kept)

    def keep(self, name: str, size: int) -> None:
        """Keep bytes for the next slice, if there is one."""
        if size and not self.last:
            self.live.keep(name, size)

    def _before(self, conv: Conv) -> int:
        if not self.first:
            return conv.history
        return 0 if self._folds else conv.taps - 1

    @property
    def _folds(self) -> bool:
        switches = self.switches
        return switches.first_frame_fold or (switches.image_mode and self.frames == 1)

    def _steps(self, conv: Conv) -> int:
        return (self.frames - self.first) // conv.time_stride + self.first

    def _filling_bytes(self, channels: int, *, silu: bool = True) -> int:
        """What a norm takes at most: compiled one frame, if torch can compile it."""
        usual = self.norm_bytes(channels, silu=silu)
        frame = channels * self.size.pixels * max(4, self.work.item)
        return max(usual, frame) if self.switches.compile else usual

    def norm_bytes(self, channels: int, *, silu: bool = True) -> int:
        """What a norm takes in addition to its input and its result, where it is not compiled."""
        if not self.switches.fused_norm:
            return (2 if silu else 1) * self.frames * self.frame_bytes(channels)
        if self.work.device == "cuda" and self.switches.kernels:
            return 0
        frame = channels * self.size.pixels * max(4, self.work.item)
        return frame if self.work.device == "cuda" else min(frame, _NORM_BYTES)

    def over(self, conv: Conv, out: Kind | None) -> None:
        """Convolve a window into a new result, or add it to the stream."""
        steps = self._steps(conv)
        taps = conv.kernel * self._taps(conv, steps)
        self.count(conv, taps * self.size.pixels // conv.space_stride**2)
        if not (self.first and self._folds and conv.taps > 1):
            self.regular(conv, steps, out)
        elif self.frames == 1:
            self.apply(conv, 1, 1, out)
        else:
            self._over_first(conv, steps, out)

    def point(self, conv: Conv, out: Kind) -> None:
        """Apply a 1x1x1 convolution to the stream."""
        self.count(conv, conv.kernel * self.frames * self.size.pixels)
        self.apply(conv, 1, self.frames, out)

    def count(self, conv: Conv, multiplications: int) -> None:
        """More operations of a convolution; folds have fewer than its positions would need."""
        self.flops += Flops(2 * multiplications, 0)

    def _taps(self, conv: Conv, steps: int) -> int:
        """Taps over time of all results together; those that see no frame are folded."""
        if not (self.first and self._folds and conv.taps > 1):
            return self._regular_taps(conv, steps)
        head = min(steps, conv.taps - 1 if conv.time_stride == 1 else 1)
        if self.past == "zeros":
            return sum(range(1, head + 1)) + self._regular_taps(conv, steps - head)
        both = 3 if head == 2 else 1  # one product is for both of the first two
        return both + self._regular_taps(conv, steps - head)

    def _regular_taps(self, conv: Conv, steps: int) -> int:
        """The same for results that have a past."""
        if self.switches.temporal_winograd and conv.taps > 1 and conv.time_stride == 1:
            return steps // 2 * 4 + steps % 2 * conv.taps
        return conv.taps * steps

    def _over_first(self, conv: Conv, steps: int, out: Kind | None) -> None:
        """As `FrameConv.run_first` on several frames."""
        live, head, result = self.live, 2 if conv.time_stride == 1 else 1, self._result(conv)
        if self.work.adds_up and head == 2:
            self.apply(conv, 1, steps, out)
            if self.past == "zeros":
                self.apply(conv, 1, 1, None)
            with live.held("sums", result if self.past == "copies" else 0, conv.name):
                pass
            if steps > head:
                self.apply(conv, conv.taps - 1, steps - head, None)
            return
        with live.held("sums", head * result, conv.name):
            with live.held("sums", self._folding_bytes(conv), conv.name):
                pass
            if steps > head:
                self.regular(conv, steps - head, "sums")
            live.take(out or "sums", steps * result, conv.name)
            live.drop("sums", (steps - head) * result)
        if out is None:
            live.drop("sums", steps * result)

    def _folding_bytes(self, conv: Conv) -> int:
        """Tables of the first frames, made again in each clip."""
        if self.past == "zeros":
            return 2 * (conv.taps - 1) * conv.kernel * self.work.item
        exact = max(4, self.work.item)
        return conv.kernel * ((conv.taps + 1) * exact + self.work.item)

    def regular(self, conv: Conv, steps: int, out: Kind | None) -> None:
        """As `FrameConv.run`."""
        winograd = self.switches.temporal_winograd and conv.taps > 1 and conv.time_stride == 1
        if not winograd or steps < 2:
            self.apply(conv, conv.taps, steps, out)
            return
        even, result = steps - steps % 2, self._result(conv)
        if self.work.device == "cuda":  # there a trial may leave a layer its taps
            self.apply(conv, conv.taps, steps, out)
            if out is not None:
                self.live.drop(out, steps * result)
        inputs = even // 2 * self.frame_bytes(conv.inner)
        products = 4 * (even // 2) * result
        with self.live.held("sums", (4 * inputs if even > 2 else 0) + products, conv.name):
            with self.live.held("sums", inputs + 2 * conv.kernel * self.work.item, conv.name):
                pass
            self.live.take(out or "sums", steps * result, conv.name)
            with self.live.held("sums", (steps - even) * result, conv.name):
                pass
        if out is None:
            self.live.drop("sums", steps * result)

    def apply(self, conv: Conv, taps: int, steps: int, out: Kind | None) -> None:
        """As `TemporalConv.apply`."""
        work, result = self.work, steps * self._result(conv)
        part = steps * self.frame_bytes(conv.inner, conv.pad)
        is_whole = taps == 1 or work.adds_up or (work.is_3d and out is not None)
        some = steps if is_whole else self._piece(conv, taps, steps)
        window = (self._before(conv) + self.frames) * self.frame_bytes(conv.inner, conv.pad)
        extra = self.extra_bytes(conv.kernel, taps, part * some // max(1, steps), window)
        if conv.taps == 1:  # lies in memory as it is wanted
            extra -= conv.kernel * work.item
        if taps == 1 or work.adds_up:
            extra += part if conv.time_stride > 1 and steps > 1 else 0
            adds = out is None or taps > 1
            extra += result if adds and not work.adds_in_place else 0
        elif out is None or some < steps:
            extra += some * self._result(conv)
        if work.is_half and conv.side == 1 and not self.switches.channels_last:
            extra += self.frame_bytes(conv.inner)  # oneDNN's own
        with self.live.held("sums", extra, conv.name):
            if out is not None:
                self.live.take(out, result, conv.name)

    def _piece(self, conv: Conv, taps: int, steps: int) -> int:
        """Steps that are convolved at a time where that takes memory in addition."""
        stacked = taps * self.frame_bytes(conv.inner, conv.pad)
        each = self._result(conv) if self.work.is_3d else stacked
        return min(steps, max(1, _PIECE_BYTES // each))

    def extra_bytes(self, kernel: int, taps: int, part: int, window: int) -> int:
        """Copies of weights and of frames while a convolution runs.

        Args:
            kernel: Weights of one tap.
            taps: How many.
            part: Bytes of the frames that one tap sees.
            window: Bytes of the frames that all taps see.
        """
        weights, scattered = kernel * self.work.item, not self.switches.channels_last
        if taps == 1 or self.work.adds_up:
            return 2 * weights + part * scattered
        if self.work.is_3d:
            return taps * weights + window * scattered
        return 2 * taps * weights + taps * part * (1 + scattered)

    def _result(self, conv: Conv) -> int:
        """Bytes of a frame that a convolution gives."""
        pixels = self.size.pixels // conv.space_stride**2
        return conv.outer * pixels * self.work.item
