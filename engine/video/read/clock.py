"""Clocks of joined recordings, which jump back: where that happens, and times that go on.

Each part of such a file counts from a start of its own. The film's frames decide how far a part is
moved (`decoder.FrameTimes`); sound and subtitles of the part move as far, so all stay in step.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from av.stream import Discard

from engine.protocol.media import MediaInfo
from engine.video.read.frame_properties import BROADCAST, JUMP_S, StampCheck
from engine.video.read.media_file import open_input, readable_packets, stream_at, translated


def film_jumps(media: MediaInfo) -> tuple[Fraction, ...]:
    """Seconds that each part after the first is moved, the film's frames one after the other.

    Reads through a broadcast; other containers cannot be joined like that. Memory: one packet.

    Raises:
        InputError: The file is gone or no media any more.
    """
    if media.container not in BROADCAST:
        return ()
    with translated(media.path):
        about = media.path.stat()
    return _jumps(media.path, media.video.index, media.container, about.st_mtime_ns)


@lru_cache(maxsize=4)  # the mux and the comparison ask for the same file
def _jumps(path: Path, index: int, kind: str, _modified_ns: int) -> tuple[Fraction, ...]:
    jumps: list[Fraction] = []
    check = StampCheck(kind)
    with open_input(path) as container:
        film = stream_at(path, container, index)
        for other in container.streams:
            if other.index != index:
                other.discard = Discard.all
        base = Fraction(film.time_base or 1)
        parts: list[tuple[int, int]] = []  # first time and end of each
        stored: int | None = None
        for packet in readable_packets(path, container, [film]):
            if packet.pts is None or packet.dts is None:
                continue
            if check.is_wrong(packet.dts, stored, base):
                continue
            if stored is None or (stored - packet.dts) * base > JUMP_S:
                parts.append((packet.pts, packet.pts))
            first, end = parts[-1]
            parts[-1] = min(first, packet.pts), max(end, packet.pts + (packet.duration or 1))
            stored = packet.dts
    for (_, end), (first, _) in pairwise(parts):
        jumps.append((jumps[-1] if jumps else 0) + (end - first) * base)
    return tuple(jumps)


class PartClock:
    """By how much a stream's times move, packet by packet.

    A part that only this stream has goes on where the stream was.

    Args:
        base: Time base of the stream.
        jumps: Result of `film_jumps`.
        check: Check of a dense stream; None for subtitles.
    """

    def __init__(self, base: Fraction, jumps: Sequence[Fraction], check: StampCheck | None) -> None:
        self.base = base
        self._check = check
        self._moves = [0, *(round(jump / base) for jump in jumps)]
        self._back = JUMP_S / base
        self._part = 0
        self._last: int | None = None

    def moved(self, time: int) -> int:
        """A packet's time after those before it.

        Args:
            time: Decoding time in the time base, in the order of the file.
        """
        if self._check is not None and self._check.is_wrong(time, self._last, self.base):
            time = self._last or 0
        if self._last is not None and self._last - time > self._back:
            self._part += 1
            if self._part == len(self._moves):
                self._moves.append(self._moves[-1] + self._last - time)
        self._last = time
        return time + self._moves[self._part]
