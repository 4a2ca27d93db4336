"""What only the Wan VAEs have of a walk through a fast variant that counts bytes.

What `fast_parts`, `fast_resample`, `fast_shortcuts` and `engine.ops.conv.subpixel` take
and give back, in their order: whoever changes memory there changes it here. The tests compare both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from engine.core.geometry import Size
from engine.models.video_vae import memory_walk
from engine.models.video_vae.layer_specs import Conv
from engine.models.wan.vae.layer_specs import (
    Around,
    Down,
    Patches,
    Up,
)

_PHASE_BYTES = 96 * 2**20  # as in enlarge
_PHASES = 4  # sub-pixels of a pixel, each with as many taps


class Walk(memory_walk.Walk):
    """One slice on its way through a Wan VAE."""

    past = "zeros"

    def norm_bytes(self, channels: int, *, silu: bool = True) -> int:
        """What a norm takes in addition to its input and its result."""
        if self.switches.fused_norm:
            return super().norm_bytes(channels, silu=silu)
        return 2 * self.frames * self.frame_bytes(channels + 1)  # and lengths of positions

    def part(self, part: object) -> None:
        """Through one part."""
        match part:
            case Down():
                self._down(part)
            case Up():
                self._up(part)
            case Patches(side, back):
                self._patches(side, back=back)
            case Around():
                self._around(part)
            case _:
                super().part(part)

    def _patches(self, side: int, *, back: bool) -> None:
        """The same values in another order."""
        whole, squares = self.stream_bytes, side * side
        with self.ledger.held("stream", whole, "patches"):
            pass
        if back:
            self.channels, self.size = self.channels // squares, self.size.scaled(side)
        else:
            self.channels *= squares
            self.size = Size(self.size.width // side, self.size.height // side)

    def _down(self, down: Down) -> None:
        self.entry(down.space)
        if down.time is None:
            return
        conv, frame, before = down.time, self.frame_bytes(self.channels), self.stream_bytes
        steps = (self.frames - self.first) // conv.time_stride
        if self.first:  # nothing stands before it, and frame 0 goes past it
            self.keep(conv.name, conv.history * frame)
            self.apply(conv, conv.taps, steps, "stream")
            with self.ledger.held("stream", (1 + steps) * frame, conv.name):
                pass
        else:
            with self.window(conv, norm=False):
                self.apply(conv, conv.taps, steps, "stream")
        self.frames = steps + self.first
        self.ledger.drop("stream", before + steps * frame - self.stream_bytes)

    def _up(self, up: Up) -> None:
        source, count, head = self.stream_bytes, self.frames, 0
        if up.time is not None:
            head = int(self.first)
            self.frames += count - head
        result = 4 * self.frames * self.frame_bytes(up.space.outer)
        self.ledger.take("stream", result, up.space.name)
        if head or up.time is None:
            self._enlarge(up.space, head or count)
        if up.time is not None and count > head:
            self._double(up.time, up.space, count - head)
        self.ledger.drop("stream", source)
        self.size, self.channels = self.size.scaled(2), up.space.outer

    def _double(self, conv: Conv, space: Conv, count: int) -> None:
        """Frames that are to become two each, and both halves of them enlarged."""
        half = count * self.frame_bytes(conv.inner)
        with self._clip(conv, count), self.window(conv, norm=False):
            self.over(conv, "inner")
        with self.ledger.held("inner", half, conv.name):
            self._enlarge(space, count)
            with self.ledger.held("inner", half, conv.name):
                pass
        self.ledger.drop("inner", 2 * half)

    @contextmanager
    def _clip(self, conv: Conv, count: int) -> Iterator[None]:
        """Inside, the slice has so many frames, and is the first if a convolution saw none yet."""
        frames, first = self.frames, self.first
        self.frames, self.first = count, first or conv.name not in self.ledger.carry
        yield
        self.frames, self.first = frames, first

    def _enlarge(self, conv: Conv, count: int) -> None:
        """Twice the size, some frames at a time."""
        if not self.switches.upsampler_fold:
            each = 1 if self.switches.chunked_upsampling else count
            doubled, frame = self.frame_bytes(conv.inner), self.frame_bytes(conv.outer)
            extra = self.extra_bytes(conv.kernel, 1, 4 * each * doubled, 0)
            self._phases(conv, 4 * each * (doubled + frame), extra)
            return
        one = _PHASES * self.frame_bytes(conv.outer, 1)
        chunk = max(1, _PHASE_BYTES // one) if self.switches.chunked_upsampling else count
        chunk = min(chunk, count)
        kernel = _PHASES * _PHASES * conv.inner * conv.outer * self.work.item
        extra = kernel + (not self.switches.channels_last) * chunk * self.frame_bytes(conv.inner)
        self._phases(conv, chunk * one, extra)

    def _phases(self, conv: Conv, phases: int, extra: int) -> None:
        ledger = self.ledger
        with ledger.held("sums", extra), ledger.held("phases", phases, conv.name):
            pass

    def _around(self, stage: Around) -> None:
        """Parts, while their input waits, or its means."""
        kept = self.stream_bytes
        if not stage.repeats:
            kept = self._means(stage)
        with self.ledger.held("inner", kept, "shortcut"):
            self.run(stage.parts)
            with self.ledger.held("sums", kept if stage.repeats else 0, "shortcut"):
                pass

    def _means(self, stage: Around) -> int:
        """Bytes of a stage's input, averaged to the size of its result."""
        downs = [part for part in stage.parts if isinstance(part, Down)]
        pooled = self.stream_bytes >> (2 * len(downs))
        if all(down.time is None for down in downs):
            return pooled
        pairs = (self.frames + self.first) * pooled // self.frames
        with self.ledger.held("inner", pooled + pairs, "shortcut"):
            pass
        return pairs
