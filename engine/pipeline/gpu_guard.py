"""Process-wide state around a job: memory limit, spill guard, switches, release afterwards."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from engine.core.errors import Cancelled, EngineError
from engine.hardware import devices, gpu_reading, shared_memory, torch_memory
from engine.hardware.out_of_memory import forget_frames, free_memory
from engine.hardware.spill_guard import SpillGuard
from engine.ops.precision import arithmetic_of
from engine.pipeline.context import JobContext
from engine.protocol.events import Warned
from engine.protocol.plan import Notice, Plan
from engine.runtimes import environment

logger = logging.getLogger(__name__)


@contextmanager
def cared_for(context: JobContext, *, preserve_vram: bool) -> Iterator[None]:
    """Around all of a job; afterwards nothing of it is held, however it ended.

    Args:
        context: Of the job: it learns how to watch the GPU, and what a pause means.
        preserve_vram: A pause gives the GPU's memory back, and the end of the job also what
            CUDA's libraries keep for the next one.
    """
    on_card = is_on_card(context.plan)
    with torch_memory.selected(context.plan.gpu if on_card else devices.CPU):
        if on_card:
            context.releases_memory = preserve_vram
            context.guard = _guard(context)
            context.gpu_users = gpu_reading.other_programs
        try:
            with torch_memory.within(context.plan.device_limit_bytes if on_card else 0):
                yield
        except (EngineError, Cancelled) as err:  # they live on, and would hold the model
            logger.info("%s", forget_frames(err))
            raise
        finally:
            free_memory(libraries_too=preserve_vram)


def is_on_card(plan: Plan) -> bool:
    """Whether a GPU computes any of a job."""
    return plan.work.device == "cuda" or (plan.latent is not None and plan.latent.device == "cuda")


def expected_seconds(plan: Plan) -> dict[str, float]:
    """Predicted time of pieces of work by their kind, as `JobContext.check` names them."""
    seconds = {stage.stage: stage.seconds for stage in plan.stages}
    clips = max(1, plan.frames / plan.work.clip_frames)
    return {"tile": seconds["upscale"] / (clips * plan.work.tiles)} if "upscale" in seconds else {}


def _guard(context: JobContext) -> SpillGuard | None:
    """None off Windows, which alone moves a GPU's memory to main memory without a word."""
    if shared_memory.own_bytes() is None:
        return None

    return SpillGuard(
        lambda: shared_memory.own_bytes(),
        torch_memory.pinned_bytes,
        clock=lambda: time.monotonic() - context.control.paused_seconds,
        expected=expected_seconds(context.plan),
    )


# --- switches of the whole process


@contextmanager
def switched(context: JobContext) -> Iterator[None]:
    """Libraries may do what the plan's switches allow; a switch that is too late is reported."""
    run = context.plan.work.switches.run
    for name in environment.too_late(run):
        context.events.emit(Warned(job_id=context.job_id, notice=_too_late(name)))
    with arithmetic_of(run):
        yield


def _too_late(name: str) -> Notice:
    return Notice(
        code="switch-too-late",
        severity="warning",
        params={"switch": f"run.{name}", "variable": f"UPREEL_RUN_{name.upper()}"},
    )
