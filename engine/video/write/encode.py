"""Frames to a closed piece of the result: one encoder, one small file, nothing outside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, cast

import av
from av import CodecContext, VideoFrame
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream
from numpy.typing import NDArray

from engine.core.errors import EncoderMissing
from engine.core.geometry import Size
from engine.protocol.plan import PicturePlan
from engine.video.write.encoders import (
    ENCODERS,
    colour_options,
    encoder_options,
    with_threads,
)
from engine.video.write.errors import rename_durably, writing
from engine.video.write.frame_builder import frame_of
from engine.video.write.picture_pack import PictureCoder, PicturePack

os.environ.setdefault("SVT_LOG", "1")  # SVT-AV1 writes a page to standard error otherwise

TICK = Fraction(1, 1000)  # of a segment's file: time stamp n is its frame n
_DELAY = 64  # frames: more than any encoder reorders
_TAGS_OF_FRAME = ("colorspace", "color_range", "color_primaries", "color_trc")


class _Sink(Protocol):
    def write(self, frame: VideoFrame, index: int) -> None: ...
    def finish(self) -> None: ...
    def discard(self) -> None: ...


class SegmentWriter:
    """Writes one segment; used as a context manager, it closes, or aborts on an error.

    Films become a Matroska file with the time stamp n ms for its frame n, pictures (PNG, TIFF) a
    zip file of finished pictures. The file appears under its name when it is complete and on the
    disk; until then it ends in ".part". Memory: the encoder's own, about 40 frames.

    Args:
        path: Of the segment; an older file of that name is replaced.
        picture: How to write; every number of it is used as it is.

    Raises:
        EncoderMissing: The encoder refuses these settings.
        DiskFull, OutputUnwritable: Also later, from `write` and `close`.
    """

    def __init__(self, path: Path, picture: PicturePlan) -> None:
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._picture = picture
        self._frames = 0
        self._is_open = True
        kind = _Pictures if picture.codec in ("png", "tiff") else _Film
        with writing(path):
            self._part.unlink(missing_ok=True)
            try:
                self._sink: _Sink = kind(self._part, picture)
            except BaseException:
                self._part.unlink(missing_ok=True)
                raise

    def write(self, planes: Sequence[NDArray[Any]], index: int) -> None:
        """Encode the next frame.

        Args:
            planes: [h, w] each, as in PlanarFrame, in the layout of the plan.
            index: Number of the frame in this segment: 0, 1, 2, ...

        Raises:
            ValueError: Not the next index, or planes of another layout.
            DiskFull, OutputUnwritable, OutputError: The file cannot be written.
        """
        if index != self._frames:
            raise ValueError(f"frame {index} comes after frame {self._frames - 1}")
        size = self._picture.size
        frame = frame_of(planes, size.width, size.height, self._picture.pixel_format)
        with writing(self._path):
            self._sink.write(frame, index)
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
            self._part.unlink(missing_ok=True)
            raise

    def abort(self) -> None:
        """Throw the unfinished file away; nothing happens after `close`."""
        if self._is_open:
            self._is_open = False
            self._sink.discard()
            self._part.unlink(missing_ok=True)

    def __enter__(self) -> SegmentWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class _Film:
    """A film in Matroska, whose time base of 1 ms counts frames."""

    def __init__(self, part: Path, picture: PicturePlan) -> None:
        self._packets = 0
        self._file = av.open(f"file:{part}", "w", format="matroska")
        self._file.flags |= 0x0400  # AVFMT_FLAG_BITEXACT: no date, no random number
        try:
            self._stream = cast(VideoStream, self._file.add_stream(picture.encoder))
            context = self._stream.codec_context
            configure(context, picture)
            _open_context(context, picture)
            self._file.start_encoding()
        except BaseException:
            self.discard()
            raise

    def write(self, frame: VideoFrame, index: int) -> None:
        _tag(frame, self._stream.codec_context)
        frame.pts = index
        frame.time_base = self._stream.codec_context.time_base
        self._mux(self._stream.codec_context.encode(frame))

    def finish(self) -> None:
        try:
            self._mux(self._stream.codec_context.encode(None))
        finally:
            self._file.close()

    def discard(self) -> None:
        with suppress(FFmpegError):  # often the reason for discarding; it is thrown away anyway
            self._file.close()

    def _mux(self, packets: Sequence[av.Packet[Any]]) -> None:
        """Write packets, with decoding times of our own.

        WORKAROUND: x265 4.2 gives garbage for them when there are fewer frames than it keeps back.
        """
        for packet in packets:
            packet.stream = self._stream
            packet.time_base = TICK
            packet.dts = self._packets - _DELAY
            packet.duration = 1
            self._file.mux_one(packet)
            self._packets += 1


class _Pictures:
    """Finished pictures, one after the other."""

    def __init__(self, part: Path, picture: PicturePlan) -> None:
        self._coder = PictureCoder(picture)
        self._pack = PicturePack(part, picture.codec)

    def write(self, frame: VideoFrame, index: int) -> None:
        self._pack.add(index, self._coder.encode(frame))

    def finish(self) -> None:
        self._pack.finish()

    def discard(self) -> None:
        self._pack.discard()


def configure(context: VideoCodecContext, picture: PicturePlan) -> None:
    """Give an encoder's context everything that the plan says."""
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
        context.open()
    except FFmpegError as err:
        raise EncoderMissing(
            f"{ENCODERS[picture.encoder].title} cannot be written at {picture.size} as "
            f"{picture.pixel_format}: {err.strerror}.",
            hint="Choose another codec, or set the encoder to cpu.",
            encoder=picture.encoder,
        ) from err


def _tag(frame: VideoFrame, context: VideoCodecContext) -> None:
    for name in _TAGS_OF_FRAME:  # some encoders look at frames, others at the context
        setattr(frame, name, int(getattr(context, name)))


def opens(name: str) -> bool:
    """Whether an encoder exists here and really encodes a small frame."""
    encoder = ENCODERS[name]
    layout, pixel_format = next(iter(encoder.formats.items()))
    size = Size(256, 128)
    options = encoder_options(encoder, crf=30, speed="fast", layout=layout, size=size)
    try:
        context = CodecContext.create(name, "w")
        if not isinstance(context, VideoCodecContext):
            return False
        context.width, context.height, context.pix_fmt = size.width, size.height, pixel_format
        context.time_base, context.framerate = Fraction(1, 25), Fraction(25)
        context.options = with_threads(options, name, 1)
        frame = VideoFrame(size.width, size.height, pixel_format)
        frame.pts = 0
        return bool([*context.encode(frame), *context.encode(None)])
    except (FFmpegError, ValueError):
        return False  # no such encoder, no card, or one that refuses
