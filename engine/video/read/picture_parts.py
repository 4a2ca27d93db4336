"""Parts of an image file besides the image that is used: pages, layers, maps, a video."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

from engine.core.file_access import RetryingFile
from engine.protocol.media import Statement
from engine.video.read.exif import MARKS
from engine.video.read.heif import Heif, HeifDamaged
from engine.video.read.image_headers import read_exr_header
from engine.video.read.media_file import jpeg_end

_MOST_PAGES = 1 << 16
_MOST_TAGS = 1000
_KIND_OF_IMAGE, _COLOURS, _BELOW, _DNG = 0x00FE, 0x0106, 0x014A, 0xC612  # tags of TIFF
_IS_REDUCED = 1  # bit of the kind of image: a smaller copy
_OF_A_SENSOR = {32803, 34892}  # colours of each pixel by a mosaic of filters, linear ones
_SAMPLES = {3: "H", 4: "I"}  # TIFF's types of whole numbers
_CANON = b"CR"
_JPEG = b"\xff\xd8\xff"
_MPF, _XMP = b"MPF\0", b"http://ns.adobe.com/xap/1.0/\0"
_GAIN_MAP = re.compile(rb"hdrgm:Version|HDRGainMap|urn:iso:std:iso:ts:21496:-1")
_DEPTH_MAP = re.compile(rb"GDepth:|Semantic=\"Depth\"")
_VIDEO = re.compile(rb"....ftyp(?:mp4|iso|avc|qt|M4V|3gp)", re.DOTALL)
_HEAD_BYTES = 1 << 16  # of a further image: its metadata
_ENTRIES, _ENTRY_BYTES = 0xB002, 16  # the tag of the list of images in a JPEG
_THUMBNAIL = 0x01  # a kind of image there


def parts_beside(path: Path, codec: str) -> tuple[Statement, ...]:
    """Everything of a picture's file that is no part of its result, by kind and number.

    Kinds: "pages", "layers", "channels", "images", "mattes", "depth-map", "gain-map",
    "motion-video", "overscan". Thumbnails do not count.

    Args:
        path: The picture.
        codec: Result of `picture_codec`.

    Raises:
        OSError: The file cannot be read.
    """
    find = _FINDERS.get(codec)
    if find is None:
        return ()
    with RetryingFile(path) as file:
        found = find(file)
        if file.failure is not None:
            raise file.failure
    return tuple(Statement(kind=kind, value=str(found[kind])) for kind in sorted(found))


def is_camera_raw(data: bytes) -> bool:
    """Whether the first image of a TIFF structure is only a preview of one that is not read.

    True of DNG and of the files of most cameras: CR2, NEF, ARW and others.
    """
    first = _directory(data, _first(data))
    if data[8:10] == _CANON or _DNG in first or first.get(_KIND_OF_IMAGE, (0,))[0] & _IS_REDUCED:
        return True
    below = [_directory(data, at) for at in first.get(_BELOW, ())]
    return any(_OF_A_SENSOR & set(tags.get(_COLOURS, ())) for tags in (first, *below))


def _first(data: bytes) -> int:
    order = MARKS.get(data[:4])
    return struct.unpack_from(f"{order}I", data, 4)[0] if order and len(data) >= 8 else 0


def _directory(data: bytes, at: int) -> dict[int, tuple[int, ...]]:
    """Whole numbers of a directory by their tags; {} where there is none."""
    found, _ = _tags_and_next(lambda offset, count: data[offset : offset + count], data[:4], at)
    return found


def _tags_and_next(
    read_at: Callable[[int, int], bytes], mark: bytes, at: int
) -> tuple[dict[int, tuple[int, ...]], int]:
    """Whole numbers of a TIFF directory by their tags, and the place of the next directory."""
    order, found = MARKS.get(mark, "<"), dict[int, tuple[int, ...]]()
    try:
        (count,) = struct.unpack(f"{order}H", read_at(at, 2))
        rows = read_at(at + 2, 12 * count + 4)
        entries = struct.iter_unpack(f"{order}HHI4s", rows[: 12 * count])
        for number, kind, items, value in entries if at and count <= _MOST_TAGS else ():
            size = {3: 2, 4: 4}.get(kind, 0) * items
            if 0 < items <= _MOST_TAGS and kind in _SAMPLES:
                if size > 4:
                    value = read_at(struct.unpack(f"{order}I", value)[0], size)
                found[number] = struct.unpack(f"{order}{items}{_SAMPLES[kind]}", value[:size])
        return found, struct.unpack(f"{order}I", rows[12 * count :])[0] if at else 0
    except struct.error:
        return found, 0


def _in_tiff(file: RetryingFile) -> dict[str, int]:
    head = _at(file, 0, 8)
    at, pages, seen = _first(head), 0, set[int]()
    while at and at not in seen and len(seen) < _MOST_PAGES:
        seen.add(at)
        tags, at = _tags_and_next(lambda offset, count: _at(file, offset, count), head[:4], at)
        pages += not tags.get(_KIND_OF_IMAGE, (0,))[0] & _IS_REDUCED
    return {"pages": pages - 1} if pages > 1 else {}


def _in_jpeg(file: RetryingFile) -> dict[str, int]:
    end = jpeg_end(file)
    if end is None:
        return {}
    data = _at(file, 0, end)
    found = {"depth-map": 1} if _DEPTH_MAP.search(data) else dict[str, int]()
    for at in _further_images(data):
        head = _at(file, at, _HEAD_BYTES)
        kind = "gain-map" if _GAIN_MAP.search(head) else "images"
        found[kind] = found.get(kind, 0) + 1
    following = 0 if _MPF in data else _following_jpegs(file, end)
    if following:
        found["images"] = following
    file.seek(end)
    if _VIDEO.search(file.read_all()):
        found["motion-video"] = 1
    return found


def _following_jpegs(file: RetryingFile, end: int | None) -> int:
    """Number of JPEGs without a list that follow one another, as in Motion JPEG."""
    count = 0
    while end is not None and count < _MOST_PAGES and _at(file, end, 3) == _JPEG:
        end = jpeg_end(file, end)
        count += 1
    return count


def _further_images(data: bytes) -> list[int]:
    """Places of images after a JPEG, by its list (CIPA DC-007); without smaller copies."""
    start = data.find(_MPF) + len(_MPF)
    mark = data[start : start + 4]
    if start < len(_MPF) or mark not in MARKS:
        return []
    order, table = MARKS[mark], data[start:]
    try:
        (at,) = struct.unpack_from(f"{order}I", table, 4)
        (count,) = struct.unpack_from(f"{order}H", table, at)
        rows = struct.iter_unpack(f"{order}HHII", table[at + 2 : at + 2 + 12 * count])
        size, place = next((size, place) for tag, _, size, place in rows if tag == _ENTRIES)
        entries = struct.iter_unpack(f"{order}IIIHH", table[place : place + size])
        kinds = [(attributes >> 16 & 0xFF, offset) for attributes, _, offset, _, _ in entries]
    except (struct.error, StopIteration):
        return []
    return [start + offset for kind, offset in kinds if offset and kind != _THUMBNAIL]


def _in_psd(file: RetryingFile) -> dict[str, int]:
    """Colour table and resources come before the layers, each after its size."""
    at = 26
    for _ in range(2):
        at += 4 + int.from_bytes(_at(file, at, 4), "big")
    has_layers = any(_at(file, at, 4))  # else the whole image follows
    count = int.from_bytes(_at(file, at + 8, 2), "big", signed=True)  # below 0: with merged alpha
    return {"layers": abs(count)} if has_layers and abs(count) > 1 else {}


def _in_exr(file: RetryingFile) -> dict[str, int]:
    try:
        header = read_exr_header(lambda count: _at(file, 0, count))
    except ValueError:
        return {}
    found = {"channels": header.channels, "images": header.parts - 1}
    found["overscan"] = int(header.has_overscan)
    return {kind: count for kind, count in found.items() if count}


def _in_heif(file: RetryingFile) -> dict[str, int]:
    try:
        return Heif(lambda offset, count: _at(file, offset, count)).left_out()
    except HeifDamaged:
        return {}


def _at(file: RetryingFile, offset: int, count: int) -> bytes:
    file.seek(offset)
    return file.read(count)


_FINDERS: dict[str, Callable[[RetryingFile], dict[str, int]]] = {
    "tiff": _in_tiff,
    "mjpeg": _in_jpeg,
    "psd": _in_psd,
    "exr": _in_exr,
    "heic": _in_heif,
    "avif": _in_heif,
}
