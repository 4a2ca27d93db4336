"""Simulation of one film that is made by many workers: how long it takes, and what limits.

Discrete events: whatever serves one span at a time (survey, host, link, disk, worker) is free again
at a known time, and a span goes through them one after the other. Times come from a real job.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Literal

Limit = Literal["workers", "survey", "host", "link", "disk", "join"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanTimes:
    """What a job takes, for each of its spans, in seconds and bytes.

    Attributes:
        spans: Of the film.
        span_s: A worker computes; spans of a longer film repeat them in order.
        survey_s: The host reads the film ahead.
        host_s: The host hands out, and keeps what comes back.
        source_bytes: That a worker reads of the source.
        result_bytes: That come back.
        join_s: Of the whole film: joining, and comparison with the source.
        start_s: Until a worker is ready.
    """

    spans: int
    span_s: tuple[float, ...]
    survey_s: float = 0.0
    host_s: float = 0.0
    source_bytes: float = 0.0
    result_bytes: float = 0.0
    join_s: float = 0.0
    start_s: float = 0.0

    @property
    def each(self) -> Iterator[float]:
        """Seconds of a worker for each span."""
        return islice(cycle(self.span_s), self.spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Between the host and all others; both directions at once, each shared by all workers.

    Attributes:
        mbit_s: Of each direction; 0 for no limit.
        latency_s: One way.
        disk_mb_s: That the host's disk writes; 0 for no limit.
    """

    mbit_s: float = 0.0
    latency_s: float = 0.0
    disk_mb_s: float = 0.0

    def sending_s(self, count: float) -> float:
        """Seconds that bytes keep the link busy."""
        return 8e-6 * count / self.mbit_s if self.mbit_s else 0.0

    def writing_s(self, count: float) -> float:
        """Seconds that bytes keep the disk busy."""
        return 1e-6 * count / self.disk_mb_s if self.disk_mb_s else 0.0


LOCAL = Link()


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """How long a film takes.

    Attributes:
        workers: How many make it.
        seconds: From the start to the result.
        busy: Share of that time in which each part is at work; for workers, their mean.
    """

    workers: int
    seconds: float
    busy: dict[Limit, float]

    @property
    def limit(self) -> Limit:
        """What is at work for the largest part of the time."""
        return max(self.busy, key=lambda name: self.busy[name])

    def efficiency(self, one: Simulated) -> float:
        """Speed for each worker, next to that of one worker."""
        return one.seconds / self.seconds / self.workers


@dataclass(slots=True)
class _Server:
    """Serves one span after the other."""

    free_at: float = 0.0
    busy_s: float = 0.0

    def serve(self, at: float, seconds: float) -> float:
        """When something that comes at a time has been served."""
        self.free_at = max(at, self.free_at) + seconds
        self.busy_s += seconds
        return self.free_at


@dataclass(slots=True)
class _Farm:
    """The servers that all workers share, and the events that are to come, by their time."""

    times: SpanTimes
    link: Link
    host: _Server = field(default_factory=_Server)
    to_workers: _Server = field(default_factory=_Server)
    back: _Server = field(default_factory=_Server)
    disk: _Server = field(default_factory=_Server)
    workers_s: float = 0.0
    events: list[tuple[float, int, str, float]] = field(default_factory=list)
    _count: int = 0

    def comes(self, at: float, what: str, seconds: float = 0.0) -> None:
        self._count += 1  # those of one time stay in order
        heapq.heappush(self.events, (at, self._count, what, seconds))

    def made(self) -> float:
        """Run all spans through; when the last one is kept."""
        end, waiting, known = 0.0, list(self.times.each)[::-1], 0
        idle: list[float] = []
        while self.events:
            at, _, what, seconds = heapq.heappop(self.events)
            match what:
                case "known":
                    known += 1
                case "idle":
                    idle.append(at)
                case "fetched":
                    self.workers_s += seconds
                    self.comes(at + seconds, "computed")
                case "computed":
                    end = max(end, self._sent_back(at))
            while idle and known and waiting:
                idle.pop(0)
                known -= 1
                self._hand_out(at, waiting.pop())
        return end

    def _hand_out(self, at: float, seconds: float) -> None:
        there = self.host.serve(at, self.times.host_s) + self.link.latency_s
        source = self.times.source_bytes
        asked = there + self.link.latency_s if source else there
        sent = self.to_workers.serve(asked, self.link.sending_s(source))
        self.comes(sent + self.link.latency_s if source else sent, "fetched", seconds)

    def _sent_back(self, at: float) -> float:
        """The worker is free once its result is there; the host keeps it meanwhile."""
        result = self.times.result_bytes
        there = self.back.serve(at, self.link.sending_s(result)) + self.link.latency_s
        self.comes(there, "idle")
        return self.disk.serve(there, self.link.writing_s(result))


def simulate(times: SpanTimes, workers: int, link: Link = LOCAL) -> Simulated:
    """Make a film with some workers.

    Args:
        times: Of a job.
        workers: At least 1.
        link: Between the host and them.
    """
    farm = _Farm(times, link)
    for number in range(times.spans):
        farm.comes((number + 1) * times.survey_s, "known")
    for _ in range(workers):
        farm.comes(times.start_s, "idle")
    seconds = farm.made() + times.join_s
    busy: dict[Limit, float] = {
        "workers": farm.workers_s / workers,
        "survey": times.spans * times.survey_s,
        "host": farm.host.busy_s,
        "link": max(farm.to_workers.busy_s, farm.back.busy_s),
        "disk": farm.disk.busy_s,
        "join": times.join_s,
    }
    return Simulated(
        workers=workers,
        seconds=seconds,
        busy={name: value / seconds for name, value in busy.items()},
    )
