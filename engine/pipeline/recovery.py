"""Recovery of a job that lacked memory, gave it back or lost its GPU: it starts again, smaller.

Finished segments stay; a try that failed is forgotten before the next one loads anything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from engine.core.errors import NumericOverflow, OutOfMemory
from engine.core.messages import Message
from engine.hardware import devices
from engine.hardware.out_of_memory import (
    forget_frames,
    free_memory,
    is_of_driver,
    is_of_main_memory,
    is_out_of_memory,
)
from engine.hardware.spill_guard import Spilled
from engine.pipeline.context import JobContext, MemoryReleased
from engine.planner.downgrade import (
    Why,
    next_plan,
    no_smaller,
    notice_of,
    pins,
)
from engine.protocol.events import PlanDowngraded, Warned
from engine.protocol.plan import Notice, PassName, Plan

T = TypeVar("T")
logger = logging.getLogger(__name__)

_ROOM_BYTES = 512 * 2**20  # free on a GPU that was not the reason of a refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a try ended, without anything of the try."""

    why: Why | None  # None: the job was paused and gave its memory back
    error: Exception  # emptied: it states what happened, and keeps nothing
    of_main_memory: bool = False
    spilled_bytes: int = 0
    part: str = ""  # part of the model that overflowed


def reason_of(error: BaseException) -> Failure | None:
    """Error that a job can do something about; None for everything else."""
    if isinstance(error, MemoryReleased):
        return Failure(why=None, error=error)
    if isinstance(error, Spilled):
        return Failure(why="spilled", error=error, spilled_bytes=error.spilled_bytes)
    if isinstance(error, NumericOverflow):
        return Failure(why="overflow", error=error, part=error.case)
    if isinstance(error, Exception) and is_out_of_memory(error):
        if is_of_driver(error) and _gpu_has_room():
            return Failure(why="pinning", error=error)
        of_main = is_of_main_memory(error)
        return Failure(why="out-of-memory", error=error, of_main_memory=of_main)
    return None


def _gpu_has_room() -> bool:
    gpu = devices.in_use()
    return gpu is not None and gpu.free_bytes >= _ROOM_BYTES


def attempt(work: Callable[[], None]) -> Failure | None:
    """Do some work; None when it is done, else why not; all that it held is given back.

    Raises:
        Exception: Any other error.
    """
    failure = None
    try:
        work()
    except Exception as err:  # a lack of memory can be the cause of an error of any class
        failure = reason_of(err)
        if failure is None:
            raise
        where = forget_frames(err)
        if failure.why is None:
            logger.info("paused, memory released")
        else:
            logger.warning("%s: %s", failure.why, err, extra={"details": where})
    free_memory()  # here, where the error and the work are no more
    return failure


class Recovery:
    """Chooses how a job goes on; remembers what was tried so that it ends.

    The smallest plan is tried once more whenever something was finished since: other
    programs take memory and give it back.

    Args:
        context: Context of the job.
        failing: The pass that is at work; None where that is not known.
    """

    def __init__(self, context: JobContext, failing: PassName | None = None) -> None:
        self._context = context
        self._failing = failing
        self._failed_at = -1  # frames that were finished when the smallest plan failed last

    def go_on(self, failure: Failure, done: int) -> None:
        """Change the plan of the job so that it may go on, and emit that.

        Args:
            failure: Why the last try ended.
            done: Frames that are finished.

        Raises:
            OutOfMemory: There is no smaller plan, and the smallest was tried again.
            NumericOverflow: There is no wider format.
            GpuLost: The GPU was lost with the smallest plan, again before anything was finished.
            Cancelled: The job was cancelled while it was paused.
        """
        if failure.why is None:
            self._context.control.check()  # until it is resumed
            return
        before = self._context.plan
        after = next_plan(
            before,
            failure.why,
            of_main_memory=failure.of_main_memory,
            failed=self._failing,
            part=failure.part,
        )
        if after is None:
            self._at_smallest(failure, done)
        else:
            change_plan(self._context, after, failure)

    def _at_smallest(self, failure: Failure, done: int) -> None:
        if failure.why == "overflow":
            raise failure.error
        if failure.why == "spilled":
            self._context.guard = None  # slow is better than never
            _warn(self._context, Notice(code="spilled-at-floor", severity="warning"))
            return
        if self._failed_at >= done and failure.why == "gpu-lost":
            raise failure.error
        if self._failed_at >= done and self._failing == "latent":
            raise OutOfMemory("decoding-latents")
        if self._failed_at >= done:
            raise smallest_plan_error(self._context.plan, self._context)
        self._failed_at = done
        code = "gpu-retry" if failure.why == "gpu-lost" else "memory-retry"
        _warn(self._context, Notice(code=code, severity="warning"))


def change_plan(context: JobContext, after: Plan, failure: Failure) -> None:
    """Go on with another plan, and emit what is different."""
    before, why = context.plan, failure.why or "out-of-memory"
    if why == "pinning" and pins(after) == pins(before):
        why = "out-of-memory"
    notice = notice_of(
        before,
        after,
        why,
        spilled_bytes=failure.spilled_bytes,
        users=context.gpu_users(),
    )
    logger.warning("%s", notice.message)
    context.plan = after
    context.plan_changes.append(notice)
    context.is_learned_from = False  # its time is that of two plans
    context.events.emit(PlanDowngraded(job_id=context.job_id, plan=after, why=why, notice=notice))


def with_one_retry(activity: Message, work: Callable[[], T]) -> T:
    """Do some work that has no smaller plan; once more when memory ran out.

    Args:
        activity: Name of the work: "checking the result".
        work: May be done again from its beginning.

    Raises:
        OutOfMemory: Memory ran out again.
        Exception: Anything else, at once.
    """
    for _ in range(2):
        try:
            return work()
        except Exception as err:  # a lack of memory can be the cause of one of any class
            if not is_out_of_memory(err):
                raise
            where = forget_frames(err)
            logger.warning("%s: %s", activity, err, extra={"details": where})
        free_memory()
    raise OutOfMemory("twice", activity=activity)


def smallest_plan_error(plan: Plan, context: JobContext) -> OutOfMemory:
    """The error at the end: what the smallest plan takes and what is free now."""
    if plan.work.device == "cuda":
        gpu = devices.in_use()
        return no_smaller(plan, 0 if gpu is None else gpu.free_bytes, context.gpu_users())
    return no_smaller(plan, devices.ram()[1])


def _warn(context: JobContext, notice: Notice) -> None:
    context.events.emit(Warned(job_id=context.job_id, notice=notice))
