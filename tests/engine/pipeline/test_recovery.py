"""Memory that runs out anywhere: all frames come out right, or there is one clear error."""

import gc
import random
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from engine.core.errors import Cancelled, OutOfMemory
from engine.core.units import memory_text
from engine.hardware.spill_guard import SURE_BYTES, SpillGuard
from engine.jobs.checkpoint import Checkpoint
from engine.models import registry
from engine.models.wan.family import WanFamily
from engine.models.wan.upscaler import WanUpscaler
from engine.pipeline import run as run_module
from engine.pipeline.stages.restore import Restore, SourceColours
from engine.protocol.events import PlanDowngraded, PreviewReady, SegmentDone, TileDone, Warned
from engine.protocol.gpu_reading import GpuProcess
from engine.video.read import decoder
from engine.video.read.frame_reader import FrameReader
from engine.video.write.segment_writer import SegmentWriter
from tests.helpers.extended import rest_extended
from tests.helpers.jobs import KINDS, SHOTS, STEADIED, Outcome, SmallJob
from tests.helpers.memory import RunsOut

FRAMES = sum(SHOTS)
# Lite adds up tiles that see their whole neighbourhood; other numbers of frames and pixels take
# other loops of the library, whose sums in bfloat16 differ in their last bit
LITE_CODES = 1


def allocations(job: SmallJob) -> int:
    """How many there are from the first file that is opened to the result; counted once."""
    if not job.allocations:
        job.right(job.plan.work)  # the first job of a program tries out what works here
        counter = RunsOut()
        job.shown = pictures_shown(job.run(counter))
        job.allocations = counter.count
    return job.allocations


def pictures_shown(done: Outcome) -> int:
    """Previews and pictures of tiles."""
    return len(done.of(PreviewReady)) + sum(e.picture is not None for e in done.of(TileDone))


def assert_right(job: SmallJob, done: Outcome, codes: int = 0) -> None:
    # models of random numbers make pictures that look like nothing
    problems = [each for each in done.report.problems if each.code != "likeness"]
    assert not problems
    assert done.report.passed or job.plan.work.model != "lite"
    assert len(done.pictures) == FRAMES
    for number, (a, b) in enumerate(zip(done.pictures, job.expected(done.events), strict=True)):
        worst = int(np.abs(a.astype(int) - b).max())
        assert worst <= codes, f"frame {number} is wrong by {worst}"
    segments = [event.segment for event in done.of(SegmentDone)]
    assert segments == list(range(len(segments))), "a segment was lost or made twice"
    assert done.of(SegmentDone)[-1].frames_done == FRAMES


def refused_at(job: SmallJob, at: int) -> Outcome:
    """Run with the allocation `at` refused; the result is right, at most a preview is missing."""
    mode = RunsOut(at)
    done = job.run(mode)
    assert mode.refused, f"allocation {at} never came"
    changes = [*done.of(PlanDowngraded), *done.of(Warned)]
    is_preview = pictures_shown(done) == job.shown - 1
    assert changes or is_preview, f"allocation {at} was not reported, {mode.refused}"
    by_frames = not job.plan.work.takes_shots
    assert_right(job, done, LITE_CODES if by_frames else 0)
    if by_frames:  # and those of the plan that did not fit are the same pictures
        for a, b in zip(done.pictures, job.right(job.plan.work), strict=True):
            assert int(np.abs(a.astype(int) - b).max()) <= LITE_CODES
    return done


def sampled(places: range, most: int) -> list[int]:
    """Some of many places, always the same ones."""
    return sorted(random.Random(len(places)).sample(places, min(most, len(places))))


@pytest.mark.parametrize(
    ("kind", "runs"),
    rest_extended(
        [("lite", 5), (STEADIED, 3), ("community", 3), ("seedvr2", 2), ("wan-2x", 3)],
        ("lite", 5),
        ("seedvr2", 2),
    ),
)
def test_a_refused_allocation_is_harmless(
    kind: str, runs: int, jobs: Callable[[str], SmallJob]
) -> None:
    job = jobs(kind)
    for at in sampled(range(1, allocations(job) + 1), runs):
        refused_at(job, at)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, STEADIED])
def test_each_of_500_allocations_may_be_refused(kind: str, jobs: Callable[[str], SmallJob]) -> None:
    job = jobs(kind)
    count = allocations(job)
    for at in (*range(1, min(300, count) + 1), *sampled(range(301, count + 1), 200)):
        refused_at(job, at)


def test_memory_that_runs_out_for_ever_ends_in_one_error(jobs: Callable[[str], SmallJob]) -> None:
    job = jobs("seedvr2")
    with pytest.raises(OutOfMemory) as caught:
        job.run(RunsOut(2000, again=10**9))
    assert "smallest plan" in caught.value.message
    assert "RAM" in caught.value.message
    assert int(caught.value.params["needed"]) > 0 < int(caught.value.params["free"])
    assert "kept" in caught.value.hint


def live_tensors() -> int:
    gc.collect()
    return sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects())


def remembered(load: Callable[..., Any], models: list[Any]) -> Callable[..., Any]:
    """The same function; weak references to what it returns are kept."""

    def loading(*args: Any) -> Any:
        model = load(*args)
        models.append(weakref.ref(model))
        return model

    return loading


@pytest.mark.parametrize("kind", rest_extended([*KINDS, STEADIED], "lite", "seedvr2"))
def test_nothing_of_a_try_that_failed_is_there_when_the_next_one_loads(
    kind: str, jobs: Callable[[str], SmallJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = jobs(kind)
    count = allocations(job)  # whatever is kept for the whole program is there now
    family = type(registry.family_of(job.plan.work))
    by_frames = not job.plan.work.takes_shots
    loader = "load_frames" if by_frames else "load_shots"
    models, tensors = list[Any](), list[int]()
    real = remembered(getattr(family, loader), models)

    def load(*args: Any) -> Any:
        assert [model() for model in models] == [None] * len(models)
        tensors.append(live_tensors())
        return real(*args)

    monkeypatch.setattr(family, loader, load)
    if by_frames:  # whose tiles are done again with the same model; Restore is not
        monkeypatch.setattr(Restore, "run", failing(Restore.run, at=2))
        job.run()
    else:
        job.run(RunsOut(count // 2))
    assert len(tensors) == 2
    assert tensors[1] <= tensors[0]
    assert models[-1]() is None, "the job keeps its model"
    assert live_tensors() <= tensors[0]


def failing(real: Any, *, at: int, error: type[Exception] = MemoryError, times: int = 1) -> Any:
    """A function that fails at its n-th call, and so many times from there on."""
    calls = [0]

    def function(*args: Any, **named: Any) -> Any:
        calls[0] += 1
        if at <= calls[0] < at + times:
            raise error("refused")
        return real(*args, **named)

    return function


PLACES = {
    "opening the source": (FrameReader, "__enter__"),
    "reading": (decoder, "planes_of"),
    "to RGB": (SourceColours, "rgb"),
    "opening a segment": (SegmentWriter, "__init__"),
    "encoding": (SegmentWriter, "write"),
    "closing a segment": (SegmentWriter, "close"),
    "checking weights": (run_module, "check_weights"),
    "joining": (run_module, "mux"),
    "verifying": (run_module, "verify"),
}


@pytest.mark.parametrize("place", PLACES)
def test_memory_that_runs_out_outside_of_the_model_costs_no_frame(
    place: str, jobs: Callable[[str], SmallJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = jobs("lite")
    job.right(job.plan.work)
    where, name = PLACES[place]
    for at in (1,) if where is run_module else (1, 2):  # those of a run are called once
        with monkeypatch.context() as patch:
            patch.setattr(where, name, failing(getattr(where, name), at=at))
            assert_right(job, job.run(), LITE_CODES)


def test_what_has_no_smaller_plan_is_tried_twice_and_the_segments_stay(
    jobs: Callable[[str], SmallJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = jobs("lite")
    for name, doing in (("mux", "joining the segments"), ("verify", "checking the result")):
        with monkeypatch.context() as patch, pytest.raises(OutOfMemory, match=doing) as caught:
            patch.setattr(run_module, name, failing(getattr(run_module, name), at=1, times=2))
            job.run()
        assert "kept" in caught.value.hint
        place = job.folder / str(job.runs)
        assert Checkpoint(place).is_complete
        assert sum(record.frames for record in Checkpoint(place).records) == FRAMES
        assert not list(place.glob("out*")), "no half of a result"


def test_what_is_finished_when_memory_runs_out_is_closed_as_a_segment(
    jobs: Callable[[str], SmallJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = jobs("lite")
    plan, usual = job.plan, job.right(job.plan.work)
    monkeypatch.setattr(Restore, "run", failing(Restore.run, at=4))
    one_by_one = replace(plan, work=replace(plan.work, clip_frames=1))
    done = SmallJob(one_by_one, job.folder.parent / "short").run()
    lengths = [event.frames_done for event in done.of(SegmentDone)]
    assert lengths[0] == 3, "three frames were finished"
    assert len(done.pictures) == len(usual)


def test_a_paused_job_may_give_everything_back_and_goes_on_with_the_same_pictures(
    jobs: Callable[[str], SmallJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = jobs("wan-2x")
    usual = job.right(job.plan.work)
    models, controls, while_paused = list[Any](), list[Any](), list[Any]()

    def resume() -> None:
        deadline = time.monotonic() + 20
        while models[0]() is not None and time.monotonic() < deadline:
            time.sleep(0.01)
        while_paused.append(models[0]())
        controls[0].resume()

    def finished(self: WanUpscaler, frames: Any, source: Any) -> Any:
        calls.append(len(frames))
        if len(calls) == 3:
            controls[0].pause()
            threading.Thread(target=resume).start()
        return real_finished(self, frames, source)

    def change(context: Any) -> None:
        context.releases_memory = True
        controls.append(context.control)

    calls, real_finished = list[int](), WanUpscaler.finished
    monkeypatch.setattr(WanFamily, "load_shots", remembered(WanFamily.load_shots, models))
    monkeypatch.setattr(WanUpscaler, "finished", finished)
    done = job.run(change=change)
    assert while_paused == [None], "the model was there during the pause"
    assert len(models) == 2
    assert not done.of(PlanDowngraded)
    assert all(np.array_equal(a, b) for a, b in zip(done.pictures, usual, strict=True))


def test_a_job_without_memory_can_be_cancelled_in_its_pause(
    jobs: Callable[[str], SmallJob],
) -> None:
    def change(context: Any) -> None:
        context.releases_memory = True
        context.control.pause()
        threading.Timer(0.5, context.control.cancel).start()

    with pytest.raises(Cancelled):
        jobs("wan-2x").run(change=change)


def test_a_card_that_spills_means_a_smaller_plan_and_names_who_holds_its_memory(
    jobs: Callable[[str], SmallJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    job, shared = jobs("seedvr2"), [0]
    job.right(job.plan.work)

    def change(context: Any) -> None:
        context.guard = SpillGuard(lambda: shared[0], clock=iter(range(10**6)).__next__)
        context.gpu_users = users

    def users() -> tuple[GpuProcess, ...]:
        shared[0] = 0  # the other program has ended
        return (GpuProcess(name="chrome.exe", mb=2100),)

    def restore(self: Restore, *args: Any) -> Any:
        if not calls:
            shared[0] = 2 * SURE_BYTES
        calls.append(0)
        return real(self, *args)

    calls, real = list[int](), Restore.run
    monkeypatch.setattr(Restore, "run", restore)
    done = job.run(change=change)
    (less,) = done.of(PlanDowngraded)
    assert less.why == "spilled"
    assert less.notice is not None
    moved = memory_text(2 * SURE_BYTES)
    assert less.notice.message.startswith(f"Windows moved {moved} of GPU memory to RAM")
    assert less.notice.hint.startswith("chrome.exe uses 2.")
    assert_right(job, done)


def test_a_card_that_spills_at_the_floor_is_slow_but_ends(jobs: Callable[[str], SmallJob]) -> None:
    job = jobs("lite")
    floor = replace(job.plan.work, clip_frames=1)
    readings = iter([0, 0, *[2 * SURE_BYTES] * 1000])

    def change(context: Any) -> None:
        context.plan = replace(context.plan, work=floor)
        context.guard = SpillGuard(readings.__next__, clock=iter(range(10**6)).__next__)

    done = job.run(change=change)
    assert [event.notice.code for event in done.of(Warned)] == ["spilled-at-floor"]
    assert len(done.pictures) == FRAMES
