"""Every command about a job in every state of that job: a table, and a random walk."""

from __future__ import annotations

import queue
import sys
import threading
from contextlib import nullcontext, suppress
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.core.errors import EngineError
from engine.core.file_access import missing_source
from engine.jobs import job_service
from engine.jobs.excerpts import ExcerptService, LookService
from engine.jobs.job import Job
from engine.jobs.job_service import JobService, Steps
from engine.jobs.job_store import JobStore
from engine.jobs.services import ExaminationService, OverviewService
from engine.pipeline.prepare import Machine
from engine.protocol import commands as c
from engine.protocol.excerpt import Excerpt
from engine.protocol.plan import Notice, Plan
from engine.settings.schema import EngineSettings, JobSettings
from tests.helpers.plans import a_media, a_plan
from tests.trials.faults.commands import Commands

# Beside each command the state that follows at once; "=" stays, "!" is refused and stays.
# "ending" runs, but looks at no pause and no cancellation any more; "left" is of an earlier run.
TABLE = """
            waiting    running  ending   paused   finished failed  cancelled removed unknown left
pause       !          paused   paused   !        !        !       !         !       !       !
resume      !          !        !        running  !        !       !         !       !       !
cancel      cancelled  =        =        =        !        !       !         !       !       !
retry       !          !        !        !        waiting  waiting waiting   !       !       !
change      =          !        !        !        !        =       =         !       !       !
remove      gone       !        !        !        gone     gone    gone      gone    !       gone
set-aside   removed    !        !        !        removed  removed removed   !       !       !
restore     !          !        !        !        !        !       !         waiting !       !
move        =          =        =        =        =        =       =         !       !       !
add         !          !        !        !        !        !       !         !       waiting !
adopt       !          !        !        !        !        !       !         !       !       waiting
examine     =          =        =        =        =        =       =         =       =       =
examined    =          =        =        =        =        =       =         =       =       =
plan        =          =        =        =        =        =       =         !       !       !
show        =          =        =        =        =        =       =         !       !       !
scenes      =          !        !        !        =        =       =         !       !       !
excerpt     =          !        !        !        =        =       =         !       !       !
look        =          !        !        !        =        =       =         !       !       !
overview    =          =        =        =        =        =       =         !       !       !
made        =          =        =        =        =        =       =         =       =       =
start       running    =        =        =        =        =       =         =       =       =
stop        =          =        =        =        =        =       =         =       =       =
shutdown    =          =        =        =        =        =       =         =       =       =
"""
MEDIA = replace(a_media(), findings=None)
REFUSED = a_plan(notices=(Notice(code="no-folder", case="", severity="refusal", params={}),))
EXCERPT = Excerpt(
    settings=JobSettings(), plan=a_plan(), frames=1, frames_per_second=1.0, device_bytes=0
)
COMMANDS: dict[str, c.Command] = {
    "pause": c.PauseJob(job_id="a"),
    "resume": c.ResumeJob(job_id="a"),
    "cancel": c.CancelJob(job_id="a"),
    "retry": c.RetryJob(job_id="a"),
    "change": c.ChangeJob(job_id="a", settings=JobSettings(crf=20)),
    "remove": c.RemoveJob(job_id="a"),
    "set-aside": c.RemoveJob(job_id="a", can_return=True),
    "restore": c.RestoreJob(job_id="a", position=0),
    "move": c.MoveJob(job_id="a", position=9),
    "add": c.AddJob(job_id="a", source=Path("film.mkv")),
    "adopt": c.AdoptJob(job_id="a"),
    "examine": c.ExamineSource(job_id="a", media=MEDIA),
    "examined": c.SourceExamined(job_id="a", media=MEDIA),
    "plan": c.ShowPlan(job_id="a", settings=JobSettings(crf=20)),
    "show": c.ShowFrame(job_id="a", seconds=0.0),
    "scenes": c.FindScenes(job_id="a"),
    "excerpt": c.MakeExcerpt(job_id="a", start=0.0),
    "look": c.MakeLook(job_id="a", start=0.0),
    "overview": c.ReadOverview(job_id="a"),
    "made": c.ExcerptMade(job_id="a", excerpt=EXCERPT),
    "start": c.StartQueue(),
    "stop": c.StopQueue(),
    "shutdown": c.Shutdown(),
}
HEAD, *ROWS = [line.split() for line in TABLE.strip().splitlines()]
ENDED = ("finished", "failed", "cancelled")


def _done(steps: Steps) -> None:
    """Carry a command to its end, with its long parts in this thread."""
    step = partial(next, steps)
    with suppress(StopIteration):
        while True:
            part = step()
            try:
                step = partial(steps.send, part())
            except EngineError as err:
                step = partial(steps.throw, err)


class Bench:
    """Jobs "a" and "b" of a service whose thread is this one, and whose jobs do as they are told.

    Attributes:
        fails: Whether the next job fails.
        looks: Whether it obeys its control.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.fails, self.looks = folder, False, True
        self.begun, self.gate = threading.Event(), threading.Event()
        self.inbox: queue.SimpleQueue[c.Command] = queue.SimpleQueue()
        self.store = JobStore(folder / "jobs")
        machine = Machine(settings=EngineSettings(threads=1), jobs_folder=folder / "jobs")
        sink = SimpleNamespace(emit=lambda event: None)
        self.jobs = JobService(sink, machine, self.inbox.put, may_run=lambda: True)
        excerpts = ExcerptService(self.jobs, self.inbox.put, is_measured=lambda: False)
        self.services = (
            excerpts,
            LookService(excerpts, self.jobs, examines=lambda: False),
            ExaminationService(self.inbox.put),
            OverviewService(self.jobs),
        )
        patch.setattr(job_service, "run_stored", self._run)
        patch.setattr(job_service, "probe_source", lambda *_: MEDIA)
        for name in ("make_plan", "taken_up"):
            patch.setattr(job_service, name, lambda *_: a_plan())
        patch.setattr(job_service, "keep_awake", nullcontext)
        shown = SimpleNamespace(frame_events=lambda *_: ())
        patch.setitem(sys.modules, "engine.jobs.playback", shown)

    def _run(self, job: Job, *_: Any) -> Any:
        looks, fails = self.looks, self.fails
        self.begun.set()
        assert self.gate.wait(5)
        if looks:
            job.control.check()
        if fails:
            raise missing_source(Path("film.mkv"))
        return None

    def do(self, command: c.Command) -> str:
        """Carry a command out; the code of its refusal, or ""."""
        service = next((s for s in self.services if isinstance(command, s.commands)), self.jobs)
        try:
            _done(service.carry_out(command)) if service is self.jobs else service.answer(command)
        except EngineError as err:
            return err.code
        return ""

    def end(self) -> None:
        """Let the job that runs go on to its end, and take that."""
        self.gate.set()
        while self.jobs.is_running:
            if self.state == "paused" and self.looks:
                self.do(c.ResumeJob(job_id="a"))
            command = self.inbox.get(timeout=5)
            if not isinstance(command, c.ExamineSource):
                self.do(command)

    def begin(self) -> None:
        """Let "a" run, and no other job."""
        self.begun.clear(), self.gate.clear()
        self.do(c.StartQueue())
        assert self.begun.wait(5)
        self.do(c.StopQueue())

    @property
    def state(self) -> str:
        """State of "a"."""
        if any(job.id == "a" for job in self.jobs._jobs):
            return str(self.jobs.job("a").state)
        if "a" in self.jobs._removed:
            return "removed"
        return "left" if "a" in self.store.ids() else "unknown"

    def answer(self, state: str, name: str) -> str:
        """The cell of the table: what a command does in a state."""
        self.bring(state)
        before = self.state
        assert before == {"ending": "running"}.get(state, state)
        refusal = self.do(COMMANDS[name])
        if refusal:
            assert self.state == before, refusal
            return "!"
        after = {"unknown": "gone"}.get(self.state, self.state)
        return "=" if self.state == before else after

    def bring(self, state: str) -> None:
        """Bring "a" into a state; "b" waits behind it."""
        if state == "left":
            source = self.folder / "film.mkv"
            source.parent.mkdir()
            source.write_bytes(b"film")
            about = {"media": replace(MEDIA, path=source), "settings": JobSettings()}
            self.store.save(Job(id="a", output=None, plan=a_plan(), **about))
        elif state != "unknown":
            self.do(COMMANDS["add"])
        self.do(c.AddJob(job_id="b", source=Path("film.mkv")))
        self.fails, self.looks = state == "failed", state != "ending"
        if state in ("running", "ending", "paused", "finished", "failed"):
            self.begin()
        last = {"paused": "pause", "cancelled": "cancel", "removed": "set-aside"}.get(state)
        if last is not None:
            self.do(COMMANDS[last])
        if state in ENDED:
            self.end()
        self.fails = False


def test_every_command_about_jobs_is_in_the_table() -> None:
    named = {
        kind
        for kind in vars(c).values()
        if isinstance(kind, type)
        and issubclass(kind, c.Command)
        and "job_id" in {field.name for field in fields(kind)}
    }
    assert named - {c.ExcerptCommand} <= {type(command) for command in COMMANDS.values()}
    assert list(COMMANDS) == [row[0] for row in ROWS]


@pytest.mark.parametrize("state", HEAD)
def test_a_command_is_obeyed_or_refused_and_the_queue_goes_on(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, *cells in ROWS:
        bench = Bench(tmp_path / name, monkeypatch)
        found = bench.answer(state, name)
        assert found == cells[HEAD.index(state)], name
        bench.end()
        if state == "ending":
            assert bench.state == "finished", "what has its result has finished, whatever came"
        if name != "shutdown":
            bench.do(c.StartQueue())
            bench.end()
            assert {str(job.state) for job in bench.jobs._jobs} <= set(ENDED), name
            assert str(bench.jobs.job("b").state) == "finished", name
            bench.do(c.Shutdown())
        assert bench.jobs.has_ended, name


def test_a_job_waits_where_the_system_refuses_its_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: Any) -> threading.Thread:
        raise RuntimeError("can't start new thread")

    bench = Bench(tmp_path, monkeypatch)
    bench.bring("waiting")
    with monkeypatch.context() as patch:
        patch.setattr(job_service, "threading", SimpleNamespace(Thread=refused))
        with pytest.raises(RuntimeError):
            bench.do(c.StartQueue())
    assert (bench.state, bench.jobs.is_running) == ("waiting", False)
    bench.do(c.StartQueue())
    bench.end()
    assert bench.state == "finished"


def refuse(bench: Bench, patch: pytest.MonkeyPatch, *plans: Plan | EngineError) -> None:
    """Let the next plans be these, and the last one stay."""
    left = list(plans)

    def made(*_: Any) -> Plan:
        plan = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(plan, EngineError):
            raise plan
        return plan

    patch.setattr(job_service, "make_plan", made)


@pytest.mark.parametrize("skips", [True, False])
def test_a_refused_job_waits_for_another_plan_or_fails(
    skips: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, monkeypatch)
    refuse(bench, monkeypatch, REFUSED, a_plan())
    bench.bring("waiting")
    bench.do(c.StartQueue(skips_refused=skips))
    bench.end()
    assert str(bench.jobs.job("b").state) == "finished"
    assert bench.state == ("waiting" if skips else "finished"), "this run does not look at plans"
    if skips:
        bench.do(COMMANDS["change"])
        bench.end()
        assert bench.state == "finished", "its turn had come"


def test_a_refused_job_that_is_tried_again_starts_once_its_plan_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, monkeypatch)
    gone = missing_source(Path("film.mkv"))
    refuse(bench, monkeypatch, REFUSED, a_plan(), REFUSED, gone, a_plan())
    bench.bring("failed")
    bench.do(c.StartQueue(skips_refused=True))
    bench.end()
    for state in ("waiting", "waiting", "finished"):
        bench.do(COMMANDS["change"])
        if bench.state == "failed":
            bench.do(COMMANDS["retry"])
        bench.end()
        assert bench.state == state


def test_a_job_that_another_program_has_stays_in_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, monkeypatch)
    bench.bring("waiting")
    with bench.store.held("a"):
        assert bench.do(COMMANDS["remove"]) == "job-busy"
        assert bench.state == "waiting"
    assert bench.do(COMMANDS["remove"]) == ""


def test_random_commands_end_in_the_right_results(tmp_path: Path) -> None:
    """One case of the 300 that `python -m tests.trials.faults --only commands` runs."""
    assert Commands(tmp_path).run(1).text == "ok"
