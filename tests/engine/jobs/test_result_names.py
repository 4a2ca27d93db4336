"""Names of results: those that a drive takes, and those that something else has taken."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import filelock
import pytest

from engine.api import unfinished
from engine.core.errors import ContainerMismatch, OutputNameUnusable, OutputUnwritable
from engine.core.paths import data_folder
from engine.jobs import stored_run
from engine.jobs.job import Job
from engine.jobs.job_service import _with_result
from engine.jobs.job_store import JobStore, StoredJob
from engine.pipeline import run
from engine.pipeline.prepare import Machine, check_plan, make_plan
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.protocol.report import Report
from engine.settings.schema import EngineSettings, JobSettings
from engine.video.read.probe import probe
from tests.helpers.clips import make_pictures
from tests.helpers.jobs import FRAMES, Run, planes_of, running_engine, started
from tests.helpers.plans import a_media, a_plan

FAST = JobSettings(model="none", codec="ffv1", height=48, segment_seconds=0.5)


def add(source: Path, settings: JobSettings = FAST, name: str = "out.mkv") -> c.AddJob:
    return c.AddJob(job_id="a", source=source, settings=settings, output=source.parent / name)


def result(source: Path) -> Path:
    return source.parent / "out.mkv"


def test_what_came_after_its_rejected_result_is_not_replaced(source, engine, monkeypatch):
    """The permission to overwrite was for the file that was there at the start."""
    verify = run.verify

    def failed(*args: Any, **options: Any) -> Report:
        report = verify(*args, **options)
        return replace(report, checks=tuple(replace(one, passed=False) for one in report.checks))

    result(source).write_bytes(b"older")
    with monkeypatch.context() as patch:
        patch.setattr(run, "verify", failed)
        started(engine, add(source, replace(FAST, overwrite=True))).finished_job()
    result(source).write_bytes(b"of another job")
    assert started(engine, c.RetryJob(job_id="a")).failed_job().error.code == "output-exists"
    assert result(source).read_bytes() == b"of another job"


@pytest.mark.parametrize("way", ["overwrite", "overwrite in the queue"])
def test_permission_given_anew_counts_for_what_replaced_the_result(
    way: str, source: Path, engine: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(JobStore, "remove", lambda *_: None)  # as if it was killed before
        started(engine, add(source)).finished_job()
    result(source).write_bytes(b"another program's")
    with running_engine(source.parent / "jobs") as later:
        failed = started(later, c.AdoptJob(job_id="a")).failed_job()
        assert failed.error.code == "output-exists"
        if way == "overwrite":
            with running_engine(source.parent / "jobs") as last:
                started(last, c.AdoptJob(job_id="a", overwrite=True)).finished_job()
        else:
            settings = replace(FAST, overwrite=True)
            change = c.ChangeJob(job_id="a", settings=settings, output=result(source))
            started(later, change, c.RetryJob(job_id="a")).finished_job()
    assert len(planes_of(result(source))) == FRAMES
    assert unfinished(source.parent / "jobs") == ()


def taken_meanwhile(source: Path) -> None:
    """Leaves job "a" with a finished result whose name another program took while it ran."""
    with running_engine(source.parent / "jobs") as engine:
        heard = started(engine, add(source))
        heard.wait(e.SegmentDone)
        result(source).write_bytes(b"another program's")
        failed = heard.failed_job()
    assert (failed.error.code, failed.error.case) == ("output-exists", "meanwhile")


@pytest.mark.parametrize("way", ["overwrite", "overwrite in the queue", "output"])
def test_a_result_whose_name_was_taken_meanwhile_gets_that_one_or_another(
    way: str, source, monkeypatch
):
    taken_meanwhile(source)
    other = source.with_name("other.mkv")
    with running_engine(source.parent / "jobs") as engine:
        if way == "output":
            done = started(engine, c.AdoptJob(job_id="a", output=other)).finished_job()
        else:
            monkeypatch.setattr(run, "run_job", None)  # nothing is made again
            replaces = c.ChangeJob(
                job_id="a", settings=replace(FAST, overwrite=True), output=result(source)
            )
            adopted = c.AdoptJob(job_id="a", overwrite=way == "overwrite")
            commands = (adopted, replaces) if "queue" in way else (adopted,)
            done = started(engine, *commands).finished_job()
    assert done.report.output == (other if way == "output" else result(source))
    assert len(planes_of(done.report.output)) == FRAMES
    names = {path.name for path in source.parent.iterdir()} - {"jobs"}
    assert names == {"film.mkv", "out.mkv"} | ({"other.mkv"} if way == "output" else set())
    assert unfinished(source.parent / "jobs") == ()


def test_a_format_that_needs_another_encoder_is_no_matter_of_the_computer(source):
    with running_engine(source.parent / "jobs") as engine:
        started(engine, add(source, replace(FAST, codec="auto"))).wait(e.SegmentDone)
    webm = source.with_name("out.webm")
    with running_engine(source.parent / "jobs") as (engine, heard):
        engine.send(c.AdoptJob(job_id="a", output=webm))
        error = heard.wait(e.JobRejected).error
        assert (error.code, error.case) == ("container-mismatch", "unfinished-job")
        engine.send(c.AdoptJob(job_id="a"))
        heard.wait(e.PlanChosen)
        engine.send(c.ChangeJob(job_id="a", settings=replace(FAST, codec="auto"), output=webm))
        plan = heard.wait(e.PlanChosen).plan
    assert plan.container == "webm"
    assert [one.case for one in plan.notices if one.code == "segments-replaced"] == ["choices"]


def test_a_job_that_another_program_has_finished_meanwhile_begins_anew(
    source: Path, engine: Run
) -> None:
    """And where it does not: as nothing else was asked for, it is refused."""
    engine[0].send(c.AdoptJob(job_id="a"))
    assert engine[1].wait(e.JobRejected).error.code == "unknown-job"
    engine[0].send(c.AdoptJob(job_id="a", otherwise=add(source)))
    assert engine[1].wait(e.PlanChosen).plan.output == result(source)


# --- several programs at once


def paused(heard: Run, *commands: c.Command) -> None:
    """Lets a job "a" rest after its first part, as long as its engine runs."""
    started(heard, *commands).wait(e.SegmentDone)
    heard[0].send(c.PauseJob(job_id="a"))
    heard[1].wait(e.JobPaused)


def finished(heard: Run) -> Path:
    """The result of a job "a" that was paused."""
    heard[0].send(c.ResumeJob(job_id="a"))
    return heard[1].finished_job().report.output


def test_jobs_of_several_programs_have_results_of_their_own(source: Path, engine: Run) -> None:
    paused(engine, add(source))
    with running_engine(source.parent / "jobs") as other:
        done = started(other, replace(add(source), job_id="b")).finished_job()
    second = source.with_name("out (2).mkv")
    assert done.report.output == second
    assert finished(engine) == result(source)
    assert len(planes_of(second)) == len(planes_of(result(source))) == FRAMES


def test_a_job_that_goes_on_leaves_the_name_to_one_that_runs(source: Path, engine: Run) -> None:
    with running_engine(source.parent / "jobs") as stopped:
        started(stopped, replace(add(source), job_id="b")).wait(e.SegmentDone)
    paused(engine, add(source))
    with running_engine(source.parent / "jobs") as other:
        done = started(other, c.AdoptJob(job_id="b")).finished_job()
    assert done.report.output == source.with_name("out (2).mkv")
    assert finished(engine) == result(source)


def test_a_drive_that_takes_no_lock_keeps_no_other_job_from_its_start(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JobStore(source.parent / "jobs")
    store.save(Job(id="b", media=a_media(), settings=FAST, output=None, plan=a_plan()))

    def refused(*_: object) -> bool:
        raise OutputUnwritable("folder", name="b")

    monkeypatch.setattr(JobStore, "is_held", refused)
    assert store.results_elsewhere("a") == frozenset()


def test_one_program_at_a_time_chooses_a_name(
    source: Path, engine: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[bool] = []

    def begins(*_: Any, **__: Any) -> None:
        lock = filelock.FileLock(data_folder() / "names.lock", timeout=0)
        with contextlib.suppress(filelock.Timeout), lock:
            attempts.append(True)
            return
        attempts.append(False)

    monkeypatch.setattr(stored_run, "check_plan", begins)
    assert started(engine, add(source)).finished_job().report.output == result(source)
    begins()
    assert attempts == [False, True]


# --- names that a drive takes


@pytest.mark.parametrize("name", ["\u7535" * 83 + ".mkv", "a" * 251 + ".mkv"])
def test_every_name_that_the_drive_takes_is_taken_to_the_end(name: str, source, engine):
    started(engine, add(source, name=name)).finished_job()
    assert (source.parent / name).exists()


def test_a_name_that_the_drive_does_not_take_is_refused_before_the_start(source, engine):
    failed = started(engine, add(source, name="a" * 252 + ".mkv")).failed_job()
    assert failed.error.code == "output-name"
    assert not engine[1].of(e.SegmentDone)


def test_names_of_pictures_are_tried_before_the_start(tmp_path, engine):
    pictures = tmp_path / "shots"
    make_pictures(pictures, 3)
    for picture in sorted(pictures.iterdir()):
        picture.rename(pictures / f"{'a' * 244}{picture.stem[-4:]}.bmp")
    media = probe(pictures)
    assert len(Path(media.pattern).name) > 244
    started(engine, add(pictures, replace(FAST, codec="auto"), "made")).finished_job()
    failed = check(media, "b" * 250 + "%06d.png")
    assert failed == "output-name"


# --- names that a command gives


def stored(tmp_path: Path, plan: Plan) -> StoredJob:
    """An unfinished job with a plan, read back."""
    source, store = tmp_path / "film.mkv", JobStore(tmp_path / "jobs")
    source.touch()
    media = replace(a_media(), path=source)
    store.save(Job(id="a", media=media, settings=FAST, output=None, plan=plan))
    return store.load("a")


@pytest.mark.parametrize("is_folder", [True, False])
def test_results_of_one_name_are_numbered(tmp_path: Path, is_folder: bool) -> None:
    output = tmp_path / "film_x2.mkv"
    job = stored(tmp_path, a_plan(output=Path("elsewhere", output.name)))
    command = c.AdoptJob(job_id="a", output=tmp_path if is_folder else output, overwrite=True)
    assert _with_result(job, command).plan.output == output
    taken = {output, tmp_path / "film_x2 (2).mkv"}
    assert _with_result(job, command, taken).plan.output == tmp_path / "film_x2 (3).mkv"


@pytest.mark.parametrize(
    ("container", "codec", "names", "others"),
    [
        ("mp4", "h264", ("a.m4v", "a.MP4"), ("a.mov", "a", "a.png")),
        ("mov", "prores", ("a.qt",), ("a.mp4",)),
        ("image", "tiff", ("a.tiff", "a.tif"), ("a.png", "a.mkv")),
        ("sequence", "png", ("shots.v2", "shots", "shot_%04d.png"), ("shot_%04d.dpx",)),
    ],
)
def test_a_name_means_the_format_of_the_finished_parts(
    tmp_path: Path, container: str, codec: str, names: tuple[str, ...], others: tuple[str, ...]
) -> None:
    plan = a_plan(container=container, picture=replace(a_plan().picture, codec=codec))
    job = stored(tmp_path, plan)
    for name in names:
        _with_result(job, c.AdoptJob(job_id="a", output=tmp_path / name))
    for name in others:
        with pytest.raises(ContainerMismatch):
            _with_result(job, c.AdoptJob(job_id="a", output=tmp_path / name))


def test_pictures_get_a_folder_and_a_pattern(tmp_path: Path) -> None:
    picture = replace(a_plan().picture, codec="png")
    job = stored(tmp_path, a_plan(container="sequence", picture=picture, pattern="old_%d.png"))
    for name, pattern in (("shot_%04d.png", "shot_%04d.png"), ("shot", "old_%d.png")):
        plan = _with_result(job, c.AdoptJob(job_id="a", output=tmp_path / name)).plan
        assert (plan.output, plan.pattern) == (tmp_path / "shot", pattern)


def check(media: MediaInfo, pattern: str) -> str:
    """Code of the refusal of a sequence whose pictures have such names."""
    folder = media.path.parent
    machine = Machine(settings=EngineSettings(threads=1), jobs_folder=folder)
    plan = make_plan(media, replace(FAST, codec="auto"), folder.parent / "other", machine)
    with pytest.raises(OutputNameUnusable) as caught:
        check_plan(media, replace(plan, pattern=pattern), overwrite=False)
    return caught.value.code
