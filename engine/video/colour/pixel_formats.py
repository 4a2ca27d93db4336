"""Pixel formats: what they hold, and their planes as numpy arrays without loss."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from av import VideoFrame
from av.video.format import VideoFormat
from numpy.typing import NDArray

from engine.protocol.media import Chroma
from engine.video.read.frames import Plane

Array = NDArray[Any]

_CHROMA: dict[tuple[int, int], Chroma] = {
    (8, 8): "420",
    (8, 16): "422",
    (16, 16): "444",
    (16, 8): "440",
    (4, 16): "411",
    (4, 4): "410",
}
_ORDER_RGB, _ORDER_RGBA = (0, 1, 2), (0, 1, 2, 3)

# Packed formats: bytes of one component, components in a pixel, where R G B A, Y U V A or Y A are.
_PACKED: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "rgb24": (1, 3, _ORDER_RGB),
    "bgr24": (1, 3, (2, 1, 0)),
    "rgba": (1, 4, _ORDER_RGBA),
    "bgra": (1, 4, (2, 1, 0, 3)),
    "argb": (1, 4, (1, 2, 3, 0)),
    "abgr": (1, 4, (3, 2, 1, 0)),
    "rgb0": (1, 4, _ORDER_RGB),
    "bgr0": (1, 4, (2, 1, 0)),
    "0rgb": (1, 4, (1, 2, 3)),
    "0bgr": (1, 4, (3, 2, 1)),
    "rgb48": (2, 3, _ORDER_RGB),
    "bgr48": (2, 3, (2, 1, 0)),
    "rgba64": (2, 4, _ORDER_RGBA),
    "bgra64": (2, 4, (2, 1, 0, 3)),
    "ya8": (1, 2, (0, 1)),
    "ya16": (2, 2, (0, 1)),
    "vuya": (1, 4, (2, 1, 0, 3)),
    "vuyx": (1, 4, (2, 1, 0)),
    "ayuv": (1, 4, (1, 2, 3, 0)),
    "ayuv64": (2, 4, (1, 2, 3, 0)),
}
# Luma plane and one plane of interleaved chroma: bytes, bits to shift down, whether V comes first.
_SEMI_PLANAR: dict[str, tuple[int, int, bool]] = {
    "nv12": (1, 0, False),
    "nv21": (1, 0, True),
    "nv16": (1, 0, False),
    "nv24": (1, 0, False),
    "nv42": (1, 0, True),
    "nv20": (2, 0, False),
    "p010": (2, 6, False),
    "p012": (2, 4, False),
    "p016": (2, 0, False),
    "p210": (2, 6, False),
    "p212": (2, 4, False),
    "p216": (2, 0, False),
    "p410": (2, 6, False),
    "p412": (2, 4, False),
    "p416": (2, 0, False),
}
# Four components for two pixels: bytes, bits to shift down, where Y, U and V start.
_PACKED_422: dict[str, tuple[int, int, tuple[int, int, int]]] = {
    "yuyv422": (1, 0, (0, 1, 3)),
    "yvyu422": (1, 0, (0, 3, 1)),
    "uyvy422": (1, 0, (1, 0, 2)),
    "y210": (2, 6, (0, 1, 3)),
    "y212": (2, 4, (0, 1, 3)),
    "y216": (2, 0, (0, 1, 3)),
}
_WORDS_RGB = {"x2rgb10le": (20, 10, 0), "x2bgr10le": (0, 10, 20)}  # first bit of R, G, B


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a pixel format holds, whatever its order in memory."""

    chroma: Chroma
    bit_depth: int  # of the planes we hand out: 8 to 16
    has_alpha: bool
    is_float: bool = False  # handed out as 16 bit code values, clipped to 0..1

    def plane_names(self, *, alpha: bool) -> str:
        """One letter for each plane: "YUV", "RGBA", "Y", ..."""
        names = {"rgb": "RGB", "gray": "Y"}.get(self.chroma, "YUV")
        return names + ("A" if alpha else "")


@cache
def layout_of(pixel_format: str) -> Layout:
    """What a format of FFmpeg holds.

    Raises:
        ValueError: FFmpeg knows no such format, or it only names memory of a device.
    """
    shape = VideoFormat(pixel_format, 16, 16)
    parts = shape.components
    is_float = any(kind in pixel_format for kind in ("f32", "f16"))
    if not parts:
        raise ValueError(f"{pixel_format} is a format of hardware, not of pictures in memory")
    bits = 16 if is_float else 8 if shape.has_palette else max(part.bits for part in parts)
    return Layout(
        chroma=_chroma_of(shape),
        bit_depth=min(16, max(8, bits)),
        has_alpha=shape.has_palette or any(part.is_alpha for part in parts),
        is_float=is_float,
    )


def _chroma_of(shape: VideoFormat) -> Chroma:
    if shape.is_rgb or shape.has_palette or shape.is_bayer or shape.name.startswith("xyz"):
        return "rgb"
    if len(shape.components) <= 2:
        return "gray"
    return _CHROMA.get((shape.chroma_width(16), shape.chroma_height(16)), "444")


def planes_of(frame: VideoFrame, *, alpha: bool) -> tuple[Plane, ...]:
    """Copies of the planes of a frame, exact for every format but those of floats.

    Args:
        frame: Decoded, in system memory.
        alpha: Whether the alpha plane is wanted; made opaque where the frame has none.

    Returns:
        Planes as in PlanarFrame; formats that are neither known nor planar go through swscale to
        the planar format of their layout.
    """
    layout = layout_of(frame.format.name)
    planes = _reader(frame.format.name)(frame, layout)
    colours = 3 if layout.chroma != "gray" else 1
    if not alpha:
        planes = planes[:colours]
    elif len(planes) == colours:
        opaque = np.full_like(planes[0], (1 << layout.bit_depth) - 1)
        planes = (*planes, opaque)
    return planes


@cache
def _reader(name: str) -> Callable[[VideoFrame, Layout], tuple[Plane, ...]]:
    base = name.removesuffix("le").removesuffix("be")
    tables: tuple[tuple[Any, Callable[[VideoFrame, Layout], tuple[Plane, ...]]], ...] = (
        (_PACKED, _read_packed),
        (_SEMI_PLANAR, _read_semi_planar),
        (_PACKED_422, _read_packed_422),
    )
    for table, reader in tables:
        if base in table:
            return reader
    special = {"pal8": _read_palette, "monob": _read_bits, "monow": _read_bits}
    if name in special:
        return special[name]
    if name in _WORDS_RGB:
        return _read_words
    if layout_of(name).is_float:
        return _read_float
    return _read_planar if _is_plain_planar(name) else _read_through_swscale


def _is_plain_planar(name: str) -> bool:
    return name.startswith(("yuv", "gbr", "gray")) and "msb" not in name and "32" not in name


def _rows(frame: VideoFrame, index: int, kind: str, columns: int, lines: int) -> Array:
    """One plane of a frame without the padding of its rows: a view."""
    plane = frame.planes[index]
    step = abs(plane.line_size)
    data = np.frombuffer(memoryview(plane), dtype=np.uint8)
    rows = data[: step * lines].reshape(lines, step)
    if plane.line_size < 0:  # stored bottom up
        rows = rows[::-1]
    width = columns * np.dtype(kind).itemsize
    return rows[:, :width].view(kind)


def _kind(bytes_: int, name: str) -> str:
    if bytes_ == 1:
        return "u1"
    return ">u2" if name.endswith("be") else "<u2"


def _own(plane: Array, shift: int = 0) -> Plane:
    """A contiguous copy in native byte order, shifted down to the low bits."""
    native: Plane = np.array(plane, dtype=plane.dtype.newbyteorder("="), order="C")
    if shift:
        np.right_shift(native, shift, out=native)
    return native


def _chroma_shape(frame: VideoFrame) -> tuple[int, int]:
    shape = VideoFormat(frame.format.name, 16, 16)
    across = 16 // max(1, shape.chroma_width(16))
    down = 16 // max(1, shape.chroma_height(16))
    return -(-frame.width // across), -(-frame.height // down)


def _read_planar(frame: VideoFrame, layout: Layout) -> tuple[Plane, ...]:
    name = frame.format.name
    kind = _kind(1 if layout.bit_depth == 8 else 2, name)
    order: tuple[int, ...] = tuple(range(len(frame.planes)))
    if name.startswith("gbr"):
        order = (2, 0, 1, 3)[: len(order)]
    chroma = _chroma_shape(frame) if layout.chroma not in ("rgb", "gray") else None
    planes = []
    for index in order:
        is_chroma = chroma is not None and index in (1, 2)
        columns, lines = chroma if chroma and is_chroma else (frame.width, frame.height)
        planes.append(_own(_rows(frame, index, kind, columns, lines)))
    return tuple(planes)


def _read_packed(frame: VideoFrame, layout: Layout) -> tuple[Plane, ...]:
    name = frame.format.name
    bytes_, count, order = _PACKED[name.removesuffix("le").removesuffix("be")]
    rows = _rows(frame, 0, _kind(bytes_, name), frame.width * count, frame.height)
    pixels = rows.reshape(frame.height, frame.width, count)
    return tuple(_own(pixels[:, :, index]) for index in order)


def _read_semi_planar(frame: VideoFrame, layout: Layout) -> tuple[Plane, ...]:
    name = frame.format.name
    bytes_, shift, v_first = _SEMI_PLANAR[name.removesuffix("le").removesuffix("be")]
    kind = _kind(bytes_, name)
    width, height = _chroma_shape(frame)
    luma = _own(_rows(frame, 0, kind, frame.width, frame.height), shift)
    pairs = _rows(frame, 1, kind, width * 2, height)
    first, second = _own(pairs[:, 0::2], shift), _own(pairs[:, 1::2], shift)
    return (luma, second, first) if v_first else (luma, first, second)


def _read_packed_422(frame: VideoFrame, layout: Layout) -> tuple[Plane, ...]:
    name = frame.format.name
    bytes_, shift, (y, u, v) = _PACKED_422[name.removesuffix("le").removesuffix("be")]
    half = -(-frame.width // 2)
    rows = _rows(frame, 0, _kind(bytes_, name), half * 4, frame.height)
    luma = _own(rows[:, y::2][:, : frame.width], shift)
    return luma, _own(rows[:, u::4], shift), _own(rows[:, v::4], shift)


def _read_words(frame: VideoFrame, layout: Layout) -> tuple[Plane, ...]:
    words = _rows(frame, 0, "<u4", frame.width, frame.height)
    bits = _WORDS_RGB[frame.format.name]
    return tuple((words >> bit & 1023).astype(np.uint16) for bit in bits)


def _read_palette(frame: VideoFrame, layout: Layout) -> tuple[Plane, ...]:
    indices = _rows(frame, 0, "u1", frame.width, frame.height)
    entries = np.frombuffer(memoryview(frame.planes[1]), dtype=np.uint32, count=256)
    return tuple((entries >> bit & 255).astype(np.uint8)[indices] for bit in (16, 8, 0, 24))


def _read_bits(frame: VideoFrame, layout: Layout) -> tuple[Plane, ...]:
    rows = _rows(frame, 0, "u1", -(-frame.width // 8), frame.height)
    bits = np.unpackbits(rows, axis=1)[:, : frame.width]
    white = bits if frame.format.name == "monob" else 1 - bits
    return (np.ascontiguousarray(white * np.uint8(255)),)


def _read_float(frame: VideoFrame, layout: Layout) -> tuple[Plane, ...]:
    name = frame.format.name
    order = "<" if name.endswith("le") else ">" if name.endswith("be") else "="
    if not name.startswith(("gbr", "gray")) or (order == "=" and sys.byteorder == "big"):
        return _read_through_swscale(frame, layout)
    kind = order + ("f4" if "f32" in name else "f2")
    picks = (2, 0, 1, 3)[: len(frame.planes)] if name.startswith("gbr") else (0,)
    planes = (_rows(frame, index, kind, frame.width, frame.height) for index in picks)
    return tuple(_codes(plane) for plane in planes)


def _codes(values: Array) -> Plane:
    clipped = np.clip(np.nan_to_num(values.astype(np.float32), nan=0.0), 0.0, 1.0)
    codes: Plane = np.rint(clipped * 65535.0).astype(np.uint16)
    return codes


def planar_format(layout: Layout) -> str:
    """The planar pixel format that holds this layout, e.g. "yuv422p10le", "gbrap", "gray16le"."""
    depth = next(d for d in (8, 9, 10, 12, 14, 16) if d >= layout.bit_depth)
    if layout.has_alpha and depth in (9, 14):
        depth = 10 if depth == 9 else 16
    suffix = "" if depth == 8 else f"{depth}le"
    if layout.chroma == "gray":
        if layout.has_alpha:
            return "ya8" if depth == 8 else "ya16le"
        return "gray" + suffix
    alpha = "a" if layout.has_alpha else ""
    if layout.chroma == "rgb":
        return f"gbr{alpha}p{suffix}"
    return f"yuv{alpha}{layout.chroma}p{suffix}"


def _read_through_swscale(frame: VideoFrame, layout: Layout) -> tuple[Plane, ...]:
    # TRAP: in several threads swscale (FFmpeg 8.1) now and then loses a row; so does it elsewhere.
    target = planar_format(layout)
    planes = planes_of(frame.reformat(format=target, threads=1), alpha=layout.has_alpha)
    have = layout_of(target).bit_depth
    if have == layout.bit_depth:
        return planes
    return tuple(plane >> np.uint16(have - layout.bit_depth) for plane in planes)
