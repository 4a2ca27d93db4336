"""Frames of a job's source and result: one to look at, or all in order while the result grows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from pathlib import Path

from engine.core.errors import InputError, ResultGone
from engine.core.geometry import Size
from engine.jobs.checkpoint import Checkpoint
from engine.jobs.job import Job, JobState
from engine.jobs.made_results import mark_of
from engine.jobs.reading_marks import being_read
from engine.pipeline.display import frame_picture, quick_picture
from engine.pipeline.prepare import decoded
from engine.protocol.commands import ShowFrame
from engine.protocol.events import JobEvent, Picture, PreviewReady, ResultLost
from engine.protocol.media import MediaInfo, Side, VideoInfo
from engine.protocol.plan import Plan
from engine.video.read.frame_reader import FrameReader
from engine.video.read.frames import PlanarFrame
from engine.video.read.probe import probe
from engine.video.read.sound import Sound, sound_from


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
    """The plan of a video that was made and shows that time; None where there is none.

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


@dataclass(frozen=True, slots=True)
class PlayedFrame:
    """A frame that was decoded, and becomes a picture only where it is shown.

    `seconds` counts from the beginning of the source, for frames of the result too. Memory: the
    planes.
    """

    seconds: float
    planes: PlanarFrame
    video: VideoInfo

    def picture(self, box: Size) -> Picture:
        """The frame as seen, reduced to a box in px."""
        return quick_picture(self.planes, self.video, box)


def played_frames(
    media: MediaInfo, plan: Plan, side: Side, start_s: float, folder: Path
) -> Iterator[PlayedFrame]:
    """Frames from the one on that is shown at a time.

    Pieces end where the last one ends that is finished then; there may be more a moment later.

    Args:
        media: The source.
        plan: Plan of the job.
        side: Which video.
        start_s: Time to begin at, s of the source.
        folder: Folder of the job, with its segments.

    Raises:
        InputError: A video cannot be read (any more).
    """
    film = decoded(media, plan, folder)
    if film is None:
        return
    if side == "source":
        yield from _whole(film, 0.0, start_s)
    elif side == "result":
        yield from _whole(probe(plan.output), float(plan.start or 0), start_s)
    else:
        yield from _segments(film, plan, start_s, folder)


def played_sound(media: MediaInfo, start_s: float, rate: int) -> Iterator[Sound]:
    """Sound of a source from a time on, as `sound_from`; of what holds none, nothing."""
    if media.kind == "video" and not media.holds_latents:
        yield from sound_from(media, max(Fraction(0), _rounded(start_s)), rate)


def _whole(film: MediaInfo, shift: float, start_s: float) -> Iterator[PlayedFrame]:
    base = film.video.time_base
    exact = (_rounded(max(0.0, start_s - shift)) + film.start) / base
    with FrameReader(film) as reader:
        for frame in reader.seen_from(int(exact)):
            seconds = float(frame.pts * base - film.start) + shift
            yield PlayedFrame(seconds, frame, film.video)


def _segments(film: MediaInfo, plan: Plan, start_s: float, folder: Path) -> Iterator[PlayedFrame]:
    """Frames of finished segments, and of those that are finished meanwhile."""
    base, picture = film.video.time_base, plan.picture
    first = (_rounded(start_s) + film.start) / base
    checkpoint = Checkpoint(folder)
    for number in count():
        if number >= len(checkpoint.records):
            checkpoint = Checkpoint(folder)  # only here: it reads the notes of all segments
        if number >= len(checkpoint.records):
            return
        record = checkpoint.records[number]
        following = record.pts[-1] + max(1, record.durations[-1])
        if following <= first:
            continue
        made = probe(checkpoint.path(number))
        video = replace(
            made.video,
            rotation=picture.rotation,
            is_mirrored=picture.is_mirrored,
            sample_aspect=picture.sample_aspect,
        )
        skipped = max(0, bisect_right(record.pts, first) - 1)
        with FrameReader(made) as reader:
            for index, frame in enumerate(reader):
                if skipped <= index < record.frames:
                    seconds = float(record.pts[index] * base - film.start)
                    yield PlayedFrame(seconds, frame, video)


def _rounded(seconds: float) -> Fraction:
    """A time as a fraction: the float may lie just before the frame that is meant."""
    return round(Fraction(seconds), 6)
