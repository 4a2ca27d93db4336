"""Verification: nothing of the source is lost, doubled, shifted or mislabelled in the result.

Both files are decoded once, in parallel, to thumbnails; the other streams are compared packet by
packet without decoding, and sound that was decoded on the way sample by sample. Memory: about 100
bytes a frame and 12 a packet, else independent of the length of the video. Time: 2 to 3 ms of
CPU time for a 960x540 frame, plus its decoding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from engine.core.control import Control
from engine.core.errors import EngineError, InputError
from engine.planner.target import WHOLE, Part, frames_between
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.protocol.report import Check, Report
from engine.verification.frames import (
    FrameComparison,
    black_check,
    compare_frames,
    count_check,
    likeness_check,
    order_check,
    readable_check,
    times_check,
)
from engine.verification.metadata import (
    chapters_check,
    metadata_check,
    size_check,
    statements_check,
    tags_check,
)
from engine.verification.streams import ComparedFile, compare_streams
from engine.video.film_preparation import made_with_rate
from engine.video.read.clock import film_jumps
from engine.video.read.digest import StreamDigest, digest
from engine.video.read.examination import examined
from engine.video.read.image_probe import sequences_to_compare
from engine.video.read.probe import probe

_OF_VIDEOS = frozenset(  # messages that say nothing about an image
    f"check.{case}"
    for case in (
        *("frame-count.equal", "frame-order.kept", "time-stamps.pictures", "chapters.pictures"),
        *("streams.none", "stream-content.none", "sound-timing.none"),
    )
)
VerifyProgress = Callable[[int, int], None]  # frames of the result: compared, all


def verify(
    source: Path | MediaInfo,
    output: Path,
    *,
    plan: Plan | None = None,
    part: Part = WHOLE,
    progress: VerifyProgress | None = None,
    control: Control | None = None,
    must_be_whole: bool = True,
) -> Report:
    """Compare a result with its source.

    Args:
        source: File, folder or pattern of the source, or facts known already.
        output: The result, whatever its name.
        plan: Plan of the job; without it every stream, any size of the source's aspect ratio, and
            of an interlaced source what the result's rate shows.
        part: Part of the source that was taken, where the plan is not known.
        progress: Called after each frame.
        control: Checked between frames.
        must_be_whole: A drive that fails is an error; else the source is compared so far.

    Returns:
        All checks; a damaged result is a failed check with a message about the damage.

    Raises:
        InputError: The source cannot be read.
        Cancelled: The user stopped.
    """
    before = source if isinstance(source, MediaInfo) else probe(source)
    try:
        after = probe(output)
    except InputError as err:
        return Report(source=before.path, output=output, checks=(_failed("readable", err),))
    if plan is None:
        before = made_with_rate(examined(before), after.video.frame_rate)
        total = frames_between(before, *part)
    else:
        part, total = (plan.start, plan.stop), plan.frames
    control, progress = control or Control(), progress or (lambda done, total: None)
    frames = compare_frames(before, after, part, total, progress, control)
    old, new = before, after
    if before.kind == after.kind == "sequence":
        old, new = sequences_to_compare(before, after, part[0])
    checks = (
        readable_check(frames),
        count_check(frames, is_part=part != WHOLE),
        order_check(frames),
        times_check(frames, after),
        size_check(before.video, after, plan.picture if plan else None),
        tags_check(before.video, after, plan.picture if plan else None),
        *_other_streams(old, new, plan, part, frames, control, must_be_whole=must_be_whole),
        statements_check(old, new, plan, frames, is_from_start=not part[0]),
        likeness_check(frames),
        black_check(frames),
    )
    if before.kind == after.kind == "image":
        checks = tuple(one for one in checks if one.message.code not in _OF_VIDEOS)
    return Report(
        source=before.path,
        output=output,
        checks=checks,
        frames_in=len(frames.source.pts),
        frames_out=len(frames.result.pts),
        output_bytes=after.bytes,
        likeness_mean=sum(frames.alike) / max(1, len(frames.alike)),
        likeness_min=min(frames.alike, default=0.0),
        statements=tuple(sorted(frames.source.stated)),
    )


def _failed(code: str, err: EngineError) -> Check:
    return Check(code=code, passed=False, message=err.as_message)


def _other_streams(
    before: MediaInfo,
    after: MediaInfo,
    plan: Plan | None,
    part: Part,
    frames: FrameComparison,
    control: Control,
    *,
    must_be_whole: bool,
) -> tuple[Check, ...]:
    """Tracks, their packets and times, chapters and metadata."""
    start, stop = part
    taken = _packets(before, control, must_be_whole=must_be_whole)
    old = ComparedFile(
        media=before,
        packets=taken,
        origin=frames.source.origin,
        jumps=film_jumps(before) if before.streams else (),
    )
    try:
        packets = _packets(after, control)
    except InputError as err:
        return (_failed("stream-content", err),)
    new = ComparedFile(media=after, packets=packets, origin=frames.result.origin)
    part_s = math.inf if start is not None else None
    if stop is not None:  # sound ends with the picture, though more was requested
        requested = stop + before.start - frames.source.origin
        part_s = float(min(frames.source.length, requested))
    checks, pairs = compare_streams(old, new, plan, part_s, control)
    one_frame = 1 / (after.video.frame_rate or Fraction(25))
    end = frames.result.origin + (frames.result.length or one_frame)
    return (
        *checks,
        chapters_check(before, after, frames.result.origin - frames.source.origin, part, end),
        metadata_check(before, after, pairs),
    )


def _packets(
    media: MediaInfo, control: Control, *, must_be_whole: bool = True
) -> dict[int, StreamDigest]:
    if media.kind != "video" or not media.streams:
        return {}
    indices = [stream.index for stream in media.streams]
    return digest(media.path, indices, control, must_be_whole=must_be_whole)
