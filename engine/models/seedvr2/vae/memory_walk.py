"""What only SeedVR2 has of a walk through a fast variant that counts bytes: its upsamplers.

What `fast_resample` takes and gives back, in its order: whoever changes memory there changes it
here. The tests compare both.
"""

from __future__ import annotations

from engine.models.seedvr2.vae.layer_specs import Up
from engine.models.video_vae import memory_walk

_PHASE_BYTES = 96 * 2**20  # as in fast_resample


class Walk(memory_walk.Walk):
    """One slice on its way through a VAE of SeedVR2."""

    def part(self, part: object) -> None:
        """Through one part."""
        match part:
            case Up():
                self._folded_up(part) if self.switches.upsampler_fold else self._up(part)
            case _:
                super().part(part)

    def _up(self, up: Up) -> None:
        ledger = self.ledger
        before, wide = self.stream_bytes, self.frames * self.frame_bytes(up.widen.outer)
        self.apply(up.widen, 1, self.frames, "inner")
        ledger.drop("stream", before)
        self.frames, self.size = up.times * self.frames, self.size.scaled(2)
        ledger.take("stream", self.stream_bytes, up.conv.name)
        ledger.drop("inner", wide)
        dropped = self.frame_bytes(up.conv.inner) if self.first and up.times > 1 else 0
        if dropped:
            self.frames -= 1
        self.entry(up.conv)
        ledger.drop("stream", dropped)

    def _folded_up(self, up: Up) -> None:
        ledger, frame, source = self.ledger, self.frame_bytes(self.channels), self.stream_bytes
        kept = (up.conv.taps - 1) // up.times
        frames = self.frames
        total = up.times * frames - (up.times - 1) * self.first
        ledger.take("stream", 4 * total * frame, up.conv.name)
        if not self.first:
            ledger.take("inner", (kept + frames) * frame, up.conv.name)
        self.keep(up.conv.name, kept * frame)
        if not self.first:
            ledger.drop("stream", source)
        self._phases(up, kept + 1)
        if self.first:
            ledger.drop("stream", source)
        else:
            ledger.drop("inner", (kept + frames) * frame)
        self.frames, self.size = total, self.size.scaled(2)

    def _phases(self, up: Up, reach: int) -> None:
        """The small convolutions of a folded upsampler, some source frames at a time."""
        one = up.times * 4 * self.frame_bytes(self.channels, 1)
        kernel = up.times * 4 * 4 * up.conv.kernel // up.conv.side**2
        rest = self.frames
        if self.first:
            rest = max(0, rest - 2)
            self._phases_of_two(up, one, kernel)
        if not rest:
            return
        chunk = max(1, _PHASE_BYTES // one) if self.switches.chunked_upsampling else rest
        chunk = min(chunk, rest)
        inner = self.frame_bytes(self.channels)
        extra = self.extra_bytes(kernel, reach, chunk * inner, (chunk + reach - 1) * inner)
        if self.work.adds_up and not self.work.adds_in_place:
            extra += chunk * one
        with (
            self.ledger.held("sums", extra),
            self.ledger.held("phases", chunk * one, up.conv.name),
        ):
            pass

    def _phases_of_two(self, up: Up, one: int, kernel: int) -> None:
        """The phases of a clip's first two source frames, one after the other."""
        work = self.work
        if self.frames == 1:
            extra, phases = 2 * kernel * work.item // up.times, one // up.times
        else:
            extra, phases = 4 * kernel * work.item, one
            if not work.is_3d:
                extra += 2 * self.frame_bytes(self.channels)
            extra += one if work.adds_up and not work.adds_in_place else 0
        with self.ledger.held("sums", extra), self.ledger.held("phases", phases, up.conv.name):
            pass
