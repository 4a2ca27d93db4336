"""Jobs in a test: planned and run without the engine's thread, or listened to."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from engine.api import Engine
from engine.core.control import Control
from engine.jobs.checkpoint import Checkpoint
from engine.pipeline.context import JobContext, Throttle
from engine.pipeline.prepare import Machine, decoded, make_plan
from engine.pipeline.run import run_job
from engine.protocol.commands import Command, StartQueue
from engine.protocol.events import (
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobRejected,
    PlanDowngraded,
    SegmentDone,
    TaskDone,
    TaskFailed,
    TaskStopped,
)
from engine.protocol.plan import Plan, WorkPlan
from engine.protocol.report import Report
from engine.protocol.tasks import TaskKind
from engine.settings.schema import EngineSettings, JobSettings
from engine.video.read.examination import examined
from engine.video.read.frame_reader import FrameReader
from engine.video.read.probe import probe
from tests.helpers.community import write_network
from tests.helpers.seedvr2 import make_three_shots, write_seedvr2
from tests.helpers.swiftvr import write_swiftvr
from tests.helpers.wan import tiny_wan_config, write_wan

E = TypeVar("E", bound=Event)
ENDS = (JobFinished, JobFailed, JobCancelled, JobRejected)
TASK_ENDS = (TaskDone, TaskFailed, TaskStopped)


class Listener:
    """Keeps all events; `wait` takes them one by one.

    Args:
        answer: Called with each event in the thread that emits it, once it is kept.
    """

    def __init__(self, answer: Callable[[Event], None] = lambda event: None) -> None:
        self._answer = answer
        self._queue: queue.Queue[Event] = queue.Queue()
        self.seen: list[Event] = []

    def emit(self, event: Event) -> None:
        self._queue.put(event)
        self._answer(event)

    def wait(self, *kinds: type[E], timeout_s: float = 60.0) -> E:
        """The next event of one of these classes."""
        end = time.monotonic() + timeout_s
        while True:
            try:
                event = self._queue.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                seen = [type(e).__name__ for e in self.seen]
                raise AssertionError(f"no {kinds} in {timeout_s} s, only {seen}") from None
            self.seen.append(event)
            if isinstance(event, kinds):
                return event

    def done(self) -> TaskDone:
        """The next end of a task, which went well."""
        end = self._end()
        assert isinstance(end, TaskDone), end
        return end

    def failed(self) -> TaskFailed:
        """The next end of a task, which failed."""
        end = self._end()
        assert isinstance(end, TaskFailed), end
        return end

    def finished_job(self) -> JobFinished:
        """The next end of a job, which went well."""
        end = self.wait(*ENDS)
        assert isinstance(end, JobFinished), end
        return end

    def failed_job(self) -> JobFailed:
        """The next end of a job, which failed."""
        end = self.wait(*ENDS)
        assert isinstance(end, JobFailed), end
        return end

    def _end(self) -> TaskDone | TaskFailed | TaskStopped:
        """The next end of a task; each film that is added is examined, which is left out."""
        while True:
            end = self.wait(*TASK_ENDS)
            if end.kind is not TaskKind.EXAMINATION:
                return end

    def of(self, kind: type[E]) -> list[E]:
        """All events of a class seen so far."""
        return [event for event in self.seen if isinstance(event, kind)]


FRAMES = 9  # of the source of `tests/engine/jobs`, in three segments of half a second
Run = tuple[Engine, Listener]


@contextmanager
def running_engine(jobs: Path) -> Iterator[Run]:
    """A started engine that is closed at the end, and its events."""
    listener = Listener()
    engine = Engine(listener, settings=EngineSettings(threads=2), jobs_folder=jobs)
    engine.start()
    try:
        yield engine, listener
    finally:
        assert engine.close(timeout_s=60), "the engine did not end"


def started(run: Run, *commands: Command) -> Listener:
    """Who hears what becomes of a job after some commands."""
    for command in (*commands, StartQueue()):
        run[0].send(command)
    return run[1]


class Events:
    """Keeps events and calls something with each; may stop the job after some segments."""

    def __init__(
        self,
        control: Control | None = None,
        stop_after: int = 0,
        answer: Callable[[Event], None] = lambda event: None,
    ) -> None:
        self.all: list[Event] = []
        self._control = control or Control()
        self._stop_after, self._answer = stop_after, answer

    def emit(self, event: Event) -> None:
        """Take one."""
        self.all.append(event)
        if isinstance(event, SegmentDone) and event.segment + 1 == self._stop_after:
            self._control.cancel()
        self._answer(event)

    def of(self, kind: type) -> list:
        """All events of a class."""
        return [event for event in self.all if isinstance(event, kind)]


def plan_of(film: Path, output: Path, settings: JobSettings) -> Plan:
    """The plan for one processor thread."""
    machine = Machine(settings=EngineSettings(threads=1), jobs_folder=output.parent)
    return make_plan(examined(probe(film)), settings, output, machine)


def run(
    plan: Plan, jobs: Path, *, stop_after: int = 0, control: Control | None = None
) -> list[Event]:
    """Do what is left of a job, or its first segments; the events meanwhile."""
    context = _context(plan, stop_after, control)
    jobs.mkdir(exist_ok=True)
    run_job(context, Checkpoint(jobs), overwrite=True)
    return context.events.all


def _context(
    plan: Plan, stop_after: int = 0, control: Control | None = None, **changes: Throttle
) -> JobContext:
    control, media = control or Control(), probe(plan.source)
    media = decoded(media, plan, plan.output.parent) or media
    events = Events(control, stop_after)
    return JobContext(
        job_id="job", media=media, plan=plan, control=control, events=events, **changes
    )


def planes_of(path: Path) -> list[np.ndarray]:
    """The first plane of each frame."""
    with FrameReader(probe(path)) as reader:
        return [frame.planes[0].copy() for frame in reader]


def worst(found: list[np.ndarray], right: list[np.ndarray]) -> int:
    """The largest difference of two lists of planes."""
    pairs = zip(found, right, strict=True)
    return max(int(np.abs(a.astype(int) - b).max()) for a, b in pairs)


def segment_files(folder: Path) -> dict[str, bytes]:
    """Finished segments of a job by file name."""
    return {file.name: file.read_bytes() for file in sorted(folder.glob("segment_*"))}


class NeverComplete(Checkpoint):
    """Checkpoint whose `complete` does nothing: other segments may still be missing."""

    def complete(self) -> None:
        pass


SHOTS = (9, 3, 5)
FEW = (5, 1, 1)  # frames of shots in three segments
SEGMENT_FRAMES = 4
BY_FRAMES = ("lite", "community")  # which take frames one by one
STEADIED = "steadied"  # Lite, its frames blended with their neighbours
USUAL_KINDS = (*BY_FRAMES, "seedvr2", "wan-2x")
KINDS = (*USUAL_KINDS, "swiftvr")


@dataclass(slots=True)
class Outcome:
    """How a job ended."""

    report: Report
    events: list[Event]
    pictures: list[np.ndarray]

    def of(self, kind: type) -> list:
        """All events of a class."""
        return [event for event in self.events if isinstance(event, kind)]


@dataclass(slots=True)
class SmallJob:
    """A job of a few frames and segments, and the right pictures of each plan it may end with."""

    plan: Plan
    folder: Path
    runs: int = 0
    shown: int = 0  # pictures while it runs undisturbed
    allocations: int = 0  # then
    known: dict[WorkPlan, list[np.ndarray]] = field(default_factory=dict)

    def run(
        self,
        inside: AbstractContextManager[object] | None = None,
        change: Callable[[JobContext], None] = lambda _: None,
    ) -> Outcome:
        """Run it from the start, in this thread, inside a context."""
        self.runs += 1
        place = self.folder / str(self.runs)
        place.mkdir(parents=True)
        plan = replace(self.plan, output=place / "out.mkv")
        # every picture, or their number would depend on the time
        context = _context(plan, picture_due=Throttle(0), preview_due=Throttle(0))
        change(context)
        with inside or nullcontext():
            report = run_job(context, Checkpoint(place), overwrite=True)
        return Outcome(report, context.events.all, planes_of(plan.output))

    def right(self, work: WorkPlan) -> list[np.ndarray]:
        """The pictures of an uninterrupted job whose model runs like that."""
        if work not in self.known:
            usual, self.plan = self.plan, replace(self.plan, work=work)
            self.known[work] = self.run().pictures
            self.plan = usual
        return self.known[work]

    def expected(self, events: list[Event]) -> list[np.ndarray]:
        """The right pictures of a job that changed its plan: each frame as of the plan it had."""
        made: list[np.ndarray] = []
        work, done = self.plan.work, 0
        for event in events:
            if isinstance(event, SegmentDone):
                done = event.frames_done
            elif isinstance(event, PlanDowngraded):
                made += self.right(work)[len(made) : done]
                work = event.plan.work
        return made + self.right(work)[len(made) :]


def small_job(
    kind: str, folder: Path, shots: tuple[int, int, int] = SHOTS, *, is_cleaned: bool = False
) -> SmallJob:
    """A job of Lite, or of a very small other model: three shots, usually in five segments.

    Args:
        kind: Of the model.
        folder: For everything that belongs to it.
        shots: Frames of each.
        is_cleaned: A very small model goes first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plan = small_plan(f"cleaned {kind}" if is_cleaned else kind, folder, shots)
    return SmallJob(plan, folder / "runs")


def small_plan(kind: str, folder: Path, shots: tuple[int, int, int] = SHOTS) -> Plan:
    """Three shots, usually in five segments.

    Args:
        kind: Model; "cleaned" has a first pass, "pooled" colours of several frames together.
        folder: For the film, the files of the model and the result.
        shots: Frames of each.
    """
    # in some other small sizes the first scene has cuts of its own
    size = "20x12" if kind == "wan-2x" else "24x16"
    film = make_three_shots(folder / "film.mkv", shots, size)
    model = "seedvr2" if kind == "pooled" else kind.removeprefix("cleaned ")
    settings = settings_of(model, folder, **({"colour": "lab"} if kind == "pooled" else {}))
    if "cleaned" in kind:
        first = write_network(folder / "1x_tiny.pth", "Compact", upscale=1)
        settings = replace(settings, first_model=str(first))
    return replace(plan_of(film, folder / "out.mkv", settings), segment_frames=SEGMENT_FRAMES)


def settings_of(kind: str, folder: Path, **changes: object) -> JobSettings:
    """Of a lossless job with Lite, or with a very small other model that is written there."""
    wanted: dict[str, Any] = {"codec": "ffv1", **changes}
    if kind == "seedvr2":
        return write_seedvr2(folder / "models").settings(**{"scale": 1, **wanted})
    if kind == "swiftvr":
        return write_swiftvr(folder / "models").settings(**{"scale": 1, **wanted})
    if kind == "wan-2x":
        vae = folder / "tiny_2x.safetensors"
        write_wan(vae, tiny_wan_config("2x", dim=4, dec_dim=4))
        return JobSettings(model="wan-2x", vae=str(vae), **wanted)
    if kind == "community":
        file = write_network(folder / "tiny.pth", "Compact")
        return JobSettings(model="community", model_file=str(file), **wanted)
    steadiness = "mild" if kind == STEADIED else "off"
    lite = {"model": "lite", "treatment": "faithful", "steadiness": steadiness}
    return JobSettings(**{**lite, **wanted})


def options_of(settings: JobSettings) -> list[str]:
    """The same settings for the command line."""
    usual = JobSettings()
    named = {one.name: getattr(settings, one.name) for one in fields(settings)}
    changed = [f"{name}={value}" for name, value in named.items() if value != getattr(usual, name)]
    return [word for setting in changed for word in ("--set", setting)]
