"""One frame of a job's source and result, to be looked at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.core.errors import InputError, ResultGone
from engine.jobs.job import Job, JobState
from engine.jobs.made_results import mark_of
from engine.jobs.reading_marks import being_read
from engine.pipeline.display import frame_picture
from engine.pipeline.prepare import decoded
from engine.protocol.commands import ShowFrame
from engine.protocol.events import JobEvent, Picture, PreviewReady, ResultLost
from engine.protocol.plan import Plan
from engine.video.read.probe import probe


def frame_events(job: Job, command: ShowFrame, folder: Path) -> Iterator[JobEvent]:
    """ResultLost where the finished result is not there as it was made, then PreviewReady.

    Args:
        job: Whose frame it is.
        command: Which frame.
        folder: Folder of the job, with latents that were decoded.

    Raises:
        InputError: The source cannot be read.
    """
    source = _source_picture(job, command, folder) if command.has_source else None
    result = None
    try:
        result = _result_picture(job, command)
    except InputError as err:
        yield ResultLost(job_id=job.id, error=err.info())
    yield PreviewReady(
        job_id=job.id,
        frame=round(command.seconds * job.plan.picture.frame_rate),
        seconds=command.seconds,
        source=source,
        result=result,
    )


def _source_picture(job: Job, command: ShowFrame, folder: Path) -> Picture | None:
    media = decoded(job.media, job.plan, folder)
    if media is None:
        return None
    with being_read(job.media.path, "picture"):
        return frame_picture(media, command.seconds, command.longest_side)


def _result_picture(job: Job, command: ShowFrame) -> Picture | None:
    """Frame of the result, or of an excerpt where the job has none."""
    plan = _made_plan(job, command.seconds)
    if plan is None:
        return None
    shift = float(plan.start or 0)
    return frame_picture(probe(plan.output), command.seconds - shift, command.longest_side)


def _made_plan(job: Job, seconds: float) -> Plan | None:
    """The plan of a film that was made and shows that time; None where there is none.

    Raises:
        ResultGone: The finished result was deleted or replaced.
    """
    if job.state is JobState.FINISHED:
        output = job.plan.output
        if not output.exists():
            raise ResultGone("deleted", name=output.name, path=output)
        now = mark_of(output)
        if now and job.made and now != job.made:
            raise ResultGone("replaced", name=output.name, path=output)
        return job.plan
    excerpt = job.excerpt_at(seconds)
    return excerpt.plan if excerpt is not None and excerpt.plan.output.exists() else None
