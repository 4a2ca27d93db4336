"""Process-wide state around a job: memory limit, spill guard, switches, release afterwards."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from engine.core import gpu_loss
from engine.core.errors import Cancelled, EngineError, GpuLost
from engine.hardware import devices, gpu_reading, shared_memory, torch_memory
from engine.hardware.out_of_memory import forget_frames, free_memory
from engine.hardware.spill_guard import SpillGuard
from engine.ops.compiler import Compilation, reporting
from engine.ops.kernels.build import reporting_missing
from engine.ops.precision import arithmetic_of
from engine.pipeline.context import JobContext
from engine.protocol.events import Warned
from engine.protocol.plan import Notice, Plan
from engine.runtimes import environment

logger = logging.getLogger(__name__)

_cuda: Any = torch.cuda  # part of it has no types
_MOST_LETTERS = 200  # of what torch says


@contextmanager
def cared_for(context: JobContext) -> Iterator[None]:
    """Process-wide state during a whole job; afterwards nothing of it is left, however it ended.

    Args:
        context: Context of the job, which then watches the GPU and frees its memory in a pause.

    Raises:
        GpuLost: The GPU was lost in this job, or in this process before.
    """
    with _care(context, is_on_card(context.plan)):
        yield


@contextmanager
def taken_over(context: JobContext) -> Iterator[None]:
    """Around what the workers of a job leave to its own process, which did not use the GPU so far.

    Raises:
        GpuLost: Raised by `cared_for`.
    """
    plan = context.plan
    is_new = plan.work.device == "cuda" and not is_on_card(plan)
    with _care(context, on_card=True) if is_new else nullcontext():
        yield


@contextmanager
def _care(context: JobContext, on_card: bool) -> Iterator[None]:
    if on_card:
        gpu_loss.check()
    with torch_memory.selected(context.plan.gpu if on_card else devices.CPU):
        if on_card:
            context.releases_memory = True
            context.guard = _guard(context)
            context.gpu_users = gpu_reading.other_programs
        try:
            limit = context.plan.device_limit_bytes if on_card else 0
            with torch_memory.within(limit), loss_noticed() if on_card else nullcontext():
                yield
        except (EngineError, Cancelled) as err:  # they live on, and would hold the model
            logger.info("%s", err, extra={"details": forget_frames(err)})
            raise
        finally:
            free_memory()


@contextmanager
def loss_noticed() -> Iterator[None]:
    """Turn the loss of the GPU into its error, and keep it for later plans.

    Libraries may report it in words of their own.

    Raises:
        GpuLost: In the place of what the loss has raised inside.
    """
    gpu = devices.in_use()  # now: a driver that restarts does not know its GPUs
    try:
        yield
    except (Cancelled, GpuLost):
        raise
    except Exception as err:
        lost = gpu_loss.noticed(err) or gpu_loss.noticed(_error_of_gpu())
        if lost is None:
            raise
        if gpu is not None:
            gpu_loss.keep(gpu.name, gpu.driver, str(lost.params["reason"]))
        raise lost from err


def _error_of_gpu() -> Exception | None:
    """Error of a GPU in use when it is asked; None where all is well."""
    try:
        if _cuda.is_initialized():
            _cuda.synchronize()
    except RuntimeError as err:
        return err
    return None


def is_on_card(plan: Plan) -> bool:
    """Whether a GPU computes any of a job in this process, which a context there takes memory for.

    What workers are to make is theirs: see `taken_over`.
    """
    own = plan.work.device == "cuda" and not plan.workers
    return own or (plan.latent is not None and plan.latent.device == "cuda")


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
        clock=context.control.work_seconds,
        expected=expected_seconds(context.plan),
    )


# --- switches of the whole process


@contextmanager
def switched(context: JobContext) -> Iterator[None]:
    """Libraries may do what the plan's switches allow.

    A switch that is too late is reported, and so is what torch could not compile, once, and that
    kernels of ours do not work on this GPU: without them a job takes much longer.
    """
    run = context.plan.work.switches.run
    for name in environment.too_late(run):
        about = {"switch": f"run.{name}", "variable": f"UPREEL_RUN_{name.upper()}"}
        notice = Notice(code="switch-too-late", severity="warning", params=about)
        context.events.emit(Warned(job_id=context.job_id, notice=notice))
    compiled, kernels = _CompilerReport(context), _KernelReport(context)
    threads = torch.get_num_threads()
    try:
        with arithmetic_of(run), reporting(compiled), reporting_missing(kernels):
            yield
    finally:
        torch.set_num_threads(threads)  # a Python program goes on


class _CompilerReport:
    """Counts the seconds of torch's compiler as a stage, and warns of the first failure."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._has_failed = False

    def __call__(self, one: Compilation) -> None:
        """Called in the thread that compiles."""
        self._context.meter.add("compile", one.seconds)
        self._context.is_learned_from = False  # later jobs find the programs in the cache folder
        if not one.failure or self._has_failed:
            return
        self._has_failed = True
        notice = Notice(
            code="not-compiled", severity="warning", params={"reason": one.failure[:_MOST_LETTERS]}
        )
        self._context.events.emit(Warned(job_id=self._context.job_id, notice=notice))


class _KernelReport:
    """Warns of the first kernels that do not work; the log and the self-test name all."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._has_warned = False

    def __call__(self, title: str, reason: str) -> None:
        """Called in the thread that computes."""
        if self._has_warned:
            return
        self._has_warned = True
        about = {"name": title, "reason": reason.strip().splitlines()[0][:_MOST_LETTERS]}
        notice = Notice(code="kernels-missing", severity="warning", params=about)
        self._context.events.emit(Warned(job_id=self._context.job_id, notice=notice))
