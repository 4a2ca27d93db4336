import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.api import Engine
from engine.bench import calibration
from engine.core.control import Control
from engine.core.errors import Cancelled, DiskFull
from engine.jobs import job_service
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.report import BenchReport
from engine.protocol.tasks import TaskKind
from engine.settings.schema import JobSettings
from tests.helpers.clips import make_clip
from tests.helpers.jobs import TASK_ENDS, Listener, running_engine

STOP = c.StopTask(kind=TaskKind.BENCHMARK)
REPORT = BenchReport(machine={"processor": "A processor"}, markdown="# Measured")


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A benchmark that says one step, then waits for the gate or for being stopped."""
    opened = threading.Event()

    def examine(
        *, quick: bool, report: Callable[..., None], stop: Callable[[], bool]
    ) -> BenchReport:
        report(0, 2, "quick" if quick else "all")
        while not opened.wait(0.01):
            if stop():
                raise Cancelled
        return REPORT

    monkeypatch.setattr(calibration, "examine", examine)
    return opened


@dataclass
class HeldJob:
    """A job that waits for `may_end` and then fails."""

    began: threading.Event = field(default_factory=threading.Event)
    may_end: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HeldJob:
    job = HeldJob()

    def run(*_: Any) -> None:
        job.began.set()
        job.may_end.wait(30)
        raise DiskFull("folder", folder=tmp_path)

    monkeypatch.setattr(job_service, "run_stored", run)
    return job


def start_job(engine: Engine, folder: Path) -> None:
    source = make_clip(folder / "clip.mp4", frames=3)
    settings = JobSettings(model="none", height=96)
    engine.send(c.AddJob(job_id="a", source=source, settings=settings))
    engine.send(c.StartQueue())


def first_step(heard: Listener) -> e.TaskProgress:
    while not (progress := heard.wait(e.TaskProgress)).step:
        pass
    return progress


def test_it_emits_progress_and_then_the_report(tmp_path: Path, gate: threading.Event) -> None:
    with running_engine(tmp_path) as (engine, heard):
        engine.send(c.RunBenchmark(quick=False))
        step = first_step(heard)
        assert (step.done, step.total, step.step) == (0, 2, "all")
        gate.set()
        done = heard.done()
        assert done.result == REPORT
        engine.send(c.RunBenchmark(quick=True))  # asked for at once, and answered
        assert first_step(heard).step == "quick"
        heard.done()


def test_an_archive_is_written_as_a_task_and_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measure this PC."""

    def measure(path: Path, options: object, *, report: Any, control: Control) -> None:
        report(0, 2, "self-test")
        while path.name == "stopped.zip":
            control.check()
            time.sleep(0.01)

    monkeypatch.setattr("engine.bench.first_contact.measure", measure)
    with running_engine(tmp_path) as (engine, heard):
        engine.send(c.RunBenchmark(archive=tmp_path / "a.zip"))
        done = heard.done()
        assert (done.subject, done.result) == (str(tmp_path / "a.zip"), None)
        engine.send(c.RunBenchmark(archive=tmp_path / "stopped.zip"))
        first_step(heard)
        engine.send(STOP)
        assert isinstance(heard.wait(*TASK_ENDS), e.TaskStopped)


def test_it_stops_when_asked_and_can_begin_again(tmp_path: Path, gate: threading.Event) -> None:
    with running_engine(tmp_path) as (engine, heard):
        for _ in range(2):
            engine.send(c.RunBenchmark())
            first_step(heard)
            engine.send(c.RunBenchmark())  # one at a time: the first goes on
            engine.send(STOP)
            assert isinstance(heard.wait(*TASK_ENDS), e.TaskStopped)
        assert len([p for p in heard.of(e.TaskProgress) if p.step]) == 2


def test_jobs_wait_until_it_ends(tmp_path: Path, gate: threading.Event, job: HeldJob) -> None:
    job.may_end.set()
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.RunBenchmark())
        first_step(heard)
        start_job(engine, tmp_path)
        heard.wait(e.PlanChosen)
        time.sleep(0.1)
        assert not job.began.is_set()
        gate.set()
        heard.wait(*TASK_ENDS)
        heard.wait(e.JobFailed)
        assert job.began.is_set()


def test_it_is_refused_during_a_job(tmp_path: Path, gate: threading.Event, job: HeldJob) -> None:
    with running_engine(tmp_path / "jobs") as (engine, heard):
        start_job(engine, tmp_path)
        assert job.began.wait(30)
        engine.send(c.RunBenchmark())
        refused = heard.failed()
        assert (refused.error.code, refused.error.message) == ("job-error", "A job is running.")
        job.may_end.set()
        heard.wait(e.JobFailed)
        about = {event.kind for event in heard.of(e.TaskProgress)}
        assert TaskKind.BENCHMARK not in about
