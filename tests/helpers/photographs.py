"""Photographs as cameras and programs write them: with a colour profile and EXIF."""

from __future__ import annotations

import io
import struct
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageCms, ImageOps

from tests.helpers.clips import number_picture

MAKER, CAMERA, PLACE, TAKEN = 0x010F, 0x8769, 0x8825, 0x9003
DATE = "2020:01:02 03:04:05"
ADOBE_RGB = (31270, 32900, 64000, 33000, 21000, 71000, 15000, 6000)  # as PNG states primaries


@cache
def srgb_profile() -> bytes:
    """A profile of RGB colours."""
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def profile_of(space: bytes) -> bytes:
    """A profile that says it describes another colour space."""
    made = bytearray(srgb_profile())
    made[16:20] = space
    return bytes(made)


def an_exif(*, orientation: int = 1) -> Any:
    """What a camera says of a picture of 96x64."""
    exif = Image.Exif()
    exif[0x0112], exif[MAKER], exif[0x010E] = orientation, "Maker & Sons", "A hill"
    exif[CAMERA] = {0xA002: 96, 0xA003: 64, TAKEN: DATE, 0x829A: (1, 250)}
    exif[PLACE] = {1: "N", 2: (52.0, 31.0, 12.5)}
    loaded = Image.Exif()
    loaded.load(exif.tobytes())
    return loaded


def chunked(path: Path, chunks: dict[bytes, bytes]) -> Path:
    """A PNG of 32x16 with chunks that no writer here makes."""
    Image.fromarray(number_picture(5, 32, 16)).save(path)
    added = b""
    for name, data in chunks.items():
        check = zlib.crc32(name + data)
        added += struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)
    whole = path.read_bytes()
    path.write_bytes(whole[:33] + added + whole[33:])
    return path


def a_psd(path: Path, resources: dict[int, bytes]) -> Path:
    """A PSD of 32x16 without layers."""
    picture = number_picture(5, 32, 16)
    blocks = b""
    for number, data in resources.items():
        blocks += b"8BIM" + struct.pack(">HHI", number, 0, len(data)) + data + bytes(len(data) % 2)
    head = b"8BPS" + struct.pack(">H6xHIIHH", 1, 3, 16, 32, 8, 3) + bytes(4)
    resources_of = struct.pack(">I", len(blocks)) + blocks
    path.write_bytes(head + resources_of + bytes(6) + picture.transpose(2, 0, 1).tobytes())
    return path


def with_thumbnail(exif: Any) -> bytes:
    """The same with a second directory, which has a small JPEG."""
    small = io.BytesIO()
    Image.new("RGB", (16, 12)).save(small, "jpeg")
    data = bytearray(exif.tobytes()[6:])
    order = "<" if data[:2] == b"II" else ">"
    (first,) = struct.unpack_from(f"{order}I", data, 4)
    (count,) = struct.unpack_from(f"{order}H", data, first)
    struct.pack_into(f"{order}I", data, first + 2 + 12 * count, len(data))
    size = len(small.getvalue())
    entries = ((0x0103, 3, 1, 6 << (0 if order == "<" else 16)), (0x0201, 4, 1, len(data) + 42))
    data += struct.pack(f"{order}H", 3)
    for entry in (*entries, (0x0202, 4, 1, size)):
        data += struct.pack(f"{order}HHII", *entry)
    return b"Exif\0\0" + bytes(data) + bytes(4) + small.getvalue()


def make_photograph(
    path: Path, *, profile: bytes = b"", exif: Any = None, mode: str = "RGB"
) -> Path:
    """A picture of 96x64 with the number 5."""
    picture = Image.fromarray(number_picture(5, 96, 64)).convert(mode)
    how = {"icc_profile": profile or None, **({"exif": exif} if exif is not None else {})}
    picture.save(path, **how)
    return path


def upright(path: Path) -> np.ndarray:
    """A picture as other programs show it, RGB."""
    with Image.open(path) as file:
        return np.asarray(ImageOps.exif_transpose(file).convert("RGB"))
