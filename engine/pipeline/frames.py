"""Frames of a Python program through the models of a plan, without a file before or after."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from fractions import Fraction
from itertools import chain
from operator import length_hint
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.control import Control
from engine.core.errors import Cancelled, OutOfMemory, SettingsError, UnsuitableTensor
from engine.core.geometry import Size
from engine.core.messages import Message
from engine.hardware.process import at_work, keep_awake
from engine.ops.choices import Choices, following
from engine.ops.precision import using
from engine.pipeline.context import JobContext
from engine.pipeline.gpu_guard import cared_for, switched
from engine.pipeline.model_file_check import check_weights
from engine.pipeline.prepare import RGB_TAGS, Machine, plan_frames
from engine.pipeline.recovery import attempt
from engine.pipeline.segments import Span
from engine.pipeline.spans import SpanMaker
from engine.pipeline.stages.write import DoneClip
from engine.pipeline.stream import Stream, StreamAborted, Threads
from engine.planner.peaks import QUEUE_CLIPS
from engine.protocol.events import EventSink, PlanChosen
from engine.protocol.media import FrameMark, MediaInfo, VideoInfo
from engine.settings.schema import JobSettings
from engine.video.read.frames import PlanarFrame

Picture = NDArray[np.uint8] | NDArray[np.uint16]
Pictures = Generator[Picture, None, None]

_ID = "frames"  # in the place of a job's
_RATES = (Fraction(1, 100), Fraction(1000))  # frames per second
_BITS = {np.dtype(np.uint8): 8, np.dtype(np.uint16): 16}


class GivenFrames:
    """Reader of the frames that a program gives; they can be read once.

    Args:
        frames: Arrays [height, width, 3], or whatever numpy makes such arrays of: RGB, uint8 or
            uint16, all of one size and type.
        rate: Frames per second.

    Attributes:
        media: The frames as a sequence of images.

    Raises:
        UnsuitableTensor: There is no frame, or the first one is none of these arrays.
        SettingsError: The rate is impossible.

    Memory: one frame.
    """

    def __init__(self, frames: Iterable[Any], rate: Fraction) -> None:
        if not _RATES[0] <= rate <= _RATES[1]:
            low, high = _RATES
            raise SettingsError("outside-limits", setting="rate", value=rate, low=low, high=high)
        known, frames_left = length_hint(frames), iter(frames)
        first = next(frames_left, None)
        if first is None:
            raise UnsuitableTensor("no-frames")
        picture = np.asarray(first)
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype not in _BITS:
            raise UnsuitableTensor("array", found=_described(picture))
        self._looks = _described(picture)
        self._frames = enumerate(map(np.asarray, chain([first], frames_left)))
        height, width, _ = picture.shape
        bits = _BITS[picture.dtype]
        self.problems: list[Message] = []
        self.media = MediaInfo(
            path=Path("frames.png"),
            kind="sequence",
            container="image2",
            bytes=picture.nbytes * max(1, known),
            video=VideoInfo(
                index=0,
                codec="png",
                size=Size(width, height),
                pixel_format="rgb24" if bits == 8 else "rgb48be",
                chroma="rgb",
                bit_depth=bits,
                frame_rate=rate,
                time_base=1 / rate,
                frame_count=known,
                duration=known / rate if known else None,
                tags=RGB_TAGS,
            ),
        )

    def __iter__(self) -> Iterator[PlanarFrame]:
        for number, picture in self._frames:
            if (looks := _described(picture)) != self._looks:
                number += 1
                raise UnsuitableTensor("other-frame", number=number, found=looks, first=self._looks)
            planes = tuple(np.array(picture[..., colour], order="C") for colour in range(3))
            yield PlanarFrame(planes=planes, pts=number, duration=1)

    def iter_after(self, mark: FrameMark) -> Iterator[PlanarFrame]:
        """Never called: there is one span, and it begins with the first frame."""
        raise ValueError(f"frames of a program cannot be read again from {mark.count} on")

    def close(self) -> None:
        """The frames belong to the program."""


def upscaled(
    frames: GivenFrames, settings: JobSettings, machine: Machine, events: EventSink
) -> Pictures:
    """Plan, then give frames of the result as they get ready, as arrays like those of the source.

    A thread reads the source, up to a clip and some frames ahead of what was taken; others compute.
    They end with the iterator.

    Args:
        frames: The source.
        settings: Settings of the job, with those about files at their defaults.
        machine: Environment that it runs in.
        events: Gets what a job would report, from several threads.

    Raises:
        EngineError: The plan is impossible (at once), or the models fail (while iterating).
        OutOfMemory: Memory ran out: frames that were taken cannot be read again for a smaller plan.

    Memory: as planned.
    """
    plan = plan_frames(frames.media, settings, machine)
    events.emit(PlanChosen(job_id=_ID, plan=plan))
    context = JobContext(
        job_id=_ID,
        media=frames.media,
        plan=plan,
        control=Control(),
        events=events,
        pictures=False,
        is_learned_from=False,
    )
    return _results(frames, context)


def _results(frames: GivenFrames, context: JobContext) -> Pictures:
    with Threads() as threads:
        ready = threads.stream(QUEUE_CLIPS, DoneClip)
        threads.start("frames", lambda: _work(frames, context, ready))
        try:
            for clip in ready:
                for planes in clip.planes:
                    yield np.stack(planes, axis=-1)
        finally:
            context.control.cancel()  # where the program wants no more


def _work(frames: GivenFrames, context: JobContext, ready: Stream[DoneClip]) -> None:
    """Make all frames, in a thread that acts as that of a job."""

    def make() -> None:
        with following(Choices()), using(context.plan.work.switches.run):
            context.guard = None  # slow is better than an error: no smaller plan can take over
            with closing(SpanMaker(context, frames)) as maker:
                maker.run(Span(), hand_on)

    def hand_on(clips: Stream[DoneClip]) -> None:
        for clip in clips:
            ready.put(clip)

    work = at_work(on_processor=context.plan.work.device == "cpu")
    try:
        with keep_awake(), work, switched(context), cared_for(context):
            check_weights(context)
            failure = attempt(make)
    except Cancelled:
        raise StreamAborted from None  # the error of the program, if there is one, counts
    if failure is not None:
        raise failure.error if failure.why == "overflow" else OutOfMemory("frames")
    ready.close()


def _described(picture: NDArray[Any]) -> str:
    return f"{'x'.join(map(str, picture.shape))} {picture.dtype}"
