"""Which GPUs make a film together, by which plan, and how long they take."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace

import pytest

from engine.core.errors import NoUsableGpu
from engine.core.geometry import Size
from engine.hardware.budget import Budget, pretended_budget
from engine.hardware.gpu_table import named
from engine.planner import peaks, sharing, times
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Learned, Rates
from engine.protocol.plan import Notice, Plan
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_media

GIB = 2**30
MINUTE = 60 * 25  # frames
SMALL = Size(320, 180)


def machine(*names: str, ram: int = 48 * GIB) -> Budget:
    first, *others = (named(name) for name in names)
    return pretended_budget(first, *others, ram_bytes=ram, threads=16)


def planned(
    budget: Budget,
    *,
    frames: int = 10 * MINUTE,
    size: Size = Size(640, 360),
    rates: Rates | None = None,
    **settings: object,
) -> Plan:
    wanted = JobSettings(**{"model": "seedvr2-3b", "device": "all", "scale": 2, **settings})
    film = a_media(frame_count=frames, duration=None, size=size)
    return plan_job(Request(media=film, settings=wanted), budget, rates or Rates())


def titles(plan: Plan) -> list[str]:
    return [worker.card for worker in plan.workers]


def left_out(plan: Plan) -> list[Notice]:
    return [notice for notice in plan.notices if notice.code == "gpus-left-out"]


def test_two_equal_gpus_make_a_film_of_some_minutes_in_little_more_than_half_the_time() -> None:
    for model in ("seedvr2-3b", "seedvr2-7b"):
        for minutes in (5, 30):
            alone = planned(machine("RTX 4090"), frames=minutes * MINUTE, model=model)
            both = planned(machine("RTX 4090", "RTX 4090"), frames=minutes * MINUTE, model=model)
            assert both.work == replace(
                alone.work, pin_bytes=both.work.pin_bytes, park_pin_bytes=both.work.park_pin_bytes
            )
            assert 1.88 <= alone.seconds / both.seconds <= 2.0, (model, minutes)
            assert [worker.share for worker in both.workers] == pytest.approx([0.5, 0.5], abs=0.06)


def test_alike_gpus_are_told_apart_by_their_numbers() -> None:
    plan = planned(machine("RTX 4090", "RTX 4090"))
    assert [worker.gpu for worker in plan.workers] == ["cuda:0", "cuda:1"]
    assert titles(plan) == ["RTX 4090, 24 GB (0)", "RTX 4090, 24 GB (1)"]
    assert (plan.gpu, plan.card) == ("cuda:0", "RTX 4090, 24 GB")


def test_the_slower_gpu_gets_fewer_spans() -> None:
    plan = planned(machine("RTX 3090", "RTX 4090"), size=SMALL)
    assert titles(plan) == ["RTX 4090, 24 GB", "RTX 3090, 24 GB"], "the fastest first"
    fast, slow = (worker.share for worker in plan.workers)
    assert 0.05 < slow < 0.6 * fast  # 0.43 of the products, 0.93 of the bandwidth
    assert fast + slow == pytest.approx(1)
    (choice,) = (one for one in plan.reasons.choices if one.code == "gpus")
    assert f"RTX 3090, 24 GB ({slow:.0%})".replace("%", " %") in choice.message


def test_all_work_by_the_plan_of_the_one_with_the_least_memory() -> None:
    both = planned(machine("RTX 4090", "RTX 4080"), size=SMALL)
    small = planned(machine("RTX 4080"), size=SMALL, device="auto")
    assert len(both.workers) == 2
    assert both.device_budget_bytes == small.device_budget_bytes
    assert both.device_bytes <= small.device_budget_bytes
    assert both.work.weights_files == small.work.weights_files


def test_what_the_oldest_cannot_compute_none_does() -> None:
    oldest = planned(machine("RTX 2060"), size=SMALL, model="lite", device="auto")
    two, kind = machine("RTX 4090", "RTX 2060"), times.kind(oldest)
    slow = {f"{kind} on {one.title}": Learned(factor=10.0) for one in two.gpus}  # not the reading
    both = planned(two, size=SMALL, model="lite", rates=Rates(jobs=slow))
    assert len(both.workers) == 2
    assert both.work.switches == oldest.work.switches
    refusing = planned(machine("RTX 5090", "RTX 4090"), matmul="nvfp4")
    assert (refusing.card, titles(refusing)) == ("RTX 5090, 32 GB", [])
    (notice,) = left_out(refusing)
    assert (notice.case, notice.params["gpus"]) == ("refused", "RTX 4090, 24 GB")


def test_a_gpu_with_which_the_film_would_take_longer_is_left_out_with_the_reason() -> None:
    alone = planned(machine("RTX 4090"))
    plan = planned(machine("RTX 4090", "RTX 3060"))
    assert not plan.workers
    assert (plan.work, plan.seconds, plan.card) == (alone.work, alone.seconds, alone.card)
    (notice,) = left_out(plan)
    assert (notice.case, notice.severity) == ("slower", "info")
    assert "RTX 3060, 12 GB" in notice.message
    three = planned(machine("RTX 4090", "RTX 3060", "RTX 4090"))
    assert titles(three) == ["RTX 4090, 24 GB (0)", "RTX 4090, 24 GB (2)"]
    assert [one.params["gpus"] for one in left_out(three)] == ["RTX 3060, 12 GB"]
    assert alone.seconds / three.seconds >= 1.9


def test_main_memory_is_that_of_all_processes() -> None:
    plan = planned(machine("RTX 4090", "RTX 4090"))
    assert plan.peak_bytes >= 2 * peaks.worker_bytes(plan)
    assert plan.peak_bytes <= plan.budget_bytes
    one = planned(machine("RTX 3090", "RTX 3090", ram=16 * GIB), model="seedvr2-7b", size=SMALL)
    assert one.peak_bytes <= one.budget_bytes
    assert 2 * (one.work.pin_bytes + one.work.park_pin_bytes) <= 0.4 * 16 * GIB


def test_there_is_nothing_to_share_of_a_picture_or_without_a_model() -> None:
    for changes in ({"frames": 1}, {"model": "none", "scale": 1}):
        plan = planned(machine("RTX 4090", "RTX 4090"), **changes)
        assert not plan.workers
        assert not left_out(plan)


def test_one_gpu_is_all_gpus_of_a_machine_that_has_no_other() -> None:
    budget = machine("RTX 4090")
    alone = planned(replace(budget, gpus=(budget,)))
    assert (alone.card, alone.workers) == ("RTX 4090, 24 GB", ())
    with pytest.raises(NoUsableGpu):
        planned(pretended_budget(None, ram_bytes=48 * GIB))


def test_each_gpu_is_corrected_by_what_was_measured_of_it() -> None:
    budget = machine("RTX 4090", "RTX 4080")
    before = planned(budget, size=SMALL, frames=30 * MINUTE)
    kind = "seedvr2-3b-x1-cuda-libx264"
    slower = Rates(jobs={f"{kind} on RTX 4080, 16 GB": Learned(factor=2.0)})
    after = planned(budget, size=SMALL, frames=30 * MINUTE, rates=slower)
    assert after.workers[1].share < 0.7 * before.workers[1].share
    assert after.seconds > before.seconds


@pytest.mark.parametrize("rates", [(1.0,), (1.0, 1.0), (4.0, 1.0), (3.0, 2.0, 1.0)])
def test_spans_are_handed_out_whole_and_once(rates: Sequence[float]) -> None:
    base = planned(machine("RTX 4090", "RTX 4090"))
    for length in (1, 3, 24):
        plan = dataclasses.replace(base, span_segments=length)
        found = sharing.shared_out(plan, rates)
        assert sum(found.frames) == plan.frames
        assert sum(found.spans) >= plan.frames / (length * plan.segment_frames)
        assert found.seconds >= plan.frames / sum(rates)
        assert list(found.frames) == sorted(found.frames, reverse=True)


def test_spans_are_long_where_edges_cost_much_and_short_where_gpus_would_end_apart() -> None:
    base = planned(machine("RTX 4090", "RTX 4090"), frames=60 * MINUTE)
    best = sharing.with_best_spans(base, (1.0, 1.0)).span_segments
    assert 1 < best < 720 / 2
    short = dataclasses.replace(base, work=replace(base.work, clip=1, shared=0))
    assert sharing.with_best_spans(short, (1.0, 1.0)).span_segments <= best


def test_a_film_that_is_read_no_faster_gets_no_second_gpu() -> None:
    both = planned(machine("RTX 4090", "RTX 4090"), size=SMALL, model="lite")
    assert not both.workers
    assert [notice.case for notice in left_out(both)] == ["slower"]


def test_reasons_are_those_of_the_gpus_that_take_part() -> None:
    found = []
    for names in (("RTX 5090", "RTX 4090"), ("RTX 5090",)):
        plan = planned(machine(*names), matmul="nvfp4", machines="all")
        assert not plan.workers[1:]
        assert plan.reasons is not None
        found.append((plan.reasons.choices, plan.reasons.alternatives))
    assert found[0] == found[1]
