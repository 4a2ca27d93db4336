"""What is being done to something, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.errors import ErrorInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Something that takes a while, or the error it ended with; MB are 10**6 bytes."""

    done_mb: float = 0.0
    total_mb: float = 0.0  # 0 while unknown
    mb_per_second: float = 0.0
    seconds_left: float = 0.0  # 0 while unknown
    error: ErrorInfo | None = None

    @property
    def runs(self) -> bool:
        """True from the order on until it has ended."""
        return self.error is None

    @property
    def waits(self) -> bool:
        """True while nothing can be counted, as when others have their turn."""
        return self.runs and not (self.done_mb or self.total_mb)

    @property
    def share(self) -> float:
        """Finished part, 0 to 1."""
        return min(1.0, self.done_mb / self.total_mb) if self.total_mb else 0.0
