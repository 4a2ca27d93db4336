"""The highest moment of a piece of work, found by walking through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.core.geometry import Size
from engine.models.memory_cost import Cost
from engine.models.video_vae.memory_ledger import Kind, Ledger, Work
from engine.models.video_vae.memory_walk import Slice, Walk

_SMALL_BYTES = 64 * 2**10  # means, deviations, biases


@dataclass(frozen=True, slots=True)
class Peak:
    """The highest moment of a piece of work.

    Attributes:
        moment: Name of the convolution at that moment.
        bytes_of: What was alive: the residual "stream", "inner" frames, "phases" of an upsampler,
            the "result", the "window" of a convolution, temporary "sums", the "carry".
        first: Most bytes while the first slice of a clip is worked on.
        later: The same of all other slices; 0 where there is one slice.
        carry: Bytes that wait between two slices.
        window: Bytes of the buffers that stay between two slices.
        opens: The same after the first slice.
        result: Bytes of what the last slice gave.
        before: Bytes of what a usual slice gave, which wait in `later`.
    """

    moment: str
    bytes_of: dict[Kind, int]
    first: int = 0
    later: int = 0
    carry: int = 0
    window: int = 0
    opens: int = 0
    result: int = 0
    before: int = 0

    @property
    def total_bytes(self) -> int:
        """All of them."""
        return sum(self.bytes_of.values())

    def cost(self, weights: int) -> Cost:
        """The same in the planner's terms, with the bytes of the model's weights."""
        carry = self.bytes_of.get("carry", 0)
        workspace = self.bytes_of.get("window", 0) + self.bytes_of.get("sums", 0)
        return Cost(
            weights=weights,
            activations=self.total_bytes - carry - workspace,
            workspace=workspace + _SMALL_BYTES,
            carry=carry,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Parts, what goes in slice by slice, and what becomes of what comes out; how it is walked.

    Results are joined in one of `total` steps, or listed, or passed on; `clamped` ones
    are moments whose variances are held within limits first. `window` bytes of buffers are there
    already, from another way through the same model.
    """

    walk: type[Walk]
    parts: Sequence[object]
    slices: list[tuple[bool, int]]
    size: Size
    channels: int
    gather: Literal["joined", "listed", "passed"] = "joined"
    total: int = 0
    clamped: bool = False
    window: int = 0


def peak_of(way: Way, work: Work) -> Peak:
    """All slices through some parts."""
    ledger, waiting, alone = Ledger(), 0, len(way.slices) == 1
    ledger.plan(way.window, "")
    first, peak, moment = 0, ledger.peak, ""
    usual = opens = 0
    for index, (begins, frames) in enumerate(way.slices):
        last = index == len(way.slices) - 1
        walk = way.walk(work, ledger, Slice(frames, begins, last), way.size, way.channels)
        walk.run(way.parts)
        result = walk.stream_bytes
        if way.clamped:
            with ledger.held("result", 3 * result // 2):
                pass
        if way.gather == "joined" and begins and not alone:
            ledger.take("result", result // walk.frames * way.total)
        ledger.drop("stream", result)
        ledger.take("result", result)
        ledger.drop("result", waiting)
        usual = waiting if waiting and not begins and (not usual or waiting < usual) else usual
        waiting = 0 if way.gather == "listed" else result
        if begins:
            first, peak, moment = ledger.peak_bytes, ledger.peak, ledger.moment
            opens = ledger.planned
            ledger.begin_anew()
    later = 0 if alone else ledger.peak_bytes
    if later > first:
        peak, moment = ledger.peak, ledger.moment
    return Peak(
        moment,
        dict(peak),
        first=first,
        later=later,
        carry=sum(ledger.carry.values()),
        window=ledger.planned,
        opens=opens,
        result=waiting,
        before=usual,
    )
