"""Puts the finished picture and everything else of the source into one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.container import InputContainer, OutputContainer
from av.error import FFmpegError

from engine.core.control import Control
from engine.protocol.media import MediaInfo
from engine.protocol.plan import PicturePlan, Plan
from engine.video.read.opening import open_input
from engine.video.write.containers import CONTAINERS, PICTURES
from engine.video.write.errors import make_durable, writing
from engine.video.write.export import export_images
from engine.video.write.metadata import (
    chapters_of,
    file_metadata,
    muxer_options,
    stream_metadata,
    time_code,
)
from engine.video.write.mkv_aspect import PLACEHOLDER, has_own_shape, write_shape
from engine.video.write.passthrough import CopiedStreams
from engine.video.write.segment_file import Film, SegmentFile, TimedPacket

__all__ = ["SegmentFile", "mux"]

_OWN_CLOCK = frozenset({"mov", "matroska"})  # families whose times mean what they say


def mux(
    media: MediaInfo,
    plan: Plan,
    segments: Sequence[SegmentFile],
    target: Path,
    *,
    control: Control,
    progress: Callable[[int, int], None],
) -> None:
    """Write the result: the segments' pictures beside the source's other streams, unchanged.

    Every frame gets exactly the time stamp of its source frame (MKV: rounded to 1 ms); sound and
    subtitles keep theirs. A job trimmed at its start begins at 0, and so does a source whose clock
    starts anywhere (MPEG-TS): all streams move by the same time. Stills and sequences go to
    `export_images`.

    Args:
        media: The source.
        plan: Its `container` is the format, whatever `target` is called.
        segments: In order, at least one.
        target: Written under this name; deleted again when something goes wrong.
        control: Looked at between packets.
        progress: Called with bytes of the picture done and their sum.

    Raises:
        Cancelled: The user stopped.
        DiskFull, OutputUnwritable, OutputError: The result cannot be written.
        InputError: The source can no longer be read.

    Memory: one packet of each stream, what the muxer holds to sort them (half a second), and the
    index of the file (about 100 bytes a packet); never the length of the sound.
    """
    if not segments:
        raise ValueError("nothing to write")
    if plan.container in PICTURES:
        export_images(media, plan, segments, target, control=control, progress=progress)
        return
    try:
        with ExitStack() as stack:
            source = None
            if media.kind == "video":
                source = stack.enter_context(open_input(media.path))
            job = _Mux(media, plan, segments, source)
            with writing(target):
                job.run(target, control, progress)
                make_durable(target)
    except BaseException:
        with suppress(OSError):  # the first error counts
            target.unlink(missing_ok=True)
        raise


class _Mux:
    """One run: opens the result, adds its streams, merges their packets by time."""

    def __init__(
        self,
        media: MediaInfo,
        plan: Plan,
        segments: Sequence[SegmentFile],
        source: InputContainer | None,
    ) -> None:
        self._media = media
        self._plan = plan
        self._source = source
        self._shift = _shift(media, plan, segments)
        self._film = Film(segments, plan.picture, self._shift)
        self._bytes = self._film.bytes
        self._end = self._film.end if plan.stop is not None else None
        self._copies = CopiedStreams(media, plan, self._shift, self._end)

    def run(self, target: Path, control: Control, progress: Callable[[int, int], None]) -> None:
        """Write the whole file."""
        output = av.open(
            f"file:{target}",
            "w",
            format=CONTAINERS[self._plan.container].muxer,
            container_options=muxer_options(self._media, self._plan),
        )
        try:
            film = self._add_streams(output)
            self._describe(output, film)
            output.start_encoding()
            for timed, done in self._merged(film):
                control.check()
                output.mux_one(timed.packet)
                progress(done, self._bytes)
            output.close()
        except BaseException:
            with suppress(FFmpegError):  # the first error counts
                output.close()
            raise
        if self._shape_comes_later:
            write_shape(target, self._plan.picture.size, self._plan.picture.sample_aspect)
        progress(self._bytes, self._bytes)

    def _add_streams(self, output: OutputContainer) -> Any:
        """The film and the copies in the order of the source."""
        if self._source is None:
            return self._add_film(output)
        film: Any = None
        for stream in self._source.streams:
            if stream.index == self._media.video.index:
                film = self._add_film(output)
                film.metadata.update(stream_metadata(stream.metadata))
                film.disposition = int(stream.disposition)
            else:
                self._copies.add(stream, output)
        self._copies.add_attachments(self._source, output)
        return film

    def _add_film(self, output: OutputContainer) -> Any:
        picture = self._plan.picture
        with self._film.template() as template:
            film: Any = output.add_stream_from_template(template, opaque=True)
        film.time_base = picture.time_base
        film.sample_aspect_ratio = picture.sample_aspect
        # MKV would promise a constant rate.
        rate = picture.frame_rate if self._film.is_regular else Fraction(0)
        film.framerate = picture.frame_rate if self._plan.container != "mkv" else rate
        if picture.codec == "hevc" and self._plan.container in ("mp4", "mov"):
            film.codec_tag = "hvc1"  # Apple's players refuse hev1
        if picture.rotation or picture.is_mirrored:
            film.set_display_matrix(_matrix(picture))
        elif self._shape_comes_later:
            film.set_display_matrix(PLACEHOLDER)
        return film

    @property
    def _shape_comes_later(self) -> bool:
        """Whether the pixels' shape has to be written into the finished file.

        A picture that is turned as well leaves no room for it; square pixels need none.
        """
        picture = self._plan.picture
        is_turned = picture.rotation or picture.is_mirrored
        is_silent = self._plan.container == "mkv" and not has_own_shape(picture.codec)
        return is_silent and picture.sample_aspect != 1 and not is_turned

    def _describe(self, output: OutputContainer, film: Any) -> None:
        """Titles, chapters and time code."""
        output.metadata.update(file_metadata(self._media))
        if self._source is None:
            return
        chapters: Any = chapters_of(self._source, self._shift, self._end)
        if chapters:
            output.set_chapters(chapters)
        film.metadata.pop("timecode", None)
        output.metadata.pop("timecode", None)
        code = time_code(self._source, self._plan.picture.frame_rate)
        if code and self._plan.start is None:
            place = output.metadata if self._plan.container == "mkv" else film.metadata
            place["timecode"] = code

    def _merged(self, film: Any) -> Iterator[tuple[TimedPacket, int]]:
        """All packets by decoding time, with the bytes of the picture done so far."""
        copies = iter(()) if self._source is None else self._copies.packets(self._source)
        waiting = next(copies, None)
        done = 0
        for timed, done in self._film.packets():
            while waiting is not None and waiting.seconds < timed.seconds:
                yield waiting, done
                waiting = next(copies, None)
            timed.packet.stream = film
            yield timed, done
        while waiting is not None:
            yield waiting, done
            waiting = next(copies, None)


def _shift(media: MediaInfo, plan: Plan, segments: Sequence[SegmentFile]) -> Fraction:
    """Seconds that every time loses."""
    if plan.start is not None:
        return segments[0].pts[0] * plan.picture.time_base
    if media.kind != "video" or _OWN_CLOCK & set(media.container.split(",")):
        return Fraction(0)
    return media.start


def _matrix(picture: PicturePlan) -> list[int]:
    """Display matrix of FFmpeg: turned clockwise first, then mirrored."""
    cos = {0: 1, 90: 0, 180: -1, 270: 0}[picture.rotation]
    sin = {0: 0, 90: 1, 180: 0, 270: -1}[picture.rotation]
    across = -1 if picture.is_mirrored else 1
    one = 1 << 16
    return [across * cos * one, sin * one, 0, -across * sin * one, cos * one, 0, 0, 0, 1 << 30]
