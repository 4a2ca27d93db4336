"""Drives that fail and programs that are killed: nothing is lost, and what happened is said."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.api import unfinished
from engine.core import atomic_file, file_access
from engine.core.errors import DiskFull, EngineError
from engine.core.file_access import write_error
from engine.jobs.checkpoint import Checkpoint
from engine.jobs.job import Job
from engine.jobs.job_store import JobStore
from engine.jobs.stored_run import run_stored
from engine.pipeline import run
from engine.pipeline.prepare import Machine, make_plan
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.report import Report
from engine.settings.schema import EngineSettings, JobSettings
from engine.video.read.decoder import VideoDecoder
from engine.video.read.frames import PlanarFrame
from engine.video.read.probe import probe
from engine.video.write.segment_writer import SegmentWriter
from tests.helpers.clips import make_pictures
from tests.helpers.disks import Disk, FailingReads, failing_once, system_error
from tests.helpers.jobs import ENDS, FRAMES, Listener, Run, planes_of, running_engine, started
from tests.helpers.program import ROOT

FAST = JobSettings(model="none", codec="ffv1", height=48, segment_seconds=0.5)


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it but to clean up."""


def planned(run: Run, source: Path) -> None:
    """Add a job; it waits, with its plan."""
    run[0].send(add(source))
    run[1].wait(e.PlanChosen)


def add(source: Path, settings: JobSettings = FAST, name: str = "out.mkv") -> c.AddJob:
    return c.AddJob(job_id="a", source=source, settings=settings, output=source.parent / name)


def result(source: Path) -> Path:
    return source.parent / "out.mkv"


# --- reads that fail


def test_a_passing_read_error_gives_the_whole_film(source, engine, monkeypatch):
    planned(engine, source)
    rule = FailingReads(source, first=source.stat().st_size // 2, times=2).install(monkeypatch)
    started(engine).finished_job()
    assert rule.seen == 2
    assert len(planes_of(result(source))) == FRAMES


def test_a_drive_that_fails_for_good_keeps_the_job_until_it_is_back(source, engine, monkeypatch):
    planned(engine, source)
    with monkeypatch.context() as patch:
        FailingReads(source, first=source.stat().st_size * 3 // 4).install(patch)
        failed = started(engine).failed_job()
        assert failed.error.code == "result-held-back"
        assert not result(source).exists()
        assert [job.job_id for job in unfinished(source.parent / "jobs")] == ["a"]
    started(engine, c.RetryJob(job_id="a")).finished_job()
    assert len(planes_of(result(source))) == FRAMES


@pytest.mark.parametrize("place", ["read", "tried", "mux", "verify"])
def test_a_drive_that_is_pulled_out_fails_the_job_until_it_is_back(
    place: str, source, engine, monkeypatch
):
    away = source.with_name("away.mkv")

    def pulled_out(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            source.rename(away)
            return real(*args, **options)

        return call

    planned(engine, source)
    with monkeypatch.context() as patch:
        if place == "read":
            reads = FailingReads(source, first=source.stat().st_size // 2, number=errno.ENODEV)
            reads.when_failing = lambda: source.exists() and source.rename(away)
            reads.install(patch)
        else:
            patch.setattr(run, place, pulled_out(getattr(run, place)))
            patch.setattr(file_access, "PAUSES_S", (0.0, 0.1))  # six seconds in all
        failed = started(engine).failed_job()
    assert failed.error.code in ("result-held-back", "source-missing"), failed.error
    assert failed.error.hint
    assert [job.job_id for job in unfinished(source.parent / "jobs")] == ["a"]
    away.rename(source)
    done = started(engine, c.RetryJob(job_id="a")).finished_job()
    assert done.report.passed
    assert len(planes_of(result(source))) == FRAMES


def test_a_share_that_stalls_for_a_while_costs_nothing(source, engine, monkeypatch):
    planned(engine, source)
    reads = FailingReads(source, first=source.stat().st_size // 2, times=1)
    reads.when_failing = lambda: time.sleep(0.3)
    reads.install(monkeypatch)
    started(engine).finished_job()
    assert len(planes_of(result(source))) == FRAMES


def test_a_share_that_hangs_fails_the_job_until_it_answers(source, engine, monkeypatch):
    planned(engine, source)
    hangs = FailingReads(source, first=source.stat().st_size // 2, answers=threading.Event())
    with monkeypatch.context() as patch:
        hangs.install(patch)
        patch.setattr(file_access, "PATIENCE_S", 1.0)
        failed = started(engine).failed_job()
    assert "has not answered for 1 s" in failed.error.message
    assert not result(source).exists()
    assert [job.job_id for job in unfinished(source.parent / "jobs")] == ["a"]
    hangs.answers.set()
    started(engine, c.RetryJob(job_id="a")).finished_job()
    assert len(planes_of(result(source))) == FRAMES


ENDS_WHILE_A_READ_HANGS = """
import queue, sys, threading
from pathlib import Path
from types import SimpleNamespace
import pytest
from engine.api import Engine
from engine.core import file_access
from engine.protocol import commands
from tests.helpers.disks import FailingReads

source, jobs = map(Path, sys.argv[1:])
hangs = threading.Event()
rule = FailingReads(source, answers=threading.Event(), when_failing=hangs.set)
rule.install(pytest.MonkeyPatch())
file_access.PATIENCE_S = 1000.0
engine = Engine(SimpleNamespace(emit=queue.SimpleQueue().put), jobs_folder=jobs)
engine.start()
engine.send(commands.AddJob(job_id="a", source=source))
assert hangs.wait(60)
print(engine.close(0.2), "torch" in sys.modules)
"""


def test_the_program_ends_while_a_read_hangs(source, tmp_path):
    words = [sys.executable, "-c", ENDS_WHILE_A_READ_HANGS, source, tmp_path / "jobs"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert (done.stdout.split(), done.returncode) == ([b"False", b"False"], 0), done.stderr.decode()


def test_the_user_may_accept_a_film_as_far_as_it_can_be_read(source, engine, monkeypatch):
    planned(engine, source)
    FailingReads(source, first=source.stat().st_size * 3 // 4).install(monkeypatch)
    started(engine).failed_job()
    started(engine, c.RetryJob(job_id="a", accept=True)).finished_job()
    assert 0 < len(planes_of(result(source))) < FRAMES
    assert unfinished(source.parent / "jobs") == ()


def test_a_check_that_fails_keeps_the_job_until_it_is_accepted(source, engine, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(run, "verify", with_failed_checks(run.verify))
        done = started(engine, add(source)).finished_job()
        assert not done.report.passed
    assert len(unfinished(source.parent / "jobs")) == 1
    made = result(source).stat().st_mtime_ns
    with monkeypatch.context() as patch:
        patch.setattr(run, "run_job", None)  # nothing is made again
        started(engine, c.RetryJob(job_id="a", accept=True)).finished_job()
    assert result(source).stat().st_mtime_ns == made
    assert unfinished(source.parent / "jobs") == ()


def test_a_job_whose_check_failed_is_compared_again_and_may_replace_its_own_result(
    source, engine, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(run, "verify", with_failed_checks(run.verify))
        started(engine, add(source)).finished_job()
    done = started(engine, c.RetryJob(job_id="a")).finished_job()
    assert done.report.passed
    assert unfinished(source.parent / "jobs") == ()


# --- killed while it publishes


@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_a_job_killed_while_it_publishes_is_finished_by_the_next_run(
    place: str, source, monkeypatch
):
    def killed(*_: object, **__: object) -> None:
        raise Killed

    def linked(part: Path, name: Path, **_: object) -> None:
        name.hardlink_to(part)
        raise Killed

    with monkeypatch.context() as patch:
        if place == "after":
            patch.setattr(JobStore, "remove", killed)
        else:
            patch.setattr(run, "publish", linked if place == "between" else killed)
        with pytest.raises(Killed):
            run_here(source)
    assert [job.job_id for job in unfinished(source.parent / "jobs")] == ["a"]
    assert result(source).exists() == (place != "before")
    monkeypatch.setattr(run, "run_job", None)  # nothing is made again
    with running_engine(source.parent / "jobs") as engine:
        done = started(engine, c.AdoptJob(job_id="a")).finished_job()
    assert done.report.passed
    assert len(planes_of(result(source))) == FRAMES
    assert unfinished(source.parent / "jobs") == ()
    assert {path.name for path in source.parent.iterdir()} == {"film.mkv", "out.mkv", "jobs"}


def test_a_result_that_was_deleted_before_it_had_its_name_is_made_again(source, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(run, "publish", lambda part, *_, **__: part.unlink())
        patch.setattr(JobStore, "remove", lambda *_: None)
        run_here(source)
    with running_engine(source.parent / "jobs") as engine:
        started(engine, c.AdoptJob(job_id="a")).finished_job()
    assert len(planes_of(result(source))) == FRAMES


# --- disks that are full, or do not take anything


@pytest.mark.parametrize(
    ("place", "name", "after"),
    [
        (Checkpoint, "add", 1),
        (Checkpoint, "complete", 0),
        (SegmentWriter, "write", 4),
        (run, "mux", 0),
        (Checkpoint, "add_publication", 0),
    ],
)
def test_a_disk_that_is_full_once_costs_nothing(
    place: object, name: str, after: int, source, engine, monkeypatch
):
    calls = failing_once(monkeypatch, place, name, full(source.parent), after=after)
    started(engine, add(source)).finished_job()
    assert calls() > after + 1, "it was tried again"
    assert len(planes_of(result(source))) == FRAMES


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.EROFS, errno.ENOSPC])
@pytest.mark.parametrize("place", ["checkpoint", "job.json", "source"])
def test_no_error_of_the_system_is_an_internal_one_and_the_job_goes_on(
    number: int, place: str, source, engine, monkeypatch, expected_log_errors
):
    expected_log_errors += ["job a", "AddJob"]
    with monkeypatch.context() as patch:
        if place == "source":
            failing_once(patch, Path, "is_dir", system_error(number))
        else:
            after = 0 if place == "job.json" else 1
            failing_once(patch, atomic_file, "write_json", system_error(number), after=after)
        failed = started(engine, add(source)).wait(*ENDS)
    if isinstance(failed, e.JobFinished):
        return  # there was room at the second try
    assert failed.error.code != "internal-error", failed.error
    again = add(source) if isinstance(failed, e.JobRejected) else c.RetryJob(job_id="a")
    started(engine, again).finished_job()


def test_a_job_waits_while_a_disk_is_full_and_goes_on_when_there_is_room(
    source, engine, monkeypatch
):
    disk = Disk(monkeypatch, free=0)
    for command in (add(source), c.StartQueue()):
        engine[0].send(command)
    engine[1].wait(e.JobPaused)
    notice = engine[1].of(e.Warned)[-1].notice
    assert notice.code == "waits-for-room"
    assert "almost full" in notice.message
    assert not engine[1].of(e.SegmentDone), "it pauses before the disk is full"
    disk.free = 10**12
    engine[1].wait(e.JobResumed)
    engine[1].finished_job()


def test_the_user_may_use_the_last_room_or_cancel(source, engine, monkeypatch):
    Disk(monkeypatch, free=0)
    for command in (add(source), c.StartQueue()):
        engine[0].send(command)
    engine[1].wait(e.JobPaused)
    engine[0].send(c.CancelJob(job_id="a"))
    assert isinstance(engine[1].wait(*ENDS), e.JobCancelled)
    engine[0].send(c.RetryJob(job_id="a"))
    engine[0].send(c.StartQueue())
    engine[1].wait(e.JobPaused)
    engine[0].send(c.ResumeJob(job_id="a"))
    engine[1].finished_job()


def test_a_disk_that_is_too_small_and_a_quota_end_the_job(source, engine, monkeypatch):
    Disk(monkeypatch, free=0, total=10)
    failed = started(engine, add(source)).failed_job()
    assert failed.error.code == "disk-full"
    Disk(monkeypatch, free=10**12)
    monkeypatch.setattr(Checkpoint, "add", failing(full(source.parent)))
    failed = started(engine, c.RetryJob(job_id="a")).failed_job()
    assert failed.error.code == "disk-full"


def test_a_finished_job_that_cannot_be_deleted_is_whole_until_it_can(source, engine, monkeypatch):
    unlink, folder = os.unlink, source.parent / "jobs" / "a"

    def refused(path: Any, **how: Any) -> None:
        if Path(path).name == "job.json":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        unlink(path, **how)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refused)
        started(engine, add(source)).finished_job()
    assert [job.job_id for job in unfinished(folder.parent)] == ["a"]
    made = result(source).stat()
    with running_engine(folder.parent) as later:
        started(later, c.AdoptJob(job_id="a")).finished_job()
    assert result(source).stat() == made, "it is not made again"
    assert not folder.exists()


def test_cleaning_up_never_hides_the_first_error(source, engine, monkeypatch):
    unlink = Path.unlink

    def refused(path: Path, **options: bool) -> None:
        if path.name.startswith("upreel-"):
            raise system_error(errno.EIO)
        unlink(path, **options)

    monkeypatch.setattr(run, "mux", failing(read_only()))
    monkeypatch.setattr(Path, "unlink", refused)
    failed = started(engine, add(source)).failed_job()
    assert failed.error.params["reason"] == "Read-only file system"


# --- data that changed


def test_a_picture_that_changed_or_went_since_the_start_is_noticed(tmp_path, engine, monkeypatch):
    pictures = tmp_path / "shots"
    make_pictures(pictures, 24)
    monkeypatch.setattr(run, "mux", failing(read_only()))
    settings = replace(FAST, codec="auto")
    started(engine, add(pictures, settings, "made")).failed_job()
    monkeypatch.undo()
    last = sorted(pictures.iterdir())[-1]
    content, about = last.read_bytes(), last.stat()
    last.unlink()
    failed = started(engine, c.RetryJob(job_id="a")).failed_job()
    assert failed.error.code == "checkpoint-mismatch"
    last.write_bytes(content)
    os.utime(last, ns=(about.st_atime_ns, about.st_mtime_ns))
    started(engine, c.RetryJob(job_id="a")).finished_job()


def test_a_rotten_segment_of_equal_size_is_made_again(source, engine, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(run, "mux", failing(read_only()))
        started(engine, add(source)).failed_job()
    segment = source.parent / "jobs" / "a" / "segment_000001.mkv"
    data = bytearray(segment.read_bytes())
    data[len(data) * 3 // 4] ^= 1
    segment.write_bytes(data)
    done = started(engine, c.RetryJob(job_id="a")).finished_job()
    assert done.report.passed
    (notice,) = [w.notice for w in engine[1].of(e.Warned) if w.notice.code == "segments-damaged"]
    assert notice.params["count"] == "2"
    monkeypatch.undo()
    whole = planes_of(result(source))
    result(source).unlink()
    started(engine, c.RemoveJob(job_id="a"), add(source)).finished_job()
    assert all(map(np.array_equal, whole, planes_of(result(source))))


@pytest.mark.parametrize("wrongly", ["lost", "changed"])
def test_frames_that_were_read_wrongly_once_are_made_again(source, engine, monkeypatch, wrongly):
    started(engine, add(source)).finished_job()
    whole = planes_of(result(source))
    result(source).unlink()
    read, once = VideoDecoder.frames, iter([True])

    def misread(decoder: VideoDecoder) -> Iterator[PlanarFrame]:
        is_wrong = next(once, False)
        for number, frame in enumerate(read(decoder)):
            if is_wrong and number == 4:
                if wrongly == "lost":
                    continue
                frame.planes[0][:] = 0
            yield frame

    monkeypatch.setattr(VideoDecoder, "frames", misread)
    done = started(engine, c.RemoveJob(job_id="a"), add(source)).finished_job()
    assert done.report.passed
    (notice,) = [w.notice for w in engine[1].of(e.Warned) if w.notice.code == "segments-misread"]
    assert notice.params["count"] == "2"
    assert all(map(np.array_equal, whole, planes_of(result(source))))


# --- helpers


def with_failed_checks(verify: Callable[..., Report]) -> Callable[..., Report]:
    def failed(*args: Any, **options: Any) -> Report:
        report = verify(*args, **options)
        return replace(report, checks=tuple(replace(one, passed=False) for one in report.checks))

    return failed


def failing(error: Exception) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def read_only() -> EngineError:
    return write_error(system_error(errno.EROFS), Path("out.mkv"))


def full(folder: Path) -> DiskFull:
    return DiskFull("folder", folder=folder, path=folder)


def run_here(source: Path) -> None:
    """A job in this thread, as the engine runs it in one of its own."""
    jobs = source.parent / "jobs"
    media, machine = probe(source), Machine(settings=EngineSettings(threads=1), jobs_folder=jobs)
    plan = make_plan(media, FAST, result(source), machine)
    job = Job(id="a", media=media, settings=FAST, output=result(source), plan=plan)
    run_stored(job, JobStore(jobs), machine, Listener(), lambda _: None)
