"""Finished jobs correct what later plans predict; those that were interrupted do not."""

from dataclasses import replace

from engine.bench.jobs import make_clip
from engine.core.control import Control
from engine.core.errors import Cancelled
from engine.core.geometry import Size
from engine.pipeline.context import JobContext
from engine.pipeline.recovery import change_plan, reason_of
from engine.planner import times
from engine.planner.rates import Rates, load_rates
from engine.settings.schema import JobSettings
from tests.helpers.jobs import Events, plan_of, run

SETTINGS = JobSettings(model="lite", scale=2, segment_seconds=0.5)


def planned(folder, frames):
    film = folder / "film.mp4"
    make_clip(film, Size(96, 64), frames)
    return plan_of(film, folder / "result.mp4", SETTINGS)


def test_a_finished_job_makes_the_next_plan_one_that_was_measured(tmp_path, monkeypatch):
    learn = times.learn  # as if the job took what was predicted, however busy the machine is
    monkeypatch.setattr(times, "learn", lambda plan, *_: learn(plan, plan.seconds))
    plan = planned(tmp_path, 48)
    assert not plan.is_measured
    run(plan, tmp_path / "jobs")
    assert list(load_rates().jobs) == [times.kind(plan)]
    again = planned(tmp_path, 48)
    assert again.is_measured
    assert again.seconds_high / again.seconds < plan.seconds_high / plan.seconds


def test_a_job_whose_plan_changed_on_the_way_teaches_nothing(tmp_path):
    plan = planned(tmp_path, 4)
    control = Control()
    context = JobContext(
        job_id="job", media=None, plan=plan, control=control, events=Events(control)
    )
    smaller = replace(plan, work=replace(plan.work, clip_frames=1))
    change_plan(context, smaller, reason_of(MemoryError()))
    assert (context.plan, context.is_learned_from) == (smaller, False)


def test_a_job_that_was_interrupted_teaches_nothing(tmp_path):
    plan = planned(tmp_path, 48)
    try:
        run(plan, tmp_path / "jobs", stop_after=1)
    except Cancelled:
        run(plan, tmp_path / "jobs")
    assert plan.output.is_file()
    assert load_rates() == Rates()
