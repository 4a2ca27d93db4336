import json
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

import pytest

from engine.api import Engine, probe, unfinished
from engine.core.errors import EngineStopped
from engine.core.geometry import Size
from engine.jobs import engine_thread, job_service
from engine.models.seedvr2.family import SeedVr2Family
from engine.pipeline import prepare
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.settings.schema import EngineSettings, JobSettings
from tests.helpers.clips import Clip, joined, make_clip
from tests.helpers.fields import interlaced, write
from tests.helpers.jobs import ENDS, Listener, running_engine

FAST = JobSettings(model="lite", crf=30, segment_seconds=0.5, treatment="faithful")


@pytest.fixture
def source(tmp_path):
    return make_clip(
        tmp_path / "film.mkv", Clip(frames=30, rate=Fraction(25), audio_tracks=1, size=(64, 48))
    )


def add(engine: Engine, source, name: str = "a", settings: JobSettings = FAST, output=None) -> None:
    engine.send(c.AddJob(job_id=name, source=source, settings=settings, output=output))


def interrupted(source, jobs) -> None:
    """A job "a" with a finished segment, left by an earlier run."""
    with running_engine(jobs) as (engine, heard):
        engine.send(c.StartQueue())
        add(engine, source)
        heard.wait(e.SegmentDone)


def test_a_job_runs_to_a_verified_result(source, tmp_path):
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.StartQueue())
        add(engine, source)
        done = heard.finished_job()
    assert done.report.passed, done.report.problems
    made = probe(tmp_path / "film_x2.mkv")
    assert (made.video.size.width, made.video.frame_count) == (128, 30)
    assert len(made.audio_streams) == 1
    kinds = [type(event) for event in heard.seen]
    assert kinds.index(e.JobQueued) < kinds.index(e.PlanChosen) < kinds.index(e.JobStarted)
    assert len(heard.of(e.SegmentDone)) == 3
    assert {event.frame for event in heard.of(e.TileDone)} >= {29}
    assert not list((tmp_path / "jobs").iterdir())
    assert {p.name for p in tmp_path.iterdir()} == {"film.mkv", "film_x2.mkv", "jobs"}


def test_a_job_starts_with_the_model_that_automatic_was_when_it_was_planned(
    source, tmp_path, monkeypatch
):
    """Lite; at the start it would be a model whose files are not here."""
    monkeypatch.setattr("engine.planner.plan_job._MOST_AUTOMATIC_S", 0)
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.AddJob(job_id="a", source=source, output=tmp_path / "out.mp4"))
        assert heard.wait(e.PlanChosen).plan.work.model == "lite"
        monkeypatch.setattr(SeedVr2Family, "automatic", lambda *_: ("seedvr2-3b",))
        engine.send(c.StartQueue())
        heard.finished_job()


def test_what_frames_show_changes_the_plan_of_a_job_that_waits(tmp_path):
    film = write(tmp_path / "film.mkv", interlaced(30, "bb"))
    with running_engine(tmp_path / "jobs") as (engine, heard):
        add(engine, film, settings=replace(FAST, model="none"))
        assert heard.wait(e.PlanChosen).plan.deinterlacing is None, "the file states nothing"
        assert heard.wait(e.PlanChosen).plan.deinterlacing.field_order == "bb"
        engine.send(c.StartQueue())
        done = heard.finished_job()
    assert done.report.passed, done.report.problems


def test_a_film_that_changes_is_planned_and_shown_as_most_of_it_is(tmp_path):
    film = joined(tmp_path / "film.ts", (20, {"size": (96, 64)}), (60, {"size": (64, 96)}))
    with running_engine(tmp_path / "jobs") as (engine, heard):
        add(engine, film, settings=replace(FAST, model="none"))
        first, second = heard.wait(e.PlanChosen), heard.wait(e.PlanChosen)
        assert (first.plan.picture.size, first.media) == (Size(96, 64), None)
        assert second.plan.picture.size == second.media.video.size == Size(64, 96)
        engine.send(c.StartQueue())
        done = heard.finished_job()
    assert done.report.passed, done.report.problems


def test_the_same_film_twice_has_two_results(source, tmp_path):
    with running_engine(tmp_path / "jobs") as (engine, heard):
        for name in ("a", "b"):
            add(engine, source, name=name)
        engine.send(c.StartQueue())
        ends = [heard.wait(*ENDS) for _ in range(2)]
    assert [type(end) for end in ends] == [e.JobFinished] * 2, ends
    assert [end.report.output.name for end in ends] == ["film_x2.mkv", "film_x2 (2).mkv"]


def test_a_result_that_is_there_already_stays_and_the_new_one_has_a_number(source, tmp_path):
    """In the window; a name that the user has chosen is refused."""
    (tmp_path / "film_x2.mkv").write_bytes(b"of last week")
    heard = Listener()
    engine = Engine(heard, jobs_folder=tmp_path / "jobs", numbers_results=True)
    engine.start()
    try:

        def planned(name, **about):
            add(engine, source, name, **about)
            while (event := heard.wait(e.PlanChosen)).job_id != name:
                pass
            return event.plan

        assert planned("a").output.name == "film_x2 (2).mkv"
        assert planned("b", output=tmp_path).output.name == "film_x2 (3).mkv"
        assert not planned("c", output=tmp_path / "film_x2.mkv").fits
        replaces = replace(FAST, overwrite=True, scale=4)
        (tmp_path / "film_x4.mkv").write_bytes(b"to be replaced")
        assert planned("d", settings=replaces).output.name == "film_x4.mkv"
    finally:
        assert engine.close(timeout_s=60)
    assert (tmp_path / "film_x2.mkv").read_bytes() == b"of last week"


def test_a_removed_job_returns_with_its_finished_segments(source, tmp_path):
    jobs = tmp_path / "jobs"
    with running_engine(jobs) as (engine, heard):
        engine.send(c.StartQueue())
        add(engine, source)
        heard.wait(e.SegmentDone)
        engine.send(c.CancelJob(job_id="a"))
        assert isinstance(heard.wait(*ENDS), e.JobCancelled)
        engine.send(c.RemoveJob(job_id="a", can_return=True))
        heard.wait(e.JobRemoved)
        assert list(jobs.glob("a/segment_*.mkv")), "only the undo may delete them"
        engine.send(c.RestoreJob(job_id="a", position=0))
        engine.send(c.RetryJob(job_id="a"))
        heard.finished_job()
    assert heard.of(e.JobStarted)[-1].done > 0
    with running_engine(jobs) as (engine, heard):
        add(engine, source, settings=replace(FAST, overwrite=True))
        heard.wait(e.PlanChosen)
        engine.send(c.RemoveJob(job_id="a", can_return=True))
        engine.send(c.RemoveJob(job_id="a"))
        assert [heard.wait(e.JobRemoved) for _ in range(2)]


def test_pause_halts_and_resume_goes_on(source, tmp_path):
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.StartQueue())
        add(engine, source)
        heard.wait(e.TileDone)
        engine.send(c.PauseJob(job_id="a"))
        heard.wait(e.JobPaused)
        time.sleep(0.3)  # whatever was between two looks has ended by now
        before = len(heard.of(e.TileDone))
        with pytest.raises(AssertionError, match="no"):
            heard.wait(*ENDS, timeout_s=0.4)
        assert len(heard.of(e.TileDone)) - before <= 3
        engine.send(c.ResumeJob(job_id="a"))
        heard.finished_job()


def test_a_queue_that_is_stopped_ends_its_job_and_starts_no_other_until_it_is_started(
    source, tmp_path
):
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.StartQueue())
        add(engine, source)
        heard.wait(e.JobStarted)
        engine.send(c.StopQueue())
        add(engine, source, "b", output=tmp_path / "other.mkv")
        assert heard.wait(*ENDS).job_id == "a"
        with pytest.raises(AssertionError, match="no"):
            heard.wait(e.JobStarted, timeout_s=0.4)
        engine.send(c.StartQueue())
        assert heard.wait(*ENDS).job_id == "b"


def test_sleep_is_held_off_while_a_job_runs_and_not_while_it_is_paused(
    source, tmp_path, monkeypatch
):
    @contextmanager
    def awake():
        held.append(threading.get_ident())
        yield
        held.remove(threading.get_ident())  # the system wants it back in the same thread

    held = []
    monkeypatch.setattr(job_service, "keep_awake", awake)
    with running_engine(tmp_path / "jobs") as (engine, heard):
        add(engine, source)
        heard.wait(e.PlanChosen)
        assert not held
        engine.send(c.StartQueue())
        heard.wait(e.TileDone)
        assert len(held) == 1
        engine.send(c.PauseJob(job_id="a"))
        engine.send(c.RemoveJob(job_id="none"))  # answered when the pause has been
        heard.wait(e.JobPaused)
        heard.wait(e.Warned)
        assert not held
        engine.send(c.ResumeJob(job_id="a"))
        heard.wait(e.JobResumed)
        heard.wait(e.TileDone)
        assert len(held) == 1
        heard.finished_job()
        assert not held


def test_cancel_keeps_segments_and_a_retry_uses_them(source, tmp_path):
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.StartQueue())
        add(engine, source)
        heard.wait(e.SegmentDone)
        engine.send(c.CancelJob(job_id="a"))
        assert isinstance(heard.wait(*ENDS), e.JobCancelled)
        assert not (tmp_path / "film_x2.mkv").exists()
        engine.send(c.RetryJob(job_id="a"))
        started = heard.wait(e.JobStarted)
        assert started.done >= 12
        heard.finished_job()


def test_a_job_left_at_the_end_of_the_program_is_offered_and_finished_by_the_next(source, tmp_path):
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.StartQueue())
        add(engine, source)
        heard.wait(e.SegmentDone)
    heard.wait(e.EngineClosed)
    with pytest.raises(EngineStopped):
        engine.send(c.StartQueue())
    (left,) = unfinished(tmp_path / "jobs")
    assert (left.job_id, left.frames_total) == ("a", 30)
    assert 12 <= left.frames_done < 30
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.AdoptJob(job_id="a"))
        engine.send(c.StartQueue())
        done = heard.finished_job()
        assert done.report.passed, done.report.problems
    assert unfinished(tmp_path / "jobs") == ()


def test_the_end_does_not_wait_for_films_that_were_added_a_moment_before(tmp_path):
    heard = Listener()
    engine = Engine(heard, jobs_folder=tmp_path / "jobs")
    thread = engine._thread
    for _ in range(100):
        thread.send(c.AddJob(job_id="a", source=tmp_path / "missing.mkv"))
    for command in (c.RemoveJob(job_id="b"), c.Shutdown()):
        thread.send(command)
    engine.start()
    thread.join(5)
    heard.wait(e.EngineClosed, timeout_s=1)
    assert [event.notice.code for event in heard.of(e.Warned)] == ["unknown-job"], "b is answered"
    assert not heard.of(e.JobRejected)


def test_a_job_that_can_only_fail_again_is_listed_with_the_reason(source, tmp_path):
    jobs = tmp_path / "jobs"
    interrupted(source, jobs)
    film, about = source.read_bytes(), source.stat()
    away = source.rename(tmp_path / "away.mkv")
    with running_engine(jobs) as (engine, heard):
        engine.send(c.AdoptJob(job_id="a"))
        assert heard.wait(e.JobRejected).error.code == "source-missing"
    assert unfinished(jobs)[0].problem is None, "the drive may come back"
    source.write_bytes(b"another film")
    with running_engine(jobs) as (engine, heard):
        engine.send(c.AdoptJob(job_id="a"))
        assert heard.wait(e.JobRejected).error.code == "checkpoint-mismatch"
    (left,) = unfinished(jobs)
    assert (left.source, left.frames_total) == (source, 30)
    assert left.problem is not None
    assert left.problem.message == "film.mkv has changed since the job started."
    away.replace(source)
    assert (source.read_bytes(), source.stat().st_mtime_ns) == (film, about.st_mtime_ns)
    with running_engine(jobs) as (engine, heard):  # tried all the same
        engine.send(c.AdoptJob(job_id="a"))
        engine.send(c.StartQueue())
        heard.finished_job()
    assert unfinished(jobs) == ()


def test_a_job_of_the_last_time_goes_on_before_those_that_wait(source, tmp_path):
    interrupted(source, tmp_path / "jobs")
    with running_engine(tmp_path / "jobs") as (engine, heard):
        add(engine, source, "b")
        engine.send(c.AdoptJob(job_id="a", position=0))
        engine.send(c.StartQueue())
        assert heard.wait(e.JobStarted).job_id == "a"


def test_a_job_that_fails_does_not_stop_the_queue(source, tmp_path):
    (tmp_path / "film_x2.mkv").write_bytes(b"another program's")
    with running_engine(tmp_path / "jobs") as (engine, heard):
        add(engine, source)
        add(engine, source, "b", output=tmp_path / "other.mkv")
        engine.send(c.StartQueue())
        failed, done = heard.wait(*ENDS), heard.wait(*ENDS)
    assert isinstance(failed, e.JobFailed)
    assert failed.error.code == "output-exists"
    assert isinstance(done, e.JobFinished)
    assert (tmp_path / "film_x2.mkv").read_bytes() == b"another program's"


def test_a_damaged_source_is_used_as_far_as_it_goes_and_that_is_said(tmp_path):
    data = bytearray(make_clip(tmp_path / "whole.mkv", Clip(frames=30, gop=5)).read_bytes())
    middle = len(data) // 2
    data[middle : middle + 400] = bytes(400)
    (tmp_path / "film.mkv").write_bytes(data)
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.StartQueue())
        add(engine, tmp_path / "film.mkv")
        heard.finished_job()
    assert "source-damaged" in {event.notice.code for event in heard.of(e.Warned)}


def test_settings_can_be_changed_while_waiting(source, tmp_path):
    with running_engine(tmp_path / "jobs") as (engine, heard):
        add(engine, source)
        generous = heard.wait(e.PlanChosen).plan
        engine.send(c.ChangeEngine(settings=EngineSettings(threads=1, memory_share=0.1)))
        engine.send(c.ChangeJob(job_id="a", settings=JobSettings(scale=4, treatment="faithful")))
        modest = heard.wait(e.PlanChosen).plan
        assert modest.picture.size.width == 256
        assert modest.work.threads == 1
        assert modest.budget_bytes < 0.5 * generous.budget_bytes
        engine.send(c.ChangeJob(job_id="a", settings=JobSettings(device="cuda")))
        assert heard.wait(e.PlanFailed).error.code == "no-usable-gpu"


def test_a_plan_with_other_settings_is_shown_and_the_job_stays(source, tmp_path):
    with running_engine(tmp_path / "jobs") as (engine, heard):
        add(engine, source)
        heard.wait(e.PlanChosen)
        for settings in (JobSettings(scale=4), JobSettings(device="cuda")):
            engine.send(c.ShowPlan(job_id="a", settings=settings))
        shown = heard.wait(e.PlanShown)
        assert (shown.settings.scale, shown.plan.picture.size.width) == (4, 256)
        assert heard.wait(e.PlanShown).plan is None, "it cannot be planned"
        engine.send(c.StartQueue())
        heard.finished_job()
    assert {event.plan.picture.size.width for event in heard.of(e.PlanChosen)} == {128}


def test_orders_that_make_no_sense_are_answered_not_obeyed(source, tmp_path):
    text = tmp_path / "letter.txt"
    text.write_text("Dear Sir or Madam")
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.PauseJob(job_id="unknown"))
        assert heard.wait(e.Warned).notice.code == "unknown-job"
        add(engine, source)
        heard.wait(e.JobQueued)
        engine.send(c.PauseJob(job_id="a"))
        assert heard.wait(e.Warned).notice.code == "job-error"
        add(engine, source)
        assert heard.wait(e.JobRejected).error.code == "job-error"
        engine.send(c.RemoveJob(job_id="a"))
        heard.wait(e.JobRemoved)
        add(engine, text)
        rejected = heard.wait(e.JobRejected)
        assert (rejected.error.code, bool(rejected.error.hint)) == ("unreadable-media", True)


def test_a_frame_is_shown_before_files_that_wait_to_be_read(source, tmp_path):
    with running_engine(tmp_path / "jobs") as (engine, heard):
        add(engine, source)
        heard.wait(e.PlanChosen)
        for number in range(5):
            engine.send(c.AddJob(job_id=f"b{number}", source=source))
        engine.send(c.ShowFrame(job_id="a", seconds=0.0))
        heard.wait(e.PreviewReady)
        read = {event.job_id for event in heard.of(e.JobQueued)}
        assert len(read - {"a"}) < 5, "one may have been read meanwhile"


@contextmanager
def slow_drive(monkeypatch, source):
    """A drive that does not answer inside the block; yields an event: it is being read."""
    begun, answers = threading.Event(), threading.Event()

    def probe_source(path, settings):
        if path == source:
            begun.set()
            assert answers.wait(30)
        return prepare.probe_source(path, settings)

    monkeypatch.setattr(job_service, "probe_source", probe_source)
    try:
        yield begun
    finally:
        answers.set()


def test_a_pause_and_a_cancellation_do_not_wait_for_a_file_that_is_being_read(
    source, tmp_path, monkeypatch
):
    away = tmp_path / "away.mkv"
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.StartQueue())
        add(engine, source)
        heard.wait(e.TileDone)
        with slow_drive(monkeypatch, away) as begun:
            for name in ("b", "c"):
                add(engine, away, name)
            assert begun.wait(5)
            engine.send(c.PauseJob(job_id="a"))
            heard.wait(e.JobPaused, timeout_s=5)
            engine.send(c.CancelJob(job_id="a"))
            assert heard.wait(*ENDS, timeout_s=5).job_id == "a"
            engine.send(c.RetryJob(job_id="a"))
            heard.finished_job()
            assert not {"b", "c"} & {event.job_id for event in heard.of(e.JobQueued)}


def test_what_is_removed_is_gone_from_the_disk_while_another_file_is_being_read(
    source, tmp_path, monkeypatch
):
    jobs, away = tmp_path / "jobs", tmp_path / "away.mkv"
    interrupted(source, jobs)
    with running_engine(jobs) as (engine, heard), slow_drive(monkeypatch, away) as begun:
        add(engine, away, "b")
        assert begun.wait(5)
        engine.send(c.RemoveJob(job_id="a"))
        heard.wait(e.JobRemoved, timeout_s=5)
        assert unfinished(jobs) == ()


def test_the_end_carries_out_removals_and_waits_for_no_drive(source, tmp_path, monkeypatch):
    """The window sends them when it is closed: what it removed cannot return any more."""
    jobs, away = tmp_path / "jobs", tmp_path / "away.mkv"
    interrupted(source, jobs)
    monkeypatch.setattr(engine_thread, "_READ_S", 0.1)
    engine = Engine(Listener(), jobs_folder=jobs)
    engine.start()
    with slow_drive(monkeypatch, away) as begun:
        add(engine, away, "b")
        assert begun.wait(5)
        engine.send(c.AdoptJob(job_id="a"))
        engine.send(c.RemoveJob(job_id="a"))
        assert engine.close(timeout_s=10)
        assert unfinished(jobs) == ()
    engine._thread._reader.join(10)


def test_commands_keep_their_order_where_it_makes_a_difference(source, tmp_path, monkeypatch):
    away = source.rename(tmp_path / "away.mkv")
    with running_engine(tmp_path / "jobs") as (engine, heard):
        with slow_drive(monkeypatch, away) as begun:
            for name in ("a", "b", "c"):
                add(engine, away, name)
            assert begun.wait(5)
            engine.send(c.MoveJob(job_id="c", position=0))
            engine.send(c.ChangeJob(job_id="c", settings=replace(FAST, scale=4)))
            engine.send(c.RemoveJob(job_id="b"))
            engine.send(c.StartQueue())
            engine.send(c.StopQueue())
            engine.send(c.ListPresets())
            heard.wait(e.PresetsListed, timeout_s=5)
            assert not heard.of(e.JobQueued)
        assert heard.wait(e.JobStarted).job_id == "c"
        assert heard.of(e.PlanChosen)[-1].plan.picture.size.width == 256
        assert [event.job_id for event in heard.of(e.JobQueued)] == ["a", "b", "c"]
        assert [event.job_id for event in heard.of(e.JobRemoved)] == ["b"]
        heard.finished_job()


def test_a_job_that_cannot_go_on_can_be_removed(source, tmp_path):
    interrupted(source, tmp_path / "jobs")
    source.write_bytes(b"another film")
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.AdoptJob(job_id="a"))
        assert heard.wait(e.JobRejected).error.code == "checkpoint-mismatch"
        engine.send(c.RemoveJob(job_id="a"))
        heard.wait(e.JobRemoved)
        engine.send(c.RemoveJob(job_id="a"))
        assert heard.wait(e.Warned).notice.code == "unknown-job"
    assert unfinished(tmp_path / "jobs") == ()


def begun_elsewhere(jobs, **picture) -> None:
    """The record of job "a" as if its GPU had been another one."""
    file = jobs / "a" / "job.json"
    stored = json.loads(file.read_text(encoding="utf-8"))
    stored["plan"]["gpu"] = "NVIDIA GeForce RTX 4090"
    stored["plan"]["picture"] |= picture
    file.write_text(json.dumps(stored), encoding="utf-8")


def test_a_job_whose_gpu_is_gone_goes_on_elsewhere(source, tmp_path):
    interrupted(source, tmp_path / "jobs")
    begun_elsewhere(tmp_path / "jobs")
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.AdoptJob(job_id="a"))
        notices = heard.wait(e.PlanChosen).plan.notices
        assert "gpu-gone" in {notice.code for notice in notices}
        engine.send(c.StartQueue())
        done = heard.finished_job()
        assert done.report.passed
        assert heard.of(e.JobStarted)[0].done


def test_segments_of_an_encoder_that_is_gone_stay_until_the_user_chooses_otherwise(
    source, tmp_path
):
    jobs = tmp_path / "jobs"
    interrupted(source, jobs)
    begun_elsewhere(jobs, encoder="h264_nvenc")
    with running_engine(jobs) as (engine, heard):
        engine.send(c.AdoptJob(job_id="a"))
        assert not heard.wait(e.PlanChosen).plan.fits
        engine.send(c.ChangeJob(job_id="a", settings=FAST))  # planned again, with the same choices
        assert not heard.wait(e.PlanChosen).plan.fits
        engine.send(c.StartQueue())
        failed = heard.failed_job()
        assert "h264_nvenc" in failed.error.message
        assert list(jobs.glob("a/segment_*.mkv"))
        engine.send(c.StopQueue())
        engine.send(c.RetryJob(job_id="a"))
        heard.wait(e.PlanChosen)
        engine.send(c.ChangeJob(job_id="a", settings=replace(FAST, crf=31)))
        plan = heard.wait(e.PlanChosen).plan
        assert plan.fits
        assert plan.notices[0].code == "segments-replaced"
        engine.send(c.StartQueue())
        heard.finished_job()
        assert not heard.of(e.JobStarted)[-1].done


def test_another_name_and_choices_that_are_taken_back_cost_no_finished_segment(source, tmp_path):
    jobs, output = tmp_path / "jobs", tmp_path / "another.mkv"
    interrupted(source, jobs)
    with running_engine(jobs) as (engine, heard):
        engine.send(c.AdoptJob(job_id="a"))
        heard.wait(e.PlanChosen)
        for settings, is_kept in ((replace(FAST, crf=31), False), (FAST, True)):
            engine.send(c.ChangeJob(job_id="a", settings=settings, output=output))
            codes = {notice.code for notice in heard.wait(e.PlanChosen).plan.notices}
            assert ("segments-replaced" not in codes) == is_kept
            assert list(jobs.glob("a/segment_*.mkv"))
        engine.send(c.StartQueue())
        heard.finished_job()
        assert heard.of(e.JobStarted)[0].done
    assert output.exists()
