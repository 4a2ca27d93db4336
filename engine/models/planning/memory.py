"""Memory that plans need, and the room that a job has for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from engine.hardware.budget import Budget
from engine.protocol.plan import WorkPlan

DTYPE_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}  # of one value
SOURCE_BYTES = 2  # of frames of the source that wait for their result, for each of their px
COMPILER_BYTES = 72 * 2**20
"""Bytes of torch's compiler, which torch loads to run on tensors without values, and keeps."""
_PINNED_SHARE = 0.4  # of main memory: with more of it pinned, systems begin to fail elsewhere


@dataclass(frozen=True, slots=True)
class PhaseMemory:
    """Bytes that are allocated at the same time.

    Attributes:
        device: Bytes of the device that computes.
        host: Bytes of RAM; where the CPU computes, both lie there.
    """

    device: int
    host: int = 0

    def __add__(self, other: PhaseMemory) -> PhaseMemory:
        return PhaseMemory(self.device + other.device, self.host + other.host)


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """Memory of shots that stream through one direction of a VAE.

    Attributes:
        begins: During the first slices of a shot.
        steady: During each phase of all other slices.
        between: Between slices, while frames are prepared or finished.
        waits: While the other direction or another model works.
        buffers: Bytes on the device that are kept between slices until the room is needed.
        parks: Bytes of carries that leave the device after each visit of all tiles and come back
            for the next one.
        opens: Part of them that `begins` counts; the rest exists since another shot.
        canvas: Bytes on the host of finished frames that are on their way out.
        result: Bytes on the device of what a slice gave.
    """

    begins: PhaseMemory
    steady: tuple[PhaseMemory, ...]
    between: PhaseMemory
    waits: PhaseMemory
    buffers: int
    parks: int = 0
    opens: int = 0
    canvas: int = 0
    result: int = 0


def peak_use(uses: Iterable[PhaseMemory], *, on_gpu: bool) -> PhaseMemory:
    """Most bytes of the device, and of main memory; where that is one, of both together."""
    found = list(uses)
    most = max(use.device for use in found)
    if on_gpu:
        return PhaseMemory(most, max(use.host for use in found))
    return PhaseMemory(most, max(use.device + use.host for use in found) - most)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequirement:
    """Bytes of a job that its model needs.

    Attributes:
        weights: On the device, for as long as the job runs.
        working: Next to them on the device while each stage of the model works, by its name.
        finishing: Bytes when frames are finished: those of the job then, and the frames.
        between: Bytes while none of it works: those kept for the next frames.
        hosts: In main memory while each stage works, and of "finishing" and "between", device or
            not: carries that wait, canvases, frames on their way; none for stages not in it.
        finished: Frames that are finished at a time.
        waiting: Frames of the source that wait for their result.
        sources: Bytes of those that wait, in main memory too.
        measuring: Bytes of main memory that the process keeps which has measured all that.
    """

    weights: int
    working: dict[str, int]
    finishing: int
    between: int = 0
    hosts: dict[str, int] = field(default_factory=dict)
    finished: int = 1
    waiting: int = 0
    sources: int = 0
    measuring: int = 0

    @property
    def stages(self) -> dict[str, int]:
        """Bytes on the device while each stage works, weights included."""
        return {name: self.weights + size for name, size in self.working.items()}

    @property
    def device(self) -> int:
        """Most bytes on the device at once."""
        return max(self.stages.values())

    @property
    def host(self) -> int:
        """Most bytes of main memory at once, device or not."""
        return max(self.hosts.values(), default=0) + self.sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Memory that a job may take, and its use with one plan of its model or another.

    Attributes:
        budget: Budget of the computer.
        peak: Most bytes of the GPU and of main memory at once, of the whole program.
        seconds: Seconds of the model alone, for all frames of the job.
        frames: Number of frames of the job.
        processes: Number of processes that make it, each with pinned memory of its own.
    """

    budget: Budget
    frames: int
    peak: Callable[[WorkPlan], PhaseMemory]
    seconds: Callable[[WorkPlan], float]
    processes: int = 1

    @property
    def most_pinned(self) -> int:
        """Bytes of main memory that a process may pin."""
        return int(_PINNED_SHARE * self.budget.ram_bytes) // self.processes

    def most_ram(self, work: WorkPlan) -> int:
        """Bytes of main memory that a job may take next to what it takes of the GPU."""
        return self._most_beside(self.peak(work))

    def _most_beside(self, peak: PhaseMemory) -> int:
        return self.budget.ram_beside(peak.device * self.processes)

    def spare_ram(self, work: WorkPlan) -> int:
        """Bytes of main memory that are left for each process."""
        return (self.most_ram(work) - self.peak(work).host) // self.processes

    def holds_on_device(self, work: WorkPlan) -> bool:
        """Whether a job stays within the memory of the GPU, or of the computer without one.

        Where Windows promises GPU memory twice, main memory has to suffice next to it.
        """
        peak, commit = self.peak(work), self.budget.commit
        is_both = commit is not None and commit.counts_vram
        if work.device == "cuda" and peak.device > self.budget.vram_bytes:
            return False
        return (work.device == "cuda" and not is_both) or peak.host <= self._most_beside(peak)

    def holds(self, work: WorkPlan) -> bool:
        """Whether a job stays within main memory and the memory of the GPU."""
        return self.holds_on_device(work) and self.peak(work).host <= self.most_ram(work)
