"""How many worker processes a plan has, and what they take."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.errors import SettingsError
from engine.hardware.budget import PROGRAM_BYTES, Budget, pretended_budget
from engine.hardware.gpu_table import gpu_specs
from engine.planner import peaks
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Rates
from engine.planner.workers import SpanLengths, frames_around, span_segments
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from tests.helpers.plans import RoundPlan, a_media, a_plan

GIB = 2**30


def planned(budget: Budget, frames: int = 24000, **settings: object) -> Plan:
    wanted = JobSettings(**{"model": "lite", "treatment": "faithful", **settings})
    film = a_media(frame_count=frames, duration=None)
    request = Request(media=film, settings=wanted, output=Path("out.mkv"))
    return plan_job(request, budget, Rates())


def processor(ram: int = 32 * GIB, threads: int = 8) -> Budget:
    return pretended_budget(None, ram_bytes=ram, threads=threads)


def codes(plan: Plan) -> list[str]:
    return [f"{one.code}.{one.case}" for one in plan.notices if "workers" in one.code]


def test_one_process_is_the_default() -> None:
    plan = planned(processor())
    assert not plan.workers
    assert plan.work.threads == 8


def test_workers_compute_with_one_thread_each_what_one_process_would() -> None:
    one, four = planned(processor(threads=1)), planned(processor(), workers=4)
    assert len(four.workers) == 4
    assert four.work == one.work
    assert four.picture == one.picture
    assert four.segment_frames == one.segment_frames
    assert four.peak_bytes == peaks.job_peak(four).host
    assert "workers" in [choice.code for choice in four.reasons.choices]
    assert not codes(four)


def test_there_are_as_many_workers_as_fit() -> None:
    each = peaks.worker_bytes(planned(processor(), workers=2))
    plan = planned(processor(ram=PROGRAM_BYTES + 3 * each + each // 2), workers=6)
    assert len(plan.workers) == 3
    assert plan.peak_bytes <= plan.budget_bytes
    assert codes(plan) == ["fewer-workers.memory"]
    alone = planned(processor(ram=PROGRAM_BYTES + each + each // 2), workers=6)
    assert not alone.workers
    assert alone.work.threads == 8
    assert codes(alone) == ["fewer-workers.memory"]


def test_no_more_workers_than_threads_and_segments() -> None:
    assert codes(planned(processor(threads=2), workers=4)) == ["fewer-workers.cores"]
    short = planned(processor(), frames=300, workers=4)
    assert len(short.workers) == 3
    assert codes(short) == ["fewer-workers.film"]


def test_time_falls_with_their_number() -> None:
    seconds = [planned(processor(threads=8), workers=count).seconds for count in (2, 4, 8)]
    assert 1.8 < seconds[0] / seconds[1] <= 2.0
    assert 1.6 < seconds[1] / seconds[2] <= 2.0


def test_spans_are_shorter_than_what_a_worker_gets() -> None:
    for count in (2, 8):
        plan = planned(processor(), workers=count)
        segments = plan.frames / plan.segment_frames
        assert 4 * count <= segments / plan.span_segments


@pytest.mark.parametrize(("segments", "workers"), [(720, 4), (100, 3), (33, 2), (7, 8)])
def test_workers_end_together_where_segments_allow_it(segments: int, workers: int) -> None:
    made, longest = workers * [0], span_segments(segments, workers, takes_shots=False)
    for length in SpanLengths(segments=segments, workers=workers, longest=longest):
        made[made.index(min(made))] += length  # who is free first
    assert sum(made) == segments
    assert max(made) - min(made) <= 1


def test_a_gpu_has_one_process() -> None:
    gpu = next(one for one in gpu_specs() if one.title.startswith("RTX 5070 Ti"))
    plan = planned(pretended_budget(gpu, ram_bytes=32 * GIB), workers=4)
    assert not plan.workers
    assert codes(plan) == ["workers-unused."]


@pytest.mark.parametrize("workers", [0, 65])
def test_impossible_numbers_are_refused(workers: int) -> None:
    with pytest.raises(SettingsError, match="workers"):
        JobSettings(workers=workers)


@pytest.mark.usefixtures("round_family")
def test_around_a_span_frames_of_its_shots_are_computed_twice() -> None:
    for around, in_shots, twice in (
        # of spans of 1, 4 and 24 segments; those of 4 and 24 may end at 2 and 7 places
        ((500, 600), False, [1100, 1100, 1100]),
        # shots of 4 s, 100 frames: a half, a third, an eighth before the span, half a shot after it
        ((500, 600), True, [100, 83, 62]),
        ((40, 600), True, [90, 83, 62]),
        ((500, 30), True, [80, 63, 42]),
        ((10, 20), True, [30, 30, 30]),
    ):
        plan = a_plan(work=RoundPlan(shot_sensitivity=60 if in_shots else None, around=around))
        assert [frames_around(plan, segments) for segments in (1, 4, 24)] == twice


@pytest.mark.parametrize("model", ["seedvr2-3b", "wan-2x"])
def test_a_model_looks_back_as_far_as_its_encoder_and_decoder(model: str) -> None:
    plan = planned(processor(), model=model, workers=2, shots="off")
    assert frames_around(plan, 1) > 4 * (28 + 37)


def test_spans_of_shots_stay_long_and_those_of_frames_get_short_at_the_end() -> None:
    shots, frames = planned(processor(), model="wan-2x", workers=2), planned(processor(), workers=2)
    for plan in (shots, frames):
        lengths = list(SpanLengths.of(plan))
        assert sum(lengths) == -(-plan.frames // plan.segment_frames)
        assert max(lengths) == plan.span_segments
    assert list(SpanLengths.of(frames))[-1] == 1
    assert frames_around(frames, 1) == 0
    *whole, _ = SpanLengths.of(shots)
    assert all(16 * frames_around(shots, one) <= one * shots.segment_frames for one in whole)
