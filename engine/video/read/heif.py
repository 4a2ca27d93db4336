"""Photographs in HEIF files, such as HEIC and AVIF: their items, and the frame they make together.

A HEIF file is a list of items: coded images, grids of tiles, metadata. The primary item is the
photograph; of a phone it is a grid. All others belong to it (alpha, EXIF) or are beside it (depth
and gain maps, further images).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from engine.core.geometry import Size

ReadAt = Callable[[int, int], bytes]  # offset, bytes: shorter at the end of the file

# Items that hold an image: FFmpeg's decoder, and the property with its header.
CODECS = {"hvc1": ("hevc", "hvcC"), "av01": ("libdav1d", "av1C")}
_IMAGES = frozenset({*CODECS, "grid", "iden", "iovl", "tmap", "jpeg", "avc1", "vvc1", "j2k1"})
_VIDEOS = frozenset({b"moov", b"mpvd"})  # a sequence of images, the video of a motion photo
_ALPHA = ("urn:mpeg:mpegB:cicp:systems:auxiliary:alpha", "urn:mpeg:hevc:2015:auxid:1")
_DEPTH = ("urn:mpeg:mpegB:cicp:systems:auxiliary:depth", "urn:mpeg:hevc:2015:auxid:2")
_GAIN_MAP = "urn:com:apple:photo:2020:aux:hdrgainmap"
_MOST_BYTES = 1 << 24  # of the table of items, and of EXIF
_MOST_BOXES = 1 << 16
MOST_DERIVATIONS = 4


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
        """Kind of an auxiliary image."""
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
        self.photograph = -1
        self.has_video = self.has_xmp = False
        meta = b""
        for kind, offset, size in _top_level(read_at):
            self.has_video |= kind in _VIDEOS
            if kind == b"meta" and not meta:
                meta = self._bytes_at(offset, size)
        self._read_table(meta[4:])
        if self.photograph not in self.items:
            raise HeifDamaged("no primary item")

    @property
    def primary(self) -> Item:
        """The photograph."""
        return self.items[self.photograph]

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
        return next((data[4:] for data in self.colours() if data[:4] in (b"prof", b"rICC")), b"")

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
        parts |= {number for number in (self.photograph, self.alpha()) if number is not None}
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
            return grid_of(self.data_of(self.primary))[2]
        if len(stated) < 12:
            return Size(1, 1)
        return Size(int.from_bytes(stated[4:8], "big"), int.from_bytes(stated[8:12], "big"))

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
                reader = Reader(data)
                match kind:
                    case "pitm":
                        self.photograph = reader.number(2 if reader.full()[0] == 0 else 4)
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
                            self._read_associations(Reader(entry), properties)
        except IndexError as err:
            raise HeifDamaged("the table of items is damaged") from err

    def _item(self, number: int) -> Item:
        return self.items.setdefault(number, Item())

    def _read_infos(self, reader: Reader) -> None:
        version, _ = reader.full()
        reader.number(2 if version == 0 else 4)
        for kind, data in _boxes(reader.rest()):
            if kind == "infe":
                one = Reader(data)
                version, _ = one.full()
                item = self._item(one.number(4 if version == 3 else 2))
                one.number(2)  # protection
                item.kind = one.take(4).decode("latin-1")
                self.has_xmp |= item.kind == "mime" and b"application/rdf+xml" in data

    def _read_places(self, reader: Reader) -> None:
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

    def _read_references(self, reader: Reader) -> None:
        wide = 2 if reader.full()[0] == 0 else 4
        for kind, data in _boxes(reader.rest()):
            one = Reader(data)
            numbers = self._item(one.number(wide)).references.setdefault(kind, [])
            numbers += [one.number(wide) for _ in range(one.number(2))]

    def _read_associations(self, reader: Reader, properties: list[tuple[str, bytes]]) -> None:
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
        yield from sorted(found, key=lambda i: self.photograph not in i.references.get("cdsc", ()))

    def alpha(self) -> int | None:
        """The item with the photograph's alpha."""
        for number, item in self.items.items():
            if self.photograph in item.references.get("auxl", ()) and item.auxiliary in _ALPHA:
                return number
        return None

    def parts(self, number: int, depth: int) -> Iterator[int]:
        """An item, and all of which it is made."""
        yield number
        if depth and number in self.items:
            for part in self.items[number].references.get("dimg", ()):
                yield from self.parts(part, depth - 1)

    def colours(self) -> list[bytes]:
        """Colour information of the photograph, else that of its first part."""
        for number in self.parts(self.photograph, MOST_DERIVATIONS):
            item = self.items.get(number, Item())
            found = [data for kind, data in item.properties if kind == "colr"]
            if found:
                return found
        return []


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


class Reader:
    """Numbers of a box; IndexError beyond its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
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
        """All that was not read yet."""
        return self._data[self._at :]


def grid_of(data: bytes) -> tuple[int, int, Size]:
    """Columns, rows and size of the image that the tiles make."""
    reader = Reader(data)
    try:
        reader.number(1)
        wide = 4 if reader.number(1) & 1 else 2
        rows, columns = reader.number(1) + 1, reader.number(1) + 1
        size = Size(reader.number(wide), reader.number(wide))
    except IndexError as err:
        raise HeifDamaged("the grid of tiles is damaged") from err
    return columns, rows, size
