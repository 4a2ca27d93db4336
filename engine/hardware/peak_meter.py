"""What stages of a job take of the GPU at most, read after each piece of their work."""

from __future__ import annotations

from functools import reduce

from engine.hardware import torch_memory
from engine.protocol.report import MemoryPeak


class PeakMeter:
    """Peaks by stage of the GPU that this thread uses; none where torch uses no GPU.

    torch counts one peak: each piece of work that ends takes it and starts the count again. Reading
    does not wait for the GPU.
    """

    def __init__(self) -> None:
        self.peaks: dict[str, MemoryPeak] = {}

    @property
    def largest(self) -> MemoryPeak | None:
        """Of all stages together; None where nothing was measured."""
        peaks = self.peaks.values()
        return reduce(MemoryPeak.larger, peaks) if peaks else None

    def restart(self) -> None:
        """Forget what was measured."""
        torch_memory.take_peak()
        self.peaks = {}

    def end(self, stage: str) -> None:
        """A piece of a stage's work has ended; what went before it is counted with it."""
        found = torch_memory.take_peak()
        if found is not None:
            self.peaks[stage] = found.larger(self.peaks.get(stage, found))
