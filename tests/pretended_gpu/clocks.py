"""What happened before what: streams, events and the host as vector clocks.

A timeline is a stream or the host. Its clock has, for each timeline, the position up to which work
there is known to be done before whatever the timeline does next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

HOST = "the host"


class Clock(Counter[str]):
    """Position by timeline."""

    def join(self, other: Clock) -> None:
        """Know everything that the other clock knows, too."""
        for timeline, position in other.items():
            if self[timeline] < position:
                self[timeline] = position

    def includes(self, other: Clock) -> bool:
        """Whether it knows everything that the other clock knows."""
        return all(self[timeline] >= position for timeline, position in other.items())

    def covers(self, use: Use) -> bool:
        """Whether a use is known to be over."""
        return self[use.timeline] >= use.position


@dataclass(frozen=True, slots=True)
class Use:
    """A use of memory: by which timeline, at which position, by which line of the program."""

    timeline: str
    position: int
    place: str


@dataclass(slots=True)
class History:
    """Uses of one piece of memory that a later one may collide with.

    Attributes:
        home: Stream that the memory was allocated on.
        shape: Of the tensor that it was allocated for.
        write: The last one.
        reads: The last one of each timeline since then.
    """

    home: str
    shape: tuple[int, ...]
    write: Use | None = None
    reads: dict[str, Use] = field(default_factory=dict)

    def collisions(self, use: Use, clock: Clock, *, writes: bool) -> Iterator[str]:
        """What is wrong with a use by a timeline with this clock; then it is remembered."""
        verb = "writes" if writes else "reads"
        before = self.write
        if before and before.timeline != use.timeline and not clock.covers(before):
            yield f"{use.timeline} {verb} {self.shape} that {before.timeline} may still write"
        if writes:
            for read in self.reads.values():
                if read.timeline != use.timeline and not clock.covers(read):
                    other = read.timeline
                    yield f"{use.timeline} overwrites {self.shape} that {other} may still read"
            self.write, self.reads = use, {}
        else:
            self.reads[use.timeline] = use

    def unfinished(self, clocks: tuple[Clock, ...]) -> Iterator[Use]:
        """Uses by streams other than its own that may go on when the memory is freed."""
        for use in (*self.reads.values(), *filter(None, [self.write])):
            if use.timeline not in (self.home, HOST) and not any(
                clock.covers(use) for clock in clocks
            ):
                yield use
