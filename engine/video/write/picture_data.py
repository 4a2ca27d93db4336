"""Colour profile and EXIF of a source's picture, put into finished PNG and TIFF files.

EXR and DPX have no place for them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace

from engine.core.geometry import Size
from engine.protocol.plan import PicturePlan
from engine.video.read.picture_data import PROFILE, Exif, PictureData, Tag, read_exif

_PNG_HEAD = 8 + 25  # bytes: its mark and the chunk IHDR, which comes first
_SPACES = {"rgb": "RGB", "gray": "GRAY"}
_OTHER_COLOURS = (b"sRGB", b"gAMA", b"cHRM", b"cICP")
_HDR_TRANSFERS = (16, 18)  # PQ and HLG in ITU-T H.273
_UNDEFINED = 7


HOLDING_DATA = frozenset({"png", "tiff"})  # codecs of images that have a place for both


def is_true_of(profile: str, codec: str, chroma: str) -> bool:
    """Whether an image can hold a colour profile, and it describes the colours of the image.

    Args:
        profile: Its colour space, as `VideoInfo.profile`.
        codec: Codec of the image.
        chroma: Subsampling of the image.
    """
    return codec in HOLDING_DATA and profile != "" and profile == _SPACES.get(chroma)


def kept(data: PictureData, picture: PicturePlan) -> PictureData:
    """Data of a source's image that goes to the result."""
    keeps_profile = is_true_of(data.colour_space, picture.codec, picture.chroma)
    return data if keeps_profile else replace(data, profile=b"")


def with_picture_data(file: bytes, data: PictureData, size: Size) -> bytes:
    """A finished PNG or TIFF file with the source's data.

    Args:
        file: File as the encoder wrote it, upright.
        data: Data of the source's image, with what is to be kept.
        size: Size of the new image.
    """
    exif = data.exif.of_result(size) if data.exif is not None else None
    if exif is not None and not exif.says_anything:
        exif = None
    if not data.profile and exif is None:
        return file
    if file[1:4] == b"PNG":
        return _in_png(file, data.profile, exif)
    return _in_tiff(file, data.profile, exif)


def _in_png(file: bytes, profile: bytes, exif: Exif | None) -> bytes:
    parts = [file[:_PNG_HEAD]]
    if profile:
        parts.append(_chunk(b"iCCP", b"ICC profile\0\0" + zlib.compress(profile)))
    if exif is not None:
        parts.append(_chunk(b"eXIf", exif.written()))
    parts += [chunk for chunk in _chunks(file) if not (profile and _is_replaced(chunk))]
    return b"".join(parts)


def _is_replaced(chunk: bytes) -> bool:
    """Whether a profile takes the place of what a chunk states; it cannot state PQ and HLG."""
    states_hdr = chunk[4:8] == b"cICP" and chunk[9] in _HDR_TRANSFERS
    return chunk[4:8] in _OTHER_COLOURS and not states_hdr


def _chunk(name: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(name + data)
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", checksum)


def _chunks(file: bytes) -> Iterator[bytes]:
    """All chunks but the first."""
    at = _PNG_HEAD
    while at < len(file):
        size = 12 + int.from_bytes(file[at : at + 4], "big")
        yield file[at : at + size]
        at += size


def _in_tiff(file: bytes, profile: bytes, exif: Exif | None) -> bytes:
    own = read_exif(lambda offset, count: file[offset : offset + count])
    added = (exif or Exif(order=own.order)).in_order(own.order)
    main = {**own.main, **added.main}
    if profile:
        main[PROFILE] = Tag(_UNDEFINED, len(profile), profile)
    whole = Exif(order=own.order, main=main, camera=added.camera, place=added.place)
    return whole.written(file)
