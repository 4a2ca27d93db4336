"""A file to frames with their exact times, from the start, from a time, or behind a mark."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from types import TracebackType
from typing import Protocol

from engine.core.errors import UnreadableMedia
from engine.protocol.media import MediaInfo
from engine.video.read.film import FilmSource
from engine.video.read.frames import FrameMark, PlanarFrame
from engine.video.read.images import PictureSource


class Source(Protocol):
    """Where frames come from: a film or stills."""

    problems: list[str]

    def frames(self) -> Iterator[PlanarFrame]:
        """All frames, in the order in which they are shown."""
        ...

    def frames_before(self, pts: int) -> Iterator[PlanarFrame] | None:
        """Frames from somewhere before `pts` on, all exact from there; None if it cannot seek."""
        ...

    def close(self) -> None:
        """Let the file go."""
        ...


class FrameReader:
    """Frames of a film, a still or a sequence, whatever the file: exact, in order, with times.

    Times are counted on the clock of the file, which shows 0 at `media.start`. A frame that
    cannot be decoded is left out, a file that ends early ends the frames: both are told in
    `problems`, which is complete when the iteration is over. One iteration at a time.

    Memory: the frames that the decoder holds back (up to 16, and one for each thread) and one.
    """

    def __init__(
        self,
        media: MediaInfo,
        *,
        start: Fraction | None = None,
        stop: Fraction | None = None,
        threads: int = 2,
    ) -> None:
        """Opens nothing yet.

        Args:
            media: As `probe` says.
            start: First time wanted, s; None for the first frame.
            stop: First time no longer wanted, s; None for the end.
            threads: Most threads that the decoder may use.
        """
        self._media = media
        self._start = _units(media, start)
        self._stop = _units(media, stop)
        self._threads = threads
        self._source: Source | None = None
        self.problems: list[str] = []

    def __enter__(self) -> FrameReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go; the reader may be iterated again."""
        if self._source is not None:
            self._source.close()
            self._source = None

    def __iter__(self) -> Iterator[PlanarFrame]:
        """Frames with start <= time < stop.

        Raises:
            InputError: The file went away, or nothing in it can be decoded.
        """
        source = self._fresh()
        frames = source.frames_before(self._start) if self._start is not None else None
        yield from self._wanted(source, frames if frames is not None else source.frames())

    def iter_after(self, mark: FrameMark) -> Iterator[PlanarFrame]:
        """Frames after one that was finished, the same as an uninterrupted reading gives.

        Seeks to a key frame well before the mark, and goes on behind the frame that has its time
        and its CRC. Where that is not found, reads from the beginning and counts.

        Raises:
            InputError: As iterating.
        """
        if mark.count <= 0:
            yield from self
            return
        source = self._fresh()
        frames = source.frames_before(mark.pts)
        if frames is not None and _find(frames, mark):
            yield from self._wanted(source, frames)
            return
        yield from self._counted(mark)

    def seen_from(self, pts: int) -> Iterator[PlanarFrame]:
        """Frames from the one on that is seen at a time stamp; the first one where none is yet."""
        source = self._fresh()
        frames = source.frames_before(pts)
        held: PlanarFrame | None = None
        for frame in frames if frames is not None else source.frames():
            if held is not None and frame.pts > pts:
                yield held
            held = frame
        if held is not None:
            yield held

    def _counted(self, mark: FrameMark) -> Iterator[PlanarFrame]:
        frames = iter(self)
        last = None
        for _ in range(mark.count):
            last = next(frames, None)
        if last is None or (last.pts, last.crc) != (mark.pts, mark.crc):
            self._tell("The frame at which the work was interrupted looks different now.")
        yield from frames

    def _fresh(self) -> Source:
        self.close()
        if self._media.kind == "video" or self._media.container != "image2":
            self._source = FilmSource(self._media, self._threads)
        else:
            self._source = PictureSource(self._media)
        return self._source

    def _wanted(self, source: Source, frames: Iterator[PlanarFrame]) -> Iterator[PlanarFrame]:
        for frame in frames:
            if self._start is not None and frame.pts < self._start:
                continue
            if self._stop is not None and frame.pts >= self._stop:
                break
            yield frame
        for problem in source.problems:
            self._tell(problem)

    def _tell(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


def frame_at(media: MediaInfo, seconds: float) -> PlanarFrame:
    """The frame that is seen at a moment: the last one not after it, or else the first one.

    Args:
        media: As `probe` says.
        seconds: On the clock of the file.

    Raises:
        InputError: The file went away, or has no such frame.
    """
    exact = (Fraction(seconds) + media.start) / media.video.time_base
    with FrameReader(media) as reader:
        found = next(reader.seen_from(math.floor(exact)), None)
    if found is None:
        raise UnreadableMedia(
            f"{media.path.name} has no picture there.", hint="Choose another moment."
        )
    return found


def _find(frames: Iterator[PlanarFrame], mark: FrameMark) -> bool:
    for frame in frames:
        if frame.pts == mark.pts:
            return frame.crc == mark.crc
        if frame.pts > mark.pts:
            return False
    return False


def _units(media: MediaInfo, seconds: Fraction | None) -> int | None:
    """The first time stamp at or after a moment of the file's clock."""
    if seconds is None:
        return None
    exact = (seconds + media.start) / media.video.time_base
    return math.ceil(exact)
