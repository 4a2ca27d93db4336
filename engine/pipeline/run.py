"""Runs one job: stages in their threads, then mux, verify and publish; the first error wins."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from engine.errors import UnreadableMedia
from engine.events import StageProgress, StageStarted, Warned
from engine.hardware.telemetry import peak_ram_bytes
from engine.memory import rates
from engine.memory.predict import QUEUE_CLIPS, kind
from engine.models import registry
from engine.pipeline.context import Context, Throttle
from engine.pipeline.output import part_path, publish
from engine.pipeline.segments import SegmentLog
from engine.pipeline.stages.device import Device
from engine.pipeline.stages.read import Clip, read
from engine.pipeline.stages.write import DoneClip, Write
from engine.pipeline.stream import Workers
from engine.pipeline.verify import verify
from engine.plan import Notice
from engine.report import Report
from engine.video.decode import FrameReader
from engine.video.mux import SegmentFile, mux

READER_THREADS = 2


def run_job(context: Context, segments: SegmentLog, *, overwrite: bool) -> Report:
    """Do what is left of a job and publish its result.

    Args:
        context: The job; its plan may become smaller meanwhile.
        segments: Finished ones of earlier runs; new ones are added.
        overwrite: The result may replace a file of its name.

    Returns:
        What was proved about the result.

    Raises:
        UnreadableMedia: There is no frame in that part of the source.
        EngineError: Whatever else stopped the job; finished segments stay.
        Cancelled: The user stopped it.
    """
    begin = time.monotonic()
    frames_before = sum(record.frames for record in segments.records)
    if not segments.is_complete:
        context.events.emit(StageStarted(job_id=context.job_id, stage="run"))
        _make_segments(context, segments)
    if not segments.records:
        raise UnreadableMedia(
            f"{context.media.path.name} shows no picture in the part that was asked for.",
            hint="Choose another start or end.",
        )
    part = part_path(context.plan.output, context.job_id)
    try:
        _mux(context, segments, part)
        report = _verify(context, part)
    except BaseException:
        _remove(part)
        raise
    publish(part, context.plan.output, overwrite=overwrite)  # keeps the part where it cannot
    seconds = time.monotonic() - begin - context.control.paused_seconds
    if frames_before == 0:
        _learn(context, segments, seconds)
    return replace(
        report,
        source=context.media.path,
        output=context.plan.output,
        seconds=seconds,
        peak_bytes=peak_ram_bytes(),
    )


def _make_segments(context: Context, segments: SegmentLog) -> None:
    plan = context.plan
    torch.set_num_threads(plan.model.threads)
    model = registry.build(plan.model)
    device = Device(model, context)
    write = Write(context, segments)
    done = write.frames_done
    with (
        FrameReader(
            context.media, start=plan.start, stop=plan.stop, threads=READER_THREADS
        ) as reader,
        Workers() as workers,
    ):
        clips = workers.stream(QUEUE_CLIPS, Clip)
        ready = workers.stream(QUEUE_CLIPS, DoneClip)
        workers.start(
            "read", lambda: read(reader, plan, list(segments.records), clips, context.control)
        )
        workers.start("write", lambda: write.run(ready))
        device.run(clips, ready, done)
    for problem in reader.problems:
        notice = Notice(code="source-damaged", severity="warning", message=problem)
        context.events.emit(Warned(job_id=context.job_id, notice=notice))


def _mux(context: Context, segments: SegmentLog, part: Path) -> None:
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
    )


def _verify(context: Context, part: Path) -> Report:
    context.events.emit(StageStarted(job_id=context.job_id, stage="verify"))
    return verify(
        context.media,
        part,
        plan=context.plan,
        progress=_progress(context, "verify"),
        control=context.control,
    )


def _progress(context: Context, stage: str) -> Callable[[int, int], None]:
    """Passes the progress of a step on, at most ten times a second."""
    due = Throttle(0.1)

    def tell(done: int, total: int) -> None:
        if due() or done == total:
            context.events.emit(
                StageProgress(job_id=context.job_id, stage=stage, done=done, total=total)
            )

    return tell


def _learn(context: Context, segments: SegmentLog, seconds: float) -> None:
    frames = sum(record.frames for record in segments.records)
    share = frames / context.plan.frames
    rates.learn(kind(context.plan), predicted=context.plan.seconds * share, measured=seconds)


def _remove(part: Path) -> None:
    """An unfinished result is worth nothing: its segments are kept."""
    if part.is_dir():
        shutil.rmtree(part, ignore_errors=True)
    else:
        part.unlink(missing_ok=True)
