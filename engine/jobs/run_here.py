"""A job, or a part of a video, run in this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.log import job_log
from engine.hardware.process import at_work, load_for_good
from engine.jobs.checkpoint import Checkpoint
from engine.protocol.report import Report

if TYPE_CHECKING:
    from engine.pipeline.context import JobContext


def prepared() -> None:
    """Load the heavy libraries into memory: the first job then starts without delay."""
    load_for_good("engine.pipeline.run")  # with torch and av


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
