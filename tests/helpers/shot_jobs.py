"""Jobs of models that take shots, planned and run without the engine's thread."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from engine.core.control import Control
from engine.jobs.checkpoint import Checkpoint
from engine.pipeline.context import Context
from engine.pipeline.prepare import Machine, make_plan
from engine.pipeline.run import run_job
from engine.protocol.events import Event, SegmentDone
from engine.protocol.plan import Plan
from engine.settings.schema import EngineSettings, JobSettings
from engine.video.read.frame_reader import FrameReader
from engine.video.read.probe import probe


class Events:
    """Keeps events; may stop the job after some segments."""

    def __init__(self, control: Control, stop_after: int = 0) -> None:
        self.all: list[Event] = []
        self._control = control
        self._stop_after = stop_after

    def emit(self, event: Event) -> None:
        """Take one."""
        self.all.append(event)
        if isinstance(event, SegmentDone) and event.segment + 1 == self._stop_after:
            self._control.cancel()


def plan_of(film: Path, output: Path, settings: JobSettings) -> Plan:
    """The plan for one processor thread."""
    machine = Machine(settings=EngineSettings(threads=1), jobs_folder=output.parent)
    return make_plan(probe(film), settings, output, machine)


def run(plan: Plan, jobs: Path, *, stop_after: int = 0) -> list[Event]:
    """Do what is left of a job, or its first segments; what was said meanwhile."""
    control = Control()
    events = Events(control, stop_after)
    context = Context(
        job_id="job", media=probe(plan.source), plan=plan, control=control, events=events
    )
    jobs.mkdir(exist_ok=True)
    run_job(context, Checkpoint(jobs), overwrite=True)
    return events.all


def planes_of(path: Path) -> list[np.ndarray]:
    """The first plane of each frame."""
    with FrameReader(probe(path)) as reader:
        return [frame.planes[0].copy() for frame in reader]
