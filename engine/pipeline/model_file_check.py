"""Checks of the model files that a job needs: present, as published, unchanged since planning."""

from __future__ import annotations

from engine.core.control import Control
from engine.core.errors import CheckpointMismatch, WeightsBusy, WeightsMissing
from engine.files.model_files import Store, is_changed
from engine.models import registry
from engine.pipeline.context import JobContext, Throttle
from engine.protocol.events import StageProgress, StageStarted
from engine.protocol.plan import Plan, WeightsPlan
from engine.protocol.report import ModelFile

_MB = 10**6


def check_weights(context: JobContext) -> None:
    """Read files that were not read yet and compare their SHA-256; progress of stage "weights".

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

    def progress(done: int, total: int) -> None:
        if due() or done == total:
            event = StageProgress(
                job_id=context.job_id, stage="weights", done=done // _MB, total=total // _MB
            )
            context.events.emit(event)

    is_other = False  # a better copy has come since; the plan's own was perhaps never read
    for weights in files:
        if weights.published:
            path = store.ready(weights.published, on_progress=progress, control=context.control)
            is_other |= path != weights.path
    if is_other or any(map(is_changed, files)):
        raise CheckpointMismatch("since-planning", what="weights")


def files_used(context: JobContext) -> tuple[ModelFile, ...]:
    """Model files of a job for its report; reads those that were not read yet.

    Raises:
        WeightsUnreadable, Cancelled: Raised while they are read.
    """
    store, plan = Store(), context.plan
    named = [("", file) for file in ((plan.latent.vae,) if plan.latent else ())]
    named += [(work.architecture, file) for work in plan.passes for file in work.weights_files]
    return tuple(
        ModelFile(
            name=file.path.name,
            sha256="" if is_changed(file) else store.sha256_of(file.path, context.control),
            architecture=architecture,
        )
        for architecture, file in dict.fromkeys(named)
    )


def files_of(plan: Plan) -> tuple[WeightsPlan, ...]:
    """Weights files that a job needs and that are no part of the program."""
    of_passes = (file for work in plan.passes for file in work.weights_files)
    return (*((plan.latent.vae,) if plan.latent else ()), *of_passes)


def ready_vae(model: str, own: str = "", *, control: Control | None = None) -> WeightsPlan:
    """Find it, and read it unless that was done before: a published one is checked by its hash.

    Args:
        model: "wan21-vae" or "wan22-vae".
        own: File of the user's; "" for the published one.
        control: May stop the reading.

    Raises:
        WeightsMissing: It is not on this machine; `file` among the params is its id.
        HashMismatch, WeightsError: It cannot be used.
        Cancelled: `control` was cancelled.
    """
    latents = registry.latent_format_of(model)
    vae = latents.weights(model, own)
    if not vae.is_here:
        title = latents.titles[model]
        raise WeightsMissing("vae", model=title, names=vae.path.name, file=vae.published)
    if vae.published:
        path = Store().ready(vae.published, control=control)
        if path != vae.path or is_changed(vae):
            raise WeightsBusy("just-now")
    return vae
