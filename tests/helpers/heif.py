"""HEIF files as phones write them, made item by item: tiles, alpha, turns, maps."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

Box = tuple[bytes, bytes]  # kind, content
_LOSSLESS = "lossless=1:log-level=none"


def box(kind: bytes, *parts: bytes) -> bytes:
    """A box of a file."""
    return struct.pack(">I4s", 8 + sum(map(len, parts)), kind) + b"".join(parts)


def full(kind: bytes, *parts: bytes, version: int = 0) -> bytes:
    """A box with a version."""
    return box(kind, bytes((version, 0, 0, 0)), *parts)


def coded(planes: Sequence[np.ndarray], pixel_format: str) -> tuple[bytes, bytes]:
    """Planes coded without loss in HEVC: the content of "hvcC", and of an item."""
    height, width = planes[0].shape
    frame = av.VideoFrame(width, height, pixel_format)
    for plane, values in zip(frame.planes, planes, strict=True):
        rows = np.frombuffer(memoryview(plane), values.dtype).reshape(values.shape[0], -1)
        rows[:, : values.shape[1]] = values
    frame.pts = 0
    encoder = av.CodecContext.create("libx265", "w")
    encoder.width, encoder.height, encoder.pix_fmt = width, height, pixel_format
    encoder.time_base = Fraction(1, 25)
    encoder.options = {"x265-params": _LOSSLESS, "preset": "ultrafast"}
    data = b"".join(bytes(packet) for one in (frame, None) for packet in encoder.encode(one))
    units = [unit.strip(b"\0") for unit in data.replace(b"\0\0\0\1", b"\0\0\1").split(b"\0\0\1")]
    sets = {32: b"", 33: b"", 34: b""}
    pictures = b""
    for unit in filter(None, units):
        kind = unit[0] >> 1 & 63
        if kind in sets:
            sets[kind] = unit
        elif kind < 32:
            pictures += struct.pack(">I", len(unit)) + unit
    profile = sets[33][3:15].replace(b"\0\0\3", b"\0\0") + bytes(3)
    head = b"\1" + profile[:12] + b"\xf0\0\xfc\xfd\xf8\xf8\0\0\x0f\3"
    arrays = (struct.pack(">BHH", kind, 1, len(unit)) + unit for kind, unit in sets.items())
    return head + b"".join(arrays), pictures


class HeifFile:
    """Items to be written; numbers count from 1, and the first is the photograph."""

    def __init__(self, brand: bytes = b"heic") -> None:
        self.brand = brand
        self._items: list[tuple[bytes, bytes, list[bytes]]] = []
        self._references: list[bytes] = []

    def add(self, kind: bytes, data: bytes, *properties: bytes) -> int:
        """Add an item; its number."""
        self._items.append((kind, data, list(properties)))
        return len(self._items)

    def refer(self, kind: bytes, item: int, *others: int) -> None:
        """State how an item belongs to others."""
        numbers = struct.pack(f">HH{len(others)}H", item, len(others), *others)
        self._references.append(box(kind, numbers))

    def add_image(self, planes: Sequence[np.ndarray], pixel_format: str, *more: bytes) -> int:
        """Add a coded image."""
        header, data = coded(planes, pixel_format)
        height, width = planes[0].shape
        size = full(b"ispe", struct.pack(">II", width, height))
        return self.add(b"hvc1", data, box(b"hvcC", header), size, *more)

    def written(self, path: Path, *, after: bytes = b"") -> Path:
        """Write the file."""
        table = self._meta(0)
        start = len(self._head()) + len(table) + 8
        content = box(b"mdat", *(data for _, data, _ in self._items))
        path.write_bytes(self._head() + self._meta(start) + content + after)
        return path

    def _head(self) -> bytes:
        return box(b"ftyp", self.brand, bytes(4), b"mif1", self.brand)

    def _meta(self, start: int) -> bytes:
        count = struct.pack(">H", len(self._items))
        infos, places, properties, owners = b"", b"", list[bytes](), b""
        for number, (kind, data, own) in enumerate(self._items, 1):
            infos += full(b"infe", struct.pack(">HH", number, 0), kind, b"\0", version=2)
            places += struct.pack(">HHHII", number, 0, 1, start, len(data))
            start += len(data)
            first = len(properties) + 1
            properties += own
            owners += struct.pack(">HB", number, len(own)) + bytes(range(first, first + len(own)))
        owners = struct.pack(">I", len(self._items)) + owners
        return full(
            b"meta",
            full(b"hdlr", bytes(4), b"pict", bytes(13)),
            full(b"pitm", struct.pack(">H", 1)),
            full(b"iloc", b"\x44\0", count, places),
            full(b"iinf", count, infos),
            full(b"iref", *self._references),
            box(b"iprp", box(b"ipco", *properties), full(b"ipma", owners)),
        )


def grid(columns: int, rows: int, width: int, height: int) -> bytes:
    """The content of an item that is made of tiles."""
    return struct.pack(">BBBBHH", 0, 0, rows - 1, columns - 1, width, height)
