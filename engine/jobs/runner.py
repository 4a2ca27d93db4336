"""What a job's own thread does, from the checkpoint to the published result."""

from __future__ import annotations

import gc
import importlib
import linecache
import sys
from dataclasses import replace

from engine.core.errors import OutOfMemory
from engine.core.log import job_log
from engine.hardware.process import at_work, keep_awake
from engine.jobs.checkpoint import Checkpoint
from engine.jobs.job import Job
from engine.jobs.job_store import JobStore
from engine.pipeline.prepare import Machine, check_plan, make_plan
from engine.protocol.events import (
    EventSink,
    JobStarted,
    PlanChosen,
    StageStarted,
)
from engine.protocol.report import Report

_PIPELINE = "engine.pipeline.run"  # with torch and av


def prepared() -> None:
    """Load the heavy libraries into memory: the first job then starts without delay.

    Their 300,000 objects live as long as the process. Without `gc.freeze` each full collection
    traverses them: 130 ms with the interpreter's lock held, in which the window stands still.
    """
    if _PIPELINE in sys.modules:
        return
    was_enabled = gc.isenabled()
    gc.disable()  # three full collections while loading, and almost no garbage
    try:
        importlib.import_module(_PIPELINE)
        gc.freeze()  # before the next collection, which would traverse all that is new
    finally:
        if was_enabled:
            gc.enable()
    linecache.clearcache()  # PySide's import hook has read the source of each module: 17 MB


def run(job: Job, store: JobStore, machine: Machine, events: EventSink) -> Report:
    """Run a job, from its last checkpoint where it has one.

    Raises:
        EngineError: What stopped it.
        Cancelled: The user did.
    """
    if job.plan_error is not None:
        raise job.plan_error
    events.emit(StageStarted(job_id=job.id, stage="prepare"))
    try:
        with store.held(job.id):
            report = _run(job, store, machine, events)
    except MemoryError as err:  # outside of what can be tried again
        raise OutOfMemory("running") from err
    store.remove(job.id)
    return report


def _run(job: Job, store: JobStore, machine: Machine, events: EventSink) -> Report:
    checkpoint = Checkpoint(store.folder(job.id))
    if not checkpoint.records:
        job.plan = make_plan(job.media, job.settings, job.output, machine)
        events.emit(PlanChosen(job_id=job.id, plan=job.plan))
    check_plan(job.media, job.plan, overwrite=job.settings.overwrite)
    folder = store.save(job)
    done = sum(record.frames for record in checkpoint.records)
    events.emit(JobStarted(job_id=job.id, done=done, total=max(done, job.plan.frames)))
    prepared()
    from engine.pipeline.context import Context
    from engine.pipeline.gpu_guard import cared_for, switched
    from engine.pipeline.latents import film_of
    from engine.pipeline.run import run_job

    context = Context(
        job_id=job.id,
        media=job.media,
        plan=job.plan,
        control=job.control,
        events=events,
        pictures=machine.settings.tile_previews,
    )
    care = cared_for(context, preserve_vram=machine.settings.preserve_vram)
    work = at_work(on_processor=job.plan.work.device == "cpu")
    with job_log(folder), keep_awake(), work, switched(context), care:
        context.media = film_of(context, folder)
        report = run_job(context, checkpoint, overwrite=job.settings.overwrite)
    job.plan = context.plan
    return replace(report, source=job.media.path)
