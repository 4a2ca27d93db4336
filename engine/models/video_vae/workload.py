"""Workload of a video VAE: frames, switches and dtype; its operations and its memory peak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

from engine.core.geometry import Size
from engine.models.memory_cost import DTYPE_BYTES, Cost
from engine.settings.optimisations import VaeSwitches

Kind = Literal["stream", "inner", "phases", "result", "window", "sums", "carry"]

_SMALL_BYTES = 64 * 2**10  # means, deviations, biases


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations of one call."""

    convolutions: int
    attention: int  # the mid block's projections and products

    @property
    def total(self) -> int:
        """All of them."""
        return self.convolutions + self.attention

    def __add__(self, other: Flops) -> Flops:
        return Flops(self.convolutions + other.convolutions, self.attention + other.attention)


@dataclass(frozen=True, slots=True, kw_only=True)
class VaeWorkload:
    """What is asked of a VAE, and where.

    Attributes:
        frames: Of the clip, 1 + n * temporal_factor.
        size: Of a frame that is or could be encoded, in px, a multiple of the spatial factor.
        switches: Those that save operations are counted; all off is the published data flow.
        slice_frames: None takes the clip at once. Slices cost the same; they only leave
            `temporal_winograd` fewer pairs of frames. (Convolutions as sums in float32 do a
            clip's first slice without it.)
        dtype: Of values and weights. TRAP: a processor without AVX-512 convolves 16-bit values
            through copies in float32, up to 5 times these bytes; only a user's own choice of
            `vae_precision` asks for that there.
        device: Kind of torch device.
        variant: Of the convolutions, see `engine.ops.conv.temporal_conv`; "auto" is what a
            processor takes, and on GPUs "2d", which takes more.
    """

    frames: int
    size: Size
    switches: VaeSwitches
    slice_frames: int | None = None
    dtype: str = "float32"
    device: Literal["cpu", "cuda"] = "cpu"
    variant: Literal["auto", "2d", "3d"] = "auto"

    @property
    def item(self) -> int:
        """Bytes of a number."""
        return DTYPE_BYTES[self.dtype]

    @property
    def is_half(self) -> bool:
        """Whether values have two bytes."""
        return self.item == 2

    @property
    def is_3d(self) -> bool:
        """Whether a convolution over time is one call."""
        wanted = self.variant if self.switches.convolution == "auto" else self.switches.convolution
        return wanted == "3d" or (wanted == "auto" and self.device == "cpu" and self.is_half)

    @property
    def adds_up(self) -> bool:
        """Whether a sum over frames is made of calls that each add to the result."""
        return not self.is_3d and not self.is_half

    @property
    def adds_in_place(self) -> bool:
        """Whether such a call needs no result of its own."""
        return self.device == "cpu" and self.dtype == "float32"


def slices(steps: int, size: int | None) -> Iterator[tuple[bool, int]]:
    """Whether it is the first, and how many steps it has, of each slice of a clip."""
    head = steps if size is None else min(steps, 1 + size)
    yield True, head
    for start in range(head, steps, size or 1):
        yield False, min(size or 1, steps - start)


class LiveBytes:
    """Bytes that are alive, by kind, and those at their peak.

    Attributes:
        carry: Bytes kept, by convolution.
        peak: Bytes by kind at the peak.
        at: Name of the convolution at the peak.
        planned: Bytes of the planned window.
    """

    def __init__(self) -> None:
        self.carry: dict[str, int] = {}
        self.peak: Counter[Kind] = Counter()
        self.at = ""
        self.planned = 0
        self._live: Counter[Kind] = Counter()

    @property
    def peak_bytes(self) -> int:
        """Most bytes at once."""
        return self.peak.total()

    def restart_peak(self) -> None:
        """Starts a new peak; what is alive stays."""
        self.peak, self.at = Counter(self._live), ""

    def take(self, kind: Kind, size: int, name: str = "") -> None:
        """More is alive."""
        self._live[kind] += size
        if self._live.total() > self.peak.total():
            self.peak, self.at = Counter(self._live), name or self.at

    def drop(self, kind: Kind, size: int) -> None:
        """Less is alive."""
        self._live[kind] -= size

    @contextmanager
    def held(self, kind: Kind, size: int, name: str = "") -> Iterator[None]:
        """More is alive inside."""
        self.take(kind, size, name)
        yield
        self.drop(kind, size)

    def plan(self, size: int, name: str) -> None:
        """A request for the planned window: it only ever grows, the old one goes first."""
        self.take("window", max(0, size - self.planned), name)
        self.planned = max(self.planned, size)

    def keep(self, name: str, size: int) -> None:
        """A copy for the next slice in the place of the one before, which goes first."""
        self.drop("carry", self.carry.get(name, 0))
        self.take("carry", size, name)
        self.carry[name] = size


@dataclass(frozen=True, slots=True)
class Slice:
    """Frames at the start of the parts, and whether the clip starts and ends with them."""

    frames: int
    first: bool
    last: bool


class Trace(Protocol):
    """A slice on its way through layers, see `cost_trace.CostTrace`."""

    frames: int
    flops: Flops

    @property
    def stream_bytes(self) -> int:
        """Bytes of the residual stream."""

    def run(self, parts: Sequence[object]) -> None:
        """Runs through all layers."""


@dataclass(frozen=True, slots=True)
class VaePeak:
    """Peak memory of a pass through layers.

    Attributes:
        at: Name of the convolution at the peak.
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

    at: str
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
class VaePass:
    """Parts, what goes in slice by slice, and what becomes of what comes out; how it is walked.

    Results are joined in one of `total` steps, or listed, or passed on; `clamped` ones
    are mean and log-variance, clamped first. `window` bytes of buffers are there
    already, from another pass through the same model.
    """

    trace: Callable[[VaeWorkload, LiveBytes, Slice, Size, int], Trace]
    parts: Sequence[object]
    slices: list[tuple[bool, int]]
    size: Size
    channels: int
    gather: Literal["joined", "listed", "passed"] = "joined"
    total: int = 0
    clamped: bool = False
    window: int = 0


def peak_of(vae_pass: VaePass, work: VaeWorkload) -> VaePeak:
    """Bytes of all slices through some parts."""
    return _walk(vae_pass, work)[0]


def flops_of(vae_pass: VaePass, work: VaeWorkload) -> Flops:
    """Operations of all slices through some parts."""
    return _walk(vae_pass, work)[1]


def _walk(vae_pass: VaePass, work: VaeWorkload) -> tuple[VaePeak, Flops]:
    live, waiting, alone = LiveBytes(), 0, len(vae_pass.slices) == 1
    flops = Flops(0, 0)
    live.plan(vae_pass.window, "")
    first, peak, at = 0, live.peak, ""
    usual = opens = 0
    for index, (begins, frames) in enumerate(vae_pass.slices):
        last = index == len(vae_pass.slices) - 1
        trace = vae_pass.trace(
            work, live, Slice(frames, begins, last), vae_pass.size, vae_pass.channels
        )
        trace.run(vae_pass.parts)
        flops += trace.flops
        result = trace.stream_bytes
        if vae_pass.clamped:
            with live.held("result", 3 * result // 2):
                pass
        if vae_pass.gather == "joined" and begins and not alone:
            live.take("result", result // trace.frames * vae_pass.total)
        live.drop("stream", result)
        live.take("result", result)
        live.drop("result", waiting)
        usual = waiting if waiting and not begins and (not usual or waiting < usual) else usual
        waiting = 0 if vae_pass.gather == "listed" else result
        if begins:
            first, peak, at = live.peak_bytes, live.peak, live.at
            opens = live.planned
            live.restart_peak()
    later = 0 if alone else live.peak_bytes
    if later > first:
        peak, at = live.peak, live.at
    found = VaePeak(
        at,
        dict(peak),
        first=first,
        later=later,
        carry=sum(live.carry.values()),
        window=live.planned,
        opens=opens,
        result=waiting,
        before=usual,
    )
    return found, flops
