"""Checks from comparing all frames of source and result as thumbnails. Frames count from 0."""

from __future__ import annotations

import math
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from engine.core.control import Control
from engine.core.errors import InputError
from engine.core.messages import MOST_PARTS, Message, clauses, message, sentences
from engine.core.units import clock_text
from engine.planner.target import Part
from engine.protocol.media import Deinterlacing, MediaInfo
from engine.protocol.report import Check
from engine.verification.frame_order import (
    REACH,
    Edit,
    FrameAlignment,
    FrameDifferences,
    SourceWindow,
    are_certain,
    edits_of,
    with_frozen,
    with_replaced,
)
from engine.verification.thumbnails import (
    SAMPLE_STEP,
    Thumbnail,
    Thumbnailer,
    VideoColours,
    grid_of,
    is_black_instead,
    likeness,
    share_far_off,
    without_dots,
)
from engine.video.read.frame_reader import FrameReader
from engine.video.read.frames import PlanarFrame

_UNLIKE = 0.6  # SSIM below which a frame shows something else
_FAR_OFF = 0.003  # part of a frame that may be far off, for the sharpest edges
_LIKE = 0.85  # SSIM that all frames together must reach
_MKV_S = Fraction(1, 2000)  # MKV keeps whole milliseconds


@dataclass(slots=True)
class DecodedFile:
    """Time stamps and problems of one of the two files."""

    time_base: Fraction
    deinterlacing: Deinterlacing | None = None
    taken: int = 0  # own frames of a video that is deinterlaced
    left_out: int = 0  # repeats among them
    pts: array[int] = field(default_factory=lambda: array("q"))
    problems: list[Message] = field(default_factory=list)
    colours: VideoColours = field(default_factory=VideoColours)
    shows_dots: bool = False  # whether the last sampled frame makes its greys of dots
    stated: set[str] = field(default_factory=set)  # kinds of statements, of any frame
    message_bytes: Counter[str] = field(default_factory=Counter)
    message_crc: Counter[str] = field(default_factory=Counter)

    def add(self, frame: PlanarFrame) -> None:
        """Note the next frame."""
        self.pts.append(frame.pts)
        self.stated |= frame.stated
        for kind, data in (("captions", frame.captions), ("hdr10-plus", frame.hdr10_plus)):
            self.message_bytes[kind] += len(data)
            self.message_crc[kind] = zlib.crc32(data, self.message_crc[kind])

    def messages(self, kind: str) -> tuple[int, int]:
        """Length and CRC-32 of the captions or the metadata of HDR10+ of all frames."""
        return self.message_bytes[kind], self.message_crc[kind]

    @property
    def origin(self) -> Fraction:
        """Time of the first frame, s."""
        return self.pts[0] * self.time_base if self.pts else Fraction(0)

    @property
    def unaccounted(self) -> int:
        """Frames that deinterlacing lost or made up."""
        if self.deinterlacing is None:
            return 0
        made = self.taken - self.left_out
        if self.deinterlacing.rendering == "fields":
            made *= 2
        return abs(made - len(self.pts))

    def seconds(self, frame: int) -> Fraction:
        """Time of a frame, s after the first one."""
        return (self.pts[frame] - self.pts[0]) * self.time_base

    @property
    def length(self) -> Fraction:
        """Time from the first frame to the end of the last one, s."""
        if len(self.pts) < 2:
            return Fraction(0)
        return (2 * self.pts[-1] - self.pts[-2] - self.pts[0]) * self.time_base


@dataclass(slots=True)
class FrameComparison:
    """Frames of both files and how they differ."""

    source: DecodedFile
    result: DecodedFile
    shown: list[int] = field(default_factory=list)  # source frame of each result frame
    edits: list[Edit] = field(default_factory=list)
    alike: array[float] = field(default_factory=lambda: array("f"))  # SSIM of each result frame
    black: list[int] = field(default_factory=list)  # result frames black where the source is not
    unlike: list[int] = field(default_factory=list)  # result frames that show something else

    @property
    def is_lost(self) -> bool:
        """True when more frames are missing or too many at one place than can be followed."""
        return bool(self.unlike) and abs(len(self.source.pts) - len(self.result.pts)) > REACH


def compare_frames(
    source: MediaInfo,
    result: MediaInfo,
    part: Part,
    total: int,
    progress: Callable[[int, int], None],
    control: Control,
) -> FrameComparison:
    """Decode both files to their ends, of the source the part that was taken.

    A damaged result gives what can be decoded, and its problems; so does a damaged source.

    Raises:
        InputError: The source has gone.
        Cancelled: The user stopped.
    """
    frames = FrameComparison(
        DecodedFile(source.video.time_base, source.video.deinterlacing),
        DecodedFile(result.video.time_base),
    )
    start, stop = part

    def count(done: int) -> None:
        control.check()
        progress(done, max(done, total))

    with ExitStack() as stack:
        old = stack.enter_context(FrameReader(source, start=start, stop=stop))
        new = stack.enter_context(FrameReader(result))
        _compare(frames, (source, old), (result, new), count)
        frames.source.taken, frames.source.left_out = old.taken, old.left_out
        frames.source.problems += old.problems
        frames.result.problems += new.problems
    return frames


_Reading = tuple[MediaInfo, FrameReader]


def _compare(
    frames: FrameComparison, source: _Reading, result: _Reading, count: Callable[[int], None]
) -> None:
    old, new = source[0].video, result[0].video
    grid = grid_of(old)
    before = _thumbnails(source[1], Thumbnailer(old, grid, new), frames.source)
    readable = _as_far_as_readable(result[1], frames.result.problems)
    after = _thumbnails(readable, Thumbnailer(new, grid, old), frames.result)
    window = SourceWindow(before, grid.pixels)
    alignment, steps = FrameAlignment(), FrameDifferences()
    for number, thumbnail in enumerate(after):
        around, known = window.advance()
        state = alignment.add(thumbnail, around, known)
        if not known[state]:
            state = REACH
        steps.add(around[state], around[max(0, state - 1)], thumbnail)
        if known[state]:
            _judge(frames, number, _nearest(around, known, state, thumbnail), thumbnail)
        count(number + 1)
    window.drain()
    frames.shown = alignment.shown(window.count)
    found = edits_of(frames.shown, window.count, window.changes, alignment.noise)
    if not are_certain(found):
        frames.shown, found = list(range(len(frames.shown))), []
    wrong = set(frames.black) | set(frames.unlike)  # have checks of their own
    others = [one for one in alignment.replaced(frames.shown) if one.shown_at not in wrong]
    found = with_replaced(found, others)
    frozen = [n for n in steps.frozen() if wrong.isdisjoint((n - 1, n, n + 1))]
    frames.edits = with_frozen(found, frozen, frames.shown)


def _as_far_as_readable(
    frames: Iterable[PlanarFrame], problems: list[Message]
) -> Iterator[PlanarFrame]:
    try:
        yield from frames
    except InputError as err:
        problems.append(err.as_message)


def _thumbnails(
    frames: Iterable[PlanarFrame], make: Thumbnailer, file: DecodedFile
) -> Iterator[Thumbnail]:
    for number, frame in enumerate(frames):
        file.add(frame)
        if number % SAMPLE_STEP == 0:
            file.shows_dots = make.shows_dots(frame.planes)
            if make.sees_colours:
                file.colours.add(make.colours(frame.planes))
        yield make(frame.planes)


def _nearest(
    window: NDArray[np.float32], known: NDArray[np.bool_], state: int, result: Thumbnail
) -> Thumbnail:
    """The source frame that is meant, or a neighbour: the order is judged at the end."""
    rows = [row for row in (state, state - 1, state + 1) if 0 <= row < len(known) and known[row]]
    best = min(rows, key=lambda row: float(np.square(window[row] - result.ravel()).sum()))
    nearest: Thumbnail = window[best].reshape(result.shape)
    return nearest


def _judge(frames: FrameComparison, number: int, source: Thumbnail, result: Thumbnail) -> None:
    """Record the likeness of a frame of the result and its frame of the source."""
    if frames.source.shows_dots:
        source, result = without_dots(source), without_dots(result)
    alike = likeness(source, result)
    frames.alike.append(alike)
    if is_black_instead(source, result):
        frames.black.append(number)
    elif alike < _UNLIKE or share_far_off(source, result) > _FAR_OFF:
        frames.unlike.append(number)


def readable_check(frames: FrameComparison) -> Check:
    """The result decodes to its end."""
    problems = list(frames.result.problems)
    if not frames.result.pts:
        problems.append(message("check.readable.no-frame"))
    found = message("check.readable.whole")
    if problems:
        found = message("check.readable.damaged", problems=sentences(problems))
    return Check(
        code="readable",
        passed=not problems,
        message=found,
        source=" ".join(map(str, frames.source.problems[:MOST_PARTS])),
        output=" ".join(map(str, problems[:MOST_PARTS])),
    )


def count_check(frames: FrameComparison, *, is_part: bool = False) -> Check:
    """Checks that the result has all frames of the source, or all that the job took.

    Of a video that is deinterlaced: as many as its own frames make, each of which is shown or
    repeats another one. At the ends of a part a frame may be on both sides.
    """
    source, after = frames.source, len(frames.result.pts)
    before, how = source.taken or len(source.pts), source.deinterlacing
    passed = len(source.pts) == after and source.unaccounted <= (2 if is_part else 0)
    case = "equal" if passed else "different"
    if passed and how is not None and how.rendering != "frames":
        case = how.rendering
    counts = {"before": before, "after": after, "repeats": source.left_out}
    found = message(f"check.frame-count.{case}", **counts)
    if frames.source.problems:
        problems = sentences(frames.source.problems)
        found = message("check.frame-count.source-damaged", frames=found, problems=problems)
    return Check(
        code="frame-count",
        passed=passed,
        message=found,
        source=str(before),
        output=str(after),
    )


def order_check(frames: FrameComparison) -> Check:
    """Every frame once and in its place, as far as the pictures differ."""
    found = message("check.frame-order.kept")
    if frames.edits and frames.is_lost:
        first = frames.unlike[0]
        time = clock_text(frames.result.seconds(first))
        found = message("check.frame-order.lost", frame=first, time=time)
    elif frames.edits:
        edits = clauses([_edit_text(frames, edit) for edit in frames.edits])
        found = message("check.frame-order.changed", edits=edits)
    return Check(code="frame-order", passed=not frames.edits, message=found)


def _edit_text(frames: FrameComparison, edit: Edit) -> Message:
    if edit.kind == "extra":
        return message("check.frame-order.extra", count=edit.count)
    time = clock_text(frames.source.seconds(edit.frame))
    frame = message("check.frame-order.frame", frame=edit.frame, time=time)
    if edit.kind == "replaced":
        return message("check.frame-order.replaced", frame=frame, shown=edit.shown_at)
    if edit.kind == "moved":
        return message("check.frame-order.moved", frame=frame, shown=edit.shown_at)
    if edit.kind == "missing" and edit.count > 1:
        last = edit.frame + edit.count - 1
        return message("check.frame-order.missing-run", first=edit.frame, last=last, time=time)
    if not edit.clear:
        frame = message("check.frame-order.still-frame", frame=edit.frame, time=time)
    if edit.kind == "missing":
        return message("check.frame-order.missing", frame=frame)
    if edit.count == 1:
        return message("check.frame-order.twice", frame=frame)
    return message("check.frame-order.repeated", frame=frame, times=edit.count + 1)


def times_check(frames: FrameComparison, result: MediaInfo) -> Check:
    """Every frame at the time of the source's, exactly, or within half a millisecond in MKV."""
    if result.kind != "video":
        return Check(code="time-stamps", passed=True, message=message("check.time-stamps.pictures"))
    indices, offsets, unit = _offsets(frames)
    is_mkv = "matroska" in result.container
    limit = 2 * _MKV_S * unit if is_mkv else Fraction(0)  # between the two that differ most
    if not offsets or max(offsets) - min(offsets) <= limit:
        kept = message("check.time-stamps.equal")
        if is_mkv:
            kept = message("check.time-stamps.rounded")
        return Check(code="time-stamps", passed=True, message=kept)
    usual = offsets[0]
    off = [n for n, o in zip(indices, offsets, strict=True) if abs(o - usual) > limit]
    first = off[0] if off else indices[offsets.index(max(offsets))]
    late = Fraction(offsets[indices.index(first)] - usual, unit)
    about = {
        "frame": first,
        "time": clock_text(frames.result.seconds(first)),
        "ms": f"{float(f'{abs(float(late)) * 1000:.3g}'):g}",
    }
    found = message("check.time-stamps.early", **about)
    if late > 0:
        found = message("check.time-stamps.late", **about)
    if len(off) > 1:
        found = message("check.time-stamps.several", first=found, count=len(off) - 1)
    return Check(code="time-stamps", passed=False, message=found)


def _offsets(frames: FrameComparison) -> tuple[list[int], list[int], int]:
    """Result frames, how late each is, and the part of a second in which this is counted."""
    unit = math.lcm(frames.source.time_base.denominator, frames.result.time_base.denominator)
    old, new = int(frames.source.time_base * unit), int(frames.result.time_base * unit)
    indices, offsets, before = [], [], -1
    for number, shown in enumerate(frames.shown):
        if before < shown < len(frames.source.pts):
            indices.append(number)
            offsets.append(frames.result.pts[number] * new - frames.source.pts[shown] * old)
            before = shown
    return indices, offsets, unit


def likeness_check(frames: FrameComparison) -> Check:
    """The result shows what the source shows; black frames have a check of their own."""
    black = set(frames.black)
    compared = [alike for n, alike in enumerate(frames.alike) if n not in black]
    mean = sum(compared) / len(compared) if compared else 1.0
    worst = min(compared, default=1.0)
    found = message("check.likeness.alike", mean=f"{mean:.3f}", worst=f"{worst:.3f}")
    if frames.unlike:
        found = message("check.likeness.other", places=_places(frames, frames.unlike))
    elif mean < _LIKE:
        found = message("check.likeness.low", mean=f"{mean:.3f}", minimum=_LIKE)
    is_alike = not frames.unlike and mean >= _LIKE
    if is_alike and not black and frames.source.colours.are_unlike(frames.result.colours):
        is_alike, found = False, message("check.likeness.colours")
    return Check(code="likeness", passed=is_alike, message=found)


def black_check(frames: FrameComparison) -> Check:
    """No frame is black that is not black in the source."""
    found = message("check.black.none")
    if frames.black:
        found = message("check.black.found", places=_places(frames, frames.black))
    return Check(code="black", passed=not frames.black, message=found)


def _places(frames: FrameComparison, indices: Iterable[int]) -> Message:
    """Frames of the result with their times, consecutive ones as one passage."""
    runs: list[tuple[int, int]] = []
    for number in indices:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return clauses([_place(frames, first, last) for first, last in runs])


def _place(frames: FrameComparison, first: int, last: int) -> Message:
    start, stop = (clock_text(frames.result.seconds(number)) for number in (first, last))
    if first == last:
        return message("check.place.frame", frame=first, time=start)
    return message("check.place.frames", first=first, last=last, start=start, stop=stop)
