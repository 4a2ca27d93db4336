"""A film that is made here and read again here: every number is kept, and every time is exact."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

import av
from av.error import FFmpegError
from numpy.typing import NDArray

from engine.protocol.media import VideoInfo
from engine.protocol.plan import PicturePlan
from engine.video.write.encode import configure
from engine.video.write.encoders import ON_PROCESSOR, Layout, encoder_options
from engine.video.write.errors import rename_durably, writing
from engine.video.write.frame_builder import frame_of

SUFFIX = ".avi"
CONTAINER = "avi"
_BITEXACT = 0x0400  # AVFMT_FLAG_BITEXACT: no date, no version


class LosslessWriter:
    """Writes frames at a constant rate, as FFV1 in AVI; a context manager.

    AVI counts frames: the time base is the length of one, and nothing is rounded.


    The film appears under its name when it is complete and on the disk; until then it ends in
    ".part". Memory: some frames.

    Args:
        path: Of the film; an older one is replaced.
        video: What it shall be: size, pixel format, rate and colours.
        threads: Of the encoder.

    Raises:
        DiskFull, OutputUnwritable, OutputError: Also later, from `write` and at the end.
    """

    def __init__(self, path: Path, video: VideoInfo, *, threads: int = 1) -> None:
        self._path, self._picture = path, _picture(video, threads)
        self._part = path.with_name(path.name + ".part")
        self._frames = 0
        with writing(path):
            self._file = av.open(f"file:{self._part}", "w", format=CONTAINER)
            self._file.flags |= _BITEXACT
            self._stream = self._file.add_stream("ffv1")
            configure(self._stream.codec_context, self._picture)

    def write(self, planes: Sequence[NDArray[Any]]) -> None:
        """Take the next frame: planes [h, w] each, as in PlanarFrame."""
        picture = self._picture
        size = picture.size
        frame = frame_of(planes, size.width, size.height, picture.pixel_format)
        frame.pts, frame.time_base = self._frames, picture.time_base
        with writing(self._path):
            self._mux(self._stream.codec_context.encode(frame))
        self._frames += 1

    def __enter__(self) -> LosslessWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._discard()
            return
        try:
            with writing(self._path):
                self._mux(self._stream.codec_context.encode(None))
                self._file.close()
                rename_durably(self._part, self._path)
        except BaseException:
            self._discard()
            raise

    def _mux(self, packets: Sequence[av.Packet[Any]]) -> None:
        for packet in packets:
            packet.stream = self._stream
            packet.duration = 1
            self._file.mux_one(packet)

    def _discard(self) -> None:
        with suppress(FFmpegError, OSError):  # often the reason for discarding
            self._file.close()
        self._part.unlink(missing_ok=True)


def _picture(video: VideoInfo, threads: int) -> PicturePlan:
    layout: Layout = (video.chroma, video.bit_depth, video.has_alpha)
    rate = video.frame_rate or Fraction(25)
    return PicturePlan(
        size=video.size,
        codec="ffv1",
        encoder="ffv1",
        pixel_format=video.pixel_format,
        chroma=video.chroma,
        bit_depth=video.bit_depth,
        tags=video.tags,
        frame_rate=rate,
        time_base=1 / rate,
        options=encoder_options(
            ON_PROCESSOR["ffv1"], crf=0, speed="auto", layout=layout, size=video.size
        ),
        threads=threads,
    )
