"""Before the first frame: are the model's files the published ones, and still those of the plan?"""

from __future__ import annotations

from engine.core.errors import CheckpointMismatch
from engine.model_files.store import Store
from engine.models.planned_files import is_changed
from engine.pipeline.context import Context, Throttle
from engine.protocol.events import StageProgress, StageStarted
from engine.protocol.plan import Plan, WeightsPlan

_MB = 10**6


def check_weights(context: Context) -> None:
    """Read files that nobody has read yet and compare their SHA-256; told as stage "weights".

    A file that was read before and has not been touched since is not read again. Files that the
    user named are taken as they are; the loader looks at their names and shapes.

    Raises:
        WeightsMissing, HashMismatch, WeightsUnreadable: A file cannot be used.
        CheckpointMismatch: A file is another one than when the job was planned.
        Cancelled: The user did.
    """
    files = files_of(context.plan)
    if not files:
        return
    context.events.emit(StageStarted(job_id=context.job_id, stage="weights"))
    store, due = Store(), Throttle(0.1)

    def tell(done: int, total: int) -> None:
        if due() or done == total:
            progress = StageProgress(
                job_id=context.job_id, stage="weights", done=done // _MB, total=total // _MB
            )
            context.events.emit(progress)

    is_other = False  # a better copy has come since; the plan's own was perhaps never read
    for weights in files:
        if weights.published:
            path = store.ready(weights.published, on_progress=tell, control=context.control)
            is_other |= path != weights.path
    if is_other or any(map(is_changed, files)):
        raise CheckpointMismatch(
            "A model file has changed since the job was planned.",
            hint="Remove the job and add it again.",
            what="weights",
        )


def files_of(plan: Plan) -> tuple[WeightsPlan, ...]:
    """Weights files that a job needs and that are no part of the program."""
    return (*(plan.latent.weights if plan.latent else ()), *plan.work.weights_files)
