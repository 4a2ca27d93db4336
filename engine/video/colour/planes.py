"""Frames of FFmpeg to planes of code values and back, without loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from av import VideoFrame
from av.video.format import VideoFormat
from numpy.typing import NDArray

from engine.core.geometry import Margins, Size
from engine.protocol.media import Chroma, subsampling
from engine.video.colour.pixel_formats import SampleOrder, layout_of, order_of, planar_format
from engine.video.read.frames import Plane

Array = NDArray[Any]
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
        planes: [h, w] of uint8, or uint16 with the values in the low bits, as PlanarFrame orders.
        size: Of the picture, px.
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
        if plane.dtype.kind != "u" or plane.dtype.itemsize != target.dtype.itemsize:
            raise ValueError(f"planes must be uint{8 * target.dtype.itemsize}, not {plane.dtype}")
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
        return tuple(_codes(values) for values in samples)
    return tuple(_copy(values, order.shift) for values in samples)


def _copy(samples: Array, shift: int) -> Plane:
    """Contiguous code values in native byte order."""
    plane: Plane = np.array(samples, dtype=samples.dtype.newbyteorder("="), order="C")
    if shift:
        np.right_shift(plane, shift, out=plane)
    return plane


def _codes(values: Array) -> Plane:
    """Floating-point values, clipped to 0..1, as 16-bit code values."""
    clipped = np.clip(np.nan_to_num(values.astype(np.float32), nan=0.0), 0.0, 1.0)
    codes: Plane = np.rint(clipped * 65535.0).astype(np.uint16)
    return codes


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
