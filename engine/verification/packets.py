"""Packets of a stream of the source and of the result: which are the same, and what differs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.core.messages import Message, message
from engine.video.read.digest import StreamDigest

SHIFT_S = 0.010  # tolerance of sound and subtitles
EDGE_S = 0.25  # around the ends of a part, where a packet may be on either side
_MS_BITS = 28  # of a stamp: three days

# How two streams differ, and the packets of both that are the same.
Alignment = tuple[Message | None, tuple[NDArray[np.intp], NDArray[np.intp]]]


def align(old: StreamDigest, new: StreamDigest, times: NDArray[np.float64]) -> Alignment:
    """Compare whole streams."""
    a, b = crcs_of(old, new)
    shorter = min(a.size, b.size)
    head = _agreeing(a[:shorter], b[:shorter])
    if head == a.size == b.size:
        return None, (np.arange(head), np.arange(head))
    if old.size == new.size and old.crc == new.crc:  # the same bytes, cut elsewhere
        first = np.arange(min(1, shorter))
        return None, (first, first)
    tail = _agreeing(a[::-1][: shorter - head], b[::-1][: shorter - head])
    front, back = np.arange(head), np.arange(tail) + 1
    together = np.concatenate((front, a.size - back)), np.concatenate((front, b.size - back))
    if not a.size:
        return message("check.stream-content.only-new", count=b.size), together
    about = {"total": a.size, "time": f"{times[min(head, a.size - 1)]:.3f}"}
    if head + tail == shorter and a.size != b.size:
        about["count"] = abs(int(a.size) - int(b.size))
        if b.size < a.size:
            return message("check.stream-content.missing", **about), together
        return message("check.stream-content.surplus", **about), together
    return message("check.stream-content.differ", number=head + 1, **about), together


def stamps_of(
    digest: StreamDigest, times: NDArray[np.float64], taken: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """One number for the checksum and the time of each packet, rising.

    Args:
        digest: Packets.
        times: Times of them, s; one before 0, or none, counts as 0.
        taken: Which packets count; None for all.
    """
    ms = np.rint(np.fmax(times, 0) * 1000).astype(np.int64)
    stamps = np.frombuffer(digest.crcs, np.uint32).astype(np.int64) << _MS_BITS | ms
    return np.sort(stamps if taken is None else stamps[taken])


def likeness(old: NDArray[np.int64], new: NDArray[np.int64]) -> float:
    """Share of packets that two streams have at one time; 1 where neither has any."""
    if not old.size or not new.size:
        return float(old.size == new.size)
    after = np.searchsorted(old, new)
    off = (abs(new - old[np.clip(after + step, 0, old.size - 1)]) for step in (-1, 0))
    together = np.count_nonzero(np.minimum(*off) <= SHIFT_S * 1000)
    return 2 * together / (old.size + new.size)


def moments_of(stamps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Stamps by the times of packets alone, as those of converted texts."""
    return np.sort(stamps & (1 << _MS_BITS) - 1)


def shared_part(old: StreamDigest, new: StreamDigest) -> float:
    """Share of the result's packets that the source has at any time."""
    a, b = crcs_of(old, new)
    return float(np.isin(b, a).mean()) if b.size else 0.0


def crcs_of(old: StreamDigest, new: StreamDigest) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Checksums of the packets of both."""
    return np.frombuffer(old.crcs, np.uint32), np.frombuffer(new.crcs, np.uint32)


def kept_of(
    old: NDArray[np.uint32],
    new: NDArray[np.uint32],
    old_times: NDArray[np.float64],
    new_times: NDArray[np.float64],
    dropped: int,
) -> NDArray[np.intp] | None:
    """The source's packets that the result has; None where more than `dropped` are missing.

    Equal packets, as silence has, are distinguished by their times.
    """
    kept: list[int] = []
    for number, crc in enumerate(old):
        at, missing = len(kept), number - len(kept)
        if at == new.size:
            break
        is_late = missing < dropped and abs(new_times[at] - old_times[number]) >= SHIFT_S
        if crc == new[at] and not is_late:
            kept.append(number)
        elif missing == dropped:
            return None
    is_whole = len(kept) == new.size and old.size - len(kept) <= dropped
    return np.array(kept, dtype=np.intp) if is_whole else None


def _agreeing(a: NDArray[np.uint32], b: NDArray[np.uint32]) -> int:
    """Counts the entries that are equal from the front."""
    differs = np.flatnonzero(a != b)
    return int(differs[0]) if differs.size else int(a.size)


def align_part(
    old: StreamDigest,
    new: StreamDigest,
    old_times: NDArray[np.float64],
    new_times: NDArray[np.float64],
    seconds: float,
    dropped: int,
) -> Alignment:
    """Compare a part: where it is in the source, and whether it is complete."""
    a, b = crcs_of(old, new)
    needed = np.flatnonzero((old_times >= EDGE_S) & (old_times < seconds - EDGE_S))
    nothing = (np.arange(0), np.arange(0))
    if not b.size:
        return (message("check.stream-content.all-missing") if needed.size else None), nothing
    starts = np.flatnonzero(a[: max(0, a.size - b.size + 1)] == b[0])
    nearest = starts[np.argsort(np.abs(old_times[starts] - new_times[0]), kind="stable")]
    for start in nearest:
        part = slice(start, start + b.size + dropped)
        kept = kept_of(a[part], b, old_times[part], new_times, dropped)
        if kept is not None:
            end = start + kept[-1] + dropped
            if needed.size and (needed[0] < start or needed[-1] > end):
                return message("check.stream-content.end-missing"), nothing
            return None, (kept + start, np.arange(b.size))
    return message("check.stream-content.part-differs"), nothing


def align_shown(
    old: StreamDigest,
    new: StreamDigest,
    old_times: tuple[NDArray[np.float64], NDArray[np.float64]],
    new_times: NDArray[np.float64],
    seconds: float,
    dropped: int,
) -> Alignment:
    """Compare the subtitles of a part: those that are shown in it, also those that began before.

    Args:
        old: Packets of the source.
        new: Packets of the result.
        old_times: Starts and ends of those of the source, s after the beginning of the part.
        new_times: Starts of those of the result.
        seconds: Length of the part.
        dropped: Number of packets that may be missing.
    """
    (a, b), (starts, ends) = crcs_of(old, new), old_times
    shown = np.flatnonzero((ends > -EDGE_S) & (starts < seconds + EDGE_S))
    needed = shown[(ends[shown] > EDGE_S) & (starts[shown] < seconds - EDGE_S)]
    nothing = (np.arange(0), np.arange(0))
    placed = np.maximum(starts[shown], 0)
    for times in (new_times, np.full(new_times.size, np.nan)):  # all may be late
        kept = kept_of(a[shown], b, placed, times, shown.size)
        if kept is None:
            continue
        missing = np.setdiff1d(needed, shown[kept])
        if missing.size > dropped:
            time = f"{max(0.0, float(starts[missing[0]])):.3f}"
            about = {"count": missing.size, "total": needed.size, "time": time}
            return message("check.stream-content.missing", **about), nothing
        return None, (shown[kept], np.arange(b.size))
    return message("check.stream-content.part-differs"), nothing
