"""A job, or a part of a video, run in this process."""

from __future__ import annotations

import gc
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.log import job_log
from engine.hardware.process import at_work
from engine.jobs.checkpoint import Checkpoint
from engine.protocol.report import Report

if TYPE_CHECKING:
    from engine.pipeline.context import JobContext

_PIPELINE = "engine.pipeline.run"  # with torch and av


def prepared() -> None:
    """Load the heavy libraries into memory: the first job then starts without delay.

    Their 300,000 objects live as long as the process. Without `gc.freeze` each full collection
    traverses them: 130 ms with the interpreter's lock held, in which the window does not react.
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


def run_here(
    folder: Path, context: JobContext, checkpoint: Checkpoint, *, overwrite: bool
) -> Report:
    """Run the rest of a job, with its log and what else it writes in a folder; as `run_job`."""
    from engine.pipeline.gpu_guard import cared_for, switched
    from engine.pipeline.latents import film_of
    from engine.pipeline.run import run_job

    if context.plan.workers:
        from engine.workers.hand_out import hand_out  # half a second

        context.hand_out = context.hand_out or hand_out
        context.is_learned_from = False  # rates are those of one process
    work = at_work(on_processor=context.plan.work.device == "cpu")
    with job_log(folder), work, switched(context), cared_for(context):
        context.media = film_of(context, folder)
        return run_job(context, checkpoint, overwrite=overwrite)
