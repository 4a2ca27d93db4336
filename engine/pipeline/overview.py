"""Overview of a video for its timeline: thumbnails, loudness and cuts, in a bounded time.

A film of three hours costs no more than one of ten minutes: at most `_PLACES` key frames and
`_SOUNDS` moments of sound are looked for. Only what can be read through in a few seconds is read
through; it then has its cuts, and the exact frame for each thumbnail.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from engine.core.file_access import advised
from engine.core.geometry import Size
from engine.pipeline.display import quick_picture
from engine.protocol.events import OverviewRead, Picture
from engine.protocol.media import MediaInfo
from engine.video.read.frame_reader import FrameReader, frame_decoder
from engine.video.read.frames import PlanarFrame
from engine.video.read.sound import loudness
from engine.video.shots import ShotDetector

_PLACES = 24  # thumbnails
_SOUNDS = 96  # parts of the video whose loudness is shown
_BOX = Size(160, 90)  # px of a thumbnail
_KEYS_S, _SOUND_S, _THROUGH_S = 4.0, 4.0, 8.0  # time limits
_TRIED = 60  # frames after which it is known how long all of them take

IsOver = Callable[[], bool]


def overviews(
    job_id: str, media: MediaInfo, is_over: IsOver, is_busy: IsOver = lambda: False
) -> Iterator[OverviewRead]:
    """Yield all that is known for the timeline, each time there is more; never raises.

    Args:
        job_id: Job of the video.
        media: Its source.
        is_over: Whether nothing more is wanted; asked between frames.
        is_busy: Whether a job runs; then nothing is read through.

    Memory: 1 MB of thumbnails, and the frames that a decoder holds back.
    """
    if media.kind == "image" or media.holds_latents or not media.video.duration:
        return
    known = OverviewRead(job_id=job_id)
    for add, seconds, ends in (
        (_with_key_frames, _KEYS_S, is_over),
        (_with_loudness, _SOUND_S, is_over),
        (_with_cuts, _THROUGH_S, lambda: is_over() or is_busy()),
    ):
        before = known
        known = advised(partial(add, known, media, _within(seconds, ends)), known)
        if is_over():
            return
        if known is not before:
            yield known


def _within(seconds: float, is_over: IsOver) -> IsOver:
    deadline = time.monotonic() + seconds
    return lambda: is_over() or time.monotonic() > deadline


def _with_key_frames(known: OverviewRead, media: MediaInfo, is_over: IsOver) -> OverviewRead:
    """The key frames before equally distant places, as thumbnails."""
    video = media.video
    step = float(video.duration or 0) / _PLACES
    places = (
        video.start_pts + round((number + 0.5) * step / video.time_base)
        for number in range(_PLACES)
    )
    found, decoder = [], frame_decoder(media)
    try:
        for frame in decoder.key_frames(places):
            found.append(_thumbnail(media, frame))
            if is_over():
                break
    finally:
        decoder.close()
    return replace(known, thumbnails=tuple(found))


def _with_loudness(known: OverviewRead, media: MediaInfo, is_over: IsOver) -> OverviewRead:
    found = loudness(media, _SOUNDS, is_over)
    return replace(known, loudness=found) if found else known


def _with_cuts(known: OverviewRead, media: MediaInfo, is_over: IsOver) -> OverviewRead:
    """Cuts, and exact thumbnails, of a video that can be read through in time."""
    video, begin = media.video, time.monotonic()
    detector, cuts, found = ShotDetector(video), list[float](), list[tuple[float, Picture]]()
    step = float(video.duration or 0) / _PLACES
    with FrameReader(media) as reader:
        for number, frame in enumerate(reader):
            seconds = _seconds(media, frame)
            if detector.starts_shot(frame) and number:
                cuts.append(seconds)
            if seconds >= (len(found) + 0.5) * step:
                found.append(_thumbnail(media, frame))
            is_slow = (
                number == _TRIED
                and video.frame_count * (time.monotonic() - begin) > _TRIED * _THROUGH_S
            )
            if is_slow or is_over():
                return known
    return replace(known, cuts=tuple(cuts), thumbnails=tuple(found) or known.thumbnails)


def _thumbnail(media: MediaInfo, frame: PlanarFrame) -> tuple[float, Picture]:
    return _seconds(media, frame), quick_picture(frame, media.video, _BOX)


def _seconds(media: MediaInfo, frame: PlanarFrame) -> float:
    """Time of a frame in the video, s."""
    return max(0.0, float(frame.pts * media.video.time_base - media.start))
