"""A segment of pictures: PNG or TIFF files, finished, one after the other in one plain zip file."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

from av import CodecContext, VideoFrame
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext

from engine.core.errors import EncoderMissing
from engine.protocol.plan import PicturePlan
from engine.video.write.encoders import colour_options


class PictureCoder:
    """Encodes frames to whole PNG or TIFF files, each by itself.

    Raises:
        EncoderMissing: The encoder refuses these settings.
    """

    def __init__(self, picture: PicturePlan) -> None:
        self._picture = picture
        self.encode(VideoFrame(picture.size.width, picture.size.height, picture.pixel_format))

    def encode(self, frame: VideoFrame) -> bytes:
        """One picture as the bytes of its file."""
        try:
            context = CodecContext.create(self._picture.encoder, "w")
            assert isinstance(context, VideoCodecContext)
            context.width, context.height = frame.width, frame.height
            context.pix_fmt = self._picture.pixel_format
            context.time_base = Fraction(1, 25)
            context.sample_aspect_ratio = self._picture.sample_aspect
            context.options = {**self._picture.options, **colour_options(self._picture.tags)}
            packets = [*context.encode(frame), *context.encode(None)]
        except FFmpegError as err:
            raise EncoderMissing(
                f"{self._picture.codec.upper()} cannot be written at {self._picture.size}: "
                f"{err.strerror}.",
                encoder=self._picture.encoder,
            ) from err
        return b"".join(bytes(packet) for packet in packets)


class PicturePack:
    """Writes the zip file; its table at the end tells a complete one."""

    def __init__(self, part: Path, codec: str) -> None:
        self._suffix = ".tif" if codec == "tiff" else ".png"
        self._file = zipfile.ZipFile(part, "w", compression=zipfile.ZIP_STORED)

    def add(self, index: int, picture: bytes) -> None:
        """Append a finished picture."""
        entry = zipfile.ZipInfo(f"{index:08d}{self._suffix}")  # no date: same frames, same file
        with self._file.open(entry, "w", force_zip64=True) as out:
            out.write(picture)

    def finish(self) -> None:
        """Write the table and close."""
        self._file.close()

    def discard(self) -> None:
        """Close without caring about the content."""
        with suppress(OSError):  # a full disk is often the reason; the file is deleted anyway
            self._file.close()


def pictures_in(pack: Path) -> Iterator[bytes]:
    """The pictures of a segment in order.

    Raises:
        zipfile.BadZipFile: Not a complete segment.
    """
    with zipfile.ZipFile(pack) as file:
        for name in sorted(file.namelist()):
            yield file.read(name)
