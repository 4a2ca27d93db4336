"""Runs one job: stages in their threads, then mux, verify and publish; the first error wins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from engine.core import atomic_file
from engine.core.errors import UnreadableMedia
from engine.core.file_access import advised
from engine.core.geometry import FrameSpan
from engine.core.messages import message
from engine.hardware.telemetry import RamPeak
from engine.ops.choices import following
from engine.ops.precision import using
from engine.pipeline.context import JobContext, Throttle
from engine.pipeline.gpu_guard import taken_over
from engine.pipeline.model_file_check import check_weights, files_used
from engine.pipeline.publication import Publication, part_path, publish
from engine.pipeline.recovery import Recovery, attempt, with_one_retry
from engine.pipeline.room import check_room, with_room
from engine.pipeline.segments import SegmentLog, SegmentRecord, first_lacking
from engine.pipeline.source_watch import SourceWatch
from engine.pipeline.spans import SpanMaker
from engine.planner import times
from engine.planner.rates import Learned
from engine.protocol.events import StageProgress, StageStarted, Warned
from engine.protocol.plan import Notice, Plan
from engine.protocol.report import PartMemory, Report, StageMemory, StageTime
from engine.verification.verify import verify
from engine.video.read.continuity import losses
from engine.video.read.frame_reader import FrameReader
from engine.video.read.frames import PlanarFrame
from engine.video.read.statements import with_statements
from engine.video.write.containers import PICTURES
from engine.video.write.mux import mux, tried
from engine.video.write.segment_file import SegmentFile
from engine.video.write.stream_notices import trial_notices

logger = logging.getLogger(__name__)


def run_job(context: JobContext, segments: SegmentLog, *, overwrite: bool) -> Report:
    """Run the rest of a job and publish its result.

    Args:
        context: The job; its plan may become smaller meanwhile.
        segments: Finished ones of earlier runs; new ones are added.
        overwrite: The result may replace a file of its name.

    Returns:
        Report on the checks of the result.

    Raises:
        UnreadableMedia: There is no frame in that part of the source.
        ResultHeldBack: Frames of the source cannot be read.
        CheckpointMismatch: The source has changed; finished segments are those of the old one.
        EngineError: Whatever else stopped the job; finished segments stay.
        Cancelled: The user stopped it.
    """
    context.source = context.source or SourceWatch(context.media)
    with RamPeak() as ram, context.source.blamed():
        return _run(context, segments, ram, overwrite=overwrite)


def _run(context: JobContext, segments: SegmentLog, ram: RamPeak, *, overwrite: bool) -> Report:
    frames_before = frames_of(segments)
    context.check_source()
    _try_mux(context)
    _make_missing(context, segments)
    part = part_path(context.plan.output, context.job_id)
    try:
        report = _joined(context, segments, part)
        if not report.passed:
            late = dict.fromkeys(report.statements, "")  # of which no frame of the sample knew
            context.media = with_statements(context.media, late)
            _drop_misread(context, segments)
            _make_missing(context, segments)
            report = _joined(context, segments, part)
        seconds = context.control.work_seconds() - context.began
        report = replace(
            report,
            source=context.media.path,
            output=context.plan.output,
            seconds=seconds,
            model_files=advised(lambda: files_used(context), ()),
            stage_times=advised(lambda: _stage_times(context), ()),
            peak_bytes=ram.so_far + context.workers_peak_bytes,
            gpu_memory=advised(lambda: _gpu_memory(context), ()),
            plan_changes=tuple(context.plan_changes),
        )
        if frames_before == 0 and context.plan.latent is None:  # latents may be decoded already
            learned = advised(lambda: _learn(context, segments, report), None)
            report = replace(report, memory_ratios=() if learned is None else learned.memory)
        publication = Publication.of(part, report, overwrite=overwrite)
        with_room(context, lambda: segments.add_publication(publication), lambda: 0)
    except BaseException:
        atomic_file.discard(part)  # segments are kept
        raise
    publish(part, context.plan.output, overwrite=overwrite)  # keeps the part where it cannot
    return report


def _make_missing(context: JobContext, segments: SegmentLog) -> None:
    """Make segments until all are there, and none of their files is damaged."""
    lacks = _lacks(context, segments)
    while lacks:
        with_one_retry(message("activity.checking-files"), lambda: check_weights(context))
        context.events.emit(StageStarted(job_id=context.job_id, stage="run"))
        _make_segments(context, segments)
        lacks = _lacks(context, segments)
        context.end_piece("wait-write")  # for what was written to be checked
    if not segments.records:
        raise UnreadableMedia("nothing-in-part", name=context.media.name)


def _lacks(context: JobContext, segments: SegmentLog) -> bool:
    """Whether segments have to be made, also because a file of one is damaged."""
    if not segments.is_complete:
        return True
    damaged = segments.first_damaged(context.control)
    if damaged is not None:
        _drop(context, segments, damaged, "segments-damaged")
    return damaged is not None


def _drop_misread(context: JobContext, segments: SegmentLog) -> None:
    """Forget segments from the first on whose frames of the source were read wrongly."""
    misread = with_one_retry(
        message("activity.verifying"), lambda: first_misread(context, segments.records)
    )
    if misread is not None:
        _drop(context, segments, misread, "segments-misread")


def _drop(context: JobContext, segments: SegmentLog, first: int, code: str) -> None:
    context.check_source()
    count = str(len(segments.drop(first)))
    notice = Notice(code=code, severity="warning", params={"count": count})
    context.events.emit(Warned(job_id=context.job_id, notice=notice))


def _joined(context: JobContext, segments: SegmentLog, part: Path) -> Report:
    """The segments in one file, compared with the source; waits for room."""
    return with_room(context, lambda: _join(context, segments, part), lambda: _bytes_of(segments))


def _join(context: JobContext, segments: SegmentLog, part: Path) -> Report:
    check_room(context, part.parent, _bytes_of(segments))
    context.check_source()
    with_one_retry(message("activity.joining"), lambda: _mux(context, segments, part))
    report = with_one_retry(message("activity.verifying"), lambda: _verify(context, part))
    context.check_source()  # of another one it would say nothing
    return report


def frames_of(segments: SegmentLog) -> int:
    """Frames that are finished."""
    return sum(record.frames for record in (*segments.records, *segments.ahead))


def _make_segments(context: JobContext, segments: SegmentLog) -> None:
    """Make all missing segments; a smaller plan after OutOfMemory, a wider dtype after overflow.

    Raises:
        OutOfMemory: There is no smaller plan.
        NumericOverflow: There is no wider dtype.
    """
    recovery = Recovery(context)
    while not segments.is_complete:
        failure = with_room(
            context,
            lambda: attempt(lambda: _make_with(context, segments)),
            lambda: _segment_bytes(context.plan, segments),
        )
        context.end_piece("load")  # the model is gone by now
        if failure is not None and not segments.is_complete:
            recovery.go_on(failure, frames_of(segments))


def _bytes_of(segments: SegmentLog) -> int:
    return sum(record.bytes for record in segments.records)


def _segment_bytes(plan: Plan, segments: SegmentLog) -> int:
    """Bytes of the next segment, about."""
    guess = plan.output_bytes * plan.segment_frames // max(plan.segment_frames, plan.frames)
    return max((record.bytes for record in segments.records), default=guess)


def _make_with(context: JobContext, segments: SegmentLog) -> None:
    """One try, with the plan as it is now; it may end with some segments made."""
    context.check_source()  # a pause may have lasted for days
    with following(segments.choices), using(context.plan.work.switches.run):
        if context.hand_out is not None:
            context.hand_out(context, segments)
        if not segments.is_complete:
            with taken_over(context), closing(SpanMaker(context)) as maker:
                maker.make(first_lacking(segments, context.plan.segment_frames), segments)


def _try_mux(context: JobContext) -> None:
    """Leave out what the muxer does not take of the other streams, before frames are made."""
    before = context.plan
    if context.media.kind != "video" or before.container in PICTURES or context.is_excerpt:
        return
    after = with_one_retry(
        message("activity.joining"), lambda: tried(context.media, before, context.control)
    )
    notices = (*_losses(context), *trial_notices(context.media, before, after))
    context.plan = replace(after, notices=(*notices, *after.notices))
    for notice in notices:
        context.events.emit(Warned(job_id=context.job_id, notice=notice))


def _losses(context: JobContext) -> Iterator[Notice]:
    """Losses of reception in a recording, and streams that only its middle has."""
    found = losses(context.media, context.control)
    places = found.film + found.others
    if places:
        counts = {"count": str(places), "film": str(found.film), "others": str(found.others)}
        yield Notice(code="packets-lost", severity="warning", params=counts)
    if found.unseen:
        counts = {"count": str(found.unseen)}
        yield Notice(code="streams-unseen", severity="warning", params=counts)


def _mux(context: JobContext, segments: SegmentLog, part: Path) -> None:
    context.events.emit(StageStarted(job_id=context.job_id, stage="mux"))
    files = [
        SegmentFile(path=segments.path(record.number), pts=record.pts, durations=record.durations)
        for record in segments.records
    ]
    mux(
        context.media,
        context.plan,
        files,
        part,
        control=context.control,
        progress=_progress(context, "mux"),
        must_be_whole=not context.accepts_damage,
    )


def _verify(context: JobContext, part: Path) -> Report:
    context.events.emit(StageStarted(job_id=context.job_id, stage="verify"))
    return verify(
        context.media,
        part,
        plan=context.plan,
        progress=_progress(context, "verify"),
        must_be_whole=not context.accepts_damage,
        control=context.control,
    )


def _progress(context: JobContext, stage: str) -> Callable[[int, int], None]:
    """Passes the progress of a step on, at most ten times a second."""
    due = Throttle(0.1)

    def progress(done: int, total: int) -> None:
        if due() or done == total:
            context.events.emit(
                StageProgress(job_id=context.job_id, stage=stage, done=done, total=total)
            )

    return progress


def _stage_times(context: JobContext) -> tuple[StageTime, ...]:
    """Seconds of stages next to the planned ones: those of the plan in its order, then others."""
    measured = context.meter.seconds(wait=True)
    planned = {one.stage: one.seconds for one in context.plan.stages}
    order = (*(name for name in planned if name in measured), *(measured.keys() - planned))
    return tuple(
        StageTime(stage=name, seconds=measured[name], planned=planned.get(name, 0.0))
        for name in order
    )


def _gpu_memory(context: JobContext) -> tuple[StageMemory, ...]:
    """GPU memory of stages next to the planned one; also written to the log."""
    measured, parts = context.meter.peaks, context.meter.parts
    found = tuple(
        StageMemory(
            stage=stage.stage,
            planned=stage.device_bytes,
            peak=measured[stage.stage],
            parts=tuple(
                PartMemory(part=name, peak=peak)
                for name, peak in parts.get(stage.stage, {}).items()
            ),
        )
        for stage in context.plan.stages
        if stage.device_bytes and stage.stage in measured
    )
    for one in found:
        logger.info("memory of the GPU: %s", one)
    return found


def _learn(context: JobContext, segments: SegmentLog, report: Report) -> Learned | None:
    if not context.is_learned_from:
        return None
    plan = replace(context.plan, span=FrameSpan(0, frames_of(segments)))
    taken = (one.peak.requested / one.planned for one in report.gpu_memory)
    return times.learn(plan, report.seconds, max(taken, default=None))


# --- segments made of frames that were read wrongly, as by a decoder that lacked memory once


def first_misread(context: JobContext, records: Sequence[SegmentRecord]) -> int | None:
    """Number of the first segment that was made of other frames than the source has now.

    Where frames depend on the next ones it is the segment before: its last frame was, too.
    Reads the source up to there; damage that is there each time is no difference.

    Args:
        context: The job.
        records: All its segments.

    Returns:
        None where all were made of these frames.

    Raises:
        InputError: The source is gone.
        OutOfMemory: The machine refused memory.
        ResultHeldBack: Frames cannot be read, and all must be.
        Cancelled: The user stopped.
    """
    plan, must_be_whole = context.plan, not context.accepts_damage
    with FrameReader(
        context.media, start=plan.start, stop=plan.stop, must_be_whole=must_be_whole
    ) as reader:
        marks = _marks(reader, context)
        for record in records:
            if any(next(marks, None) != mark for mark in record.marks):
                return max(0, record.number - (plan.work.reach > 0))
        is_longer = bool(records) and next(marks, None) is not None
    return records[-1].number if is_longer else None


def _marks(frames: Iterable[PlanarFrame], context: JobContext) -> Iterator[tuple[int, int]]:
    for frame in frames:
        context.control.check()
        yield frame.pts, frame.crc
