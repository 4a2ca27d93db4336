"""Other computers that may make parts of a film: whether they are let in, and what that gains.

Who will come is not known before the start, so the time of a plan is that of this computer alone.
Next to it stands how long the film takes with the paired computers, as fast as they were at earlier
films, and whether one more would help. That is simulated, with a network of 1 Gbit/s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING

from engine.core.messages import Param
from engine.core.units import minutes_message
from engine.hardware.budget import Budget
from engine.models.planning.notices import chosen
from engine.planner import machine_times, sharing, times, workers
from engine.planner.rates import Rates
from engine.planner.simulation import GIGABIT, LOCAL, Connection, SpanTimes, simulate
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Notice, Plan, WorkerPlan

if TYPE_CHECKING:
    from engine.planner.plan_job import Request

_WORTH = 0.95  # of the time, at most, is a film for which one more computer helps
_SHORT_S = 300.0  # a film that takes less needs no others
_FINER = 8  # parts of a span, to see whether their length limits


def let_in(plan: Plan, media: MediaInfo) -> Plan:
    """The plan with a process of this computer at least, which others can join.

    What it decides of the picture stays; that it takes time until others are there is not known.
    """
    if _unused(media):
        return plan
    return replace(
        plan,
        takes_machines=True,
        workers=plan.workers or (WorkerPlan(gpu=plan.gpu, card=plan.card),),
        span_segments=workers.span_length(plan, max(workers.TOGETHER, len(plan.workers))),
    )


def notices(media: MediaInfo) -> Iterator[Notice]:
    """Why other computers, which are wanted, cannot help."""
    if case := _unused(media):
        yield Notice(code="machines-unused", case=case, severity="info")


def choices(plan: Plan, request: Request, budget: Budget, known: Rates) -> Iterator[Notice]:
    """What was decided of a job that lets others in, and what they gain.

    Args:
        plan: With its predictions.
        request: With the computers that are paired.
        budget: What this computer has.
        known: How fast it and the others are.
    """
    yield chosen("machines", frames=plan.span_segments * plan.segment_frames)
    if plan.seconds < _SHORT_S:
        return
    film = _Film.of(plan, request.media, budget, known)
    found = {one: machine_times.machine_rate(plan, one, known) for one in request.machines}
    rates = [rate for rate in found.values() if rate is not None]
    seconds = film.seconds(rates)
    if rates:
        names = _names(request, [one for one, rate in found.items() if rate is not None])
        yield _timed("machines-together", seconds, names=names)
    if unknown := [one for one, rate in found.items() if rate is None]:
        params = {"names": _names(request, unknown)}
        yield Notice(code="machines-not-counted", severity="info", params=params)
    if seconds >= _SHORT_S:
        yield _one_more(film, rates, seconds)


def _unused(media: MediaInfo) -> str:
    """Why no other computer can read the source; "" where it can."""
    if media.container != "image2":
        return ""
    return "picture" if media.kind == "image" else "pictures"


def _names(request: Request, fingerprints: Sequence[str]) -> tuple[str, ...]:
    return tuple(request.machines[one] for one in fingerprints)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Film:
    """What is shared of a film, and what is not.

    Attributes:
        spans: With frames that are computed in place of seconds: speeds are frames/s.
        around_s: Before spans are handed out.
        own: Frames/s of each process of this computer.
    """

    spans: SpanTimes
    around_s: float
    own: tuple[float, ...]

    @classmethod
    def of(cls, plan: Plan, media: MediaInfo, budget: Budget, known: Rates) -> _Film:
        computed = tuple(sharing.computed_frames(plan))
        before, after = machine_times.around_seconds(plan, budget, known)
        count, frames = len(computed), media.video.frame_count or plan.frames
        return cls(
            spans=SpanTimes(
                spans=count,
                span_s=computed,
                survey_s=times.survey_seconds(plan, budget, known) / count,
                source_bytes=media.bytes * min(1, plan.frames / frames) / count,
                result_bytes=plan.output_bytes / count,
                join_s=after,
            ),
            around_s=before,
            own=machine_times.own_rates(plan, budget, known),
        )

    def seconds(self, others: Sequence[float], link: Connection = GIGABIT) -> float:
        """Of the whole job, with other computers of some frames/s."""
        speeds = (*self.own, *others)
        return self.around_s + simulate(self.spans, speeds, link, near=len(self.own)).seconds

    @property
    def in_finer_spans(self) -> _Film:
        """The same film, in parts of its spans."""
        one = self.spans
        finer = SpanTimes(
            spans=_FINER * one.spans,
            span_s=tuple(each / _FINER for span in one.span_s for each in repeat(span, _FINER)),
            survey_s=one.survey_s / _FINER,
            source_bytes=one.source_bytes / _FINER,
            result_bytes=one.result_bytes / _FINER,
            join_s=one.join_s,
        )
        return replace(self, spans=finer)

    def needed_mbit_s(self, others: Sequence[float]) -> float:
        """Of the busier direction of the link, where nothing keeps the others from computing."""
        spans_per_s = sum(others) * self.spans.spans / sum(self.spans.span_s)
        return 8e-6 * spans_per_s * max(self.spans.source_bytes, self.spans.result_bytes)


def _one_more(film: _Film, others: Sequence[float], seconds: float) -> Notice:
    """What one more computer, as fast as this one, would gain, or what limits.

    Args:
        film: What is shared.
        others: Frames/s of the other computers.
        seconds: With them.
    """
    more = (*others, sum(film.own))
    with_it = film.seconds(more)
    without = {
        "survey": replace(film, spans=replace(film.spans, survey_s=0.0)).seconds(more),
        "link": film.seconds(more, LOCAL),
        "join": replace(film, spans=replace(film.spans, join_s=0.0)).seconds(more),
        "spans": film.in_finer_spans.seconds(more),
    }
    limit = min(without, key=lambda name: without[name])
    if with_it <= _WORTH * seconds or without[limit] > _WORTH * with_it:
        return _timed("one-more-machine", with_it, "helps")
    if limit == "join":
        return _timed("one-more-machine", film.spans.join_s, limit)
    params = {}
    if limit == "link":
        params = {
            "needed": f"{film.needed_mbit_s(more):.0f}",
            "carried": f"{GIGABIT.mbit_s:.0f}",
        }
    return Notice(code="one-more-machine", case=limit, severity="info", params=params)


def _timed(code: str, seconds: float, case: str = "", names: tuple[str, ...] = ()) -> Notice:
    params: dict[str, Param] = {"seconds": str(round(seconds)), "time": minutes_message(seconds)}
    if names:
        params["names"] = names
    return Notice(code=code, case=case, severity="info", params=params)
