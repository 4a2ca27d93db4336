"""Proves that a result is the source, redrawn: nothing lost, doubled, shifted or mislabelled.

Both files are decoded once, side by side, down to small grey pictures; the other streams are
compared packet by packet without decoding. Memory does not depend on the length of the film but
for some 100 bytes a frame and 12 a packet; 2 to 3 ms of processor time for a 960x540 frame come on
top of decoding it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from engine.core.control import Control
from engine.core.errors import EngineError, InputError
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.protocol.report import Check, Report
from engine.verify.checks import (
    black_check,
    count_check,
    likeness_check,
    order_check,
    readable_check,
    times_check,
)
from engine.verify.frames import Frames, compare_frames
from engine.verify.metadata import (
    chapters_check,
    metadata_check,
    size_check,
    tags_check,
)
from engine.verify.streams import Side, Span, compare_streams
from engine.video.read.packet_digest import StreamDigest, digest
from engine.video.read.probe import probe

Progress = Callable[[int, int], None]  # frames of the result that were compared, and of all


def verify(
    source: Path | MediaInfo,
    output: Path,
    *,
    plan: Plan | None = None,
    progress: Progress | None = None,
    control: Control | None = None,
) -> Report:
    """Compare a result with its source.

    Args:
        source: File, folder or pattern of the source, or what is known of it already.
        output: The result, whatever its name.
        plan: What was meant to be done; without it the result should have every stream, and any
            size of the source's shape.
        progress: Told how far the comparison is.
        control: Asked between frames.

    Returns:
        One check a line; a damaged result is a failed check that names the damage.

    Raises:
        InputError: The source cannot be read.
        Cancelled: `control` says so.
    """
    before = source if isinstance(source, MediaInfo) else probe(source)
    try:
        after = probe(output)
    except InputError as err:
        return Report(source=before.path, output=output, checks=(_unreadable(err),))
    control = control or Control()
    frames = compare_frames(before, after, plan, progress or _silent, control)
    checks = (
        readable_check(frames),
        count_check(frames),
        order_check(frames),
        times_check(frames, after),
        size_check(before.video, after.video, plan.picture if plan else None),
        tags_check(before.video, after, plan.picture if plan else None),
        *_other_streams(before, after, plan, frames, control),
        likeness_check(frames),
        black_check(frames),
    )
    return Report(
        source=before.path,
        output=output,
        checks=checks,
        frames_in=len(frames.source_pts),
        frames_out=len(frames.result_pts),
        likeness_mean=sum(frames.alike) / max(1, len(frames.alike)),
        likeness_min=min(frames.alike, default=0.0),
    )


def _silent(_done: int, _total: int) -> None:
    """Nobody wants to know."""


def _unreadable(err: EngineError) -> Check:
    return Check(code="readable", passed=False, message=err.message)


def _other_streams(
    before: MediaInfo, after: MediaInfo, plan: Plan | None, frames: Frames, control: Control
) -> tuple[Check, ...]:
    """Tracks, their packets and times, chapters and metadata."""
    start, stop = (plan.start, plan.stop) if plan else (None, None)
    old = Side(media=before, packets=_packets(before, control), origin=frames.source_origin)
    try:
        packets = _packets(after, control)
    except InputError as err:
        return (Check(code="stream-content", passed=False, message=err.message),)
    new = Side(media=after, packets=packets, origin=frames.result_origin)
    is_cut = start is not None or stop is not None
    seconds = math.inf
    if stop is not None:  # sound ends where the picture does, though more was asked for
        asked = stop + before.start - frames.source_origin
        seconds = float(min(frames.source_length, asked))
    span = Span(is_cut=is_cut, seconds=seconds)
    checks, pairs = compare_streams(old, new, plan, span)
    return (
        *checks,
        chapters_check(before, after, frames.result_origin - frames.source_origin, plan),
        metadata_check(before, after, pairs),
    )


def _packets(media: MediaInfo, control: Control) -> dict[int, StreamDigest]:
    if media.kind != "video" or not media.streams:
        return {}
    return digest(media.path, [stream.index for stream in media.streams], control)
