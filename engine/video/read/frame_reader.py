"""Frames of a source with exact times: from the start, from a time, or after a finished frame."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction

from engine.core.errors import UnreadableMedia
from engine.core.messages import Message, message
from engine.protocol.media import FrameMark, MediaInfo
from engine.video.read.decoder import FrameDecoder, VideoDecoder
from engine.video.read.frames import PlanarFrame
from engine.video.read.images import ImageDecoder

_LAST_PTS = 2**62  # FFmpeg takes 64 bits, and adds to them


class _Underway:
    """Frames of an iteration that may be left and gone on with, where the decoder then is.

    Args:
        frames: Frames that follow.
        mark: The frame before them; None at the beginning.
        searched: Number of frames decoded to find that one.

    Memory: one frame.
    """

    def __init__(
        self, frames: Iterator[PlanarFrame], mark: FrameMark | None = None, searched: int = 0
    ) -> None:
        self._frames, self._mark, self._searched = frames, mark, searched
        self._count = mark.count if mark is not None else 0
        self._last: PlanarFrame | None = None

    def __iter__(self) -> Iterator[PlanarFrame]:
        for frame in self._frames:  # `yield from` would end them where they are left
            self._count, self._last = self._count + 1, frame
            yield frame

    def reaches(self, mark: FrameMark) -> bool:
        """Go on to a mark, if that takes no more frames than it took to find the first one."""
        ahead = mark.count - self._count
        if not 0 <= ahead <= self._searched:
            return False
        for _ in zip(range(ahead), self, strict=False):
            pass
        if self._last is not None:
            last = self._last
            self._mark, self._last = FrameMark(count=self._count, pts=last.pts, crc=last.crc), None
        return self._mark == mark


class FrameReader:
    """Frames of a video, a picture or a sequence: exact, in order, with times.

    Times are on the clock of the file, which shows 0 at `media.start`. A frame that cannot be
    decoded is left out, a file that ends early ends the frames: `problems` holds both, and is
    complete when the iteration is over. One iteration at a time; one that is left can be gone on
    with, by `iter_after`.

    Of a video that is deinterlaced, `taken` counts the frames of the source in that part, and
    `left_out` those of them that repeat another one; both 0 for other videos.

    Memory: the frames that the decoder holds back (up to 16, and one for each thread) and one.
    """

    def __init__(
        self,
        media: MediaInfo,
        *,
        start: Fraction | None = None,
        stop: Fraction | None = None,
        must_be_whole: bool = False,
    ) -> None:
        """Opens nothing yet.

        Args:
            media: Result of `probe`.
            start: First time included, s; None for the first frame.
            stop: First time excluded, s; None for the end.
            must_be_whole: Passed to `FrameDecoder`.
        """
        self._media = media
        self._start = media.time_stamp(start) if start is not None else None
        self._stop = media.time_stamp(stop) if stop is not None else None
        self._must_be_whole = must_be_whole
        self._decoder: FrameDecoder | None = None
        self._underway: _Underway | None = None
        self.problems: list[Message] = []
        self.taken = self.left_out = 0

    def __enter__(self) -> FrameReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the reader may be iterated again."""
        self._underway = None
        if self._decoder is not None:
            self._decoder.close()
            self._decoder = None

    def __iter__(self) -> Iterator[PlanarFrame]:
        """Frames with start <= time < stop.

        Raises:
            InputError: The file is gone, or nothing in it can be decoded.
            ResultHeldBack: Frames cannot be read, and all must be.
        """
        decoder = self._opened()
        frames = decoder.frames_before(self._start) if self._start is not None else None
        if frames is None:
            frames = decoder.frames()
        yield from self._begun(_Underway(self._within(decoder, frames)))

    def iter_after(self, mark: FrameMark) -> Iterator[PlanarFrame]:
        """Frames after a finished one, the same as in an uninterrupted iteration.

        Goes on with an iteration that was left shortly before the mark. Else it seeks to a key
        frame well before it, and begins after the frame with its time and CRC. Without such a frame
        it reads from the beginning and counts.

        Raises:
            InputError: Raised as when iterating.
        """
        if mark.count <= 0:
            yield from self
            return
        if self._underway is not None and self._underway.reaches(mark):
            yield from self._underway
            return
        decoder = self._opened()
        frames = decoder.frames_before(mark.pts)
        searched = _find(frames, mark) if frames is not None else 0
        if frames is not None and searched:
            yield from self._begun(_Underway(self._within(decoder, frames), mark, searched))
            return
        yield from self._counted(mark)

    def seen_from(self, pts: int) -> Iterator[PlanarFrame]:
        """Frames from the one on that is shown at a time stamp; all where none is shown yet."""
        decoder = self._opened()
        frames = decoder.frames_before(pts)
        held: PlanarFrame | None = None
        for frame in frames if frames is not None else decoder.frames():
            if held is not None and frame.pts > pts:
                yield held
            held = frame
        if held is not None:
            yield held

    def _begun(self, underway: _Underway) -> _Underway:
        self._underway = underway
        return underway

    def _counted(self, mark: FrameMark) -> Iterator[PlanarFrame]:
        frames = iter(self)
        last = None
        for _ in range(mark.count):
            last = next(frames, None)
        if last is None or (last.pts, last.crc) != (mark.pts, mark.crc):
            self._add_problem(message("reading.mark-differs"))
        yield from frames

    def _opened(self) -> FrameDecoder:
        self.close()
        self._decoder = frame_decoder(self._media, must_be_whole=self._must_be_whole)
        return self._decoder

    def _within(
        self, decoder: FrameDecoder, frames: Iterator[PlanarFrame]
    ) -> Iterator[PlanarFrame]:
        for frame in frames:
            if self._start is not None and frame.pts < self._start:
                continue
            if self._stop is not None and frame.pts >= self._stop:
                break
            yield frame
        for problem in decoder.problems:
            self._add_problem(problem)
        self.taken, self.left_out = map(self._in_part, (decoder.taken, decoder.left_out))

    def _in_part(self, times: Iterable[int]) -> int:
        """Number of time stamps of the source within the part that is read."""
        how = self._media.video.deinterlacing
        first, end = self._start, self._stop
        own = [pts * how.time_parts for pts in times] if how is not None else []
        return sum((first is None or first <= pts) and (end is None or pts < end) for pts in own)

    def _add_problem(self, problem: Message) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


def frame_decoder(media: MediaInfo, *, must_be_whole: bool = False) -> FrameDecoder:
    """The decoder of a source, with the arguments of `FrameDecoder`."""
    is_video = media.kind == "video" or media.container != "image2"
    decoder = VideoDecoder if is_video else ImageDecoder
    return decoder(media, must_be_whole=must_be_whole)


def check_has_frames(media: MediaInfo, start: Fraction, stop: Fraction | None) -> None:
    """Refuse a part of a video without a frame; reads its first one. Latents are not read.

    Raises:
        InputError: It has none, or the source cannot be read.
    """
    if media.holds_latents:
        return
    with FrameReader(media, start=start, stop=stop) as reader:
        if next(iter(reader), None) is None:
            raise UnreadableMedia("nothing-in-part", name=media.name)


def frame_at(media: MediaInfo, seconds: float) -> PlanarFrame:
    """The frame shown at a time: the last one not after it, or else the first one.

    Args:
        media: Result of `probe`.
        seconds: On the clock of the file; finite.

    Raises:
        InputError: The file is gone, or has no such frame.
    """
    exact = (Fraction(seconds) + media.start) / media.video.time_base
    pts = max(-_LAST_PTS, min(math.floor(exact), _LAST_PTS))
    with FrameReader(media) as reader:
        found = next(reader.seen_from(pts), None)
    if found is None:
        raise UnreadableMedia("no-frame-there", name=media.name)
    return found


def _find(frames: Iterator[PlanarFrame], mark: FrameMark) -> int:
    """Number of frames to decode to find the one of a mark; 0 where it is not among them."""
    for count, frame in enumerate(frames, 1):
        if frame.pts == mark.pts:
            return count if frame.crc == mark.crc else 0
        if frame.pts > mark.pts:
            return 0
    return 0
