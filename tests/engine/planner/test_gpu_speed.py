"""Effect of switches, formats and backends on the seconds of a GPU that was never measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.hardware.budget import pretended_budget
from engine.hardware.gpu_table import named, requested
from engine.models.seedvr2.plan import SeedVr2Plan
from engine.models.seedvr2.requirements import stage_work
from engine.planner import gpu_speed, times
from engine.planner.plan_job import Request, bare_plan, plan_job
from engine.planner.rates import Rates
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_budget, a_media

GB = 10**9
TURING, AMPERE = requested("RTX 2080 Ti"), requested("RTX 3080 12 GB")
ADA, BLACKWELL = requested("RTX 4090"), requested("RTX 5090")


def planned(gpu: Any, rates: Rates | None = None, **wanted: Any) -> Plan:
    settings = JobSettings(**{"model": "seedvr2-3b", "scale": 2, **wanted})
    budget = pretended_budget(gpu, ram_bytes=64 * GB)
    return bare_plan(Request(media=a_media(), settings=settings), budget, rates or Rates())


def model_seconds(plan: Plan, gpu: Any, rates: Rates | None = None) -> dict[str, float]:
    budget = pretended_budget(gpu, ram_bytes=64 * GB)
    found = times.stage_seconds(plan, budget, rates or Rates())
    return {name: found[name] for name in ("encode", "transformer", "decode")}


@pytest.mark.parametrize(
    ("choice", "stage"),
    [
        *(("dit.all=off", "transformer"), ("dit.kernels=off", "transformer")),
        *(("dit.fused_steps=off", "transformer"), ("dit.in_place_residual=off", "transformer")),
        *(("vae.all=off", "decode"), ("vae.kernels=off", "decode"), ("vae.kernels=off", "encode")),
        *(("vae.channels_last=off", "decode"), ("vae.ring_buffers=off", "decode")),
        *(("vae.fused_norm=off", "decode"), ("vae.in_place=off", "decode")),
    ],
)
def test_a_switch_that_saves_bytes_saves_seconds(choice: str, stage: str) -> None:
    """Only the seconds of its stage change, and the range with them."""
    plan = planned(BLACKWELL)
    group, name = choice.partition("=")[0].split(".")
    off = getattr(plan.work.switches, group).changed(name, False)
    work = replace(plan.work, switches=replace(plan.work.switches, **{group: off}))
    usual, other = (model_seconds(one, BLACKWELL) for one in (plan, replace(plan, work=work)))
    assert other[stage] > 1.02 * usual[stage]
    same = {"encode", "decode"} if group == "dit" else {"transformer"}
    assert all(other[one] == usual[one] for one in same)
    assert planned(BLACKWELL, switches=choice).seconds_high > plan.seconds_high


def test_formats_count_by_what_a_generation_multiplies() -> None:
    for gpu, faster in (
        (TURING, ("int8",)),
        (AMPERE, ("int8",)),
        (ADA, ("int8", "fp8")),
        (BLACKWELL, ("int8", "fp8")),
    ):
        usual = planned(gpu)
        for kind in ("int8", "fp8"):
            pace = gpu_speed.format_pace(gpu, kind)
            assert (pace.likely > 1) == (kind in faster), (gpu.title, kind)
            assert pace.worst <= pace.likely <= pace.best
        for kind in faster:
            other = planned(gpu, matmul=kind)
            assert other.seconds < usual.seconds, (gpu.title, kind)
    assert gpu_speed.format_pace(ADA, "nvfp4").best == 1
    assert gpu_speed.format_pace(BLACKWELL, "nvfp4").best == 8
    full_rate = replace(BLACKWELL, form_factor="workstation")
    assert gpu_speed.format_pace(full_rate, "int8").best == 2


def test_the_range_of_a_format_is_as_wide_as_what_is_not_known() -> None:
    plain, narrow = planned(BLACKWELL), planned(BLACKWELL, matmul="int8")
    width = [one.seconds_high / one.seconds_low for one in (plain, narrow)]
    assert width[1] > width[0]


def test_attention_by_another_backend_takes_longer() -> None:
    found = {name: planned(ADA, attention=name).seconds for name in ("auto", "efficient", "math")}
    assert found["auto"] < found["efficient"] < found["math"]
    package = planned(ADA, attention="sage2")
    assert package.seconds == found["auto"]
    assert package.seconds_low < planned(ADA).seconds_low


def test_sums_in_half_precision_count_in_the_best_case_alone() -> None:
    """The low end alone changes for sums in float16, since no GPU has run the kernel."""
    for gpu, choice in (
        (ADA, "vae.fp16_sums"),
        (TURING, "vae.fp16_sums"),
        (TURING, "dit.fp16_sums"),
    ):
        on, off = planned(gpu), planned(gpu, switches=f"{choice}=off")
        assert on.seconds == off.seconds
        assert on.seconds_low < off.seconds_low, (gpu.title, choice)
        assert on.seconds_high == off.seconds_high
    workstation = replace(ADA, form_factor="workstation")
    plans = (planned(workstation, switches=f"vae.fp16_sums={state}") for state in ("on", "off"))
    assert len({plan.seconds_low for plan in plans}) == 1


def test_weights_that_nothing_hides_take_their_time() -> None:
    hidden, waiting = (
        planned(named("RTX 4060"), model="seedvr2-7b", switches=f"run.weights_stream={state}")
        for state in ("on", "off")
    )
    assert hidden.work == replace(waiting.work, switches=hidden.work.switches)
    assert waiting.seconds > hidden.seconds


def test_switches_scale_what_the_speed_test_measured() -> None:
    measured = Rates(gpus={ADA.title: {"vae-float16": 0.01, "transformer-bfloat16": 0.02}})
    usual, slow, fast = (
        planned(ADA, measured, **wanted)
        for wanted in ({}, {"switches": "dit.kernels=off"}, {"matmul": "int8"})
    )
    assert fast.seconds < usual.seconds < slow.seconds
    assert isinstance(usual.work, SeedVr2Plan)
    operations = stage_work(usual.work, usual.frames)["transformer"].operations
    measured_s = 0.02 * operations / 1e12
    assert model_seconds(usual, ADA, measured)["transformer"] == pytest.approx(measured_s)
    assert usual.seconds_low == pytest.approx(0.7 * usual.seconds)
    assert usual.seconds_high == pytest.approx(1.6 * usual.seconds)  # the kernel is in it
    assert fast.seconds_high > 1.6 * fast.seconds  # the format is not


def test_formats_count_on_a_processor_as_they_were_measured_there() -> None:
    found = {}
    for kind in ("none", "int8", "fp8"):
        settings = JobSettings(model="seedvr2-3b", scale=2, matmul=kind)
        plan = bare_plan(Request(media=a_media(), settings=settings), a_budget(), Rates())
        found[kind] = {stage.stage: stage.seconds for stage in plan.stages}["transformer"]
    assert found["int8"] == pytest.approx(0.47 * found["none"], rel=0.05)
    assert found["fp8"] == pytest.approx(1.66 * found["none"], rel=0.05)


def test_formats_that_the_gpu_has_are_one_step_away() -> None:
    for gpu, offered in (
        (TURING, {"int8"}),
        (ADA, {"int8", "fp8"}),
        (BLACKWELL, {"int8", "fp8", "nvfp4"}),
    ):
        settings = JobSettings(model="seedvr2-3b", scale=2)
        request = Request(media=a_media(), settings=settings)
        plan = plan_job(request, pretended_budget(gpu, ram_bytes=64 * GB), Rates())
        assert plan.reasons is not None
        steps = {
            one.params["matmul"]: one for one in plan.reasons.alternatives if "matmul" in one.params
        }
        assert set(steps) == offered, gpu.title
        assert steps["int8"].seconds < plan.seconds
