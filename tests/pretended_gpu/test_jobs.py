"""Whole jobs on the pretended GPU, through the pipeline and its threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from engine.core import gpu_loss
from engine.core.errors import GpuLost, OutOfMemory
from engine.hardware import devices, gpu_reading, shared_memory, spill_guard
from engine.hardware.gpu_table import named
from engine.hardware.spill_guard import SURE_BYTES
from engine.jobs.checkpoint import Checkpoint
from engine.models.lite.family import LiteFamily
from engine.models.lite.upscaler import LiteUpscaler
from engine.pipeline import context as pipeline_context
from engine.pipeline import recovery
from engine.pipeline.context import JobContext
from engine.pipeline.gpu_guard import cared_for
from engine.pipeline.segments import SegmentRecord
from engine.pipeline.stages import upscale
from engine.pipeline.stages.restore import Restore
from engine.planner.downgrade import without_pinning
from engine.protocol.events import PlanDowngraded, Warned
from engine.protocol.gpu_reading import GpuProcess
from engine.protocol.plan import WorkPlan
from engine.settings.optimisations import VaeSwitches
from engine.settings.switches import Switches
from tests.helpers.extended import rest_extended
from tests.helpers.jobs import FEW, KINDS, USUAL_KINDS, Outcome, SmallJob, small_job
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = [
    pytest.mark.pretended_gpu,
    pytest.mark.usefixtures("figures_of_published_vaes"),
]

SWITCHES = Switches(vae=VaeSwitches(convolution="3d"))


def on_gpu(work: WorkPlan) -> WorkPlan:
    return replace(exact(work), device="cuda", switches=SWITCHES)


def exact(work: WorkPlan) -> WorkPlan:
    has_transformer = work.family in ("seedvr2", "swiftvr")
    own = {"vae_dtype": "float32", "attention": "math"} if has_transformer else {}
    return replace(work, dtype="float32", **own)


@pytest.mark.parametrize(
    ("kind", "is_cleaned"),
    [
        *((kind, False) for kind in USUAL_KINDS),
        ("lite", True),
        pytest.param("swiftvr", False, marks=pytest.mark.extended),
        pytest.param("seedvr2", True, marks=pytest.mark.extended),
    ],
)
def test_a_job_gives_the_pictures_of_the_processor(
    kind: str, is_cleaned: bool, tmp_path: Path
) -> None:
    job = small_job(kind, tmp_path, is_cleaned=is_cleaned)
    work = job.plan.work
    wanted = job.right(exact(work))
    if is_cleaned:
        job.plan = replace(job.plan, first_pass=replace(job.plan.first_pass, device="cuda"))
    computed = ("clean", "encode", "transformer", "decode", "upscale", "restore")
    stages = [replace(one, device_bytes=2**30) for one in job.plan.stages if one.stage in computed]
    job.plan = replace(job.plan, work=on_gpu(work), stages=tuple(stages))
    with pretended_gpu() as gpu:
        outcome = job.run()
    assert_same(outcome.pictures, wanted)
    assert [one.stage for one in outcome.report.gpu_memory] == [one.stage for one in stages]
    for one in outcome.report.gpu_memory:
        peak = one.peak
        assert 0 < peak.requested <= peak.allocated <= peak.reserved <= gpu.allocator.limit
        assert bool(one.parts) == (one.stage in ("encode", "decode"))
        assert all(0 < part.peak <= peak.requested for part in one.parts)
    times = {one.stage: one.seconds for one in outcome.report.stage_times}
    in_turns = sum(times[stage] for stage in times if stage not in ("read", "write"))
    whole = gpu.launches / 100_000  # s, by the clock of events; a piece without any counts as one
    assert 0.999 * whole <= in_turns <= 1.1 * whole
    assert all(times[one.stage] for one in stages)
    assert not gpu.record.problems
    assert gpu.launches


def test_frames_are_blended_as_on_the_processor(tmp_path: Path) -> None:
    job = small_job("lite", tmp_path)
    work = replace(exact(job.plan.work), steadiness="mild")
    wanted = job.right(work)
    job.plan = replace(job.plan, work=on_gpu(work))
    with pretended_gpu() as gpu:
        outcome = job.run()
    assert_same(outcome.pictures, wanted)
    assert "steady" in {one.stage for one in outcome.report.stage_times}
    assert not gpu.record.problems


def assert_same(pictures: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(pictures) == len(wanted)
    for found, right in zip(pictures, wanted, strict=True):
        assert np.abs(found.astype(int) - right.astype(int)).max() <= 1


@pytest.fixture(scope="module")
def lite(tmp_path_factory: pytest.TempPathFactory) -> tuple[SmallJob, list[np.ndarray]]:
    """A job of Lite on a GPU, and the processor's pictures."""
    job = small_job("lite", tmp_path_factory.mktemp("lite"))
    work = job.plan.work
    wanted = job.right(exact(work))
    job.plan = replace(
        job.plan, work=on_gpu(work), device_budget_bytes=2**30, device_limit_bytes=2**30
    )
    return job, wanted


def watched(
    job: SmallJob,
    shared: list[int | None],
    *,
    change: Callable[[JobContext], object] = lambda _: None,
) -> Outcome:
    """Run a job as the program does.

    Args:
        job: Which.
        shared: Bytes that Windows reports as shared with the GPU, one after the other; then the
            last one again; None: it is another system.
        change: Called with the context of the job before it begins.
    """

    def care(context: JobContext) -> None:
        stack.enter_context(cared_for(context))
        assert context.gpu_users is gpu_reading.other_programs
        change(context)

    def own_bytes() -> int | None:
        return shared.pop(0) if len(shared) > 1 else shared[0]

    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(shared_memory, "own_bytes", own_bytes)
        patch.setattr(spill_guard, "_PERIOD_S", 0.0)  # however fast the job is
        return job.run(change=care)


@pytest.mark.parametrize("kind", rest_extended(KINDS, "lite", "wan-2x"))
def test_a_pause_gives_the_memory_of_the_gpu_back(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of a segment, wherever memory is allocated then: models, carries, caches."""
    job = small_job(kind, tmp_path)
    work = job.plan.work
    wanted = job.right(exact(work))
    job.plan = replace(
        job.plan, work=on_gpu(work), device_budget_bytes=2**30, device_limit_bytes=2**30
    )
    limits, held = list[int](), list[int]()
    restored, go_on = Restore.run, recovery.Recovery.go_on

    def pausing(*args: Any) -> Any:
        limits.append(gpu.allocator.limit)
        if len(limits) == 2:
            contexts[0].control.pause()
        return restored(*args)

    def resuming(*args: Any) -> None:
        held.append(gpu.allocator.reserved)
        contexts[0].control.resume()
        go_on(*args)

    contexts = list[JobContext]()
    monkeypatch.setattr(pipeline_context, "SHORT_PAUSE_S", 0.05)
    monkeypatch.setattr(Restore, "run", pausing)
    monkeypatch.setattr(recovery.Recovery, "go_on", resuming)
    with pretended_gpu() as gpu:
        outcome = watched(job, [None], change=contexts.append)
        assert gpu.allocator.reserved == 0
        assert gpu.allocator.limit == 12 * 2**30
    assert held == [0]
    assert {limit - 2**30 for limit in limits} <= {-1, 0}
    assert not outcome.of(PlanDowngraded)
    assert_same(outcome.pictures, wanted)


def test_a_short_pause_keeps_the_model(
    lite: tuple[SmallJob, list[np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    job, wanted = lite
    loads, contexts, load = list[int](), list[JobContext](), LiteFamily.load_frames
    upscaled = LiteUpscaler.upscale

    def loaded(*args: Any) -> Any:
        loads.append(1)
        return load(*args)

    def pausing(*args: Any) -> Any:
        contexts[0].control.pause()
        threading.Timer(0.02, contexts[0].control.resume).start()
        return upscaled(*args)

    monkeypatch.setattr(LiteFamily, "load_frames", loaded)
    monkeypatch.setattr(LiteUpscaler, "upscale", pausing)
    with pretended_gpu():
        outcome = watched(job, [None], change=contexts.append)
    assert len(loads) == 1
    assert_same(outcome.pictures, wanted)


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)


LOST = ("unspecified launch failure", "no CUDA-capable device is detected", "driver shutting down")


@pytest.mark.parametrize("answer", LOST)
def test_a_gpu_that_is_lost_ends_the_job_and_is_left_alone(
    answer: str, lite: tuple[SmallJob, list[np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call fails from then on, also those that clean up; later plans know of it."""
    job, _ = lite
    (here,) = devices.as_gpus((named("RTX 4060"),))
    monkeypatch.setattr(devices, "gpus", lambda: () if gpu.lost else (here,))
    calls, upscaled, runs = list[int](), LiteUpscaler.upscale, job.runs

    def losing(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            wait_until(lambda: bool(finished()))
            gpu.lost = answer
        return upscaled(*args)

    def finished() -> list[SegmentRecord]:
        return Checkpoint(job.folder / str(runs + 1)).records

    monkeypatch.setattr(gpu_loss, "_lost", threading.Event())
    monkeypatch.setattr(LiteUpscaler, "upscale", losing)
    with pretended_gpu() as gpu:
        with pytest.raises(GpuLost) as caught:
            watched(job, [None])
        assert caught.value.params["reason"] == f"CUDA error: {answer}"
        with pytest.raises(GpuLost) as again:
            watched(job, [None])
    assert "Restart Upreel" in caught.value.hint
    assert again.value.case == "before"
    assert len(calls) == 3
    assert finished(), "it can be continued"
    assert gpu_loss.losses(here.name, here.driver) == 1


def test_a_gpu_is_asked_where_a_library_has_its_own_words(
    lite: tuple[SmallJob, list[np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        gpu.lost = is_lost and LOST[0]
        raise RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED")

    job, _ = lite
    monkeypatch.setattr(gpu_loss, "_lost", threading.Event())
    monkeypatch.setattr(LiteUpscaler, "upscale", failing)
    for is_lost, kind in (("", RuntimeError), ("yes", GpuLost)):
        with pretended_gpu() as gpu, pytest.raises(kind):
            watched(job, [None])
        assert gpu_loss.is_remembered() == bool(is_lost)


# Of the first readings two are of the guard that is made, the next is of the attempt that begins.
@pytest.mark.parametrize(("shared", "changes"), [([0, 0, 0], 1), ([0, 0], 0)])
def test_memory_that_spills_in_an_attempt_makes_a_smaller_plan(
    shared: list[int | None], changes: int, lite: tuple[SmallJob, list[np.ndarray]]
) -> None:
    job, wanted = lite
    with pretended_gpu():
        outcome = watched(job, [*shared, SURE_BYTES])
    assert [change.why for change in outcome.of(PlanDowngraded)] == changes * ["spilled"]
    assert all(change.plan.work != job.plan.work for change in outcome.of(PlanDowngraded))
    assert_same(outcome.pictures, wanted)


def test_memory_that_spills_without_a_smaller_plan_is_slow_but_right(
    lite: tuple[SmallJob, list[np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    job, wanted = lite
    for module in (recovery, upscale):
        monkeypatch.setattr(module, "next_plan", lambda *_, **__: None)
    with pretended_gpu():
        outcome = watched(job, [0, 0, 0, SURE_BYTES, SURE_BYTES, 2 * SURE_BYTES])
    assert [warned.notice.code for warned in outcome.of(Warned)] == ["spilled-at-floor"]
    assert_same(outcome.pictures, wanted)


def alone(context: JobContext) -> None:
    """No other program is on the GPU."""
    context.gpu_users = tuple


REFUSAL = "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"


@pytest.mark.parametrize(
    ("free_gib", "expected"), [(8, "pinning"), (0.25, "out-of-memory")], ids=["room", "full"]
)
def test_pinned_memory_refused_late_costs_the_pinning_and_not_the_plan(
    free_gib: float,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The driver takes the memory and reports with a later call that it could not pin it."""
    job = small_job("seedvr2", tmp_path, FEW)
    work = replace(job.plan.work, blocks_on_device=0, pin_bytes=2**24)
    wanted = job.right(exact(work))
    job.plan = replace(job.plan, work=on_gpu(work))
    (gpu_here,) = devices.as_gpus((named("RTX 4090"),))
    gpu_here = replace(gpu_here, free_bytes=round(free_gib * 2**30))
    monkeypatch.setattr(devices, "gpus", lambda: (gpu_here,))
    refused = list[int]()
    with pretended_gpu() as gpu:
        launch = gpu.launch

        def failing(*args: Any) -> None:
            if gpu.registered and (expected == "pinning" or not refused):
                refused.append(len(gpu.registered))
                raise RuntimeError(REFUSAL)
            launch(*args)

        monkeypatch.setattr(gpu, "launch", failing)
        outcome = watched(job, [None], change=alone)
        pins = {"D2H pinned async", "H2D pinned async"} & {kind for kind, _ in gpu.record.copies}
    assert len(refused) == 1
    (change,) = outcome.of(PlanDowngraded)
    assert (change.why, change.notice.case) == (expected, expected)
    after = change.plan.work
    is_kept = replace(after, switches=on_gpu(work).switches) == on_gpu(work)
    assert is_kept == (expected == "pinning")
    assert after.switches.run.pinned_transfers == bool(pins) == (expected != "pinning")
    assert outcome.report.plan_changes == (change.notice,)
    assert change.notice.message in caplog.text
    assert_same(outcome.pictures, wanted)


def test_a_plan_that_pins_nothing_becomes_smaller(
    lite: tuple[SmallJob, list[np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    job, wanted = lite
    monkeypatch.setattr(recovery.devices, "in_use", lambda: Mock(free_bytes=2**33))
    monkeypatch.setattr(job, "plan", without_pinning(job.plan))
    calls, upscaled = list[int](), LiteUpscaler.upscale

    def failing(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError(REFUSAL)
        return upscaled(*args)

    monkeypatch.setattr(LiteUpscaler, "upscale", failing)
    with pretended_gpu():
        outcome = watched(job, [None], change=alone)
    (change,) = outcome.of(PlanDowngraded)
    assert change.why == "out-of-memory"
    assert change.plan.work != job.plan.work
    assert_same(outcome.pictures, wanted)


def test_a_gpu_that_is_too_small_for_every_plan_is_named(
    lite: tuple[SmallJob, list[np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def used(context: JobContext) -> None:
        context.gpu_users = lambda: (GpuProcess(name="game.exe", mb=2100),)
        gpu.allocator.limit = 2**16

    job, _ = lite
    monkeypatch.setattr(recovery.devices, "in_use", lambda: Mock(free_bytes=2**16))
    with pretended_gpu() as gpu, pytest.raises(OutOfMemory) as caught:
        job.run(change=used)
    assert caught.value.case == "smallest-plan-on-gpu"
    found = {name: caught.value.params[name] for name in ("device", "free", "holders")}
    assert found == {"device": "cuda", "free": 2**16, "holders": "game.exe"}


def test_a_job_runs_on_the_gpu_that_its_plan_names(
    lite: tuple[SmallJob, list[np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every thread: what a thread of its own allocated would be on the first GPU."""
    job, wanted = lite
    here = devices.as_gpus((named("RTX 4090"), named("RTX 3060")))
    monkeypatch.setattr(devices, "gpus", lambda: here)
    for value, number in (("auto", 0), (here[1].name, 1)):
        monkeypatch.setattr(job, "plan", replace(job.plan, gpu=value))
        seen: list[devices.Gpu | None] = []
        with pretended_gpu() as gpu:
            found = watched(
                job,
                [None],
                change=lambda _, seen=seen: seen.append(devices.in_use()),
            )
        assert gpu.used == {number}
        assert seen == [here[number]], "readings are about that one too"
        assert_same(found.pictures, wanted)
    assert devices.in_use() == here[0], "afterwards about the fastest"
