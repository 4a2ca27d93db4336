"""Makes spans of a video: reading, model and writing in their threads; models are loaded once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import torch

from engine.models import registry
from engine.models.upscalers import FrameUpscaler, ShotModel
from engine.pipeline.context import JobContext
from engine.pipeline.recovery import reason_of
from engine.pipeline.segments import Span, SpanLog
from engine.pipeline.stages.read import Clip, Reader, ShotReader, ShotSlice, read
from engine.pipeline.stages.shots import Shots, beginning_of
from engine.pipeline.stages.upscale import Device, FirstPass
from engine.pipeline.stages.write import DoneClip, Write
from engine.pipeline.stream import Stream, StreamAborted, Threads
from engine.planner.peaks import QUEUE_CLIPS
from engine.protocol.events import Warned
from engine.protocol.plan import Notice
from engine.video.read.frame_reader import FrameReader
from engine.video.shots import ShotDetector


@dataclass(frozen=True, slots=True)
class _Pass:
    """One run through a span: the reader of its source and the stream of finished clips."""

    context: JobContext
    span: Span
    reader: Reader
    threads: Threads
    ready: Stream[DoneClip]


class SpanMaker:
    """Makes spans with the models of a plan, which are loaded once.

    Args:
        context: Context of the job, with its current plan.
        reader: Reader of the frames; None: that of the job's source.

    Raises:
        WeightsError: The weights are not there or not right.

    The source stays open between spans: reading goes on where the next one begins soon after.

    Memory: as of the plan.
    """

    def __init__(self, context: JobContext, reader: Reader | None = None) -> None:
        torch.set_num_threads(context.plan.work.threads)
        if context.guard is not None:
            context.guard.begin()
        context.meter.restart()
        plan = context.plan
        self._context = context
        self._reader = reader or FrameReader(
            context.media,
            start=plan.start,
            stop=plan.stop,
            must_be_whole=not context.accepts_damage,
        )
        self._models = _Models(context)
        context.end_piece("load")

    def make(self, span: Span, log: SpanLog) -> None:
        """Make the segments of a span; what is finished when it fails is in the log.

        Raises:
            EngineError: Error that stopped it.
            Cancelled: The user did.
            MemoryReleased: The job is paused.
        """
        write = Write(self._context, log, span)
        self.run(span, write.run, cut_short=write.cut_short)
        for problem in self._reader.problems:
            notice = Notice(code="source-damaged", severity="warning", params={"problem": problem})
            self._context.events.emit(Warned(job_id=self._context.job_id, notice=notice))

    def run(
        self,
        span: Span,
        take: Callable[[Stream[DoneClip]], None],
        *,
        cut_short: Callable[[], None] = lambda: None,
    ) -> None:
        """Bring the frames of a span through the models.

        Args:
            span: Frames to make.
            take: Takes the finished ones, in a thread of its own.
            cut_short: Called before the end of the stream where the frames after it lack for a
                reason that a job can do something about.

        Raises:
            EngineError, Cancelled, MemoryReleased: As `make`.
        """
        context = self._context
        with Threads(context.meter.add) as threads:
            ready = threads.stream(QUEUE_CLIPS, DoneClip)
            writer = threads.start("write", lambda: take(ready))
            try:
                self._models.work(_Pass(context, span, self._reader, threads, ready))
            except Exception as err:  # a lack of memory can be the cause of an error of any class
                if reason_of(err) is not None:
                    cut_short()
                    with suppress(StreamAborted):  # the writer has failed too: its error counts
                        ready.close()
                        writer.join()
                raise
        context.end_piece("wait-write")  # for the last frames to be written

    def close(self) -> None:
        """Give back what the models hold, and close the source."""
        self._reader.close()
        self._models.close()


class _Models:
    """The models of a plan, ready to run, and what is done with frames."""

    def __init__(self, context: JobContext) -> None:
        work, first = context.plan.work, context.plan.first_pass
        check = context.check
        cleaning = None if first is None else registry.family_of(first).load_frames(first, check)
        first_pass, family = FirstPass(cleaning, context), registry.family_of(work)
        self.work: Callable[[_Pass], None]
        self.close: Callable[[], None]
        if work.takes_shots:
            model = family.load_shots(work)
            self.work, self.close = partial(_through_shots, model, first_pass), model.close
        else:
            frames = family.load_frames(work, check)
            self.work, self.close = partial(_frame_by_frame, frames, first_pass), _nothing


def _nothing() -> None:
    """Models of frames hold nothing but their weights."""


def _frame_by_frame(model: FrameUpscaler | None, first_pass: FirstPass, run: _Pass) -> None:
    """Read and work where frames are enlarged one by one."""
    context = run.context
    clips = run.threads.stream(QUEUE_CLIPS, Clip)
    run.threads.start(
        "read", lambda: read(run.reader, context.plan, run.span, clips, context.control)
    )
    Device(model, context, first_pass).run(clips, run.ready, run.span)


def _through_shots(model: ShotModel, first_pass: FirstPass, run: _Pass) -> None:
    """Read and work where the model takes whole shots."""
    context = run.context
    beginning = beginning_of(model, run.span)
    sensitivity = context.plan.work.shot_sensitivity
    detector = ShotDetector(context.media.video, sensitivity=sensitivity)
    shots = ShotReader(run.reader, detector, slice_frames=model.slice_frames)
    slices = run.threads.stream(QUEUE_CLIPS, ShotSlice)
    run.threads.start("read", lambda: shots.run(run.span, beginning, slices, context.control))
    Shots(model, context, run.span, first_pass).run(slices, run.ready)
