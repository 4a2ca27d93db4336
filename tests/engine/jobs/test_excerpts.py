"""A frame or some seconds of a film, before its job."""

import os
import threading
import time
from dataclasses import replace
from fractions import Fraction

import pytest
from PIL import Image

from engine.api import probe
from engine.core.errors import DiskFull
from engine.jobs import excerpts, job_service
from engine.jobs.job import JobState
from engine.pipeline.run import run_job
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Rates
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.excerpt import for_look
from engine.protocol.report import BenchReport
from engine.protocol.tasks import TaskKind
from engine.settings.schema import JobSettings
from tests.helpers.clips import Clip, make_clip
from tests.helpers.jobs import ENDS, planes_of, running_engine
from tests.helpers.plans import a_budget

FAST = JobSettings(
    model="lite", codec="ffv1", container="mkv", treatment="faithful", segment_seconds=0.5
)
STOP = c.StopTask(kind=TaskKind.EXCERPT, subject="a")


@pytest.fixture
def source(tmp_path):
    return make_clip(
        tmp_path / "film.mkv", Clip(frames=30, rate=Fraction(25), audio_tracks=1, size=(64, 48))
    )


@pytest.fixture
def engine(source, tmp_path):
    """An engine with a film that waits, and its events."""
    with running_engine(tmp_path / "jobs") as (running, heard):
        running.send(c.AddJob(job_id="a", source=source, settings=FAST))
        heard.wait(e.PlanChosen)
        yield running, heard


@pytest.fixture
def held(monkeypatch):
    """An excerpt that makes nothing until the event is set or it is stopped."""
    began, may_end = threading.Event(), threading.Event()

    def wait(_job_id, _wanted, _machine, _folder, work):
        began.set()
        while not may_end.wait(0.01):
            work.control.check()
        raise DiskFull("folder", folder="held")

    monkeypatch.setattr(excerpts, "made", wait)
    yield began
    may_end.set()


def test_a_frame_is_made_as_its_job_makes_it(engine, tmp_path):
    running, heard = engine
    running.send(c.MakeExcerpt(job_id="a", start=0.5))
    excerpt = heard.wait(e.ExcerptReady).excerpt
    assert (excerpt.frames, excerpt.plan.start, excerpt.settings) == (1, Fraction(12, 25), FAST)
    for seconds, is_there in ((0.479, False), (0.519, True), (0.521, False)):
        running.send(c.ShowFrame(job_id="a", seconds=seconds))
        assert (heard.wait(e.PreviewReady).result is not None) is is_there, seconds
    running.send(c.StartQueue())
    assert heard.wait(*ENDS).report.passed
    assert (planes_of(excerpt.plan.output)[0] == planes_of(tmp_path / "film_x2.mkv")[12]).all()


def test_a_frame_of_a_long_film_does_not_wait_for_its_other_streams(engine, monkeypatch):
    def read(*_args, **_kwargs):
        pytest.fail("all packets of the source are read")

    monkeypatch.setattr("engine.verification.verify.digest", read)
    running, heard = engine
    running.send(c.MakeExcerpt(job_id="a", start=0.5))
    assert heard.wait(e.ExcerptReady, e.TaskFailed).excerpt.frames == 1


def test_the_last_frame_is_made(engine):
    running, heard = engine
    running.send(c.MakeExcerpt(job_id="a", start=9.0))
    excerpt = heard.wait(e.ExcerptReady).excerpt
    assert (excerpt.frames, excerpt.plan.start) == (1, Fraction(29, 25))
    running.send(c.ShowFrame(job_id="a", seconds=1.18))
    assert heard.wait(e.PreviewReady).result is not None


@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_the_first_frame_is_made_of_a_video_that_begins_after_its_sound(tmp_path, seconds):
    times = [Fraction(23, 1000) + Fraction(number, 25) for number in range(12)]
    late = Clip(frames=12, vfr_times=times, time_base=Fraction(1, 1000), audio_tracks=1)
    source = make_clip(tmp_path / "late.mkv", late)
    with running_engine(tmp_path / "jobs") as (running, heard):
        running.send(c.AddJob(job_id="a", source=source, settings=FAST))
        running.send(c.MakeExcerpt(job_id="a", start=0.01, seconds=seconds))
        assert heard.wait(e.ExcerptReady).excerpt.frames == (round(25 * seconds) or 1)
        running.send(c.ShowFrame(job_id="a", seconds=0.01))
        assert heard.wait(e.PreviewReady).result is not None


def test_a_picture_is_made_as_a_whole(tmp_path):
    picture = tmp_path / "picture.png"
    Image.new("RGB", (64, 48), (200, 40, 40)).save(picture)
    with running_engine(tmp_path / "jobs") as (running, heard):
        running.send(c.AddJob(job_id="a", source=picture, settings=JobSettings(model="lite")))
        running.send(c.MakeExcerpt(job_id="a", start=0.0))
        excerpt = heard.wait(e.ExcerptReady).excerpt
        assert (excerpt.frames, excerpt.plan.output.suffix) == (1, ".png")
        running.send(c.ShowFrame(job_id="a", seconds=0.0))
        assert heard.wait(e.PreviewReady).result.size.width == 128


def test_some_seconds_are_shown_next_to_the_source_until_the_choices_change(engine):
    running, heard = engine
    running.send(c.MakeExcerpt(job_id="a", start=0.2, seconds=0.4))
    excerpt = heard.wait(e.ExcerptReady).excerpt
    assert (excerpt.frames, probe(excerpt.plan.output).video.frame_count) == (10, 10)
    assert excerpt.plan.streams == ()
    for seconds, is_there in ((0.1, False), (0.3, True), (0.59, True), (0.61, False)):
        running.send(c.ShowFrame(job_id="a", seconds=seconds))
        shown = heard.wait(e.PreviewReady)
        assert (shown.result is not None) is is_there, seconds
        assert shown.source is not None
    other = replace(FAST, scale=4)
    for settings, is_there in ((other, False), (replace(FAST, stop="1"), True)):
        running.send(c.ChangeJob(job_id="a", settings=settings))
        running.send(c.ShowFrame(job_id="a", seconds=0.3))
        assert (heard.wait(e.PreviewReady).result is not None) is is_there, settings


def test_other_settings_can_be_tried_and_are_not_shown_as_the_jobs_own(engine):
    running, heard = engine
    other = replace(FAST, scale=3)
    running.send(c.MakeExcerpt(job_id="a", start=0.2, settings=other))
    excerpt = heard.wait(e.ExcerptReady).excerpt
    assert excerpt.settings == other
    assert probe(excerpt.plan.output).video.size.width == 192
    running.send(c.ShowFrame(job_id="a", seconds=0.2))
    assert heard.wait(e.PreviewReady).result is None


def test_what_was_tried_goes_with_its_job(engine, tmp_path):
    running, heard = engine
    running.send(c.MakeExcerpt(job_id="a", start=0.2))
    output = heard.wait(e.ExcerptReady).excerpt.plan.output
    assert output.is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"film.mkv", "jobs"}
    running.send(c.RemoveJob(job_id="a", can_return=True))
    heard.wait(e.JobRemoved)
    assert output.is_file()
    running.send(c.RemoveJob(job_id="a"))
    heard.wait(e.JobRemoved)
    assert not output.exists()


def test_what_was_tried_goes_when_the_program_ends(source, tmp_path):
    with running_engine(tmp_path / "jobs") as (running, heard):
        running.send(c.AddJob(job_id="a", source=source, settings=FAST))
        running.send(c.MakeExcerpt(job_id="a", start=0.2))
        output = heard.wait(e.ExcerptReady).excerpt.plan.output
    assert not output.exists()


def test_what_a_killed_program_has_left_goes_after_two_days(tmp_path):
    left = [tmp_path / "jobs" / "excerpts" / name for name in ("old", "new")]
    for folder in left:
        (folder / "1").mkdir(parents=True)
    before = time.time() - 3 * 86400
    os.utime(left[0], (before, before))
    with running_engine(tmp_path / "jobs") as (running, heard):
        running.send(c.Prepare())
        heard.wait(e.DevicesListed)
    assert [folder.exists() for folder in left] == [False, True]


def test_an_excerpt_is_stopped_and_leaves_nothing(engine, held, tmp_path):
    running, heard = engine
    running.send(c.MakeExcerpt(job_id="a", start=0.2))
    assert held.wait(10)
    running.send(STOP)
    assert heard.wait(e.TaskStopped).subject == "a"
    assert not list((tmp_path / "jobs" / "excerpts" / "a").iterdir())


def test_a_film_that_is_started_stops_an_excerpt(engine, held):
    running, heard = engine
    running.send(c.MakeExcerpt(job_id="a", start=0.2))
    assert held.wait(10)
    running.send(c.StartQueue())
    assert heard.wait(e.TaskStopped).kind is TaskKind.EXCERPT
    assert isinstance(heard.wait(*ENDS), e.JobFinished)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (c.MakeExcerpt(job_id="a", start=0.2), TaskKind.EXCERPT),
        (c.MakeLook(job_id="a", start=0.2), TaskKind.LOOK),
    ],
)
def test_nothing_is_tried_next_to_a_running_job(engine, monkeypatch, command, kind):
    began, may_end = threading.Event(), threading.Event()

    def run(*_):
        began.set()
        may_end.wait(30)
        raise DiskFull("folder", folder="held")

    monkeypatch.setattr(job_service, "run_stored", run)
    running, heard = engine
    running.send(c.StartQueue())
    assert began.wait(10)
    running.send(command)
    failed = heard.failed()
    may_end.set()
    assert (failed.kind, failed.error.case) == (kind, "excerpt-waits")
    assert failed.subject == "a"


def test_excerpt_and_measurement_exclude_each_other(engine, held, monkeypatch):
    from engine.bench import calibration

    began, may_end = threading.Event(), threading.Event()

    def examine(**_):
        began.set()
        may_end.wait(30)
        return BenchReport(machine={})

    monkeypatch.setattr(calibration, "examine", examine)
    running, heard = engine
    running.send(c.MakeExcerpt(job_id="a", start=0.2))
    assert held.wait(10)
    running.send(c.RunBenchmark())
    assert heard.failed().kind is TaskKind.BENCHMARK
    running.send(STOP)
    heard.wait(e.TaskStopped)
    running.send(c.RunBenchmark())
    assert began.wait(10)
    running.send(c.MakeExcerpt(job_id="a", start=0.2))
    assert heard.failed().error.case == "excerpt-waits-for-measurement"
    may_end.set()


def test_an_excerpt_that_fails_says_why_and_leaves_nothing(engine, monkeypatch, tmp_path):
    def fail(context, *_args, **_kwargs):
        raise DiskFull("folder", folder=tmp_path)

    monkeypatch.setattr("engine.pipeline.run.run_job", fail)
    running, heard = engine
    running.send(c.MakeExcerpt(job_id="a", start=0.2))
    assert heard.failed().error.code == "disk-full"
    assert not list((tmp_path / "jobs" / "excerpts" / "a").iterdir())
    monkeypatch.setattr("engine.pipeline.run.run_job", run_job)
    running.send(c.MakeExcerpt(job_id="a", start=0.2))
    assert heard.wait(e.ExcerptReady).excerpt.frames == 1


def test_scenes_that_tell_models_apart_are_found(engine):
    running, heard = engine
    running.send(c.FindScenes(job_id="a"))
    found = heard.wait(e.ScenesFound)
    assert found.job_id == "a"
    assert all(0 <= scene.seconds < 1.2 for scene in found.scenes)
    assert found.scenes


def test_an_excerpt_has_the_model_of_the_whole_video(engine, source, monkeypatch):
    """A frame alone would be short enough for Lite Plus."""
    running, heard = engine
    monkeypatch.setattr("engine.planner.plan_job._MOST_AUTOMATIC_S", 1.0)
    chosen = replace(FAST, model="auto")
    running.send(c.MakeExcerpt(job_id="a", start=0.2, settings=chosen))
    assert heard.wait(e.ExcerptReady).excerpt.plan.work.model == "lite"
    whole, frame = (
        plan_job(Request(media=media, settings=chosen), a_budget(threads=2), Rates())
        for media in (probe(source), replace(probe(source), video=one_frame(probe(source).video)))
    )
    assert (whole.work.model, frame.work.model) == ("lite", "lite-plus")


def one_frame(video):
    return replace(video, frame_count=1, duration=Fraction(1, 25))


def test_a_look_is_shown_until_its_job_has_a_frame_and_leaves_the_users_folder_alone(
    engine, tmp_path
):
    running, heard = engine
    running.send(c.MakeLook(job_id="a", start=0.2))
    excerpt = heard.wait(e.ExcerptReady).excerpt
    assert (excerpt.frames, excerpt.settings) == (1, for_look(FAST))
    assert (excerpt.plan.work.model, excerpt.plan.work.device) == ("lite", "cpu")
    assert {path.name for path in tmp_path.iterdir()} == {"film.mkv", "jobs"}
    running.send(c.ShowFrame(job_id="a", seconds=0.2))
    assert heard.wait(e.PreviewReady).result.size.width == 128
    job = running._thread._jobs.job("a")
    assert job.excerpt_at(0.21) is excerpt
    job.state = JobState.RUNNING
    assert job.excerpt_at(0.21) is None, "frames of the job itself come"
    job.state = JobState.WAITING
    running.send(c.MakeExcerpt(job_id="a", start=0.2))
    tried = heard.wait(e.ExcerptReady).excerpt
    assert job.excerpt_at(0.21) is tried
    running.send(c.ChangeJob(job_id="a", settings=replace(FAST, scale=4)))
    running.send(c.ShowFrame(job_id="a", seconds=0.2))
    assert heard.wait(e.PreviewReady).result is None, "the look has another size"


@pytest.mark.parametrize(
    "command",
    [c.StartQueue(), c.MakeExcerpt(job_id="a", start=0.4), c.RunBenchmark()],
    ids=lambda one: type(one).__name__,
)
def test_whatever_the_user_asks_for_stops_a_look(engine, held, command, monkeypatch):
    from engine.bench import calibration

    monkeypatch.setattr(calibration, "examine", lambda **_: BenchReport(machine={}))
    running, heard = engine
    running.send(c.MakeLook(job_id="a", start=0.2))
    assert held.wait(10)
    running.send(command)
    assert heard.wait(e.TaskStopped).kind is TaskKind.LOOK
