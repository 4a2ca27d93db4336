"""Bytes that jobs need: what is allocated at a time, and the most of it, stage by stage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Moment:
    """Bytes that are alive at a time, weights apart.

    Attributes:
        device: Of the device that computes.
        host: Of main memory; where a processor computes, both lie there.
    """

    device: int
    host: int = 0

    def __add__(self, other: Moment) -> Moment:
        return Moment(self.device + other.device, self.host + other.host)


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """One way of shots through a VAE.

    Attributes:
        begins: While the first slices of a shot are worked on.
        goes_on: Moments of all other slices.
        between: Between slices, when frames are made ready or finished.
        waits: When the other way or another model works.
        buffers: Bytes on the device that are kept between slices until the room is needed.
        opens: Those of them that `begins` counts; others are there since another shot.
        canvas: Bytes on the host of finished frames that are on their way out.
        result: Bytes on the device of what a slice gave.
    """

    begins: Moment
    goes_on: tuple[Moment, ...]
    between: Moment
    waits: Moment
    buffers: int
    opens: int = 0
    canvas: int = 0
    result: int = 0


def most_of(moments: Iterable[Moment], *, is_card: bool) -> Moment:
    """Most bytes of the device, and of main memory; where that is one, of both together."""
    found = list(moments)
    most = max(moment.device for moment in found)
    if is_card:
        return Moment(most, max(moment.host for moment in found))
    return Moment(most, max(moment.device + moment.host for moment in found) - most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Bytes of a job that its model needs.

    Attributes:
        weights: On the device, for as long as the job runs.
        working: Next to them on the device while each stage of the model works, by its name.
        finishing: The same when frames are finished: what the job holds then, and the pictures.
        hosts: In main memory while each stage works, and of "finishing", device or not: carries
            that wait, canvases, frames on their way; none for stages that are not in it.
        finished: Frames that are finished at a time.
        waiting: Frames of the source that wait for their result.
        sources: Bytes of those that wait, in main memory too.
    """

    weights: int
    working: dict[str, int]
    finishing: int
    hosts: dict[str, int] = field(default_factory=dict)
    finished: int = 1
    waiting: int = 0
    sources: int = 0

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
