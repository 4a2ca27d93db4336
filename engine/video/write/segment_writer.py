"""Writing of frames: segments of a job, and lossless videos that the program reads again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, cast

import av
from av import VideoFrame
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream
from numpy.typing import NDArray

from engine.core import atomic_file
from engine.core.errors import EncoderMissing, OutOfMemory, memory_ran_out
from engine.protocol.media import VideoInfo
from engine.protocol.plan import PicturePlan
from engine.video.colour_tags import colour_options, tag_like
from engine.video.planes import frame_of
from engine.video.write.containers import IMAGE_CODECS
from engine.video.write.encoders import (
    ENCODERS,
    Layout,
    Rate,
    encoder_options,
    own_scheduling,
    with_threads,
)
from engine.video.write.image_files import ImageSegment
from engine.video.write.segment_file import rename_durably, writing

_TICK = Fraction(1, 1000)  # of Matroska: time stamp n ms is frame n of a segment
_DELAY = 64  # frames: more than any encoder reorders


class _Sink(Protocol):
    def write(self, frame: VideoFrame, index: int) -> None: ...
    def finish(self) -> None: ...
    def discard(self) -> None: ...


class SegmentWriter:
    """Writes one segment; as a context manager it closes, or aborts on an error.

    Videos become a Matroska file with the time stamp n ms for its frame n, pictures a zip file of
    finished pictures. The file appears under its name when it is complete and on the disk; until
    then it ends in ".part". Memory: see `planner.peaks.encoder_bytes`.

    Args:
        path: Path of the segment; an older file of that name is replaced.
        picture: Description of the encoding; every value of it is used as it is.
        muxer: FFmpeg's name, for videos.

    Raises:
        EncoderMissing: The encoder refuses these settings.
        DiskFull, OutputUnwritable: Also later, from `write` and `close`.
    """

    def __init__(self, path: Path, picture: PicturePlan, *, muxer: str = "matroska") -> None:
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._picture = picture
        self._frames = 0
        self._is_open = True
        with writing(path):
            self._part.unlink(missing_ok=True)
            try:
                self._sink: _Sink
                if picture.codec in IMAGE_CODECS:
                    self._sink = ImageSegment(self._part, picture)
                else:
                    self._sink = _VideoFile(self._part, picture, muxer)
            except BaseException:
                atomic_file.discard(self._part)
                raise

    def write(self, planes: Sequence[NDArray[Any]]) -> None:
        """Encode the next frame.

        Args:
            planes: [h, w] each, as in PlanarFrame, in the layout of the plan.

        Raises:
            ValueError: Planes of another layout.
            DiskFull, OutputUnwritable, OutputError: The file cannot be written.
        """
        frame = frame_of(planes, self._picture.size, self._picture.pixel_format)
        with writing(self._path):
            self._sink.write(frame, self._frames)
        self._frames += 1

    def close(self) -> int:
        """Finish the file and give it its name.

        Returns:
            Its size in bytes.

        Raises:
            ValueError: No frame was written.
            DiskFull, OutputUnwritable, OutputError: The file cannot be completed; the part is gone.
        """
        if not self._frames:
            self.abort()
            raise ValueError("a segment needs a frame")
        try:
            with writing(self._path):
                self._is_open = False
                self._sink.finish()
                rename_durably(self._part, self._path)
                return self._path.stat().st_size
        except BaseException:
            atomic_file.discard(self._part)
            raise

    def abort(self) -> None:
        """Delete the unfinished file; nothing happens after `close`."""
        if self._is_open:
            self._is_open = False
            self._sink.discard()
            atomic_file.discard(self._part)

    def __enter__(self) -> SegmentWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class LosslessWriter(SegmentWriter):
    """Writes a video of constant rate as FFV1 in AVI, which keeps every code value and every time.

    AVI counts frames: the time base is the duration of one, and nothing is rounded.

    Args:
        path: Path of the video; an older one is replaced.
        video: Size, pixel format, rate and colours of the video.
        threads: Number of threads of the encoder.
    """

    def __init__(self, path: Path, video: VideoInfo, *, threads: int = 1) -> None:
        layout: Layout = (video.chroma, video.bit_depth, video.has_alpha)
        rate = video.frame_rate or Fraction(25)
        options = encoder_options(
            ENCODERS["ffv1"], rate=Rate(), speed="auto", layout=layout, size=video.size
        )
        picture = PicturePlan(
            size=video.size,
            codec="ffv1",
            encoder="ffv1",
            pixel_format=video.pixel_format,
            chroma=video.chroma,
            bit_depth=video.bit_depth,
            tags=video.tags,
            frame_rate=rate,
            time_base=1 / rate,
            options=options,
            threads=threads,
        )
        super().__init__(path, picture, muxer="avi")


class _VideoFile:
    """A video stream in a file of its own whose time stamps count frames."""

    def __init__(self, part: Path, picture: PicturePlan, muxer: str) -> None:
        self._packets = 0
        is_matroska = muxer == "matroska"
        self._base = _TICK if is_matroska else 1 / picture.frame_rate
        self._delay = _DELAY if is_matroska else 0
        self._file = av.open(f"file:{part}", "w", format=muxer)
        self._file.flags |= 0x0400  # AVFMT_FLAG_BITEXACT: no date, no version, no random ids
        try:
            self._stream = cast(VideoStream, self._file.add_stream(picture.encoder))
            self._context = self._stream.codec_context
            _configure(self._context, picture)
            _open_context(self._context, picture)
            self._file.start_encoding()
        except BaseException:
            self.discard()
            raise

    def write(self, frame: VideoFrame, index: int) -> None:
        tag_like(frame, self._context)
        frame.pts = index
        frame.time_base = self._context.time_base
        self._mux(self._context.encode(frame))

    def finish(self) -> None:
        try:
            self._mux(self._context.encode(None))
        except BaseException:
            self.discard()  # its error is not the first one
            raise
        self._file.close()

    def discard(self) -> None:
        with suppress(FFmpegError, OSError):  # often the reason for discarding
            self._file.close()

    def _mux(self, packets: Sequence[av.Packet[Any]]) -> None:
        """Write packets, with decoding times of our own.

        WORKAROUND: x265 4.2 gives garbage for them when there are fewer frames than it keeps back.
        """
        for packet in packets:
            packet.stream = self._stream
            packet.time_base = self._base
            packet.dts = self._packets - self._delay
            packet.duration = 1
            self._file.mux_one(packet)
            self._packets += 1


def _configure(context: VideoCodecContext, picture: PicturePlan) -> None:
    context.width, context.height = picture.size.width, picture.size.height
    context.pix_fmt = picture.pixel_format
    context.time_base = 1 / picture.frame_rate
    context.framerate = picture.frame_rate
    context.sample_aspect_ratio = picture.sample_aspect
    context.thread_count = picture.threads
    options = with_threads(picture.options, picture.encoder, picture.threads)
    context.options = {**options, **colour_options(picture.tags)}


def _open_context(context: VideoCodecContext, picture: PicturePlan) -> None:
    try:
        with own_scheduling():
            context.open()
    except FFmpegError as err:
        if memory_ran_out(err):
            raise OutOfMemory("encoder", name=picture.encoder) from err
        raise EncoderMissing(
            "refused",
            title=ENCODERS[picture.encoder].title,
            size=picture.size,
            format=picture.pixel_format,
            reason=err.strerror,
            encoder=picture.encoder,
        ) from err
