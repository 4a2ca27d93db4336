"""A job has the switches of its plan, and the process has its own again afterwards."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.core.control import Control
from engine.models import registry
from engine.ops import compiler
from engine.ops.kernels.build import checked, report_missing
from engine.ops.kernels.nvrtc import NvrtcMissing
from engine.ops.precision import current
from engine.pipeline.context import JobContext
from engine.pipeline.gpu_guard import switched
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Rates
from engine.protocol.events import Warned
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from tests.helpers.compiling import compiling
from tests.helpers.extended import rest_extended
from tests.helpers.jobs import Events, small_job
from tests.helpers.plans import a_budget, a_media
from tests.helpers.seedvr2 import write_seedvr2
from tests.helpers.wan import tiny_wan_config, write_wan

CHANGED = "vae.in_place=off,vae.convolution=3d,dit.fused_steps=off,run.tf32=on,dit.attention=math"


def plan_of(settings: JobSettings) -> Plan:
    return plan_job(Request(media=a_media(), settings=settings), a_budget(), Rates())


def test_models_are_loaded_with_the_switches_of_their_plan(tmp_path: Path) -> None:
    plan = plan_of(write_seedvr2(tmp_path).settings(switches=CHANGED))
    model: Any = registry.family_of(plan.work).load_shots(plan.work)
    vae, dit = model._vae, model._dit
    assert vae.switches == plan.work.switches.vae
    assert (vae.switches.in_place, vae.switches.convolution) == (False, "3d")
    assert (dit.switches.fused_steps, dit.switches.attention) == (False, "math")
    model.close()
    file = tmp_path / "wan.safetensors"
    write_wan(file, tiny_wan_config("2x"))
    plan = plan_of(JobSettings(model="wan-2x", vae=str(file), switches=CHANGED))
    wan: Any = registry.family_of(plan.work).load_shots(plan.work)
    assert not wan._vae.switches.in_place


def test_switches_of_the_process_are_those_of_the_job_and_what_comes_too_late_is_reported() -> None:
    before = current()
    late = {"switch": "run.allocator", "variable": "UPREEL_RUN_ALLOCATOR"}
    for switches, expected in (
        ("run.tf32=on,run.cudnn_benchmark=on", []),
        ("run.allocator=async", [("switch-too-late", late)]),
    ):
        plan = plan_of(JobSettings(model="lite", switches=switches))
        events = Events(control := Control())
        context = JobContext(
            job_id="job", media=a_media(), plan=plan, control=control, events=events
        )
        with switched(context):
            assert current() == plan.work.switches.run
            assert current().tf32 == ("tf32" in switches)
        assert current() is before
        warned = [event.notice for event in events.all if isinstance(event, Warned)]
        assert [(notice.code, notice.params) for notice in warned] == expected


def test_what_torch_cannot_compile_is_said_once_and_its_seconds_are_counted() -> None:
    def broken(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("no such instruction")

    plan = plan_of(JobSettings(model="lite"))
    events = Events(control := Control())
    context = JobContext(job_id="job", media=a_media(), plan=plan, control=control, events=events)
    x = torch.ones(2)
    with compiling(broken), switched(context):
        for function in (double, halve):
            assert not compiler.done(function, x, x.clone())
    (warned,) = (event.notice for event in events.all if isinstance(event, Warned))
    assert (warned.code, warned.severity) == ("not-compiled", "warning")
    assert "no such instruction" in warned.message
    assert "vae.compile" in warned.hint
    assert context.meter.seconds()["compile"] > 0
    assert not context.is_learned_from, "later jobs do not compile"


def test_kernels_that_do_not_work_are_said_once() -> None:
    plan = plan_of(JobSettings(model="lite"))
    events = Events(control := Control())
    context = JobContext(job_id="job", media=a_media(), plan=plan, control=control, events=events)
    gpu, dtype = torch.device("cuda", 0), torch.float16

    def fail() -> None:
        raise NvrtcMissing("nvrtc64_130_0.dll cannot be loaded\nand more")

    with switched(context):
        for title in ("group norm", "token rows"):
            assert checked((title, gpu, dtype), fail, lambda _: 0.0) is None
            for _ in range(3):
                report_missing(title, gpu, dtype)
        report_missing("works", gpu, dtype)
    report_missing("group norm", gpu, dtype)
    (warned,) = (event.notice for event in events.all if isinstance(event, Warned))
    assert (warned.code, warned.severity) == ("kernels-missing", "warning")
    assert "(group norm: nvrtc64_130_0.dll cannot be loaded)" in warned.message
    assert "ten times as long" in warned.message


@pytest.mark.parametrize("kind", rest_extended(["seedvr2", "wan-2x"], "wan-2x"))
def test_a_job_whose_model_cannot_be_compiled_is_made_without(kind: str, tmp_path: Path) -> None:
    graphs = []

    def good_for_one(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        if len(graphs) > 1:  # the first one is the trial
            raise RuntimeError("no such instruction")
        return graph.forward

    job = small_job(kind, tmp_path)
    usual, work = job.run(), job.plan.work
    switches = replace(work.switches, vae=replace(work.switches.vae, compile=True))
    job.plan = replace(job.plan, work=replace(work, switches=switches))
    with compiling(good_for_one), ExitStack() as stack:
        outcome = job.run(change=lambda context: stack.enter_context(switched(context)))
    assert [event.notice.code for event in outcome.of(Warned)] == ["not-compiled"]
    assert "compile" in {one.stage for one in outcome.report.stage_times}
    assert all(map(np.array_equal, outcome.pictures, usual.pictures))


def double(x: Tensor, out: Tensor) -> None:
    out.copy_(2 * x)


def halve(x: Tensor, out: Tensor) -> None:
    out.copy_(x / 2)
