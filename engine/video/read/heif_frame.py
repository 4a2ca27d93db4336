"""The frame of a photograph in a HEIF file: its tiles, its alpha, its crop."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import av
import numpy as np

from engine.core.geometry import Box, Size
from engine.protocol.media import subsampling
from engine.video.planes import PixelLayout, frame_of, layout_of, planar_format, planes_of
from engine.video.read.frames import Plane
from engine.video.read.heif import (
    CODECS,
    MOST_DERIVATIONS,
    Heif,
    HeifDamaged,
    HeifUnknown,
    Reader,
    grid_of,
)
from engine.video.read.media_file import MAX_SIDE

Decode = Callable[[str, bytes, bytes], av.VideoFrame]  # codec, extradata, data
_LIMITED_RANGE, _FULL_RANGE = 1, 2
_UNSPECIFIED = 2  # of primaries, transfer and matrix


def photograph(heif: Heif, decode: Decode) -> av.VideoFrame:
    """The photograph as stored, with its alpha, cropped, before it is turned.

    Args:
        heif: The items.
        decode: Decodes one image.

    Raises:
        HeifUnknown, HeifCutShort, HeifDamaged: See there.
        av.error.FFmpegError: An image cannot be decoded.

    Memory: all planes twice.
    """
    colour = _image(heif, heif.photograph, decode, MOST_DERIVATIONS)
    alpha = heif.alpha()
    if alpha is not None:
        if "prem" in heif.primary.references:
            raise HeifUnknown("premultiplied alpha")
        kinds = {heif.items[part].kind for part in heif.parts(alpha, MOST_DERIVATIONS)}
        image = _image(heif, alpha, decode, MOST_DERIVATIONS)
        is_limited = "av01" in kinds and image.color_range == _LIMITED_RANGE
        colour = _with_alpha(colour, image, is_limited=is_limited)
    crop = _crop_of(heif.primary.of("clap"), Size(colour.width, colour.height))
    frame = colour if crop is None else _cropped(colour, crop)
    return _tagged(frame, heif.colours())


def _image(heif: Heif, number: int, decode: Decode, depth: int) -> av.VideoFrame:
    item = heif.items.get(number)
    if item is None or not depth:
        raise HeifDamaged(f"no item {number}")
    if item.kind in CODECS:
        codec, header = CODECS[item.kind]
        return decode(codec, item.of(header), heif.data_of(item))
    parts = item.references.get("dimg", [])
    if item.kind in ("iden", "tmap") and parts:  # a tone map is made of an image and its map
        return _image(heif, parts[0], decode, depth - 1)
    if item.kind != "grid":
        raise HeifUnknown(item.kind)
    columns, rows, size = grid_of(heif.data_of(item))
    if max(size.width, size.height) > MAX_SIDE:
        raise HeifDamaged(f"a grid of {size}")
    if len(parts) != columns * rows:
        raise HeifDamaged(f"{len(parts)} tiles of {columns}x{rows}")
    tiles = (_image(heif, part, decode, depth - 1) for part in parts)
    return _assembled(tiles, columns, rows, size)


def _crop_of(clap: bytes, size: Size) -> Box | None:
    """The clean aperture in whole pixels; None where it is all of the image."""
    if not clap:
        return None
    reader = Reader(clap)
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
