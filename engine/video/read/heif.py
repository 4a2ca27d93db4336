"""Photographs in HEIF files, such as HEIC and AVIF: their items, and the frame they make together.

A HEIF file is a list of items: coded images, grids of tiles, metadata. The primary item is the
photograph; of a phone it is a grid. All others belong to it (alpha, EXIF) or are beside it (depth
and gain maps, further images).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import av
import numpy as np

from engine.core.geometry import Box, Size
from engine.protocol.media import subsampling
from engine.video.colour.planes import PixelLayout, frame_of, layout_of, planar_format, planes_of
from engine.video.read.frames import Plane
from engine.video.read.media_file import MAX_SIDE

ReadAt = Callable[[int, int], bytes]  # offset, bytes: shorter at the end of the file
Decode = Callable[[str, bytes, bytes], av.VideoFrame]  # codec, extradata, data

# Items that hold an image: FFmpeg's decoder, and the property with its header.
_CODECS = {"hvc1": ("hevc", "hvcC"), "av01": ("libdav1d", "av1C")}
_IMAGES = frozenset({*_CODECS, "grid", "iden", "iovl", "tmap", "jpeg", "avc1", "vvc1", "j2k1"})
_VIDEOS = frozenset({b"moov", b"mpvd"})  # a sequence of images, the video of a motion photo
_ALPHA = ("urn:mpeg:mpegB:cicp:systems:auxiliary:alpha", "urn:mpeg:hevc:2015:auxid:1")
_DEPTH = ("urn:mpeg:mpegB:cicp:systems:auxiliary:depth", "urn:mpeg:hevc:2015:auxid:2")
_GAIN_MAP = "urn:com:apple:photo:2020:aux:hdrgainmap"
_MOST_BYTES = 1 << 24  # of the table of items, and of EXIF
_MOST_BOXES = 1 << 16
_MOST_DERIVATIONS = 4
_LIMITED_RANGE, _FULL_RANGE = 1, 2
_UNSPECIFIED = 2  # of primaries, transfer and matrix


class HeifDamaged(ValueError):
    """The file is no HEIF file that makes sense."""


class HeifCutShort(HeifDamaged):
    """A part of it lies beyond the end of the file."""


class HeifUnknown(ValueError):
    """The photograph is coded in a way that is not read; `coding` names it."""

    def __init__(self, coding: str) -> None:
        super().__init__(coding)
        self.coding = coding


@dataclass(slots=True)
class Item:
    """An entry of the table: `kind` is its four-letter code; properties are in their order."""

    kind: str = ""
    in_table: bool = False  # its extents are offsets into the box "idat"
    extents: list[tuple[int, int]] = field(default_factory=list)  # offset, bytes
    properties: list[tuple[str, bytes]] = field(default_factory=list)
    references: dict[str, list[int]] = field(default_factory=dict)

    def of(self, kind: str) -> bytes:
        """A property; b"" where there is none."""
        return next((data for name, data in self.properties if name == kind), b"")

    @property
    def auxiliary(self) -> str:
        """What kind of auxiliary image it is."""
        return self.of("auxC")[4:].partition(b"\0")[0].decode("latin-1")


class Heif:
    """The items of a HEIF file.

    Args:
        read_at: Reads from the file.

    Raises:
        HeifCutShort, HeifDamaged: See there.
    """

    def __init__(self, read_at: ReadAt) -> None:
        self._read_at = read_at
        self.items: dict[int, Item] = {}
        self._table = b""
        self._primary = -1
        self.has_video = False
        meta = b""
        for kind, offset, size in _top_level(read_at):
            self.has_video |= kind in _VIDEOS
            if kind == b"meta" and not meta:
                meta = self._bytes_at(offset, size)
        self._read_table(meta[4:])
        if self._primary not in self.items:
            raise HeifDamaged("no primary item")

    @property
    def primary(self) -> Item:
        """The photograph."""
        return self.items[self._primary]

    def data_of(self, item: Item) -> bytes:
        """The content of an item.

        Raises:
            HeifCutShort: It lies beyond the end of the file.
        """
        if item.in_table:
            return b"".join(self._table[at : at + size] for at, size in item.extents)
        return b"".join(self._bytes_at(at, size) for at, size in item.extents)

    def exif(self) -> bytes:
        """The TIFF structure of the photograph's EXIF; b"" without one."""
        for item in self._described("Exif"):
            if sum(size for _, size in item.extents) <= _MOST_BYTES:
                data = self.data_of(item)
                return data[4 + int.from_bytes(data[:4], "big") :]
        return b""

    def profile(self) -> bytes:
        """The ICC profile; b"" without one."""
        return next((data[4:] for data in self._colours() if data[:4] in (b"prof", b"rICC")), b"")

    def turn(self) -> tuple[int, bool]:
        """Clockwise degrees from the stored to the seen image, and its mirroring after that."""
        degrees, is_mirrored = 0, False
        for kind, data in self.primary.properties:
            if kind == "irot" and data:
                back = 90 * (data[0] & 3)
                degrees += back if is_mirrored else -back
            elif kind == "imir" and data:
                degrees += 0 if data[0] & 1 else 180  # left and right change places, or the lines
                is_mirrored = not is_mirrored
        return degrees % 360, is_mirrored

    def left_out(self) -> dict[str, int]:
        """Numbers of images, by kind, that are no part of the photograph; without thumbnails."""
        parts = {part for item in self.items.values() for part in item.references.get("dimg", ())}
        parts |= {number for number in (self._primary, self._alpha()) if number is not None}
        found = dict[str, int]()
        for number, item in self.items.items():
            if number in parts or item.kind not in _IMAGES or "thmb" in item.references:
                continue
            kind = _kind_beside(item)
            if kind != "alpha":  # that of another image
                found[kind] = found.get(kind, 0) + 1
        if self.has_video:
            found["motion-video"] = 1
        return found

    def size(self) -> Size:
        """Width and height that the file states of the stored image; 1x1 where it states none.

        Raises:
            HeifCutShort, HeifDamaged: See there.
        """
        stated = self.primary.of("ispe")
        if self.primary.kind == "grid":
            return _grid_of(self.data_of(self.primary))[2]
        if len(stated) < 12:
            return Size(1, 1)
        return Size(int.from_bytes(stated[4:8], "big"), int.from_bytes(stated[8:12], "big"))

    def frame(self, decode: Decode) -> av.VideoFrame:
        """The photograph as stored, with its alpha, cropped, before it is turned.

        Args:
            decode: Decodes one image.

        Raises:
            HeifUnknown, HeifCutShort, HeifDamaged: See there.
            av.error.FFmpegError: An image cannot be decoded.

        Memory: all planes twice.
        """
        colour = self._image(self._primary, decode, _MOST_DERIVATIONS)
        alpha = self._alpha()
        if alpha is not None:
            if "prem" in self.primary.references:
                raise HeifUnknown("premultiplied alpha")
            kinds = {self.items[part].kind for part in self._parts(alpha, _MOST_DERIVATIONS)}
            image = self._image(alpha, decode, _MOST_DERIVATIONS)
            is_limited = "av01" in kinds and image.color_range == _LIMITED_RANGE
            colour = _with_alpha(colour, image, is_limited=is_limited)
        crop = _crop_of(self.primary.of("clap"), Size(colour.width, colour.height))
        frame = colour if crop is None else _cropped(colour, crop)
        return _tagged(frame, self._colours())

    # --- the table of items

    def _bytes_at(self, offset: int, size: int) -> bytes:
        data = self._read_at(offset, size)
        if len(data) < size:
            raise HeifCutShort(f"{size} bytes at {offset}")
        return data

    def _read_table(self, meta: bytes) -> None:
        if len(meta) > _MOST_BYTES:
            raise HeifDamaged("the table of items is too large")
        properties: list[tuple[str, bytes]] = []
        try:
            for kind, data in _boxes(meta):
                reader = _Reader(data)
                match kind:
                    case "pitm":
                        self._primary = reader.number(2 if reader.full()[0] == 0 else 4)
                    case "iinf":
                        self._read_infos(reader)
                    case "iloc":
                        self._read_places(reader)
                    case "iref":
                        self._read_references(reader)
                    case "idat":
                        self._table = data
                    case "iprp":
                        inner = list(_boxes(data))
                        properties = list(_boxes(next((d for k, d in inner if k == "ipco"), b"")))
                        for _, entry in (one for one in inner if one[0] == "ipma"):
                            self._read_associations(_Reader(entry), properties)
        except IndexError as err:
            raise HeifDamaged("the table of items is damaged") from err

    def _item(self, number: int) -> Item:
        return self.items.setdefault(number, Item())

    def _read_infos(self, reader: _Reader) -> None:
        version, _ = reader.full()
        reader.number(2 if version == 0 else 4)
        for kind, data in _boxes(reader.rest()):
            if kind == "infe":
                one = _Reader(data)
                version, _ = one.full()
                item = self._item(one.number(4 if version == 3 else 2))
                one.number(2)  # protection
                item.kind = one.take(4).decode("latin-1")

    def _read_places(self, reader: _Reader) -> None:
        version, _ = reader.full()
        sizes, more = reader.number(1), reader.number(1)
        wide = 4 if version == 2 else 2
        for _ in range(reader.number(wide)):
            item = self._item(reader.number(wide))
            item.in_table = version > 0 and reader.number(2) & 15 == 1
            reader.number(2)  # the file itself
            base = reader.number(more >> 4)
            for _ in range(reader.number(2)):
                if version > 0:
                    reader.number(more & 15)
                item.extents.append((base + reader.number(sizes >> 4), reader.number(sizes & 15)))

    def _read_references(self, reader: _Reader) -> None:
        wide = 2 if reader.full()[0] == 0 else 4
        for kind, data in _boxes(reader.rest()):
            one = _Reader(data)
            numbers = self._item(one.number(wide)).references.setdefault(kind, [])
            numbers += [one.number(wide) for _ in range(one.number(2))]

    def _read_associations(self, reader: _Reader, properties: list[tuple[str, bytes]]) -> None:
        version, flags = reader.full()
        for _ in range(reader.number(4)):
            item = self._item(reader.number(2 if version == 0 else 4))
            for _ in range(reader.number(1)):
                place = reader.number(2) & 0x7FFF if flags & 1 else reader.number(1) & 0x7F
                if 0 < place <= len(properties):
                    item.properties.append(properties[place - 1])

    # --- what belongs to the photograph

    def _described(self, kind: str) -> Iterator[Item]:
        """Items of a kind, those that describe the photograph first."""
        found = [item for item in self.items.values() if item.kind == kind]
        yield from sorted(found, key=lambda i: self._primary not in i.references.get("cdsc", ()))

    def _alpha(self) -> int | None:
        for number, item in self.items.items():
            if self._primary in item.references.get("auxl", ()) and item.auxiliary in _ALPHA:
                return number
        return None

    def _parts(self, number: int, depth: int) -> Iterator[int]:
        """An item, and all of which it is made."""
        yield number
        if depth and number in self.items:
            for part in self.items[number].references.get("dimg", ()):
                yield from self._parts(part, depth - 1)

    def _colours(self) -> list[bytes]:
        """Colour information of the photograph, else that of its first part."""
        for number in self._parts(self._primary, _MOST_DERIVATIONS):
            item = self.items.get(number, Item())
            found = [data for kind, data in item.properties if kind == "colr"]
            if found:
                return found
        return []

    # --- pixels

    def _image(self, number: int, decode: Decode, depth: int) -> av.VideoFrame:
        item = self.items.get(number)
        if item is None or not depth:
            raise HeifDamaged(f"no item {number}")
        if item.kind in _CODECS:
            codec, header = _CODECS[item.kind]
            return decode(codec, item.of(header), self.data_of(item))
        parts = item.references.get("dimg", [])
        if item.kind in ("iden", "tmap") and parts:  # a tone map is made of an image and its map
            return self._image(parts[0], decode, depth - 1)
        if item.kind != "grid":
            raise HeifUnknown(item.kind)
        columns, rows, size = _grid_of(self.data_of(item))
        if max(size.width, size.height) > MAX_SIDE:
            raise HeifDamaged(f"a grid of {size}")
        if len(parts) != columns * rows:
            raise HeifDamaged(f"{len(parts)} tiles of {columns}x{rows}")
        tiles = (self._image(part, decode, depth - 1) for part in parts)
        return _assembled(tiles, columns, rows, size)


def _kind_beside(item: Item) -> str:
    kind = item.auxiliary
    if item.kind == "tmap" or kind == _GAIN_MAP:
        return "gain-map"
    if not kind:
        return "images"
    if kind in _DEPTH:
        return "depth-map"
    return "alpha" if kind in _ALPHA else "mattes"


# --- boxes


def _top_level(read_at: ReadAt) -> Iterator[tuple[bytes, int, int]]:
    """Kind, offset and size of the content of each box of a file."""
    at = 0
    for _ in range(_MOST_BOXES):
        head = read_at(at, 16)
        if len(head) < 8:
            return
        size, kind, length = int.from_bytes(head[:4], "big"), head[4:8], 8
        if size == 1:
            size, length = int.from_bytes(head[8:16], "big"), 16
        if size == 0:  # to the end, which only pixels do
            yield kind, at + length, 0
            return
        if size < length:
            return
        yield kind, at + length, size - length
        at += size


def _boxes(data: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    while at + 8 <= len(data):
        size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        if size == 0:
            size = len(data) - at
        if size < 8 or at + size > len(data):
            raise HeifDamaged(f"a box of {size} bytes")
        yield kind.decode("latin-1"), data[at + 8 : at + size]
        at += size


class _Reader:
    """Numbers of a box; IndexError beyond its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise IndexError(end)
        found, self._at = self._data[self._at : end], end
        return found

    def number(self, count: int) -> int:
        """An unsigned number of some bytes."""
        return int.from_bytes(self.take(count), "big")

    def full(self) -> tuple[int, int]:
        """Version and flags."""
        return self.number(1), self.number(3)

    def rest(self) -> bytes:
        return self._data[self._at :]


def _grid_of(data: bytes) -> tuple[int, int, Size]:
    """Columns, rows and size of the image that the tiles make."""
    reader = _Reader(data)
    try:
        reader.number(1)
        wide = 4 if reader.number(1) & 1 else 2
        rows, columns = reader.number(1) + 1, reader.number(1) + 1
        size = Size(reader.number(wide), reader.number(wide))
    except IndexError as err:
        raise HeifDamaged("the grid of tiles is damaged") from err
    return columns, rows, size


def _crop_of(clap: bytes, size: Size) -> Box | None:
    """The clean aperture in whole pixels; None where it is all of the image."""
    if not clap:
        return None
    reader = _Reader(clap)
    try:
        values = [reader.number(4) for _ in range(8)]
    except IndexError as err:
        raise HeifDamaged("the clean aperture is damaged") from err
    below = values[1::2]
    above = [*values[:3:2], *(v - (1 << 32) if v >> 31 else v for v in values[4::2])]
    if not all(below):
        raise HeifDamaged("the clean aperture is damaged")
    width, height, right, down = (a / b for a, b in zip(above, below, strict=True))
    kept = Size(round(width), round(height))
    x = round((size.width - width) / 2 + right)
    y = round((size.height - height) / 2 + down)
    if min(x, y) < 0 or x + kept.width > size.width or y + kept.height > size.height:
        raise HeifDamaged("the clean aperture is outside of the image")
    return None if kept == size else Box(x, y, kept.width, kept.height)


# --- planes


def _assembled(
    tiles: Iterator[av.VideoFrame], columns: int, rows: int, size: Size
) -> av.VideoFrame:
    """One frame of tiles in reading order; what is beyond `size` is cut off."""
    canvas: list[Plane] = []
    first: av.VideoFrame | None = None
    for number, tile in enumerate(tiles):
        shape = Size(tile.width, tile.height)
        if first is None:
            first = tile
            beyond = shape.width * columns - size.width, shape.height * rows - size.height
            if not (0 <= beyond[0] < shape.width and 0 <= beyond[1] < shape.height):
                raise HeifDamaged("the tiles do not make the image")
        if shape != Size(first.width, first.height) or tile.format.name != first.format.name:
            raise HeifDamaged("the tiles differ in size or format")
        planes = planes_of(tile, alpha=False)
        if not canvas:
            whole = ((one.shape[0] * rows, one.shape[1] * columns) for one in planes)
            canvas = [np.empty(sides, one.dtype) for sides, one in zip(whole, planes, strict=True)]
        row, column = divmod(number, columns)
        for target, plane in zip(canvas, planes, strict=True):
            height, width = plane.shape
            y, x = row * height, column * width
            target[y : y + height, x : x + width] = plane
    assert first is not None
    return _frame_like(first, canvas, Box(0, 0, size.width, size.height), first.format.name)


def _with_alpha(colour: av.VideoFrame, alpha: av.VideoFrame, *, is_limited: bool) -> av.VideoFrame:
    """A frame with the luma of another one, of its size or not, as alpha of its depth.

    TRAP: alpha has full range whatever HEVC states of it; that of AV1 states what it has.
    """
    layout = layout_of(colour.format.name)
    peak, depth = (1 << layout.bit_depth) - 1, layout_of(alpha.format.name).bit_depth
    if (alpha.width, alpha.height) != (colour.width, colour.height):
        alpha = alpha.reformat(colour.width, colour.height, threads=1)
    luma = planes_of(alpha, alpha=False)[0].astype(np.float32)
    low, high = (0, (1 << depth) - 1)
    if is_limited:
        low, high = 16 << depth - 8, 235 << depth - 8
    codes = np.clip(np.rint((luma - low) * (peak / (high - low))), 0, peak)
    if layout.chroma == "420" and layout.bit_depth == 12:  # FFmpeg has no such format with alpha
        colour = _without_subsampling(colour)
        layout = layout_of(colour.format.name)
    planes = list(planes_of(colour, alpha=False))
    if layout.chroma == "gray" and layout.bit_depth > 8:  # nor this one
        planes += [np.full_like(planes[0], (peak + 1) // 2)] * 2
        layout = PixelLayout(chroma="444", bit_depth=layout.bit_depth, has_alpha=True)
    planes.append(codes.astype(planes[0].dtype))
    shape = PixelLayout(chroma=layout.chroma, bit_depth=layout.bit_depth, has_alpha=True)
    whole = Box(0, 0, colour.width, colour.height)
    return _frame_like(colour, planes, whole, planar_format(shape))


def _cropped(frame: av.VideoFrame, crop: Box) -> av.VideoFrame:
    across, down = subsampling(layout_of(frame.format.name).chroma)
    if crop.x % across or crop.y % down:
        frame = _without_subsampling(frame)
    has_alpha = layout_of(frame.format.name).has_alpha
    return _frame_like(frame, list(planes_of(frame, alpha=has_alpha)), crop, frame.format.name)


def _without_subsampling(frame: av.VideoFrame) -> av.VideoFrame:
    own = layout_of(frame.format.name)
    full = PixelLayout(chroma="444", bit_depth=own.bit_depth, has_alpha=own.has_alpha)
    # The same range on both sides: FFmpeg's yuvj formats have another one than their successors.
    return frame.reformat(
        format=planar_format(full),
        src_color_range=frame.color_range,
        dst_color_range=frame.color_range,
        threads=1,
    )


def _frame_like(
    frame: av.VideoFrame, planes: list[Plane], part: Box, pixel_format: str
) -> av.VideoFrame:
    """A frame of a part of some planes, with the colour tags of another."""
    across, down = subsampling(layout_of(pixel_format).chroma)
    cut = []
    for number, plane in enumerate(planes):
        x, y = (across, down) if number in (1, 2) else (1, 1)
        left, top = part.x // x, part.y // y
        width, height = -(-part.width // x), -(-part.height // y)
        cut.append(plane[top : top + height, left : left + width])
    made = frame_of(cut, Size(part.width, part.height), pixel_format)
    made.color_range, made.colorspace = frame.color_range, frame.colorspace
    made.color_primaries, made.color_trc = frame.color_primaries, frame.color_trc
    return made


def _tagged(frame: av.VideoFrame, colours: list[bytes]) -> av.VideoFrame:
    """A frame with the colour tags of the file, which count before those of the coded image."""
    for data in colours:
        if data[:4] == b"nclx" and len(data) >= 11:
            primaries, transfer, matrix = (
                int.from_bytes(data[at : at + 2], "big") for at in (4, 6, 8)
            )
            frame.color_range = _FULL_RANGE if data[10] & 0x80 else _LIMITED_RANGE
            if matrix != _UNSPECIFIED:
                frame.colorspace = matrix
            if primaries != _UNSPECIFIED:
                frame.color_primaries = primaries
            if transfer != _UNSPECIFIED:
                frame.color_trc = transfer
    return frame
