"""Other computers in the plan of a job: whether they can join, their speed, and what they gain.

Which computers will help is unknown before the start, so the time of a plan is that of this
computer alone. Next to it stands the time with the paired computers, as fast as they were in
earlier jobs, and whether one more would help, with a network of 1 Gbit/s.

The speed of another computer is kept by the fingerprint of its certificate, in relation to a
nominal computer: so it does not depend on the hardware of this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

from engine.core.messages import Param
from engine.core.units import minutes_message
from engine.hardware.budget import Budget
from engine.models.planning.candidates import chosen
from engine.planner import rates, sharing, times, workers
from engine.planner.joining import OtherComputers
from engine.planner.rates import Learned, Rates
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Notice, Plan, WorkerPlan

_WORTH = 0.95  # one more computer helps if the job then takes at most this part of the time
_SHORT_S = 300.0  # a job that takes less needs no other computers
_FINER = 8  # parts of a span, to see whether the length of spans is the limit
_NOMINAL = Budget(ram_bytes=0, threads=8, capability=(8, 9))
_LINK_MBIT_S, _LATENCY_S = 940.0, 0.0005  # of 1 Gbit/s, in each direction
# Part of the longest possible wait for the link that occurs: all others, each using it as often as
# it can, wait as well (balanced job bounds: Zahorjan et al., Communications of the ACM, 1982).
_WAITING = 0.8


class PairedComputers(OtherComputers):
    """Computers that this one is paired with, in the plan of a job."""

    def paired(self) -> Mapping[str, str]:
        """Names by fingerprint.

        Raises:
            IdentityDamaged: The list of them makes no sense.
        """
        from engine.farm.identity import Peers  # loads cryptography

        return {peer.fingerprint: peer.name for peer in Peers().all()}

    def let_in(self, plan: Plan, media: MediaInfo) -> Plan:
        """The plan with at least one process of this computer, which the others can join."""
        if _unused(media):
            return plan
        return replace(
            plan,
            takes_machines=True,
            workers=plan.workers or (WorkerPlan(gpu=plan.gpu, card=plan.card),),
            span_segments=workers.span_length(plan, max(workers.TOGETHER, len(plan.workers))),
        )

    def notices(self, media: MediaInfo) -> Iterator[Notice]:
        """The notice that other computers cannot read the source."""
        if case := _unused(media):
            yield Notice(code="machines-unused", case=case, severity="info")

    def choices(
        self, plan: Plan, media: MediaInfo, paired: Mapping[str, str], budget: Budget, known: Rates
    ) -> Iterator[Notice]:
        """The length of spans, the time with paired computers, and what one more would gain."""
        yield chosen("machines", frames=plan.span_segments * plan.segment_frames)
        if plan.seconds < _SHORT_S:
            return
        job = SharedJob.of(plan, media, budget, known)
        found = {one: machine_rate(plan, one, known) for one in paired}
        others = [rate for rate in found.values() if rate is not None]
        seconds = job.seconds(others)
        if others:
            names = tuple(paired[one] for one, rate in found.items() if rate is not None)
            yield _timed("machines-together", seconds, names=names)
        if unknown := tuple(paired[one] for one, rate in found.items() if rate is None):
            yield Notice(code="machines-not-counted", severity="info", params={"names": unknown})
        if seconds >= _SHORT_S:
            yield _one_more(job, others, seconds)


def _unused(media: MediaInfo) -> str:
    """Why no other computer can read the source; "" if it can."""
    if media.container != "image2":
        return ""
    return "picture" if media.kind == "image" else "pictures"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedJob:
    """A job of which other computers make parts.

    The time with them is a closed form; `bench farm` simulates the same, event by event.
    """

    own: tuple[float, ...]  # frames/s of each process of this computer
    spans: tuple[float, ...]  # frames to compute for each span
    survey_s: float  # until the whole source was read ahead
    source_bytes: float  # sent to another computer for a span
    result_bytes: float  # sent back for a span
    around_s: float  # before and after the shared work, but for `join_s`
    join_s: float  # the result is joined and compared with the source
    link_mbit_s: float = _LINK_MBIT_S  # each direction, which all others share; 0: unlimited
    latency_s: float = _LATENCY_S  # one way

    @classmethod
    def of(cls, plan: Plan, media: MediaInfo, budget: Budget, known: Rates) -> SharedJob:
        """Take it from a plan."""
        spans = tuple(sharing.computed_frames(plan))
        before, after = _around_seconds(plan, budget, known)
        part = min(1, plan.frames / (media.video.frame_count or plan.frames))
        return cls(
            own=_own_rates(plan, budget, known),
            spans=spans,
            survey_s=times.survey_seconds(plan, budget, known),
            source_bytes=media.bytes * part / len(spans),
            result_bytes=plan.output_bytes / len(spans),
            around_s=before,
            join_s=after,
        )

    def seconds(self, others: Sequence[float]) -> float:
        """Time of the job with other computers.

        The limit is computing, reading the source ahead, or the link. Next to computing counts how
        long a computer waits for the link while the others use it.

        Args:
            others: Frames/s of each.
        """
        speeds = (*self.own, *others)
        count, mean = len(self.spans), sum(self.spans) / len(self.spans)
        first, last = (span / max(speeds) for span in (self.spans[0], self.spans[-1]))
        linked, far_s = 0.0, 0.0
        if others and self.link_mbit_s:
            sending = [8e-6 * n / self.link_mbit_s for n in (self.source_bytes, self.result_bytes)]
            busy = max(sending)
            far_s = sum(sending) + 4 * self.latency_s
            cycle = sum(mean / rate for rate in others) / len(others) + far_s
            far_s += _WAITING * busy * (len(others) - 1) * busy / cycle
            if busy:
                linked = first + count / (sum(self.own) / mean + 1 / busy)
        each_s = (*repeat(0.0, len(self.own)), *repeat(far_s, len(others)))
        computed = max(end for _, end in sharing.in_turn(self.spans, speeds, each_s))
        shared = max(computed, linked, self.survey_s + last)
        return self.around_s + shared + self.join_s

    def needed_mbit_s(self, others: Sequence[float]) -> float:
        """Speed of the link at which nothing keeps the others from computing."""
        spans_per_s = sum(others) * len(self.spans) / sum(self.spans)
        return 8e-6 * spans_per_s * max(self.source_bytes, self.result_bytes)


def _one_more(job: SharedJob, others: Sequence[float], seconds: float) -> Notice:
    """The gain of one more computer, as fast as this one, or the limit.

    Args:
        job: Shared with `others`, of some frames/s each.
        others: Frames/s.
        seconds: Time with them.
    """
    more = (*others, sum(job.own))
    with_it = job.seconds(more)
    finer = replace(
        job,
        spans=tuple(part for span in job.spans for part in repeat(span / _FINER, _FINER)),
        source_bytes=job.source_bytes / _FINER,
        result_bytes=job.result_bytes / _FINER,
    )
    without = {
        "survey": replace(job, survey_s=0.0),
        "link": replace(job, link_mbit_s=0.0),
        "join": replace(job, join_s=0.0),
        "spans": finer,
    }
    found = {name: one.seconds(more) for name, one in without.items()}
    limit = min(found, key=lambda name: found[name])
    if with_it <= _WORTH * seconds or found[limit] > _WORTH * with_it:
        return _timed("one-more-machine", with_it, "helps")
    if limit == "join":
        return _timed("one-more-machine", job.join_s, limit)
    params: dict[str, Param] = {}
    if limit == "link":
        needed, carried = job.needed_mbit_s(more), job.link_mbit_s
        params = {"needed": f"{needed:.0f}", "carried": f"{carried:.0f}"}
    return Notice(code="one-more-machine", case=limit, severity="info", params=params)


def _timed(code: str, seconds: float, case: str = "", names: tuple[str, ...] = ()) -> Notice:
    params: dict[str, Param] = {"seconds": str(round(seconds)), "time": minutes_message(seconds)}
    if names:
        params["names"] = names
    return Notice(code=code, case=case, severity="info", params=params)


# --- speed


def machine_rate(plan: Plan, fingerprint: str, known: Rates) -> float | None:
    """Frames/s of another computer, as earlier jobs of this kind showed; None if none did."""
    found = known.learned(times.kind(plan), machine_title(fingerprint))
    return None if found is None else plan.frames / found.factor / _nominal_seconds(plan)


def machine_title(fingerprint: str) -> str:
    """Name under which the speed of another computer is kept."""
    return f"machine:{fingerprint}"


def learn(plan: Plan, paces: Mapping[int, tuple[float, float]], owners: Mapping[int, str]) -> None:
    """Keep the speed of computers for later plans, each with all its devices.

    The pace of one of several processes of this computer tells nothing of it by itself.

    Args:
        plan: Plan of the job.
        paces: Frames and seconds of each worker.
        owners: Fingerprint of the computer of each worker; "" for this one.
    """
    devices: dict[str, list[tuple[float, float]]] = {}
    for number, pace in paces.items():
        if owners[number] or len(plan.workers) == 1:
            devices.setdefault(owners[number], []).append(pace)
    for owner, found in devices.items():
        seconds = max(one for _, one in found)
        learn_part(plan, sum(frames / one for frames, one in found) * seconds, seconds, owner)


def learn_part(plan: Plan, frames: float, seconds: float, fingerprint: str = "") -> Learned | None:
    """Correct the speed of a computer by its part of a job; returns as `rates.learn`.

    Next to the time that a job takes to start, a short time counts little.

    Args:
        plan: Plan of the job.
        frames: Frames that all devices of the computer have made.
        seconds: Time for them, without loading and waiting.
        fingerprint: SHA-256 of its certificate; "" for this computer, if it has one process.
    """
    known = rates.load_rates()
    if fingerprint:
        whole, title = _nominal_seconds(plan), machine_title(fingerprint)
    else:
        budget = times.budget_of(plan)
        (rate,) = _own_rates(plan, budget, replace(known, jobs={}))
        whole, title = plan.frames / rate, times.gpu_title(plan.work, budget)
    part = frames / plan.frames * (1 + workers.made_twice(plan))
    fixed = times.fixed_seconds(plan, known)
    return rates.learn(
        times.kind(plan), predicted=part * whole, measured=fixed + seconds, fixed=fixed, gpu=title
    )


def _nominal_seconds(plan: Plan) -> float:
    """Seconds of the shared work by the nominal computer."""
    return max(times.work_parts(replace(plan, workers=()), _NOMINAL, Rates())[1:])


def _own_rates(plan: Plan, budget: Budget, known: Rates) -> tuple[float, ...]:
    """Frames/s of each process of this computer; corrected."""
    if budget.gpus:
        return times.frame_rates(plan, budget, known)
    factor = known.factor(times.kind(plan), times.gpu_title(plan.work, budget))
    _, shared, alone = times.work_parts(plan, budget, known)
    count = len(plan.workers)
    return (plan.frames / factor / max(count * shared, alone),) * count


def _around_seconds(plan: Plan, budget: Budget, known: Rates) -> tuple[float, float]:
    """Seconds before and after the work that processes share."""
    factor = 1.0
    if not budget.gpus:
        factor = known.factor(times.kind(plan), times.gpu_title(plan.work, budget))
    found = times.stages_alone(plan, budget, known)
    before, after = (factor * found.get(stage, 0.0) for stage in (times.FIRST, times.LAST))
    return times.fixed_seconds(plan, known) + before, after
