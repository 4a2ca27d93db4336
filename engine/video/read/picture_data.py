"""Data of an image besides its pixels: colour profile (ICC), EXIF and resolution.

Read from PNG, JPEG, WebP, TIFF and HEIF (HEIC, AVIF). TRAP: not from frames of PyAV 18.1, whose
`side_data` cannot name EXIF, and frees the name of a PNG's profile twice.
"""

from __future__ import annotations

import logging
import struct
import zlib
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Literal

from engine.core.file_access import RetryingFile
from engine.core.geometry import Size
from engine.video.read.heif import Heif, HeifDamaged

ByteOrder = Literal["<", ">"]
ReadAt = Callable[[int, int], bytes]  # offset, bytes: shorter at the end of the file

PROFILE = 0x8773  # an ICC profile, in TIFF
MARKS: dict[bytes, ByteOrder] = {b"II*\0": "<", b"MM\0*": ">"}
_UNIT_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 1, 7: 1, 8: 2, 9: 4, 10: 4, 11: 4, 12: 8, 13: 4}
_ITEM_BYTES = {**_UNIT_BYTES, 5: 8, 10: 8}  # a fraction has two parts
_TYPE_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
_SHORT, _LONG, _FRACTION = 3, 4, 5
_MOST_TAGS, _MOST_BYTES = 1000, 1 << 24  # of a directory

_ORIENTATION, _CAMERA, _PLACE = 0x0112, 0x8769, 0x8825
_TURNS = {
    **{1: (0, False), 2: (0, True), 3: (180, False), 4: (180, True)},
    **{5: (90, True), 6: (90, False), 7: (270, True), 8: (270, False)},
}
# Tags of the first directory that speak of the picture and not of how the file stores it: title,
# maker, model, resolution, program, date, artist, host, rating, copyright, Windows' own titles.
_ABOUT = frozenset(
    {0x10E, 0x10F, 0x110, 0x11A, 0x11B, 0x128, 0x131, 0x132, 0x13B, 0x13C, 0x4746, 0x4749, 0x8298}
    | set(range(0x9C9B, 0x9CA0))
)
_RESOLUTION = frozenset({0x11A, 0x11B, 0x128})
_X_RESOLUTION, _Y_RESOLUTION, _UNIT = sorted(_RESOLUTION)
_PER_METRE = {2: Fraction(10000, 254), 3: Fraction(100)}  # units: inch, centimetre
_WIDTH, _HEIGHT = 0xA002, 0xA003
# Untrue of other pixels in another file: components, compression, places in the picture, pixels to
# a millimetre of the sensor, rules of JPEG.
_OF_THE_PIXELS = frozenset({0x9101, 0x9102, 0x9214, 0xA005, 0xA20E, 0xA20F, 0xA210, 0xA214})


@dataclass(frozen=True, slots=True)
class Tag:
    """One entry: `data` is `count` items of a TIFF type, in the byte order of the file."""

    kind: int
    count: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Exif:
    """Tags of a picture, by their number."""

    order: ByteOrder
    # The first directory; of a TIFF file also how its pixels are stored.
    main: Mapping[int, Tag] = field(default_factory=dict)
    camera: Mapping[int, Tag] = field(default_factory=dict)  # exposure, lens, times
    place: Mapping[int, Tag] = field(default_factory=dict)  # offset of the GPS positions

    @property
    def turn(self) -> tuple[int, bool]:
        """Clockwise degrees from the stored to the seen picture, and its mirroring after that."""
        return _TURNS.get(self._number(_ORIENTATION), (0, False))

    @property
    def says_anything(self) -> bool:
        """Whether there is more than the file's own structure."""
        return bool(self.camera or self.place or (_ABOUT - _RESOLUTION) & self.main.keys())

    @property
    def resolution(self) -> tuple[int, int]:
        """Dots per metre across and down the stored picture; (0, 0) where none are stated."""
        unit = _PER_METRE.get(self._number(_UNIT) or 2, Fraction(0))
        across, down = (self._fraction(tag) * unit for tag in (_X_RESOLUTION, _Y_RESOLUTION))
        return round(across), round(down)

    def of_result(self, size: Size) -> Exif:
        """Entries that stay true for an upright image of another size; without its thumbnail."""
        camera = {n: tag for n, tag in self.camera.items() if n not in _OF_THE_PIXELS}
        for number, side in ((_WIDTH, size.width), (_HEIGHT, size.height)):
            if number in camera:
                camera[number] = self._long(side)
        about = {n: tag for n, tag in self.main.items() if n in _ABOUT}
        return Exif(order=self.order, main=about, camera=camera, place=self.place)

    def in_order(self, order: ByteOrder) -> Exif:
        """Entries in a byte order."""
        if order == self.order:
            return self
        parts = (self.main, self.camera, self.place)
        main, camera, place = ({n: _swapped(tag) for n, tag in part.items()} for part in parts)
        return Exif(order=order, main=main, camera=camera, place=place)

    def written(self, tiff: bytes = b"") -> bytes:
        """A TIFF structure with these tags.

        Args:
            tiff: A TIFF file in the same byte order; the tags become its first directory, in place
                of its own. b"": the structure alone, as other files embed it.
        """
        mark = next(mark for mark, order in MARKS.items() if order == self.order)
        out = bytearray(tiff or mark + bytes(4))
        main = dict(self.main)
        for number, part in ((_CAMERA, self.camera), (_PLACE, self.place)):
            main.pop(number, None)
            if part:
                main[number] = self._long(_append(out, part, self.order))
        out[4:8] = struct.pack(f"{self.order}I", _append(out, main, self.order))
        return bytes(out)

    def _number(self, number: int) -> int:
        tag = self.main.get(number)
        if tag is None or tag.kind not in (_SHORT, _LONG) or tag.count != 1:
            return 0
        return int.from_bytes(tag.data, "little" if self.order == "<" else "big")

    def _fraction(self, number: int) -> Fraction:
        tag = self.main.get(number)
        if tag is None or (tag.kind, tag.count) != (_FRACTION, 1):
            return Fraction(0)
        above, below = struct.unpack(f"{self.order}II", tag.data)
        return Fraction(above, below) if below else Fraction(0)

    def _long(self, value: int) -> Tag:
        return Tag(_LONG, 1, struct.pack(f"{self.order}I", value))


def resolution_tags(resolution: tuple[int, int], order: ByteOrder) -> dict[int, Tag]:
    """Tags of a resolution in dots per metre: dots per inch, whole ones where these are meant."""
    tags = {_UNIT: Tag(_SHORT, 1, struct.pack(f"{order}H", 2))}
    for number, dots in zip((_X_RESOLUTION, _Y_RESOLUTION), resolution, strict=True):
        inch = dots / _PER_METRE[2]
        if round(round(inch) * _PER_METRE[2]) == dots:
            inch = Fraction(round(inch))
        tags[number] = Tag(_FRACTION, 1, struct.pack(f"{order}II", *inch.as_integer_ratio()))
    return tags


def read_exif(read_at: ReadAt) -> Exif:
    """The tags of a TIFF structure.

    Raises:
        ValueError: It is none, or damaged.
    """
    head = read_at(0, 8)
    order = MARKS.get(head[:4])
    if order is None or len(head) < 8:
        raise ValueError("not a TIFF structure")
    main = _directory(read_at, struct.unpack(f"{order}I", head[4:])[0], order)
    camera, place = (_below(read_at, main.get(number), order) for number in (_CAMERA, _PLACE))
    return Exif(order=order, main=main, camera=camera, place=place)


def _below(read_at: ReadAt, pointer: Tag | None, order: ByteOrder) -> dict[int, Tag]:
    if pointer is None or len(pointer.data) != 4:
        return {}
    return _directory(read_at, struct.unpack(f"{order}I", pointer.data)[0], order)


def _directory(read_at: ReadAt, offset: int, order: ByteOrder) -> dict[int, Tag]:
    """Tags of a directory; those of unknown types are left out."""
    count = struct.unpack(f"{order}H", _exactly(read_at, offset, 2))[0]
    if count > _MOST_TAGS:
        raise ValueError(f"{count} tags")
    entries = _exactly(read_at, offset + 2, 12 * count)
    found, left = dict[int, Tag](), _MOST_BYTES
    for row, entry in enumerate(struct.iter_unpack(f"{order}HHII", entries)):
        number, kind, items, at = entry
        size = _ITEM_BYTES.get(kind, 0) * items
        left -= size
        if left < 0:
            raise ValueError("tags too large")
        if size <= 4:
            at = offset + 2 + 12 * row + 8
        if size:
            found[number] = Tag(kind, items, _exactly(read_at, at, size))
    return found


def _exactly(read_at: ReadAt, offset: int, count: int) -> bytes:
    data = read_at(offset, count)
    if len(data) != count:
        raise ValueError("tags outside of the file")
    return data


def _append(out: bytearray, tags: Mapping[int, Tag], order: ByteOrder) -> int:
    """Add a directory at the end, and its values after it; its offset."""
    out += bytes(len(out) % 2)
    start = len(out)
    values_at = start + 2 + 12 * len(tags) + 4
    entries, values = struct.pack(f"{order}H", len(tags)), bytearray()
    for number, tag in sorted(tags.items()):
        entries += struct.pack(f"{order}HHI", number, tag.kind, tag.count)
        if len(tag.data) <= 4:
            entries += tag.data.ljust(4, b"\0")
        else:
            entries += struct.pack(f"{order}I", values_at + len(values))
            values += tag.data + bytes(len(tag.data) % 2)
    out += entries + bytes(4) + values
    return start


def _swapped(tag: Tag) -> Tag:
    units = array(_TYPE_CODES[_UNIT_BYTES[tag.kind]], tag.data)
    units.byteswap()
    return Tag(tag.kind, tag.count, units.tobytes())


_log = logging.getLogger(__name__)
_PNG = b"\x89PNG\r\n\x1a\n"
_MOST_BYTES = 1 << 24  # of a profile, and of EXIF
_MOST_CHUNKS = 1 << 16
_MOST_DOTS = 1 << 24  # per metre
OS2_HEADER = b"\x0c\0\0\0"  # length of the header of a BMP of OS/2: sizes in 16 bits, no dots
_JFIF_MARK = b"JFIF\0"
_EXIF_MARK, _PROFILE_MARK = b"Exif\0\0", b"ICC_PROFILE\0"
_PROFILE_HEADER = 128
_XMP_MARK = b"http://ns.adobe.com/xap/1.0/\0"
_RESOURCES_MARK, _IPTC = b"Photoshop 3.0\0", b"8BIM\x04\x04"  # IPTC is one of the resources
_OTHERS_OF_TIFF = {700: "xmp", 33723: "iptc"}  # tags
_XMP_KEY = b"XML:com.adobe.xmp"
_PNG_TEXTS = (b"tEXt", b"zTXt", b"iTXt")
_OF_PROGRAMS = (b"Software", b"date:", b"Creation Time")  # keys of texts that writers add


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureData:
    """Data of one image; `profile` is b"" and `exif` None where there is none that makes sense.

    `turn` is clockwise degrees from the stored to the seen picture, and its mirroring after that.
    `resolution` is dots per metre across and down the seen picture, (0, 0) where none are stated.
    `also` names what else it states and nothing here keeps: "xmp", "iptc", "text-entries".
    """

    profile: bytes = b""
    exif: Exif | None = None
    turn: tuple[int, bool] = (0, False)
    resolution: tuple[int, int] = (0, 0)
    also: frozenset[str] = frozenset()

    @property
    def colour_space(self) -> str:
        """Colour space of the profile: "RGB", "GRAY", "CMYK", ...; "" without one."""
        return self.profile[16:20].decode("ascii", "replace").strip()

    @property
    def resolution_text(self) -> str:
        """Resolution as users know it: "300 dpi"; "204 x 98 dpi" where it differs."""
        across, down = (round(dots / _PER_METRE[2]) for dots in self.resolution)
        return f"{across} dpi" if across == down else f"{across} x {down} dpi"

    @property
    def says_anything(self) -> bool:
        """Whether there is EXIF with more than the file's own structure."""
        return self.exif is not None and self.exif.says_anything


def read_picture_data(path: Path) -> PictureData:
    """Colour profile and EXIF of an image; nothing of other formats and of damaged parts.

    Raises:
        OSError: The file cannot be read.

    Memory: 32 MiB at most.
    """
    with RetryingFile(path) as file:
        found = _read(file)
        if file.failure is not None:
            raise file.failure
    return found


def _read(file: RetryingFile) -> PictureData:
    head = _at(file, 0, 12)
    if head[:4] in MARKS:
        exif = _exif(file)
        tags = exif.main if exif is not None else {}
        profile = tags.get(PROFILE)
        also = {name for number, name in _OTHERS_OF_TIFF.items() if number in tags}
        return _data(profile.data if profile else b"", exif, also)
    if head.startswith(_PNG):
        return _of_png(file)
    if head.startswith(b"\xff\xd8"):
        return _of_jpeg(file)
    if head.startswith(b"BM"):
        size = b"" if _at(file, 14, 4) == OS2_HEADER else _at(file, 38, 8)
        return _data(b"", None, resolution=_whole(size, "<ii"))
    if head[4:8] == b"ftyp":
        return _of_heif(file)
    return _of_webp(file) if head[8:] == b"WEBP" else PictureData()


def _of_heif(file: RetryingFile) -> PictureData:
    """Data of a HEIF file; its own properties turn it, whatever its EXIF."""
    try:
        heif = Heif(lambda offset, count: _at(file, offset, count))
        also = {"xmp"} if heif.has_xmp else set[str]()
        found = _data(heif.profile(), _exif(heif.exif()), also)
    except HeifDamaged as err:
        _log.info("Colour profile and EXIF are left out: %s", err)
        return PictureData()
    return replace(found, turn=heif.turn())


def _of_png(file: RetryingFile) -> PictureData:
    profile = exif = b""
    resolution, also = (0, 0), set[str]()
    for name, offset, size in _chunks(file, start=len(_PNG), order="big"):
        if name in _PNG_TEXTS:
            key = _at(file, offset, min(size, 80)).partition(b"\0")[0]
            if not key.startswith(_OF_PROGRAMS):
                also.add("xmp" if key == _XMP_KEY else "text-entries")
        elif name == b"iCCP":
            packed = _at(file, offset, size).partition(b"\0")[2][1:]
            profile = _unpacked(packed)
        elif name == b"eXIf":
            exif = _at(file, offset, size)
        elif name == b"pHYs" and _at(file, offset + 8, 1) == b"\1":  # dots per metre
            resolution = _whole(_at(file, offset, 8), ">II")
        elif name == b"IEND":
            break
    return _data(profile, _exif(exif), also, resolution)


def _of_webp(file: RetryingFile) -> PictureData:
    profile = exif = b""
    also = set[str]()
    for name, offset, size in _chunks(file, start=12, order="little"):
        if name == b"XMP ":
            also.add("xmp")
        elif name == b"ICCP":
            profile = _at(file, offset, size)
        elif name == b"EXIF":
            exif = _at(file, offset, size).removeprefix(_EXIF_MARK)
    return _data(profile, _exif(exif), also)


def _of_jpeg(file: RetryingFile) -> PictureData:
    exif, parts, also, resolution = b"", dict[int, bytes](), set[str](), (0, 0)
    for marker, offset, size in _segments(file):
        data = _at(file, offset, size) if marker in (0xE0, 0xE1, 0xE2, 0xED) else b""
        if data.startswith(_JFIF_MARK):
            unit = _PER_METRE.get(data[7] + 1, 0) if len(data) > 7 else 0  # 1: inch
            across, down = (round(dots * unit) for dots in _whole(data[8:12], ">HH"))
            resolution = across, down
        elif data.startswith(_XMP_MARK):
            also.add("xmp")
        elif data.startswith(_RESOURCES_MARK) and _IPTC in data:
            also.add("iptc")
        elif marker == 0xFE:
            also.add("text-entries")
        elif data.startswith(_EXIF_MARK):
            exif = exif or data[len(_EXIF_MARK) :]
        elif data.startswith(_PROFILE_MARK):
            number = data[len(_PROFILE_MARK)] if size > len(_PROFILE_MARK) else 0
            parts[number] = data[len(_PROFILE_MARK) + 2 :]  # its number, and how many there are
    profile = b"".join(parts[number] for number in sorted(parts))
    return _data(profile, _exif(exif), also, resolution)


def _chunks(file: RetryingFile, *, start: int, order: str) -> Iterator[tuple[bytes, int, int]]:
    """Name, offset and size of chunks: of PNG ("big") or RIFF ("little")."""
    at = start
    for _ in range(_MOST_CHUNKS):
        head = _at(file, at, 8)
        if len(head) < 8:
            return
        is_png = order == "big"
        name, size = (head[4:], head[:4]) if is_png else (head[:4], head[4:])
        count = int.from_bytes(size, "big" if is_png else "little")
        yield name, at + 8, count
        at += 8 + count + (4 if is_png else count % 2)


def _segments(file: RetryingFile) -> Iterator[tuple[int, int, int]]:
    """Marker, offset and size of what is before the pixels of a JPEG."""
    at = 2
    for _ in range(_MOST_CHUNKS):
        head = _at(file, at, 4)
        if len(head) < 4 or head[0] != 0xFF or head[1] == 0xDA:
            return
        if head[1] == 0xFF:  # filler
            at += 1
            continue
        size = int.from_bytes(head[2:], "big")
        yield head[1], at + 4, max(0, size - 2)
        at += 2 + max(2, size)


def _at(file: RetryingFile, offset: int, count: int) -> bytes:
    """Bytes at a place; b"" where it would be too many."""
    if count > _MOST_BYTES:
        return b""
    file.seek(offset)
    return file.read(count)


def _unpacked(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        profile = unpacking.decompress(packed, _MOST_BYTES)
    except zlib.error:
        return b""
    return profile if unpacking.eof else b""


def _exif(source: RetryingFile | bytes) -> Exif | None:
    try:
        if isinstance(source, RetryingFile):
            return read_exif(lambda offset, count: _at(source, offset, count))
        return read_exif(lambda offset, count: source[offset : offset + count]) if source else None
    except ValueError as err:
        _log.info("EXIF is left out: %s", err)
        return None


def _whole(data: bytes, kinds: str) -> tuple[int, int]:
    """Two whole numbers; (0, 0) where there are none."""
    if len(data) != struct.calcsize(kinds):
        return 0, 0
    first, second = struct.unpack(kinds, data)
    return first, second


def _data(
    profile: bytes,
    exif: Exif | None,
    also: Collection[str] = (),
    resolution: tuple[int, int] = (0, 0),
) -> PictureData:
    """Keep a profile only if it is whole (it begins with its size), a resolution if plausible."""
    is_whole = len(profile) > _PROFILE_HEADER and profile[36:40] == b"acsp"
    if not is_whole or int.from_bytes(profile[:4], "big") != len(profile):
        profile = b""
    turn = exif.turn if exif is not None else (0, False)
    if exif is not None and not any(resolution):
        resolution = exif.resolution
    if not all(0 < dots < _MOST_DOTS for dots in resolution):
        resolution = (0, 0)
    return PictureData(
        profile=profile,
        exif=exif,
        turn=turn,
        resolution=resolution[::-1] if turn[0] in (90, 270) else resolution,
        also=frozenset(also),
    )
