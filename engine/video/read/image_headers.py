"""Parts of image files: attributes of EXR, read and written; chunks, segments, boxes of others."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from engine.core.file_access import RetryingFile

EXR_MARK = b"v/1\x01"
_USUAL_BYTES, MOST_BYTES = 1 << 16, 1 << 24  # that are read of a header, and of any part
_MOST_CHUNKS = 1 << 16
_START = 8  # after mark and version
_LONG_NAMES = 0x0400  # bit of the version
_SHORT = 31  # letters of a name that needs no announcement
_PARTS = 0x1000  # bit of the version: several images, each with a header
_COLOURS = {b"R", b"G", b"B", b"A", b"Y", b"RY", b"BY"}
_CHANNEL_BYTES = 16  # after the name of a channel
# Attributes of how a file stores its pixels, of a small copy, and of the image's own size.
_OF_THE_FILE = frozenset(
    {
        *(b"channels", b"compression", b"dataWindow", b"displayWindow", b"lineOrder", b"tiles"),
        *(b"pixelAspectRatio", b"screenWindowCenter", b"screenWindowWidth", b"type", b"version"),
        *(b"chunkCount", b"maxSamplesPerPixel", b"preview", b"name", b"view", b"multiView"),
        *(b"dwaCompressionLevel", b"deepImageState", b"idManifest"),
        *(b"writer", b"gamma"),  # FFmpeg's own
    }
)
Attributes = Mapping[bytes, tuple[bytes, bytes]]  # type and value, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class ExrHeader:
    """The header of an image, the first one of a file with several."""

    pixel_aspect: float = 1.0  # width of a pixel over its height
    chromaticities: tuple[float, ...] = ()  # x and y of red, green, blue and white
    others: Attributes = field(default_factory=dict)  # beside these, and how pixels are stored
    channels: int = 0  # channels that are neither colours nor alpha
    parts: int = 1  # images in the file
    has_overscan: bool = False  # there are pixels outside of what is shown


def exr_header(data: bytes) -> ExrHeader:
    """Statements of the header at the beginning of an EXR file.

    Raises:
        ValueError: It is damaged, or not whole.
    """
    found, end = _attributes(data)
    parts, has_parts = 1, int.from_bytes(data[4:8], "little") & _PARTS
    while has_parts and data[end + 1 : end + 2] != b"\0":  # an empty header is the last one
        _, end = _attributes(data, end + 1)
        parts += 1
    names = found.get(b"channels", (b"", b"\0"))[1]
    channels, at = set[bytes](), 0
    while names[at : at + 1] not in (b"", b"\0"):
        end = names.index(b"\0", at)
        channels.add(names[at:end])
        at = end + 1 + _CHANNEL_BYTES
    aspect = found.get(b"pixelAspectRatio", (b"", b""))[1]
    colours = found.get(b"chromaticities", (b"", b""))[1]
    return ExrHeader(
        pixel_aspect=struct.unpack("<f", aspect)[0] if len(aspect) == 4 else 1.0,
        chromaticities=struct.unpack("<8f", colours) if len(colours) == 32 else (),
        others={n: one for n, one in found.items() if n not in _OF_THE_FILE | {b"chromaticities"}},
        channels=len(channels - _COLOURS),
        parts=parts,
        has_overscan=_has_overscan(found),
    )


def read_exr_header(read: Callable[[int], bytes]) -> ExrHeader:
    """Statements of the header of an EXR file, of which lists of objects may be long.

    Args:
        read: Returns the first n bytes of the file, or the whole file if it is shorter.

    Raises:
        ValueError: It is damaged, or longer than 16 MiB.
    """
    with suppress(ValueError):
        return exr_header(read(_USUAL_BYTES))
    return exr_header(read(MOST_BYTES))


def _has_overscan(found: Attributes) -> bool:
    """Whether the window of the pixels reaches beyond the one that is shown."""
    windows = [found.get(name, (b"", b""))[1] for name in (b"dataWindow", b"displayWindow")]
    if [len(one) for one in windows] != [16, 16]:
        return False
    data, shown = (struct.unpack("<4i", one) for one in windows)
    margins = (shown[0] - data[0], shown[1] - data[1], data[2] - shown[2], data[3] - shown[3])
    return any(margin > 0 for margin in margins)


def with_attributes(
    file: bytes, others: Attributes, chromaticities: tuple[float, ...] = ()
) -> bytes:
    """A finished file of one image in lines, as FFmpeg writes it, with more attributes.

    Args:
        file: The file.
        others: Result of `exr_header`.
        chromaticities: x and y of red, green, blue and white; () for none.
    """
    own, end = _attributes(file)
    added = {**own, **others}
    if chromaticities:
        values = struct.pack("<8f", *chromaticities)
        added[b"chromaticities"] = (b"chromaticities", values)
    text = b"".join(
        b"\0".join((name, kind, struct.pack("<I", len(value)) + value))
        for name, (kind, value) in added.items()
    )
    longest = max(len(word) for name, (kind, _) in added.items() for word in (name, kind))
    version = int.from_bytes(file[4:_START], "little") | (_LONG_NAMES if longest > _SHORT else 0)
    header = file[:4] + version.to_bytes(4, "little") + text + b"\0"
    (first,) = struct.unpack_from("<Q", file, end + 1)  # a table of places follows the header
    count = (first - end - 1) // 8
    places = struct.unpack_from(f"<{count}Q", file, end + 1)
    moved = struct.pack(f"<{count}Q", *(place + len(header) - end - 1 for place in places))
    return header + moved + file[first:]


def _attributes(data: bytes, at: int = _START) -> tuple[dict[bytes, tuple[bytes, bytes]], int]:
    """Attributes of the header at a place, and where it ends."""
    found = dict[bytes, tuple[bytes, bytes]]()
    while data[at : at + 1] != b"\0":
        parts = data[at : at + 512].split(b"\0", 2)
        at += len(parts[0]) + len(parts[1]) + 2 if len(parts) == 3 else len(data)
        size = int.from_bytes(data[at : at + 4], "little")
        value = data[at + 4 : at + 4 + size]
        at += 4 + size
        if at >= len(data):
            raise ValueError("the header of an EXR image has no end")
        found[parts[0]] = (parts[1], value)
    return found, at


# --- chunks, segments, boxes


def chunks(file: RetryingFile, *, start: int, order: str) -> Iterator[tuple[bytes, int, int]]:
    """Name, offset and size of chunks: of PNG ("big") or RIFF ("little")."""
    at = start
    for _ in range(_MOST_CHUNKS):
        head = bytes_at(file, at, 8)
        if len(head) < 8:
            return
        is_png = order == "big"
        name, size = (head[4:], head[:4]) if is_png else (head[:4], head[4:])
        count = int.from_bytes(size, "big" if is_png else "little")
        yield name, at + 8, count
        at += 8 + count + (4 if is_png else count % 2)


def segments(file: RetryingFile) -> Iterator[tuple[int, int, int]]:
    """Marker, offset and size of what is before the pixels of a JPEG."""
    at = 2
    for _ in range(_MOST_CHUNKS):
        head = bytes_at(file, at, 4)
        if len(head) < 4 or head[0] != 0xFF or head[1] == 0xDA:
            return
        if head[1] == 0xFF:  # filler
            at += 1
            continue
        size = int.from_bytes(head[2:], "big")
        yield head[1], at + 4, max(0, size - 2)
        at += 2 + max(2, size)


def boxes(file: RetryingFile, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Name, offset and size of the contents of boxes."""
    for _ in range(_MOST_CHUNKS):
        head = bytes_at(file, at, 16) if at + 8 <= end else b""
        size, name, start = int.from_bytes(head[:4], "big"), head[4:8], 8
        if size == 1:
            size, start = int.from_bytes(head[8:16], "big"), 16
        if size < start:  # 0 goes to the end of the file, as the pixels do
            return
        yield name, at + start, size - start
        at += size


def bytes_at(file: RetryingFile, offset: int, count: int) -> bytes:
    """Bytes at a place; b"" where it would be too many."""
    if count > MOST_BYTES:
        return b""
    file.seek(offset)
    return file.read(count)
