"""Frames of FFmpeg to planes of code values and back, without loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from av import VideoFrame
from av.video.format import VideoFormat
from numpy.typing import NDArray

from engine.core.geometry import Margins, Size
from engine.protocol.media import Chroma, subsampling
from engine.video.read.frames import Plane

_CHROMA: dict[tuple[int, int], Chroma] = {
    (8, 8): "420",
    (8, 16): "422",
    (16, 16): "444",
    (16, 8): "440",
    (4, 16): "411",
    (4, 4): "410",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PixelLayout:
    """Components of a pixel format, whatever its order in memory."""

    chroma: Chroma
    bit_depth: int  # depth of the planes of PlanarFrame: 8 to 16
    has_alpha: bool
    is_float: bool = False  # 16-bit code values here, clipped to 0..1; linear light as sRGB


@cache
def layout_of(pixel_format: str) -> PixelLayout:
    """Components of a format of FFmpeg.

    Raises:
        ValueError: FFmpeg knows no such format, or it only names memory of a device.
    """
    shape = VideoFormat(pixel_format, 16, 16)
    parts = shape.components
    is_float = any(kind in pixel_format for kind in ("f32", "f16"))
    if not parts:
        raise ValueError(f"{pixel_format} is a format of hardware, not of images in memory")
    bits = 16 if is_float else 8 if shape.has_palette else max(part.bits for part in parts)
    return PixelLayout(
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


def planar_format(layout: PixelLayout) -> str:
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


Component = tuple[int, int, int]  # plane of FFmpeg's frame, first sample of a row, step to the next


@dataclass(frozen=True, slots=True)
class SampleOrder:
    """Places of the samples of a pixel format in memory."""

    kind: str  # NumPy's name of a stored sample, with its byte order: "u1", "<u2", ">f4"
    shift: int  # bits below the code value in a sample
    components: tuple[Component, ...]  # in the order of PlanarFrame.planes


def _packed(count: int, *order: int) -> tuple[Component, ...]:
    """Pixels of `count` samples; where R, G, B, A or Y, U, V, A or Y, A are in one."""
    return tuple((0, first, count) for first in order)


def _packed_422(y: int, u: int, v: int) -> tuple[Component, ...]:
    """Four samples for two pixels."""
    return (0, y, 2), (0, u, 4), (0, v, 4)


_UV = ((0, 0, 1), (1, 0, 2), (1, 1, 2))  # a luma plane and one of interleaved chroma
_VU = ((0, 0, 1), (1, 1, 2), (1, 0, 2))

# Not planar: bytes of a sample, bits below the code value, components.
_ORDERS: dict[str, tuple[int, int, tuple[Component, ...]]] = {
    "rgb24": (1, 0, _packed(3, 0, 1, 2)),
    "bgr24": (1, 0, _packed(3, 2, 1, 0)),
    "rgba": (1, 0, _packed(4, 0, 1, 2, 3)),
    "bgra": (1, 0, _packed(4, 2, 1, 0, 3)),
    "argb": (1, 0, _packed(4, 1, 2, 3, 0)),
    "abgr": (1, 0, _packed(4, 3, 2, 1, 0)),
    "rgb0": (1, 0, _packed(4, 0, 1, 2)),
    "bgr0": (1, 0, _packed(4, 2, 1, 0)),
    "0rgb": (1, 0, _packed(4, 1, 2, 3)),
    "0bgr": (1, 0, _packed(4, 3, 2, 1)),
    "rgb48": (2, 0, _packed(3, 0, 1, 2)),
    "bgr48": (2, 0, _packed(3, 2, 1, 0)),
    "rgba64": (2, 0, _packed(4, 0, 1, 2, 3)),
    "bgra64": (2, 0, _packed(4, 2, 1, 0, 3)),
    "ya8": (1, 0, _packed(2, 0, 1)),
    "ya16": (2, 0, _packed(2, 0, 1)),
    "vuya": (1, 0, _packed(4, 2, 1, 0, 3)),
    "vuyx": (1, 0, _packed(4, 2, 1, 0)),
    "ayuv": (1, 0, _packed(4, 1, 2, 3, 0)),
    "ayuv64": (2, 0, _packed(4, 1, 2, 3, 0)),
    **dict.fromkeys(("nv12", "nv16", "nv24"), (1, 0, _UV)),
    **dict.fromkeys(("nv21", "nv42"), (1, 0, _VU)),
    **dict.fromkeys(("nv20", "p016", "p216", "p416"), (2, 0, _UV)),
    **dict.fromkeys(("p012", "p212", "p412"), (2, 4, _UV)),
    **dict.fromkeys(("p010", "p210", "p410"), (2, 6, _UV)),
    "yuyv422": (1, 0, _packed_422(0, 1, 3)),
    "yvyu422": (1, 0, _packed_422(0, 3, 1)),
    "uyvy422": (1, 0, _packed_422(1, 0, 2)),
    "y210": (2, 6, _packed_422(0, 1, 3)),
    "y212": (2, 4, _packed_422(0, 1, 3)),
    "y216": (2, 0, _packed_422(0, 1, 3)),
}
_RGB_PLANES = (2, 0, 1, 3)  # FFmpeg stores G, B, R, A


@cache
def order_of(pixel_format: str) -> SampleOrder | None:
    """Places of the samples of a format; None for a rare one that only swscale reads."""
    layout = layout_of(pixel_format)
    base = pixel_format.removesuffix("le").removesuffix("be")
    order = ">" if pixel_format.endswith("be") else "<"
    if base in _ORDERS:
        size, shift, components = _ORDERS[base]
        return SampleOrder(f"{order}u{size}", shift, components)
    prefixes = ("gbr", "gray") if layout.is_float else ("yuv", "gbr", "gray")
    if not base.startswith(prefixes) or "msb" in base or (not layout.is_float and "32" in base):
        return None
    kind = f"u{1 if layout.bit_depth == 8 else 2}"
    if layout.is_float:
        kind = "f4" if "f32" in base else "f2"
    shape = VideoFormat(pixel_format, 16, 16)
    planes = _RGB_PLANES if base.startswith("gbr") else tuple(range(4))
    return SampleOrder(order + kind, 0, tuple((n, 0, 1) for n in planes[: len(shape.components)]))


Array = NDArray[Any]
_PEAK = 65535
_LINEAR = 8  # FFmpeg's number of the transfer
_WORDS_RGB = {"x2rgb10le": (20, 10, 0), "x2bgr10le": (0, 10, 20)}  # first bit of R, G, B


def planes_of(frame: VideoFrame, *, alpha: bool) -> tuple[Plane, ...]:
    """Copies of the planes of a frame, exact for every format but those of floats.

    Args:
        frame: Decoded, in system memory.
        alpha: Whether to return the alpha plane; opaque where the frame has none.

    Returns:
        Planes as in PlanarFrame; swscale converts rare formats to the planar one of their layout.
    """
    layout = layout_of(frame.format.name)
    planes = _read(frame)
    colours = 3 if layout.chroma != "gray" else 1
    if not alpha:
        return planes[:colours]
    if len(planes) == colours:
        opaque = np.full_like(planes[0], (1 << layout.bit_depth) - 1)
        return (*planes, opaque)
    return planes


def without_margins(
    planes: tuple[Plane, ...], chroma: Chroma, margins: Margins
) -> tuple[Plane, ...]:
    """Planes without what is cropped; chroma begins at the sample that holds the first pixel."""
    if margins == Margins():
        return planes
    height, width = planes[0].shape
    size, (across, down) = margins.inside(Size(width, height)), subsampling(chroma)
    found: list[Plane] = []
    for number, plane in enumerate(planes):
        x, y = (across, down) if number in (1, 2) else (1, 1)
        left, top = margins.left // x, margins.top // y
        right, bottom = left - (-size.width // x), top - (-size.height // y)
        part: Plane = plane[top:bottom, left:right].copy()
        found.append(part)
    return tuple(found)


def frame_of(planes: Sequence[Array], size: Size, pixel_format: str) -> VideoFrame:
    """A new frame with a copy of the planes.

    Args:
        planes: [h, w] of uint8, or uint16 with the values in the low bits, as PlanarFrame orders;
            16-bit sRGB for formats of floats, which become linear light, as EXR has it.
        size: Size of the frame, px.
        pixel_format: One of the encoder table.

    Raises:
        ValueError: Number, shape or dtype of the planes do not match the format.
    """
    frame = VideoFrame(size.width, size.height, pixel_format)
    order = order_of(pixel_format)
    count = len(order.components) if order is not None else 0
    if order is None or len(planes) != count:
        raise ValueError(f"{pixel_format} has {count} planes, not {len(planes)}")
    for number, plane in enumerate(planes):
        target = _component(frame, order, number)
        if plane.shape != target.shape:
            raise ValueError(f"plane {number} has the shape {plane.shape}, not {target.shape}")
        width = 2 if target.dtype.kind == "f" else target.dtype.itemsize  # bytes
        if plane.dtype.kind != "u" or plane.dtype.itemsize != width:
            raise ValueError(f"planes must be uint{8 * width}, not {plane.dtype}")
        if target.dtype.kind == "f":  # alpha is linear already
            target[...] = plane / np.float32(_PEAK) if number == 3 else _linear()[plane]
            continue
        target[...] = plane << np.uint16(order.shift) if order.shift else plane
    return frame


def _component(frame: VideoFrame, order: SampleOrder, number: int) -> Array:
    """The samples of one component [h, w]: a view of the frame's memory."""
    index, first, step = order.components[number]
    width, height = frame.width, frame.height
    if number in (1, 2) and layout_of(frame.format.name).chroma not in ("rgb", "gray"):
        shape = VideoFormat(frame.format.name, 16, 16)
        width = -(-width * shape.chroma_width(16) // 16)
        height = -(-height * shape.chroma_height(16) // 16)
    return _rows(frame, index, order.kind, height)[:, first::step][:, :width]


def _rows(frame: VideoFrame, index: int, kind: str, lines: int) -> Array:
    """The memory of one plane [lines, samples of a row], padding at the ends included."""
    plane, dtype = frame.planes[index], np.dtype(kind)
    stride = abs(plane.line_size)
    data = np.frombuffer(memoryview(plane), dtype=np.uint8)
    rows = data[: stride * lines].reshape(lines, stride)
    if plane.line_size < 0:  # stored bottom up
        rows = rows[::-1]
    return rows[:, : stride // dtype.itemsize * dtype.itemsize].view(dtype)


def _read(frame: VideoFrame) -> tuple[Plane, ...]:
    name = frame.format.name
    if name in _SPECIAL:
        return _SPECIAL[name](frame)
    order = order_of(name)
    if order is None:
        return _read_through_swscale(frame)
    samples = [_component(frame, order, number) for number in range(len(order.components))]
    if layout_of(name).is_float:
        is_linear = frame.color_trc == _LINEAR
        colours = 3 if len(samples) > 2 else 1
        return tuple(_codes(one, is_linear and at < colours) for at, one in enumerate(samples))
    return tuple(_copy(values, order.shift) for values in samples)


def has_clipped(frame: VideoFrame) -> bool:
    """Whether a frame of floats has values outside 0..1, which `planes_of` clips."""
    order = order_of(frame.format.name)
    if order is None:
        return False
    samples = (_component(frame, order, number) for number in range(len(order.components)))
    return any(bool((one < 0).any() or (one > 1).any()) for one in samples)


def _copy(samples: Array, shift: int) -> Plane:
    """Contiguous code values in native byte order."""
    plane: Plane = np.array(samples, dtype=samples.dtype.newbyteorder("="), order="C")
    if shift:
        np.right_shift(plane, shift, out=plane)
    return plane


def _codes(values: Array, is_linear: bool) -> Plane:
    """Floating-point values, clipped to 0..1, as 16-bit code values; linear light as sRGB."""
    if is_linear and values.dtype.itemsize == 2:  # all halves that there are
        table = _codes(
            np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32), True
        )
        plane: Plane = table[values.astype(np.float16).view(np.uint16)]
        return plane
    found = np.clip(np.nan_to_num(values.astype(np.float32), nan=0.0), 0.0, 1.0)
    if is_linear:
        found = np.where(found <= 0.0031308, 12.92 * found, 1.055 * found ** (1 / 2.4) - 0.055)
    codes: Plane = np.rint(found * np.float32(_PEAK)).astype(np.uint16)
    return codes


@cache
def _linear() -> NDArray[np.float32]:
    """Linear light of each 16-bit code value of sRGB (IEC 61966-2-1)."""
    codes = np.arange(_PEAK + 1) / _PEAK
    light = np.where(codes <= 0.04045, codes / 12.92, ((codes + 0.055) / 1.055) ** 2.4)
    return light.astype(np.float32)


def _read_words(frame: VideoFrame) -> tuple[Plane, ...]:
    words = _rows(frame, 0, "<u4", frame.height)[:, : frame.width]
    bits = _WORDS_RGB[frame.format.name]
    return tuple((words >> bit & 1023).astype(np.uint16) for bit in bits)


def _read_palette(frame: VideoFrame) -> tuple[Plane, ...]:
    indices = _rows(frame, 0, "u1", frame.height)[:, : frame.width]
    entries = np.frombuffer(memoryview(frame.planes[1]), dtype=np.uint32, count=256)
    return tuple((entries >> bit & 255).astype(np.uint8)[indices] for bit in (16, 8, 0, 24))


def _read_bits(frame: VideoFrame) -> tuple[Plane, ...]:
    rows = _rows(frame, 0, "u1", frame.height)
    bits = np.unpackbits(rows, axis=1)[:, : frame.width]
    white = bits if frame.format.name == "monob" else 1 - bits
    return (np.ascontiguousarray(white * np.uint8(255)),)


def _read_through_swscale(frame: VideoFrame) -> tuple[Plane, ...]:
    # TRAP: in several threads swscale (FFmpeg 8.1) now and then loses a row; so does it elsewhere.
    layout = layout_of(frame.format.name)
    target = planar_format(layout)
    planes = planes_of(frame.reformat(format=target, threads=1), alpha=layout.has_alpha)
    excess = layout_of(target).bit_depth - layout.bit_depth
    return tuple(plane >> np.uint16(excess) for plane in planes) if excess else planes


_SPECIAL: dict[str, Callable[[VideoFrame], tuple[Plane, ...]]] = {
    "pal8": _read_palette,
    "monob": _read_bits,
    "monow": _read_bits,
    **dict.fromkeys(_WORDS_RGB, _read_words),
}
