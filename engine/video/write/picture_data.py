"""Data of a source's picture, put into finished images.

PNG and TIFF have places for colour profile, EXIF and resolution, PNG and EXR for primaries.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace

from engine.core.geometry import Size
from engine.protocol.plan import PicturePlan
from engine.video.colour_tags import CHROMATICITIES
from engine.video.read.exif import PROFILE, Exif, Tag, read_exif, resolution_tags
from engine.video.read.image_headers import EXR_MARK, with_attributes
from engine.video.read.picture_data import DPX_CODES, PictureData

_PNG_HEAD = 8 + 25  # bytes: its mark and the chunk IHDR, which comes first
_SPACES = {"rgb": "RGB", "gray": "GRAY"}
_OTHER_COLOURS = (b"sRGB", b"gAMA", b"cHRM")
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
    if not is_true_of(data.colour_space, picture.codec, picture.chroma):
        data = replace(data, profile=b"")
    if picture.sample_aspect != 1:  # the encoder states it in the place of the resolution
        data = replace(data, resolution=(0, 0))
    if data.profile or picture.tags.transfer:  # PNG's encoder has written the latter
        data = replace(data, gamma=0)
    if data.profile or picture.tags.primaries:
        known = CHROMATICITIES.get(picture.tags.primaries, ())
        data = replace(data, chromaticities=known if picture.codec == "exr" else ())
    if picture.codec == "png" and any(value < 0 for value in data.chromaticities):
        data = replace(data, chromaticities=())  # PNG has no place for these
    return data


def with_picture_data(file: bytes, data: PictureData, size: Size) -> bytes:
    """A finished image with the source's data.

    Args:
        file: File as the encoder wrote it, upright.
        data: Data of the source's image, with what is to be kept.
        size: Size of the new image.
    """
    exif = data.exif.of_result(size) if data.exif is not None else None
    if exif is not None and not exif.says_anything:
        exif = None
    kept = replace(data, exif=exif)
    if file[:4] == EXR_MARK:
        return with_attributes(file, data.attributes, data.chromaticities)
    if file[:4] in (b"SDPX", b"XPDS"):
        return file[:DPX_CODES] + data.codes + file[DPX_CODES + len(data.codes) :]
    return _in_png(file, kept) if file[1:4] == b"PNG" else _in_tiff(file, kept)


def _in_png(file: bytes, data: PictureData) -> bytes:
    parts = [file[:_PNG_HEAD]]
    if data.profile:
        parts.append(_chunk(b"iCCP", b"ICC profile\0\0" + zlib.compress(data.profile)))
    if data.exif is not None:
        parts.append(_chunk(b"eXIf", data.exif.written()))
    if any(data.resolution):
        parts.append(_chunk(b"pHYs", struct.pack(">IIB", *data.resolution, data.has_unit)))
    if data.gamma:
        parts.append(_chunk(b"gAMA", struct.pack(">I", data.gamma)))
    if data.chromaticities:
        values = [round(100_000 * value) for value in data.chromaticities]
        parts.append(_chunk(b"cHRM", struct.pack(">8I", *values[6:], *values[:6])))
    parts += [chunk for chunk in _chunks(file) if not _is_replaced(chunk, data)]
    return b"".join(parts)


def _is_replaced(chunk: bytes, data: PictureData) -> bool:
    """Whether data take the place of what a chunk states; a profile cannot state PQ and HLG."""
    name = chunk[4:8]
    if name == b"cICP":  # it would count in place of all others, as it may in the source
        is_own = data.has_code_points or chunk[9] in _HDR_TRANSFERS
        return bool(data.profile or data.chromaticities) and not is_own
    by_profile = name in _OTHER_COLOURS
    replaced = {b"pHYs": any(data.resolution), b"gAMA": data.gamma, b"cHRM": data.chromaticities}
    return (bool(data.profile) and by_profile) or bool(replaced.get(name))


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


def _in_tiff(file: bytes, data: PictureData) -> bytes:
    own = read_exif(lambda offset, count: file[offset : offset + count])
    added = (data.exif or Exif(order=own.order)).in_order(own.order)
    main = {**own.main, **added.main}
    if data.profile:
        main[PROFILE] = Tag(_UNDEFINED, len(data.profile), data.profile)
    if any(data.resolution):
        main |= resolution_tags(data.resolution, own.order, has_unit=data.has_unit)
    whole = Exif(order=own.order, main=main, camera=added.camera, place=added.place)
    return whole.written(file)
