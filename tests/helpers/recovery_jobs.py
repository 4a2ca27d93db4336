"""Small jobs that are run again and again while memory runs out at another place each time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from engine.core.control import Control
from engine.jobs.checkpoint import Checkpoint
from engine.pipeline.context import Context, Throttle
from engine.pipeline.run import run_job
from engine.protocol.events import Event, PlanDowngraded, SegmentDone
from engine.protocol.plan import Plan, WorkPlan
from engine.protocol.report import Report
from engine.settings.schema import JobSettings
from engine.video.read.probe import probe
from tests.helpers.seedvr2_files import make_three_shots, write_seedvr2
from tests.helpers.shot_jobs import Events, plan_of, planes_of
from tests.helpers.tiny_wan import tiny_wan_config, write_wan

SHOTS = (9, 3, 5)
SEGMENT_FRAMES = 4
KINDS = ("lite", "seedvr2", "wan-2x")


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
    known: dict[WorkPlan, list[np.ndarray]] = field(default_factory=dict)

    def run(
        self,
        inside: AbstractContextManager[object] | None = None,
        change: Callable[[Context], None] = lambda _: None,
    ) -> Outcome:
        """Run it from the start, in this thread, inside a context."""
        self.runs += 1
        place = self.folder / str(self.runs)
        place.mkdir(parents=True)
        plan = replace(self.plan, output=place / "out.mkv")
        control = Control()
        events = Events(control)
        context = Context(
            job_id="job",
            media=probe(plan.source),
            plan=plan,
            control=control,
            events=events,
            picture_due=Throttle(0),  # every picture, or their number would depend on the time
            preview_due=Throttle(0),
        )
        change(context)
        with inside or nullcontext():
            report = run_job(context, Checkpoint(place), overwrite=True)
        return Outcome(report, events.all, planes_of(plan.output))

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


def small_job(kind: str, folder: Path) -> SmallJob:
    """A job of Lite, or of a very small SeedVR2 or Wan 2x: three shots in five segments."""
    folder.mkdir(parents=True, exist_ok=True)
    film = make_three_shots(folder / "film.mkv", SHOTS, "64x48" if kind != "wan-2x" else "60x44")
    settings = _settings(kind, folder)
    plan = replace(plan_of(film, folder / "out.mkv", settings), segment_frames=SEGMENT_FRAMES)
    return SmallJob(plan, folder / "runs")


def _settings(kind: str, folder: Path) -> JobSettings:
    if kind == "seedvr2":
        return write_seedvr2(folder / "models").settings(codec="ffv1", scale=1)
    if kind == "wan-2x":
        vae = folder / "tiny_2x.safetensors"
        write_wan(vae, tiny_wan_config("2x", dim=4, dec_dim=4))
        return JobSettings(model="wan-2x", vae=str(vae), codec="ffv1")
    return JobSettings(model="lite", treatment="faithful", codec="ffv1")
