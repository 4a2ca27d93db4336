"""A job with the switches of its plan: what holds for the whole process is put back afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from engine.ops.precision import arithmetic_of
from engine.pipeline.context import Context
from engine.protocol.events import Warned
from engine.protocol.plan import Notice
from engine.runtimes import environment


@contextmanager
def switched(context: Context) -> Iterator[None]:
    """Inside, libraries may do what the plan's switches say; what comes too late is told."""
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
