"""What stages of a job take of the GPU at most, read after each piece of their work."""

from __future__ import annotations

from dataclasses import dataclass

from engine.hardware import torch_memory


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPeak:
    """Most bytes of a GPU while a stage worked.

    Attributes:
        allocated: That tensors of this program had.
        reserved: That torch had reserved for them.
        used: That all programs had together, as the driver says after a piece of work.
    """

    allocated: int = 0
    reserved: int = 0
    used: int = 0

    def larger(self, other: MeasuredPeak) -> MeasuredPeak:
        """The larger one of each."""
        return MeasuredPeak(
            allocated=max(self.allocated, other.allocated),
            reserved=max(self.reserved, other.reserved),
            used=max(self.used, other.used),
        )


class PeakMeter:
    """Peaks by stage of the GPU that this thread uses; none where torch uses no GPU.

    torch counts one peak: each piece of work that ends takes it and starts the count again. Reading
    does not wait for the GPU.
    """

    def __init__(self) -> None:
        self.peaks: dict[str, MeasuredPeak] = {}

    def restart(self) -> None:
        """Forget what was measured."""
        torch_memory.take_peak()
        self.peaks = {}

    def end(self, stage: str) -> None:
        """A piece of a stage's work has ended; what went before it is counted with it."""
        found = torch_memory.take_peak()
        if found is not None:
            allocated, reserved, used = found
            peak = MeasuredPeak(allocated=allocated, reserved=reserved, used=used)
            self.peaks[stage] = peak.larger(self.peaks.get(stage, peak))
