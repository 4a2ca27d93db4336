"""EXIF: the tags of a TIFF structure, as images embed it and TIFF files are built."""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from engine.core.geometry import Size

ByteOrder = Literal["<", ">"]
ReadAt = Callable[[int, int], bytes]  # offset, bytes: shorter at the end of the file

PROFILE = 0x8773  # an ICC profile, in TIFF
MARKS: dict[bytes, ByteOrder] = {b"II*\0": "<", b"MM\0*": ">"}
_UNIT_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 1, 7: 1, 8: 2, 9: 4, 10: 4, 11: 4, 12: 8, 13: 4}
_ITEM_BYTES = {**_UNIT_BYTES, 5: 8, 10: 8}  # a fraction has two parts
_TYPE_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
_SHORT, _LONG, _FRACTION = 3, 4, 5
_MOST_TAGS, _MOST_BYTES = 1000, 1 << 24  # of a directory

_ORIENTATION, _CAMERA, _PLACE, _RULES = 0x0112, 0x8769, 0x8825, 0xA005
_ADOBE_RGB = b"R03"  # rules of files with these colours
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
PER_METRE = {2: Fraction(10000, 254), 3: Fraction(100)}  # units: inch, centimetre
_PHOTOMETRIC, _SEPARATED = 0x106, 5
_TRANSFER, _WHITE, _PRIMARIES = 0x12D, 0x13E, 0x13F
_D65 = (Fraction(3127, 10000), Fraction(329, 1000))
_FULL, _SAME_CURVE = 65535, 0.003  # of a transfer function, and of full scale
_MOST_GAMMA = 10  # exponent
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
    has_adobe_rgb: bool = False  # the colours are Adobe RGB, as cameras state without a profile

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
        unit = PER_METRE.get(self._number(_UNIT) or 2, Fraction(0))
        across, down = (self._fraction(tag) * unit for tag in (_X_RESOLUTION, _Y_RESOLUTION))
        return round(across), round(down)

    @property
    def ratio(self) -> tuple[int, int]:
        """Resolutions across and down that have no unit; (0, 0) where they have one."""
        across, down = (self._fraction(tag) for tag in (_X_RESOLUTION, _Y_RESOLUTION))
        has_none = self._number(_UNIT) == 1 and down
        return (across / down).as_integer_ratio() if has_none else (0, 0)

    @property
    def has_inks(self) -> bool:
        """Whether the pixels of a TIFF file are amounts of inks (CMYK)."""
        return self._number(_PHOTOMETRIC) == _SEPARATED

    @property
    def chromaticities(self) -> tuple[float, ...]:
        """Coordinates x and y of red, green, blue and white; () where no primaries are stated."""
        primaries = self._fractions(_PRIMARIES, 6)
        white = self._fractions(_WHITE, 2) or _D65
        return tuple(map(float, (*primaries, *white))) if primaries else ()

    @property
    def gamma(self) -> float | None:
        """Exponent of the transfer function; 0 where none is stated, or that of sRGB.

        It is None where the function is no plausible power, or differs between the colours.
        """
        tag = self.main.get(_TRANSFER)
        if tag is None or tag.kind != _SHORT or tag.count < 256:
            return 0
        light = struct.unpack(f"{self.order}{tag.count}H", tag.data)
        size = tag.count if tag.count & (tag.count - 1) == 0 else tag.count // 3
        if any(light[at : at + size] != light[:size] for at in range(size, tag.count, size)):
            return None
        places = [step * (size - 1) // 16 for step in range(1, 17)]
        points = [(at / (size - 1), light[at] / _FULL) for at in places]
        code, seen = points[7]
        exponent = math.log(max(seen, 1 / _FULL)) / math.log(code)
        if all(abs(seen - _srgb(code)) <= _SAME_CURVE for code, seen in points):
            return 0
        is_power = 1 / _MOST_GAMMA <= exponent <= _MOST_GAMMA
        is_power &= all(abs(seen - code**exponent) <= _SAME_CURVE for code, seen in points)
        return exponent if is_power else None

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
        return next(iter(self._fractions(number, 1)), Fraction(0))

    def _fractions(self, number: int, count: int) -> tuple[Fraction, ...]:
        """Fractions of a tag; () where they are not that many."""
        tag = self.main.get(number)
        if tag is None or (tag.kind, tag.count) != (_FRACTION, count):
            return ()
        pairs = struct.iter_unpack(f"{self.order}II", tag.data)
        return tuple(Fraction(above, below) if below else Fraction(0) for above, below in pairs)

    def _long(self, value: int) -> Tag:
        return Tag(_LONG, 1, struct.pack(f"{self.order}I", value))


def _srgb(code: float) -> float:
    """Light of a code value of sRGB, both 0 to 1."""
    return code / 12.92 if code <= 0.04045 else float(((code + 0.055) / 1.055) ** 2.4)


def resolution_tags(
    resolution: tuple[int, int], order: ByteOrder, *, has_unit: bool
) -> dict[int, Tag]:
    """Tags of a resolution in dots per metre: dots per inch, whole ones where these are meant.

    Without a unit its numbers stay as they are.
    """
    tags = {_UNIT: Tag(_SHORT, 1, struct.pack(f"{order}H", 2 if has_unit else 1))}
    for number, dots in zip((_X_RESOLUTION, _Y_RESOLUTION), resolution, strict=True):
        inch = dots / PER_METRE[2] if has_unit else Fraction(dots)
        if has_unit and round(round(inch) * PER_METRE[2]) == dots:
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
    rules = None
    with suppress(ValueError):  # without them the rest is true
        rules = _below(read_at, camera.get(_RULES), order).get(1)
    is_adobe = rules is not None and rules.data.startswith(_ADOBE_RGB)
    return Exif(order=order, main=main, camera=camera, place=place, has_adobe_rgb=is_adobe)


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
