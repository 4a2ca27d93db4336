"""Reports: the verification of a result, the self-test of this machine, the benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from engine.core.geometry import Size
from engine.core.messages import Message, clauses, message
from engine.protocol.media import Reading
from engine.protocol.plan import Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison of a result with its source.

    `code` is one of "readable", "frame-count", "frame-order", "time-stamps", "size", "tags",
    "streams", "stream-content", "sound-timing", "chapters", "metadata", "statements", "likeness",
    "black".
    """

    code: str
    passed: bool
    message: Message  # `check.<code>.<case>` of the catalogue: "240 frames in, 240 out."
    source: str = ""  # value of the source
    output: str = ""

    @classmethod
    def of_faults(
        cls, code: str, case: str, faults: Sequence[Message], kept: Message, **values: str
    ) -> Check:
        """A check that passes if there are no faults.

        Args:
            code: The check.
            case: Case of its message that names the faults.
            faults: Differences, each a clause.
            kept: Message without faults.
            values: Values of `source` and `output`.
        """
        found = message(f"check.{code}.{case}", faults=clauses(faults)) if faults else kept
        return cls(code=code, passed=not faults, message=found, **values)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPeak:
    """Most bytes of a GPU over some time."""

    requested: int = 0  # tensors of this program, as plans count them
    allocated: int = 0  # blocks that hold the tensors
    reserved: int = 0  # memory that torch had reserved for blocks
    used: int = 0  # all programs together, reported by the driver at the end of that time

    def larger(self, other: MemoryPeak) -> MemoryPeak:
        """The larger one of each."""
        return MemoryPeak(
            requested=max(self.requested, other.requested),
            allocated=max(self.allocated, other.allocated),
            reserved=max(self.reserved, other.reserved),
            used=max(self.used, other.used),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartMemory:
    """Most bytes of tensors while a part of a model worked; measured in its first slices."""

    part: str  # its module path: "decoder.up_blocks.2.upsamplers.0"
    peak: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMemory:
    """GPU memory of a stage, next to the bytes that were planned."""

    stage: str
    planned: int
    peak: MemoryPeak
    parts: tuple[PartMemory, ...] = ()  # in their order; of a VAE


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTime:
    """Seconds that a stage took in the last run, next to what was planned; 0 for no plan."""

    stage: str
    seconds: float
    planned: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A model file that a result was made with."""

    name: str  # without its folder
    sha256: str = ""  # "" where it was changed, or went, before the job ended
    architecture: str = ""  # name in the file; "" where the name of the model tells it


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Source against result."""

    source: Path
    output: Path
    checks: tuple[Check, ...]
    frames_in: int = 0
    frames_out: int = 0
    output_bytes: int = 0  # size of the result; of images all of them
    likeness_mean: float = 0.0  # SSIM of small grey pictures, 0 to 1
    likeness_min: float = 0.0
    seconds: float = 0.0  # duration of the job, 0 when only verified
    model_files: tuple[ModelFile, ...] = ()  # other than those of the program
    stage_times: tuple[StageTime, ...] = ()  # see `events.StagesTimed`
    peak_bytes: int = 0
    gpu_memory: tuple[StageMemory, ...] = ()  # stages that a GPU computed in the last run
    plan_changes: tuple[Notice, ...] = ()  # notices of plans that took over in the last run
    statements: tuple[str, ...] = ()  # kinds that the source makes, those of all frames included
    memory_ratios: tuple[float, ...] = ()  # most over planned bytes, of jobs of this kind so far

    @property
    def largest_on_gpu(self) -> StageMemory | None:
        """The stage that took the most of the GPU; None where a CPU computed all."""
        return max(self.gpu_memory, key=lambda one: one.peak.requested, default=None)

    @property
    def passed(self) -> bool:
        """True when every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def problems(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if not check.passed)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedLatents:
    """A video that was written as latents."""

    source: Path
    output: Path
    model: str  # "wan21-vae" or "wan22-vae"
    reading: Reading
    size: Size  # size of the video as seen
    padded: Size  # encoded size: the last column and row are repeated to a multiple
    frames: int
    padded_frames: int  # its last frame repeated to one more than a multiple of four
    latents: int
    bytes: int
    seconds: float


State = Literal["ok", "warning", "problem"]
STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorLine:
    """One result of the self-test of this machine."""

    name: str  # "torch", "encoder libx264"
    state: State
    message: Message  # finding; its hint is the remedy

    @property
    def hint(self) -> Message:
        """Advice where it is not ok; renders as "" otherwise."""
        return self.message.hint


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeTrial:
    """Report of an NVIDIA runtime that was tried in a process of its own."""

    torch: str  # "2.13.0+cu130"
    cuda: str  # "13.0"
    card: str = ""  # GPU that it computed on; "" where it sees none
    seconds: float = 0.0  # to load


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSwitch:
    """One line of the benchmark's table: what one optimisation does on this machine.

    Ratios are with it over without it, all others as users have them: below 1 it helps. A claim of
    documents that no optimisation answers has a line of its own, with the reason as its note.
    """

    name: str  # "vae.upsampler_fold"; "all" for all of a model's together; "claim.cuda-graphs"
    title: Message
    exactness: str  # "exact", "rounding" or "inexact"; "" for a claim alone
    is_default: bool
    time: float | None = None
    scatter: float | None = None  # standard error of that ratio
    memory: float | None = None  # peak
    error: float | None = None  # relative (RMS), against float64
    error_without: float | None = None
    claim: Message | None = None  # promise in documents of others
    note: Message | None = None  # why nothing was measured, or how to read it


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRate:
    """One line of the speed test: speed or time of one kind of work."""

    title: Message
    value: Message  # number and unit


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport:
    """Measurements of this computer; nothing in them identifies its owner."""

    machine: dict[str, str]  # name and value: CPU, GPU, driver, versions
    switches: tuple[MeasuredSwitch, ...] = ()
    figures: tuple[MeasuredRate, ...] = ()  # results of the speed test
    markdown: str = ""  # everything as a page in English
    seconds: float = 0.0
    notes: tuple[Message, ...] = ()  # models of which the switches were measured
