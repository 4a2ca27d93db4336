"""Jobs on a GPU in their own process: the GPU may be lost, the window's process never uses it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from engine.core import gpu_loss
from engine.core.control import Control
from engine.core.errors import Cancelled, GpuLost
from engine.hardware import budget, devices
from engine.hardware.budget import measure_budget
from engine.hardware.gpu_table import named
from engine.hardware.process import OwnProcesses
from engine.jobs import gpu_process
from engine.jobs.checkpoint import Checkpoint
from engine.jobs.gpu_process import PROCESS, run_in
from engine.jobs.run_here import run_here
from engine.pipeline.context import JobContext, Throttle
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.plan import Plan
from engine.settings.schema import EngineSettings
from engine.video.read.probe import probe
from tests.helpers.forks import Forks
from tests.helpers.jobs import (
    FEW,
    KINDS,
    SHOTS,
    Events,
    running_engine,
    segment_files,
    settings_of,
    small_plan,
)
from tests.helpers.seedvr2 import make_three_shots
from tests.pretended_gpu.machine import pretended_gpu
from tests.pretended_gpu.process import HERE, LOSSES, NAME
from tests.pretended_gpu.test_jobs import on_gpu, wait_until

pytestmark = [
    pytest.mark.pretended_gpu,
    pytest.mark.usefixtures("figures_of_published_vaes"),
]

Lose = Callable[[int], None]


@pytest.fixture
def lose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lose]:
    """Lets the GPU be lost after n launches of a process; each call is for a process more.

    This process has no GPU that torch could use, and counts who asks for one.
    """
    folder = tmp_path / "losses"
    folder.mkdir()
    monkeypatch.setenv(LOSSES, str(folder))
    monkeypatch.setattr(gpu_process, "PRELOADED", [HERE])
    loaded = "engine.pipeline.run", "tests.pretended_gpu.machine", "torch._dynamo"
    monkeypatch.setattr(gpu_process, "OwnProcesses", lambda: Forks(loaded))
    monkeypatch.setattr(PROCESS, "is_used", True)
    here = devices.as_gpus([named(NAME)])
    monkeypatch.setattr(devices, "gpus", lambda: here)
    monkeypatch.setattr(budget, "torch_has_cuda", lambda: True)
    monkeypatch.setattr(gpu_loss, "_lost", threading.Event())
    contexts: list[str] = []
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: contexts.append("CUDA"))

    def lose(launches: int) -> None:
        (folder / f"{len(list(folder.iterdir())):03d}").write_text(str(launches), "ascii")

    yield lose
    PROCESS.close()
    assert not contexts, "this process opens no CUDA context"
    assert not gpu_loss.is_remembered()


def planned(kind: str, folder: Path, shots: tuple[int, int, int] = SHOTS) -> Plan:
    plan = small_plan(kind, folder, shots)
    limits = {"device_budget_bytes": 2**30, "device_limit_bytes": 2**30}
    return replace(plan, work=on_gpu(plan.work), gpu=NAME, **limits)


def context_of(plan: Plan, folder: Path, events: Events, control: Control | None = None) -> Any:
    folder.mkdir()
    return JobContext(
        job_id="job",
        media=probe(plan.source),
        plan=replace(plan, output=folder / "out.mkv"),
        control=control or Control(),
        events=events,
        picture_due=Throttle(0),
    )


def made_here(plan: Plan, folder: Path) -> int:
    """Run a job on a pretended GPU of this process; its launches."""
    context = context_of(plan, folder, Events())
    with pretended_gpu() as gpu:
        run_here(folder, context, Checkpoint(folder), overwrite=True)
    return gpu.launches


def made(plan: Plan, folder: Path, events: Events, control: Control | None = None) -> JobContext:
    context = context_of(plan, folder, events, control)
    run_in(folder, context, Checkpoint(folder), overwrite=True)
    return context


def losses() -> int:
    return gpu_loss.losses(devices.gpus()[0].name, devices.gpus()[0].driver)


def test_a_lost_gpu_costs_a_piece_of_the_job_and_no_more(tmp_path: Path, lose: Lose) -> None:
    plan, events = planned("lite", tmp_path), Events()
    launches = made_here(plan, tmp_path / "here")
    before = measure_budget(EngineSettings(), tmp_path, tmp_path)
    lose(launches // 2)
    context = made(plan, tmp_path / "there", events)
    assert segment_files(tmp_path / "there") == segment_files(tmp_path / "here")
    (change,) = events.of(e.PlanDowngraded)
    assert (change.why, change.plan) == ("gpu-lost", context.plan)
    assert not context.plan.work.switches.run.pinned_transfers
    assert context.plan.work == replace(plan.work, switches=context.plan.work.switches)
    assert events.of(e.StageProgress)
    assert events.of(e.PreviewReady)
    done = [one.segment for one in events.of(e.SegmentDone)]
    assert sorted(done) == list(range(5)), "finished segments stay"
    assert losses() == 1
    after = measure_budget(EngineSettings(), tmp_path, tmp_path)
    assert (before.gpu_losses, after.gpu_losses) == (0, 1)


def test_a_process_stays_for_the_next_job_and_ends_without_one(
    tmp_path: Path, lose: Lose, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_process, "OwnProcesses", OwnProcesses)  # loads its libraries
    plan = planned("lite", tmp_path)
    pids = []
    for name in ("one", "two"):
        made(plan, tmp_path / name, Events())
        pids.append(PROCESS.pid)
    assert segment_files(tmp_path / "one") == segment_files(tmp_path / "two")
    assert pids[0] == pids[1] > 0
    monkeypatch.setattr(gpu_process, "_IDLE_S", 0.2)
    PROCESS.start()
    wait_until(lambda: not PROCESS.pid)
    wait_until(lambda: not psutil.pid_exists(pids[0]))


@pytest.mark.slow
def test_a_gpu_that_is_lost_again_and_again_ends_the_job(tmp_path: Path, lose: Lose) -> None:
    plan, events = planned("lite", tmp_path), Events()
    for _ in range(8):
        lose(1)
    with pytest.raises(GpuLost) as caught:
        made(plan, tmp_path / "there", events)
    assert caught.value.case == "again"
    assert "unspecified launch failure" in caught.value.message
    assert [one.notice.code for one in events.of(e.Warned)][-1] == "gpu-retry"


def test_a_pause_and_a_cancellation_reach_the_process(tmp_path: Path, lose: Lose) -> None:
    plan, control = planned("lite", tmp_path, shots=(40, 40, 40)), Control()
    times: list[float] = []
    resumed: list[float] = []

    def resume() -> None:
        resumed.append(time.monotonic())
        control.resume()

    def answer(event: e.Event) -> None:
        if isinstance(event, e.SegmentDone):
            times.append(time.monotonic())
            if len(times) == 1:
                control.pause()
                threading.Timer(3.0, resume).start()
            elif resumed:
                control.cancel()

    with pytest.raises(Cancelled):
        made(plan, tmp_path / "there", Events(answer=answer), control)
    assert not [at for at in times if times[0] + 1.0 < at < resumed[0]]
    assert 0 < Checkpoint(tmp_path / "there").frames < 120
    rest = context_of(plan, tmp_path / "rest", Events())
    run_in(tmp_path / "there", rest, Checkpoint(tmp_path / "there"), overwrite=True)
    made_here(plan, tmp_path / "here")
    assert segment_files(tmp_path / "there") == segment_files(tmp_path / "here")


def test_a_process_that_is_killed_is_replaced(tmp_path: Path, lose: Lose) -> None:
    """As after a crash inside of the driver, which reports nothing."""
    plan = planned("lite", tmp_path)
    killed: list[int] = []

    def kill(event: e.Event) -> None:
        if isinstance(event, e.SegmentDone) and not killed:
            killed.append(PROCESS.pid)
            psutil.Process(PROCESS.pid).kill()

    events = Events(answer=kill)
    made(plan, tmp_path / "there", events)
    made_here(plan, tmp_path / "here")
    assert segment_files(tmp_path / "there") == segment_files(tmp_path / "here")
    assert [one.why for one in events.of(e.PlanDowngraded)] == ["gpu-lost"]
    assert losses() == 0, "nobody said that the GPU was lost"


def test_where_no_process_starts_the_job_runs_here(
    tmp_path: Path, lose: Lose, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_process, "PRELOADED", ["no_such_module"])
    plan = replace(planned("lite", tmp_path), gpu="")
    with pretended_gpu() as gpu:
        made(plan, tmp_path / "there", Events())
    assert gpu.launches
    assert segment_files(tmp_path / "there")


@pytest.mark.parametrize(
    "count", [len(KINDS), pytest.param(20, marks=pytest.mark.slow, id="twenty")]
)
def test_losses_at_random_moments_change_no_result(count: int, tmp_path: Path, lose: Lose) -> None:
    """The process of the window lives on; the plan that is made next takes less memory."""
    dice, known = random.Random(4), {}
    for kind in KINDS:
        folder = tmp_path / kind
        folder.mkdir()
        plan = planned(kind, folder, FEW)
        known[kind] = plan, made_here(plan, folder / "here"), segment_files(folder / "here")
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        (plan, launches, wanted), events = known[kind], Events()
        PROCESS.close()  # the next one knows when it is to lose the GPU
        lose(at := dice.randrange(1, launches))
        made(plan, tmp_path / f"{number}", events)
        print(f"loss {number + 1}: {kind}, after {at} of {launches} launches", flush=True)
        assert segment_files(tmp_path / f"{number}") == wanted
        assert [one.why for one in events.of(e.PlanDowngraded)] == ["gpu-lost"]
        assert losses() == number + 1


def test_a_job_of_the_window_survives_a_loss(tmp_path: Path, lose: Lose) -> None:
    """Through the engine: its thread answers, shows gauges, and its next plan is careful."""
    film = make_three_shots(tmp_path / "film.mkv", (40, 40, 40), "64x48")
    settings = replace(settings_of("lite", tmp_path), segment_seconds=1.0, overwrite=True)
    lose(100)
    with running_engine(tmp_path / "jobs") as (engine, listener):
        for job_id in ("first", "second"):
            engine.send(c.AddJob(job_id=job_id, source=film, settings=settings))
            engine.send(c.StartQueue())
            report = listener.finished_job().report
            assert report.passed
            assert report.frames_out == 120
        plans = [one.plan for one in listener.of(e.PlanChosen)]
        (change,) = listener.of(e.PlanDowngraded)
        assert change.why == "gpu-lost"
        assert listener.of(e.SegmentDone)
        assert len(listener.of(e.Telemetry)) > 3
    assert plans[0].card == plans[-1].card != ""
    assert plans[-1].device_bytes < plans[0].device_bytes
    assert "gpu-was-lost" in {notice.code for notice in plans[-1].notices}
