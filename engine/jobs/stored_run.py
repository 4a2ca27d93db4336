"""A job that is written down, run in its own thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from engine.core import atomic_file, paths
from engine.core.errors import EngineError, OutOfMemory
from engine.core.wings import wings
from engine.jobs.checkpoint import (
    Checkpoint,
    check_unchanged,
    fits_segments,
    with_fate_of_segments,
)
from engine.jobs.gpu_process import run_in
from engine.jobs.job import Job
from engine.jobs.job_store import JobStore, StoredJob
from engine.jobs.run_here import prepared
from engine.pipeline.prepare import (
    Machine,
    check_plan,
    examined_source,
    make_plan,
    probe_source,
    with_model_of,
)
from engine.pipeline.source_watch import SourceWatch
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.media import MediaInfo
from engine.protocol.report import Report
from engine.settings.schema import JobSettings

Send = Callable[[c.Command], None]


def run_stored(
    job: Job, store: JobStore, machine: Machine, events: e.EventSink, send: Send
) -> Report:
    """Run a job, from its last checkpoint where it has one.

    Args:
        job: Job to run.
        store: Store that records it.
        machine: Environment that it runs in.
        events: Gets its events.
        send: Takes the commands of a job that pauses itself.

    Raises:
        EngineError: Error that stopped it.
        Cancelled: The user did.
    """
    if job.plan_error is not None:
        raise job.plan_error
    events.emit(e.StageStarted(job_id=job.id, stage="prepare"))
    try:
        with store.held(job.id), store.failure_kept(job.id):
            report = _run(job, store, machine, events, send)
    except MemoryError as err:  # outside of what can be tried again
        raise OutOfMemory("running") from err
    if report.passed or job.is_accepted:
        store.remove(job.id)  # else it may be tried again, or accepted
    return report


def find_begun(
    source: Path,
    settings: JobSettings,
    output: Path | None,
    machine: Machine,
    jobs: Iterable[StoredJob],
) -> str | None:
    """Name of the first unfinished job that a new start of a source would repeat; None for none.

    It has the same settings and result, and can go on: source and model files are unchanged, the
    automatic model is still the same, and so is the encoder, where frames are missing. Another
    program may be at it.

    Args:
        source: Path of the source.
        settings: Settings of the new start; an earlier one may differ in `overwrite`.
        output: File or folder of its result.
        machine: Environment that it will run in.
        jobs: Unfinished jobs.
    """
    for stored in jobs:
        asked = replace(settings, overwrite=stored.settings.overwrite)
        if (asked, output) == (stored.settings, stored.output):
            with suppress(EngineError):
                if _is_source(source, settings, stored.media) and _repeats(stored, machine):
                    return stored.id
    return None


def continues(stored: StoredJob, source: Path) -> bool:
    """Whether an unfinished job, of any settings, is of a source, and both are as at its start."""
    with suppress(EngineError):
        if _is_source(source, stored.settings, stored.media):
            check_unchanged(stored)
            return True
    return False


def _is_source(source: Path, settings: JobSettings, media: MediaInfo) -> bool:
    """Whether a path means a source that was probed earlier."""
    source = paths.openable(source)
    if media.kind != "sequence":
        return source == media.path
    if media.path.parent not in (source, source.parent):
        return False
    return probe_source(source, settings).pattern == media.pattern  # a folder or a pattern names it


def _repeats(stored: StoredJob, machine: Machine) -> bool:
    """Whether a new start would make the same as an unfinished job, which can go on.

    Raises:
        EngineError: It cannot, or a new start is impossible.
    """
    check_unchanged(stored)
    plan = make_plan(stored.media, stored.settings, stored.output, machine)
    if plan.work.model != stored.plan.work.model:
        return False
    if not paths.is_numbered(stored.plan.output, plan.output):
        return False
    is_same_encoder = plan.picture.encoder == stored.plan.picture.encoder
    folder = JobStore(machine.jobs_folder).folder(stored.id)
    return is_same_encoder or Checkpoint(folder).is_complete


def _run(job: Job, store: JobStore, machine: Machine, events: e.EventSink, send: Send) -> Report:
    checkpoint = Checkpoint(store.folder(job.id))
    overwrite = job.settings.overwrite
    stored = store.load(job.id) if checkpoint.frames else None
    goes_on = stored is not None and fits_segments(stored, job.settings, job.plan)
    publication = checkpoint.publication if goes_on else None
    if publication is not None and publication.output == job.plan.output:
        is_good = publication.report.passed or job.is_accepted
        if is_good and publication.finish(overwrite=overwrite):
            return publication.report
        # What was there at the start has been replaced: what is there now is its own, or new.
        overwrite = publication.is_published or (overwrite and publication.part.exists())
    if stored is not None and goes_on:
        check_unchanged(stored)
        source = SourceWatch(job.media, stored.fingerprint)
    else:
        job.media = examined_source(job.media)
        source = SourceWatch(job.media)
    with store.naming():
        taken = machine.taken | store.results_elsewhere(job.id)
        if goes_on and publication is None and job.plan.output in taken:
            job.plan = replace(job.plan, output=paths.numbered(job.plan.output, taken))
            events.emit(e.PlanChosen(job_id=job.id, plan=job.plan))
        if not goes_on:
            settings = with_model_of(job.settings, job.plan)
            here = replace(machine, taken=taken)
            job.plan = make_plan(job.media, settings, job.output, here)
            if stored is not None:
                about = stored, job.settings, job.plan
                job.plan = with_fate_of_segments(*about, checkpoint.frames)
            events.emit(e.PlanChosen(job_id=job.id, plan=job.plan, media=job.media))
        check_plan(job.media, job.plan, overwrite=overwrite)
        if not goes_on:
            checkpoint.clear()
        folder = store.save(job, source.fingerprint)
    done = checkpoint.frames
    events.emit(e.JobStarted(job_id=job.id, done=done, total=max(done, job.plan.frames)))
    prepared()
    from engine.pipeline.context import JobContext

    context = JobContext(
        job_id=job.id,
        media=job.media,
        plan=job.plan,
        control=job.control,
        events=events,
        source=source,
        send=send,
        accepts_damage=job.settings.accept_damaged or job.is_accepted,
        pictures=machine.settings.tile_previews,
    )
    if job.plan.takes_machines:
        ways = (wing.hand_out(machine.settings.farm_port) for wing in wings())
        context.hand_out = next((way for way in ways if way is not None), None)
    report = run_in(folder, context, checkpoint, overwrite=overwrite)
    job.plan = context.plan
    if publication is not None and publication.output != job.plan.output:
        atomic_file.discard(publication.part)  # the result has another name now
    return replace(report, source=job.media.path)
