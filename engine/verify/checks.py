"""What the comparison of the frames means, as checks in words; frames count from 0."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from engine.core.units import clock_text
from engine.protocol.media import MediaInfo
from engine.protocol.report import Check
from engine.verify.frame_order import Edit
from engine.verify.frames import Frames

_LIKE = 0.85  # SSIM that all frames together must reach
_NAMED = 3  # places that a message names before it only counts
_MKV_S = Fraction(1, 2000)  # MKV keeps whole milliseconds


def readable_check(frames: Frames) -> Check:
    """The result decodes to its end."""
    problems = list(frames.result_problems)
    if not frames.result_pts:
        problems.append("no frame can be decoded")
    message = "The result plays to its end."
    if problems:
        message = f"The result cannot be read without errors: {_first(problems)}."
    return Check(
        code="readable",
        passed=not problems,
        message=message,
        source="; ".join(frames.source_problems[:_NAMED]),
        output="; ".join(problems[:_NAMED]),
    )


def count_check(frames: Frames) -> Check:
    """As many frames as the source has, or as the job took of it."""
    before, after = len(frames.source_pts), len(frames.result_pts)
    message = f"{before} frames in, {after} out."
    if frames.source_problems:
        message += f" The source itself is damaged: {_first(frames.source_problems)}."
    return Check(
        code="frame-count",
        passed=before == after,
        message=message,
        source=str(before),
        output=str(after),
    )


def order_check(frames: Frames) -> Check:
    """Every frame once and in its place, as far as the pictures differ."""
    told = [_edit_text(frames, edit) for edit in frames.edits]
    if told and frames.is_lost:
        at = clock_text(frames.result_seconds(frames.unlike[0]))
        told = [f"From frame {frames.unlike[0]} at {at} on the result leaves the source's order"]
    message = "Every frame is there once, in its order."
    if told:
        message = f"{_first(told)}. Frames count from 0."
    return Check(code="frame-order", passed=not told, message=message)


def _edit_text(frames: Frames, edit: Edit) -> str:
    if edit.kind == "extra":
        return f"{edit.count} frames at the end are not from the source"
    at = clock_text(frames.source_seconds(edit.frame))
    still = "" if edit.clear else ", or a neighbour of it in this still passage,"
    if edit.kind == "doubled":
        times = "twice" if edit.count == 1 else f"{edit.count + 1} times"
        return f"Frame {edit.frame} at {at}{still} is shown {times}"
    if edit.kind == "moved":
        return f"Frame {edit.frame} at {at} comes too late, as frame {edit.shown_at}"
    if edit.count == 1:
        return f"Frame {edit.frame} at {at}{still} is missing"
    return f"Frames {edit.frame} to {edit.frame + edit.count - 1} from {at} on are missing"


def times_check(frames: Frames, result: MediaInfo) -> Check:
    """Every frame at the time of the source's, exactly, or within half a millisecond in MKV."""
    if result.kind != "video":
        return Check(code="time-stamps", passed=True, message="Picture files carry no times.")
    numbers, offsets, unit = _offsets(frames)
    grid = _MKV_S if "matroska" in result.container else Fraction(0)
    limit = 2 * grid * unit  # between the two frames that differ most
    if not offsets or max(offsets) - min(offsets) <= limit:
        message = "Every time stamp is the source's" + (", to the millisecond." if grid else ".")
        return Check(code="time-stamps", passed=True, message=message)
    off = [n for n, offset in zip(numbers, offsets, strict=True) if _far(offset, offsets[0], limit)]
    first = off[0] if off else numbers[offsets.index(max(offsets))]
    late = Fraction(offsets[numbers.index(first)] - offsets[0], unit)
    way = "late" if late > 0 else "early"
    where = clock_text(frames.result_seconds(first))
    others = f", and so are {len(off) - 1} more" if len(off) > 1 else ""
    message = f"Frame {first} at {where} is {abs(float(late)) * 1000:.3g} ms too {way}{others}."
    return Check(code="time-stamps", passed=False, message=message)


def _far(offset: int, usual: int, limit: Fraction) -> bool:
    return abs(offset - usual) > limit


def _offsets(frames: Frames) -> tuple[list[int], list[int], int]:
    """Result frames, how late each is, and the part of a second that this is counted in."""
    unit = math.lcm(frames.source_base.denominator, frames.result_base.denominator)
    old, new = int(frames.source_base * unit), int(frames.result_base * unit)
    numbers, offsets, before = [], [], -1
    for number, shown in enumerate(frames.shown):
        if before < shown < len(frames.source_pts):
            numbers.append(number)
            offsets.append(frames.result_pts[number] * new - frames.source_pts[shown] * old)
            before = shown
    return numbers, offsets, unit


def likeness_check(frames: Frames) -> Check:
    """The result shows what the source shows; black frames are told of elsewhere."""
    black = set(frames.black)
    compared = [alike for n, alike in enumerate(frames.alike) if n not in black]
    mean = sum(compared) / len(compared) if compared else 1.0
    worst = min(compared, default=1.0)
    message = f"The result shows the same pictures ({mean:.3f}, worst frame {worst:.3f})."
    if frames.unlike:
        message = f"{_runs_text(frames, frames.unlike)} shows something else than the source."
    elif mean < _LIKE:
        message = f"The pictures are not alike: {mean:.3f} where at least {_LIKE} is expected."
    return Check(code="likeness", passed=not frames.unlike and mean >= _LIKE, message=message)


def black_check(frames: Frames) -> Check:
    """No frame is black that is not black in the source."""
    message = "No frame is black where the source is not."
    if frames.black:
        message = f"{_runs_text(frames, frames.black)} is black; the source is not."
    return Check(code="black", passed=not frames.black, message=message)


def _runs_text(frames: Frames, numbers: list[int]) -> str:
    """Frames in words: "The passage from 00:00:01.000 to 00:00:02.000 (frames 25 to 49)"."""
    told = []
    for first, last in _runs(numbers):
        start = clock_text(frames.result_seconds(first))
        if first == last:
            told.append(f"frame {first} at {start}")
        else:
            end = clock_text(frames.result_seconds(last))
            told.append(f"{start} to {end} (frames {first} to {last})")
    return f"The result at {_first(told)}"


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _first(told: list[str]) -> str:
    """The first few, and how many more."""
    more = f"; and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
    return "; ".join(text.rstrip(".") for text in told[:_NAMED]) + more
