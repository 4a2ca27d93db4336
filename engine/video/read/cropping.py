"""Cropping that a container states: PixelCrop of Matroska, clean aperture of MP4 and MOV.

FFmpeg's decoders crop what the coded stream states; what the container states they leave to the
caller, and PyAV 18.1 does not show it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.file_access import RetryingFile, reading
from engine.core.geometry import Margins, Size
from engine.protocol.media import VideoInfo, subsampling
from engine.video.read.ebml import (
    CLUSTER,
    DISPLAY_HEIGHT,
    DISPLAY_WIDTH,
    SEGMENT,
    TRACK_ENTRY,
    TRACKS,
    VIDEO,
    children,
    number_at,
)
from engine.video.read.frames import Plane

if TYPE_CHECKING:
    from av.video.stream import VideoStream

_TRACK_TYPE, _WIDTH, _HEIGHT = 0x83, 0xB0, 0xBA
_CROP = (0x54CC, 0x54BB, 0x54DD, 0x54AA)  # left, top, right, bottom
_VIDEO_TRACK = 1
_MOST_BYTES = 16 << 20  # of the headers of all tracks
_MOST_PARTS = 1 << 12  # of a file, or of a box
_FIELDS_BYTES = 78  # of a video's sample description, before its boxes


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedCrop:
    """What a container crops of its frames.

    Attributes:
        size: Of the frames before it, px.
        margins: What is cropped.
        display: Width and height that it is to be shown with, in any unit; None where the file
            states the shape of pixels instead, or nothing.
    """

    size: Size
    margins: Margins
    display: Size | None = None


def stated_crop(path: Path, container: str, stream: VideoStream) -> StatedCrop | None:
    """What a container crops of a video; None for most files, and for damaged headers.

    Raises:
        InputError: The file cannot be read.

    Memory: the headers of its tracks, 16 MiB at most.
    """
    if "matroska" not in container and "mp4" not in container:
        return None
    with reading(path), RetryingFile(path) as file:
        if "matroska" in container:
            number = [one.index for one in stream.container.streams.video].index(stream.index)
            found = _of_matroska(_tracks_of(file), number)
        else:
            found = _of_mp4(file, stream.id)
        if file.failure is not None:
            raise file.failure
    return found


def cropped(video: VideoInfo, stated: StatedCrop | None, coded_aspect: Fraction) -> VideoInfo:
    """A video as its container crops it; the same where that makes no sense for its frames.

    Args:
        video: As decoded.
        stated: By the container.
        coded_aspect: Width of a pixel over its height, as the coded stream states; 1 where it
            states nothing.
    """
    if stated is None or stated.margins == Margins() or stated.size != video.size:
        return video  # frames of another size: the decoder has cropped them already
    part = stated.margins.inside(video.size)
    if min(*_sides(stated.margins), part.width - 1, part.height - 1) < 0:
        return video
    aspect = video.sample_aspect
    if stated.display is not None:
        aspect = _aspect(stated.display, part, stated.size, coded_aspect)
    return replace(video, size=part, cropped=stated.margins, sample_aspect=aspect)


def shown(planes: tuple[Plane, ...], video: VideoInfo) -> tuple[Plane, ...]:
    """Planes of a decoded frame without what its container crops."""
    if video.cropped == Margins():
        return planes
    across, down = subsampling(video.chroma)
    found: list[Plane] = []
    for number, plane in enumerate(planes):
        x, y = (across, down) if number in (1, 2) else (1, 1)
        left, top = video.cropped.left // x, video.cropped.top // y
        width, height = -(-video.size.width // x), -(-video.size.height // y)
        part: Plane = plane[top : top + height, left : left + width].copy()
        found.append(part)
    return tuple(found)


def _sides(margins: Margins) -> tuple[int, int, int, int]:
    return margins.left, margins.top, margins.right, margins.bottom


def _aspect(display: Size, part: Size, whole: Size, coded: Fraction) -> Fraction:
    """Shape of the pixels of a part that is shown with a size.

    The size is that of the part; muxers that crop without decoding leave that of the whole, which
    shows where the coded stream then has the same shape of pixels.
    """
    by_part, by_whole = (
        Fraction(display.width * size.height, display.height * size.width) for size in (part, whole)
    )
    rounding = Fraction(1, min(display.width, display.height))
    is_whole = abs(by_whole / coded - 1) <= rounding
    return coded if is_whole and abs(by_part - coded) > abs(by_whole - coded) else by_part


# --- Matroska and WebM


def _tracks_of(file: RetryingFile) -> bytes:
    """Content of the element with all tracks; b"" where none is found before the first frame."""
    at = 0
    for _ in range(_MOST_PARTS):
        head = _at(file, at, 12)
        if len(head) < 12:
            break
        name, after = number_at(head, 0, keep_marker=True)
        size, content = number_at(head, after, keep_marker=False)
        if name == TRACKS:
            return _at(file, at + content, min(size, _MOST_BYTES))
        if name == CLUSTER:
            break
        at += content if name == SEGMENT else content + size
    return b""


def _of_matroska(tracks: bytes, number: int) -> StatedCrop | None:
    entries = children(tracks, 0, len(tracks), TRACK_ENTRY)
    films = [
        (entry.content, entry.end)
        for entry in entries
        if _value(tracks, (entry.content, entry.end), _TRACK_TYPE) == _VIDEO_TRACK
    ]
    if number >= len(films):
        return None
    video = next(children(tracks, *films[number], VIDEO), None)
    if video is None:
        return None
    inside = video.content, video.end
    display = _size(tracks, inside, DISPLAY_WIDTH, DISPLAY_HEIGHT)
    return StatedCrop(
        size=_size(tracks, inside, _WIDTH, _HEIGHT),
        margins=Margins(*(_value(tracks, inside, name) for name in _CROP)),
        display=None if display.is_empty else display,
    )


def _size(data: bytes, inside: tuple[int, int], width: int, height: int) -> Size:
    return Size(_value(data, inside, width), _value(data, inside, height))


def _value(data: bytes, inside: tuple[int, int], name: int) -> int:
    """The integer in an element; 0 where there is none."""
    found = next(children(data, *inside, name), None)
    return int.from_bytes(data[found.content : found.end][:8], "big") if found is not None else 0


# --- MP4 and MOV


def _of_mp4(file: RetryingFile, track: int) -> StatedCrop | None:
    for movie in _inside(file, (0, file.size), b"moov"):
        for found in _inside(file, movie, b"trak"):
            header = next(_inside(file, found, b"tkhd"), (0, 0))
            stated = _content(file, header, 100)
            at = 20 if stated[:1] == b"\1" else 12
            if int.from_bytes(stated[at : at + 4], "big") == track:
                return _of_track(file, found, stated)
    return None


def _of_track(file: RetryingFile, track: tuple[int, int], header: bytes) -> StatedCrop | None:
    where = track
    for name in (b"mdia", b"minf", b"stbl", b"stsd"):
        where = next(_inside(file, where, name), (0, 0))
    description = next(_boxes(file, where[0] + 8, where[1]), None)
    if description is None:
        return None
    _, start, end = description
    fields = _content(file, (start, end), _FIELDS_BYTES)
    size = Size(*(int.from_bytes(fields[at : at + 2], "big") for at in (24, 26)))
    boxes = {name: (first, last) for name, first, last in _boxes(file, start + _FIELDS_BYTES, end)}
    if b"clap" not in boxes:
        return None
    margins = _clean_aperture(_content(file, boxes[b"clap"], 32), size)
    display = Size(*(int.from_bytes(header[at : at + 2], "big") for at in (-8, -4)))
    states_pixels = b"pasp" in boxes or display == size or display.is_empty
    if margins is None:
        return None
    return StatedCrop(size=size, margins=margins, display=None if states_pixels else display)


def _clean_aperture(data: bytes, size: Size) -> Margins | None:
    """Margins around the clean aperture (ISO/IEC 14496-12): its sides, and how far off-centre."""
    values = [int.from_bytes(data[at : at + 4], "big", signed=True) for at in range(0, 32, 4)]
    if len(data) < 32 or not all(values[1::2]):
        return None
    width, height, across, down = (Fraction(values[n], values[n + 1]) for n in (0, 2, 4, 6))
    left, top = ((size.width - width) / 2 + across, (size.height - height) / 2 + down)
    right, bottom = size.width - left - width, size.height - top - height
    return Margins(round(left), round(top), round(right), round(bottom))


def _inside(file: RetryingFile, where: tuple[int, int], name: bytes) -> Iterator[tuple[int, int]]:
    return ((start, end) for found, start, end in _boxes(file, *where) if found == name)


def _boxes(file: RetryingFile, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Name of each box, and where its content starts and ends."""
    for _ in range(_MOST_PARTS):
        head = _at(file, at, 16) if at + 8 <= end else b""
        size, name, start = int.from_bytes(head[:4], "big"), head[4:8], at + 8
        if size == 1:
            size, start = int.from_bytes(head[8:16], "big"), at + 16
        elif size == 0:
            size = end - at  # reaches to the end
        if len(head) < 8 or at + size < start:
            return
        yield name, start, min(at + size, end)
        at += size


def _content(file: RetryingFile, where: tuple[int, int], count: int) -> bytes:
    return _at(file, where[0], min(count, where[1] - where[0]))


def _at(file: RetryingFile, offset: int, count: int) -> bytes:
    if offset >= file.size:
        return b""
    file.seek(offset)
    return file.read(count)
