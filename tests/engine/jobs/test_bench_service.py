from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.bench import full_run
from engine.core.errors import Cancelled, DiskFull
from engine.jobs import engine_thread
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.report import BenchReport
from engine.settings.schema import JobSettings
from tests.helpers.clips import make_clip
from tests.helpers.listening import running_engine

LAST_WORDS = (e.BenchDone, e.BenchFailed)
REPORT = BenchReport(machine={"processor": "A processor"}, markdown="# Measured")


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A benchmark that says one step, then waits for the gate or for being stopped."""
    opened = threading.Event()

    def examine(*, quick: bool, tell: Callable[..., None], stop: Callable[[], bool]) -> BenchReport:
        tell(0, 2, "quick" if quick else "all")
        while not opened.wait(0.01):
            if stop():
                raise Cancelled
        return REPORT

    monkeypatch.setattr(full_run, "examine", examine)
    return opened


def test_it_says_how_far_it_is_and_ends_with_the_report(
    tmp_path: Path, gate: threading.Event
) -> None:
    with running_engine(tmp_path) as (engine, heard):
        engine.send(c.RunBench(quick=False))
        step = heard.wait(e.BenchProgress)
        assert (step.done, step.total, step.doing) == (0, 2, "all")
        gate.set()
        done = heard.wait(*LAST_WORDS)
        assert isinstance(done, e.BenchDone)
        assert done.report == REPORT
        engine.send(c.RunBench(quick=True))  # asked for at once, and answered
        assert heard.wait(e.BenchProgress).doing == "quick"
        assert isinstance(heard.wait(*LAST_WORDS), e.BenchDone)


def test_it_stops_when_asked_and_can_begin_again(tmp_path: Path, gate: threading.Event) -> None:
    with running_engine(tmp_path) as (engine, heard):
        for _ in range(2):
            engine.send(c.RunBench())
            heard.wait(e.BenchProgress)
            engine.send(c.RunBench())  # one at a time: the first goes on
            engine.send(c.StopBench())
            failed = heard.wait(*LAST_WORDS)
            assert isinstance(failed, e.BenchFailed)
            assert failed.error.code == "cancelled"
        assert len(heard.of(e.BenchProgress)) == 2


def test_jobs_wait_until_it_has_ended(
    tmp_path: Path, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = threading.Event()

    def run(*_: Any) -> None:
        running.set()
        raise DiskFull("There is no room.")

    monkeypatch.setattr(engine_thread, "run", run)
    source = make_clip(tmp_path / "clip.mp4", frames=3)
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.RunBench())
        heard.wait(e.BenchProgress)
        settings = JobSettings(model="none", height=96)
        engine.send(c.AddJob(job_id="a", source=source, settings=settings))
        engine.send(c.StartQueue())
        heard.wait(e.PlanChosen)
        time.sleep(0.1)
        assert not running.is_set()
        gate.set()
        heard.wait(*LAST_WORDS)
        heard.wait(e.JobFailed)
        assert running.is_set()


def test_it_is_refused_while_a_job_runs(
    tmp_path: Path, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, go = threading.Event(), threading.Event()

    def run(*_: Any) -> None:
        running.set()
        go.wait(30)
        raise DiskFull("There is no room.")

    monkeypatch.setattr(engine_thread, "run", run)
    source = make_clip(tmp_path / "clip.mp4", frames=3)
    with running_engine(tmp_path / "jobs") as (engine, heard):
        settings = JobSettings(model="none", height=96)
        engine.send(c.AddJob(job_id="a", source=source, settings=settings))
        engine.send(c.StartQueue())
        assert running.wait(30)
        engine.send(c.RunBench())
        refused = heard.wait(*LAST_WORDS)
        assert isinstance(refused, e.BenchFailed)
        assert (refused.error.code, refused.error.message) == ("job-error", "A job is running.")
        go.set()
        heard.wait(e.JobFailed)
        assert not heard.of(e.BenchProgress)


def test_closing_the_program_ends_it(tmp_path: Path, gate: threading.Event) -> None:
    with running_engine(tmp_path) as (engine, heard):
        engine.send(c.RunBench())
        heard.wait(e.BenchProgress)
    assert "bench" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize(
    ("error", "code"),
    [(DiskFull("There is no room."), "disk-full"), (ValueError("a mistake"), "internal-error")],
)
def test_errors_are_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    expected_log_errors: list[str],
    error: Exception,
    code: str,
) -> None:
    def examine(**_: Any) -> BenchReport:
        raise error

    expected_log_errors.append("engine.jobs.bench_service: benchmark")

    monkeypatch.setattr(full_run, "examine", examine)
    with running_engine(tmp_path) as (engine, heard):
        engine.send(c.RunBench())
        failed = heard.wait(*LAST_WORDS)
    assert isinstance(failed, e.BenchFailed)
    assert failed.error.code == code
