"""Time stamps that rise: of files without any, with wrong ones, cut ones, and joined recordings.

The clock of a joined recording jumps back: each part counts from a start of its own. The video's
frames decide how far a part is moved (`FrameTimes`); sound and subtitles of the part move as far,
so all stay in step.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from av.stream import Discard

from engine.protocol.media import MediaInfo
from engine.video.read.media_file import open_input, readable_packets, stream_at, translated

# Seconds that a clock goes back at least where another part of a recording begins; what goes back
# by less is a wrong time stamp.
JUMP_S = Fraction(1, 2)
_WRAP_BITS = 33  # of the clock of a broadcast: FFmpeg counts on where it starts again from 0
_LEAST_S = Fraction(1, 1000)  # between frames whose stamps do not rise: MKV has no smaller unit
_LEAP_S = 10  # that a time stamp of a broadcast leaps ahead at least, if it is wrong
BROADCAST = frozenset({"mpegts", "mpeg"})  # containers whose packets state times in full


class StampCheck:
    """Finds time stamps of a broadcast that a bit error made leap ahead.

    A leap counts when the next stamp confirms it: then nothing was sent for a while. Subtitles are
    not checked, they leap.
    """

    def __init__(self, container: str) -> None:
        self.is_broadcast = container in BROADCAST
        self._leapt = Fraction(0)

    def is_wrong(self, time: int, last: int | None, base: Fraction) -> bool:
        """Whether a stamp cannot be meant.

        Args:
            time: In the time base.
            last: The stamp before it; None at the beginning.
            base: Time base, s.
        """
        if not self.is_broadcast or last is None or (time - last) * base < _LEAP_S:
            return False
        before, self._leapt = self._leapt, time * base
        return not 0 <= self._leapt - before <= JUMP_S


class FrameTimes:
    """Time stamps of decoded frames, also where a file has none.

    A frame keeps the stamp of its packet. Where the container has only decoding times (AVI), those
    are taken, which are right after reordering. Streams without any times (raw H.264) get exact
    ones from the frame rate. Stamps always rise: one that does not is moved to 1 ms
    after the frame before it, and a clock that jumps back goes on from there.
    """

    def __init__(self, stream: Any, check: StampCheck | None = None) -> None:
        self._base = Fraction(stream.time_base or Fraction(1, 1000))
        self._rate = Fraction(stream.guessed_rate or stream.average_rate or 25)
        self._frame_units = max(1, round(1 / self._rate / self._base))  # of a frame, nominal
        self._least_units = math.ceil(_LEAST_S / self._base)
        self._origin: int | None = None
        self._untimed = 0  # frames without a stamp since the origin
        self._last: int | None = None
        self._shift = 0
        self._check = check
        self._lap: int | None = None
        self.jumps = 0  # how often the clock jumped back
        self.wraps = 0  # how often a broadcast's clock reached its end

    def pts_of(self, frame: Any) -> int:
        """The stamp of the next frame in decoding order, in the stream's time base."""
        pts = frame.pts if frame.pts is not None else frame.dts
        if pts is None or self._is_wrong(pts):
            pts = self._from_rate()
        else:
            self._count_laps(pts)
            pts += self._shift
            if self._last is not None and (self._last - pts) * self._base > JUMP_S:
                self._shift += self._last + self._frame_units - pts
                pts = self._last + self._frame_units
                self.jumps += 1
            self._origin, self._untimed = pts, 0
        if self._last is not None and pts <= self._last:
            pts = self._last + self._least_units
        self._last = int(pts)
        return self._last

    def _is_wrong(self, pts: int) -> bool:
        check = self._check
        return check is not None and check.is_wrong(pts + self._shift, self._last, self._base)

    def _count_laps(self, pts: int) -> None:
        if self._check is not None and self._check.is_broadcast:
            lap = pts >> _WRAP_BITS
            self.wraps += self._lap is not None and lap > self._lap
            self._lap = lap

    def _from_rate(self) -> int:
        if self._origin is None:
            self._origin = 0
            return 0
        self._untimed += 1
        return self._origin + round(self._untimed / self._rate / self._base)


# --- joined recordings


def film_jumps(media: MediaInfo) -> tuple[Fraction, ...]:
    """Seconds that each part after the first is moved, the video's frames one after the other.

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


def without_hidden(packets: Iterable[Any], decoded: Collection[int] = ()) -> Iterator[Any]:
    """Packets without those that the edit list of an MP4 or MOV file hides.

    FFmpeg gives up to a second of sound before each edit, with times that go back, for decoders
    that need a run-up. Of what comes before the first edit the last packet stays, if the codec may
    be lossy: without it the first packet that is heard would not be decoded correctly.

    Args:
        packets: Packets of some streams.
        decoded: Indices of streams that keep all packets: their decoders discard what is hidden.
    """
    before: dict[int, Any] = {}  # by the index of a stream, until the first packet that is heard
    heard: set[int] = set()
    for packet in packets:
        if not packet.size or packet.stream.index in decoded:
            yield packet
            continue
        stream = packet.stream
        if packet.is_discard:
            before[stream.index] = packet
            continue
        run_up = before.pop(stream.index, None)
        is_first, needs_it = stream.index not in heard, stream.type == "audio"
        context = stream.codec_context  # None where FFmpeg does not know the codec
        if run_up and is_first and needs_it and (context is None or context.codec.lossy):
            yield run_up
        heard.add(stream.index)
        yield packet


class PartClock:
    """Moves the times of a stream, packet by packet.

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
