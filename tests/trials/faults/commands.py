"""Random commands at random moments to an engine with several jobs: every job ends as it should."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

from engine.api import Engine, unfinished
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.tasks import TaskKind
from engine.settings.schema import EngineSettings, JobSettings
from tests.helpers.clips import make_clip
from tests.trials.faults.group import Group
from tests.trials.faults.jobs import packets_of
from tests.trials.faults.outcomes import HANG, INCOMPLETE, INTERNAL, LOST, OK, Outcome

COMMANDS = 50  # of a case
_CODECS = ("ffv1", "h264")
_ENDED = ("finished", "failed", "cancelled")
_SENSE = 0.7  # of all commands suit the state that their job has at the moment
_MOST_JOBS = 4
_CLOSE_S = 5.0
_PATIENCE_S = 15.0  # for one step of a job of a second
_LAST_S = 0.06  # from the beginning of the comparison to the end of a job
_NEXT: dict[type[e.JobEvent], tuple[str, ...]] = {  # states in which an event may come
    e.JobPaused: ("running",),
    e.JobResumed: ("paused",),
    e.JobFinished: ("running", "paused"),
    e.JobCancelled: ("waiting", "running", "paused", "removed"),  # a return is not told
    e.JobFailed: (),
    e.SegmentDone: ("running", "paused"),
}
_STATES: dict[type[e.JobEvent], str] = {
    e.JobQueued: "waiting",
    e.JobPaused: "paused",
    e.JobResumed: "running",
    e.JobFinished: "finished",
    e.JobFailed: "failed",
    e.JobCancelled: "cancelled",
    e.JobRemoved: "removed",
}


class Wrong(Exception):
    """What must not happen has; the argument is its Outcome."""


class Commands(Group):
    """The jobs of each case must end with the results of undisturbed ones, and leave nothing."""

    name = "commands"
    rows = ("first seed", "second seed", "third seed")
    usual = 300
    limit_s = 120.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.film = make_clip(folder / "film.mkv", frames=75, size=(64, 48), audio_tracks=1)
        self._right: dict[str, object] = {}
        for codec in _CODECS:
            walk = _Walk(folder / codec, self.film, self.chances(0))
            walk.add(codec)
            walk.settle()
            walk.close()
            self._right[codec] = packets_of(next(iter(walk.heard.made)))

    def run(self, number: int) -> Outcome:
        """Walk, let all jobs end, and compare."""
        walk = _Walk(self.folder / f"case{number}", self.film, self.chances(number))
        errors = _Errors()
        logging.getLogger("engine").addHandler(errors)
        try:
            walk.add(_CODECS[number % 2])
            for _ in range(COMMANDS - 1):
                walk.step()
            if walk.rng.random() < 0.5:
                walk.reopen()
            walk.settle()
            walk.close()
        except Wrong as wrong:
            return wrong.args[0]
        finally:
            logging.getLogger("engine").removeHandler(errors)
            walk.engine.close()
        if errors.texts:
            return Outcome(INTERNAL, "", errors.texts[0])
        return self._compared(walk) or Outcome(OK)

    def _compared(self, walk: _Walk) -> Outcome | None:
        made = walk.heard.made
        left = {file for file in walk.folder.rglob("*") if file.is_file()} - made.keys()
        if left:
            return Outcome(LOST, "", f"{min(left).relative_to(walk.folder)} is left")
        wrong = [file for file, codec in made.items() if packets_of(file) != self._right[codec]]
        return Outcome(INCOMPLETE, "", wrong[0].name) if wrong else None


class _Errors(logging.Handler):
    """Keeps what is logged as an error: nothing of a walk is one."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        error = record.exc_info[1] if record.exc_info else None
        self.texts.append(f"{record.getMessage()}: {type(error).__name__}: {error}")


class _Heard:
    """The events of an engine, and what they say of its jobs.

    Attributes:
        made: Codec of each file that a finished job has reported.
        wrong: What must not have come.
    """

    def __init__(self) -> None:
        self._bell = threading.Condition()
        self._states: dict[str, str] = {}
        self.made: dict[Path, str] = {}
        self.wrong: list[str] = []
        self.comparisons = 0  # that have begun
        self.answers: dict[
            str, str
        ] = {}  # the last one to RemoveJob: a code, or "" where it is gone
        self._codecs: dict[str, str] = {}

    @property
    def states(self) -> dict[str, str]:
        """State of each job."""
        with self._bell:
            return dict(self._states)

    def forget(self) -> None:
        """The program has ended."""
        with self._bell:
            self._states.clear()

    def emit(self, event: e.Event) -> None:
        """Take one, in any thread."""
        with self._bell:
            about = getattr(event, "error", getattr(event, "notice", None))
            if about is not None and about.code == "internal-error":
                self.wrong.append(f"{type(event).__name__}: {about}")
            if isinstance(event, e.JobEvent):
                self._take(event)
            self._bell.notify_all()

    def _take(self, event: e.JobEvent) -> None:
        state = self._states.get(event.job_id, "")
        if state not in _NEXT.get(type(event), (state,)):
            error = getattr(event, "error", "")
            self.wrong.append(f"{type(event).__name__} of a job that is {state} {error}")
        match event:
            case e.PlanChosen():
                self._codecs[event.job_id] = event.plan.picture.codec
            case e.StageStarted(stage="prepare"):
                self._states[event.job_id] = "running"
            case e.StageStarted(stage="verify"):
                self.comparisons += 1
            case e.JobFinished(report=report):
                self.made[report.output] = self._codecs[event.job_id]
                if not report.passed:
                    self.wrong.append(f"not passed: {report.problems}")
            case e.Warned(notice=notice):
                self.answers[event.job_id] = notice.code
            case e.ResultLost(error=error):
                self.wrong.append(f"ResultLost: {error.message}")
            case e.JobRemoved():
                self.answers[event.job_id] = ""
        if type(event) in _STATES:
            self._states[event.job_id] = _STATES[type(event)]

    def wait(self, what: Callable[[], bool], seconds: float) -> bool:
        """Whether something is so within a time."""
        with self._bell:
            return self._bell.wait_for(lambda: what() or bool(self.wrong), seconds)


class _Walk:
    """An engine, its jobs, and the next command.

    Args:
        folder: For the program's jobs and for results.
        film: Source of all jobs.
        rng: Makes all choices.
    """

    def __init__(self, folder: Path, film: Path, rng: random.Random) -> None:
        self.folder, self.film, self.rng = folder, film, rng
        self.heard = _Heard()
        self._names = self._marks = 0
        self._removed: set[str] = set()  # that can return
        (folder / "results").mkdir(parents=True)
        self.engine = self._open()

    def _open(self) -> Engine:
        settings = EngineSettings(threads=1)
        engine = Engine(self.heard, settings=settings, jobs_folder=self.folder / "jobs")
        engine.start()
        return engine

    def step(self) -> None:
        """Send a command, and let some time pass; at the end of a job send one more."""
        choices = {
            self._add_one: 8,
            self.reopen: 1,
            self._change: 4,
            lambda: self._remove(can_return=True): 3,
            lambda: self._remove(can_return=False): 2,
            self._restore: 4,
            lambda: self._send(c.StartQueue()): 8,
            lambda: self._send(c.StopQueue()): 2,
            self._pause: 10,
            lambda: self._send(c.ResumeJob(job_id=self._one("paused"))): 9,
            self._cancel: 5,
            lambda: self._send(c.RetryJob(job_id=self._one(*_ENDED), accept=self._chance())): 6,
            lambda: self._send(c.MoveJob(job_id=self._one(), position=self.rng.randrange(5))): 3,
            lambda: self._send(c.AdoptJob(job_id=self._one("removed"))): 1,
            lambda: self._send(c.ShowFrame(job_id=self._one(), seconds=self.rng.random())): 4,
            lambda: self._send(c.FindScenes(job_id=self._one())): 1,
            self._try: 3,
            lambda: self._send(c.StopTask(kind=TaskKind.EXCERPT)): 1,
            lambda: self._send(c.ChangeEngine(settings=EngineSettings(threads=1))): 1,
        }
        self.rng.choices(list(choices), list(choices.values()))[0]()
        moment = self.rng.random()
        if moment < 0.3:
            time.sleep(self.rng.uniform(0, 0.1))
        elif moment < 0.5 and "running" in self.heard.states.values():  # its last moments
            before = self.heard.comparisons
            if self.heard.wait(lambda: self.heard.comparisons > before, 0.3):
                time.sleep(self.rng.uniform(0, _LAST_S))
                self.rng.choice((self._pause, self._pause, self._cancel, self.reopen))()

    def add(self, codec: str) -> None:
        """Add a job with a name of its own."""
        self._names += 1
        name = f"j{self._names}"
        output = self.folder / "results" / f"{name}.mkv"
        settings = _settings(codec)
        self._send(c.AddJob(job_id=name, source=self.film, settings=settings, output=output))
        self._until(lambda: name in self.heard.states, f"{name} is added")

    def reopen(self) -> None:
        """Close the program, start it again, and go on with what it has left."""
        self.close()
        self.heard.forget()
        self._removed.clear()
        self.engine = self._open()
        for job in unfinished(self.folder / "jobs"):
            self._send(c.AdoptJob(job_id=job.job_id))
            self._until(lambda name=job.job_id: name in self.heard.states, "a job is taken up")

    def settle(self) -> None:
        """Let every job end, and delete those that were removed."""
        for name in self._removed:
            self._delete(name)
        self._send(c.StartQueue())
        self._answered()
        for name, state in self.heard.states.items():
            if state == "paused":
                self._send(c.ResumeJob(job_id=name))
        for name in self.heard.states:
            while (state := self.heard.states[name]) not in ("finished", "removed"):
                if state in ("failed", "cancelled"):
                    self._send(c.RetryJob(job_id=name))
                self._until(
                    lambda name=name, state=state: self.heard.states[name] != state,
                    f"{name} is {state} no more",
                )

    def close(self) -> None:
        """Close the program, in time."""
        begin = time.monotonic()
        is_closed = self.engine.close(_CLOSE_S)
        if not is_closed:
            raise Wrong(Outcome(HANG, "", f"not closed in {time.monotonic() - begin:.1f} s"))
        self._until(lambda: True, "")

    def _delete(self, name: str) -> None:
        """Delete a job that may have been removed; one that has returned and runs goes on."""
        self._answered()
        self._send(c.RemoveJob(job_id=name))
        self._answered()
        if self.heard.answers[name] == "job-error":
            self._until(lambda: self.heard.states[name] != "removed", f"{name} runs")

    def _answered(self) -> None:
        """Wait until all commands are answered that touch the queue: no job has that name."""
        self._marks += 1
        name = f"mark{self._marks}"
        self._send(c.MoveJob(job_id=name, position=0))
        self._until(lambda: name in self.heard.answers, "commands are answered")

    def _send(self, command: c.Command) -> None:
        self.engine.send(command)

    def _until(self, what: Callable[[], bool], name: str) -> None:
        is_so = self.heard.wait(what, _PATIENCE_S)
        if self.heard.wrong:
            raise Wrong(Outcome(INTERNAL, "", self.heard.wrong[0]))
        if not is_so:
            raise Wrong(Outcome(HANG, "", f"not so: {name}; {self.heard.states}"))

    def _chance(self) -> bool:
        return self.rng.random() < 0.5

    def _one(self, *usual: str) -> str:
        """Name of a job, mostly of one in a usual state; now and then of none."""
        states = self.heard.states
        fitting = [name for name, state in states.items() if state in usual]
        if fitting and self.rng.random() < _SENSE:
            return self.rng.choice(fitting)
        return self.rng.choice((*states, "unknown"))

    def _add_one(self) -> None:
        open_ = [state for state in self.heard.states.values() if state not in ("removed", *_ENDED)]
        if len(open_) < _MOST_JOBS:
            self.add(self.rng.choice(_CODECS))

    def _pause(self) -> None:
        self._send(c.PauseJob(job_id=self._one("running")))

    def _cancel(self) -> None:
        self._send(c.CancelJob(job_id=self._one("running", "paused", "waiting")))

    def _change(self) -> None:
        name, letter = self._one("waiting", *_ENDED), self.rng.choice("ab")
        output = self.folder / "results" / f"{name}{letter}.mkv"
        settings = _settings(self.rng.choice(_CODECS))
        self._send(c.ChangeJob(job_id=name, settings=settings, output=output))

    def _remove(self, *, can_return: bool) -> None:
        name = self._one(*_ENDED)
        if can_return:
            self._removed.add(name)
        self._send(c.RemoveJob(job_id=name, can_return=can_return))

    def _restore(self) -> None:
        name = self.rng.choice((*self._removed, "unknown"))
        self._send(c.RestoreJob(job_id=name, position=self.rng.randrange(5)))

    def _try(self) -> None:
        seconds = self.rng.choice((0.0, 0.3))
        start = self.rng.random()
        self._send(c.MakeExcerpt(job_id=self._one("waiting"), start=start, seconds=seconds))


def _settings(codec: str) -> JobSettings:
    return JobSettings(model="none", codec=codec, crf=30, segment_seconds=0.5, overwrite=True)
