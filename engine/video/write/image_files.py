"""Results that are pictures: finished files, kept in segments, exported at the end."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

from av import CodecContext, VideoFrame
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext

from engine.core import atomic_file
from engine.core.control import Control
from engine.core.errors import EncoderMissing, OutOfMemory, OutputError, memory_ran_out
from engine.core.file_access import reading
from engine.core.zip_reader import UnreadableZip, ZipReader
from engine.protocol.media import MediaInfo
from engine.protocol.plan import PicturePlan, Plan
from engine.video.colour_tags import colour_options, tag_like
from engine.video.read.images import sequence_file
from engine.video.read.picture_data import PictureData, read_picture_data
from engine.video.write.containers import output_suffix, picture_name
from engine.video.write.picture_data import kept, with_picture_data
from engine.video.write.segment_file import SegmentFile, writing


class ImageSegment:
    """Encodes frames to whole files, one after the other in one plain zip file.

    The table at the end of a zip file marks a complete one.

    Raises:
        EncoderMissing: The encoder refuses these settings.
    """

    def __init__(self, part: Path, picture: PicturePlan) -> None:
        self._picture = picture
        self._encoded(VideoFrame(picture.size.width, picture.size.height, picture.pixel_format))
        self._suffix = output_suffix("sequence", picture.codec)
        self._file = zipfile.ZipFile(part, "w", compression=zipfile.ZIP_STORED)

    def write(self, frame: VideoFrame, index: int) -> None:
        """Encode and append a picture."""
        entry = zipfile.ZipInfo(f"{index:08d}{self._suffix}")  # no date: same frames, same file
        with self._file.open(entry, "w", force_zip64=True) as out:
            out.write(self._encoded(frame))

    def finish(self) -> None:
        """Write the table and close."""
        self._file.close()

    def discard(self) -> None:
        """Close without regard to the content."""
        with suppress(OSError):  # a full disk is often the reason; the file is deleted anyway
            self._file.close()

    def _encoded(self, frame: VideoFrame) -> bytes:
        picture = self._picture
        try:
            context = CodecContext.create(picture.encoder, "w")
            assert isinstance(context, VideoCodecContext)
            context.width, context.height = frame.width, frame.height
            context.pix_fmt = picture.pixel_format
            context.time_base, context.framerate = Fraction(1, 25), picture.frame_rate
            context.sample_aspect_ratio = picture.sample_aspect
            context.options = {**picture.options, **colour_options(picture.tags)}
            context.open()
            tag_like(frame, context)
            packets = [*context.encode(frame), *context.encode(None)]
        except FFmpegError as err:
            if memory_ran_out(err):
                raise OutOfMemory("encoder", name=picture.encoder) from err
            raise EncoderMissing(
                "picture-refused",
                title=picture.codec.upper(),
                size=picture.size,
                reason=err.strerror,
                encoder=picture.encoder,
            ) from err
        return b"".join(bytes(packet) for packet in packets)


def export_images(
    media: MediaInfo,
    plan: Plan,
    segments: Sequence[SegmentFile],
    target: Path,
    *,
    control: Control,
    progress: Callable[[int, int], None],
) -> None:
    """Write the pictures of all segments.

    Args:
        media: The source; pictures of a sequence keep their names and indices.
        plan: "image" writes the file `target`, "sequence" pictures into a new folder of that name.
        segments: In order.
        target: File or folder; removed again when something goes wrong.
        control: Checked between pictures.
        progress: Called with pictures done and their number.

    Raises:
        Cancelled: The user stopped.
        DiskFull, OutputUnwritable: The pictures cannot be written.
        OutputError: A segment is damaged.
        InputError: A picture of the source, whose colour profile and EXIF are kept, is gone.

    Memory: two encoded pictures.
    """
    total = sum(len(segment.pts) for segment in segments)
    data_of = lru_cache(maxsize=1)(_source_data)  # images of an animation have one file
    try:
        with writing(target):
            if plan.container == "sequence":
                _clear(target)
                target.mkdir()
            times = (pts for segment in segments for pts in segment.pts)
            for number, (picture, pts) in enumerate(zip(_pictures(segments), times, strict=True)):
                control.check()
                is_one = plan.container == "image"
                place = pts if media.kind == "sequence" else number  # a part keeps its numbers
                data = kept(data_of(_source_of(media, pts)), plan.picture)
                picture = with_picture_data(picture, data, plan.picture.size)
                _save(target if is_one else target / picture_name(media, plan, place), picture)
                progress(number + 1, total)
    except BaseException:
        atomic_file.discard(target)
        raise


def _pictures(segments: Sequence[SegmentFile]) -> Iterator[bytes]:
    for segment in segments:
        try:
            with segment.path.open("rb") as file:
                archive = ZipReader(file)
                if len(archive.members) != len(segment.pts):
                    raise UnreadableZip(f"{len(archive.members)} images")
                for name in sorted(archive.members):
                    yield archive.read(name)
        except (UnreadableZip, OSError) as err:
            name = segment.path.name
            raise OutputError("segment-damaged", name=name, path=segment.path) from err


def _source_of(media: MediaInfo, pts: int) -> Path | None:
    """File of the image that a picture was made of; None of videos that are no animated image."""
    if media.kind == "sequence":
        return sequence_file(media.pattern, media.first_number + pts)
    is_animation = media.container in ("apng", "gif")
    is_image = (media.kind == "image" or is_animation) and not media.holds_latents
    return media.path if is_image else None


def _source_data(path: Path | None) -> PictureData:
    if path is None:
        return PictureData()
    with reading(path):
        return read_picture_data(path)


def _save(path: Path, picture: bytes) -> None:
    with path.open("wb") as file:
        file.write(picture)
        file.flush()
        os.fsync(file.fileno())


def _clear(target: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
