"""Simulation of one film that several workers make: how long it takes, who makes what, what limits.

Discrete events: whatever serves one span at a time (survey, host, link, worker) is free again
at a known time, and a span goes through them one after the other. Each span goes to the worker that
is free first, as `engine.workers` hands them out.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Literal

Limit = Literal["workers", "survey", "host", "link", "join"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanTimes:
    """What a job takes, for each of its spans, in seconds and bytes.

    Attributes:
        spans: Of the film.
        span_s: A worker of speed 1 computes; spans of a longer film repeat them in order.
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
        """Seconds of a worker of speed 1 for each span."""
        return islice(cycle(self.span_s), self.spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Between the host and other machines; both directions at once, each shared by all of them.

    Attributes:
        mbit_s: Of each direction; 0 for no limit.
        latency_s: One way.
    """

    mbit_s: float = 0.0
    latency_s: float = 0.0

    def sending_s(self, count: float) -> float:
        """Seconds that bytes keep the link busy."""
        return 8e-6 * count / self.mbit_s if self.mbit_s else 0.0


LOCAL = Connection()
GIGABIT = Connection(mbit_s=940, latency_s=0.0005)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """How long a film takes.

    Attributes:
        seconds: From the start to the result.
        made: Which spans each worker makes, counted from 0.
        busy: Share of that time in which each part is at work; for workers, their mean.
    """

    seconds: float
    made: tuple[tuple[int, ...], ...]
    busy: dict[Limit, float]

    @property
    def limit(self) -> Limit:
        """What is at work for the largest part of the time."""
        return max(self.busy, key=lambda name: self.busy[name])

    def efficiency(self, one: Simulated) -> float:
        """Speed for each worker, next to that of one worker."""
        return one.seconds / self.seconds / len(self.made)


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
    """The servers that workers share, and the events that are to come.

    Attributes:
        near: So many of the workers, the first ones, need no link.
        events: Time, whether the result is there (the worker is idle) or not yet, the worker.
    """

    times: SpanTimes
    speeds: Sequence[float]
    link: Connection
    near: int
    host: _Server = field(default_factory=_Server)
    to_workers: _Server = field(default_factory=_Server)
    back: _Server = field(default_factory=_Server)
    workers_s: float = 0.0
    kept_at: float = 0.0  # the last span that is finished
    events: list[tuple[float, bool, int]] = field(default_factory=list)

    def run(self) -> tuple[tuple[int, ...], ...]:
        """Make all spans; those of each worker."""
        made: list[list[int]] = [[] for _ in self.speeds]
        self.events = [(self.times.start_s, True, worker) for worker in range(len(self.speeds))]
        for span, seconds in enumerate(self.times.each):
            while not self.events[0][1]:
                self._come_back()
            at, _, worker = heapq.heappop(self.events)
            known_at = (span + 1) * self.times.survey_s
            made[worker].append(span)
            self._hand_out(max(at, known_at), seconds / self.speeds[worker], worker)
        while self.events:
            if self.events[0][1]:
                heapq.heappop(self.events)
            else:
                self._come_back()
        return tuple(map(tuple, made))

    def _hand_out(self, at: float, seconds: float, worker: int) -> None:
        there = self.host.serve(at, self.times.host_s)
        if worker >= self.near:
            there = self._fetched(there + self.link.latency_s)
        self.workers_s += seconds
        done = there + seconds
        if worker >= self.near:
            heapq.heappush(self.events, (done, False, worker))
        else:
            self._keep(done, worker)

    def _fetched(self, at: float) -> float:
        """When a worker that has its order has its part of the source."""
        source, latency = self.times.source_bytes, self.link.latency_s
        asked = at + latency if source else at
        sent = self.to_workers.serve(asked, self.link.sending_s(source))
        return sent + latency if source else sent

    def _come_back(self) -> None:
        """The next result of another machine is sent."""
        at, _, worker = heapq.heappop(self.events)
        result = self.times.result_bytes
        self._keep(self.back.serve(at, self.link.sending_s(result)) + self.link.latency_s, worker)

    def _keep(self, at: float, worker: int) -> None:
        """The result is there, and the worker is free."""
        heapq.heappush(self.events, (at, True, worker))
        self.kept_at = max(self.kept_at, at)


def simulate(
    times: SpanTimes, speeds: Sequence[float], link: Connection = LOCAL, *, near: int = 0
) -> Simulated:
    """Make a film with some workers.

    Args:
        times: Of a job.
        speeds: Of each worker, at least one; of those that are free at the same time the first one
            is next.
        link: Between the host and other machines.
        near: So many workers, the first ones, are processes of the host.
    """
    farm = _Farm(times, speeds, link, near)
    made = farm.run()
    seconds = farm.kept_at + times.join_s
    busy: dict[Limit, float] = {
        "workers": farm.workers_s / len(speeds),
        "survey": times.spans * times.survey_s,
        "host": farm.host.busy_s,
        "link": max(farm.to_workers.busy_s, farm.back.busy_s),
        "join": times.join_s,
    }
    return Simulated(
        seconds=seconds,
        made=made,
        busy={name: value / seconds for name, value in busy.items()},
    )
