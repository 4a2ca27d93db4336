"""Planes of code values into frames that an encoder takes: the way back of `pixels`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from av import VideoFrame
from numpy.typing import NDArray

Array = NDArray[Any]

# Packed formats: bytes of a component, components of a pixel, where R G B A or Y A go.
_PACKED: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "rgb24": (1, 3, (0, 1, 2)),
    "rgba": (1, 4, (0, 1, 2, 3)),
    "bgr0": (1, 4, (2, 1, 0)),
    "bgra": (1, 4, (2, 1, 0, 3)),
    "rgb48": (2, 3, (0, 1, 2)),
    "rgba64": (2, 4, (0, 1, 2, 3)),
    "ya8": (1, 2, (0, 1)),
    "ya16": (2, 2, (0, 1)),
}
_PLANAR_RGB = (2, 0, 1, 3)  # FFmpeg stores G, B, R, A


def frame_of(planes: Sequence[Array], width: int, height: int, pixel_format: str) -> VideoFrame:
    """A new frame with a copy of the planes.

    Args:
        planes: [h, w] of uint8, or uint16 with the values in the low bits, in the order of
            PlanarFrame.
        width: Of the picture, px.
        height: Of the picture, px.
        pixel_format: One of the encoder table.

    Raises:
        ValueError: Number, shape or type of the planes do not suit the format.
    """
    frame = VideoFrame(width, height, pixel_format)
    base = pixel_format.removesuffix("le").removesuffix("be")
    order = ">" if pixel_format.endswith("be") else "<"
    if base in _PACKED:
        _fill_packed(frame, planes, base, order)
    elif base == "p010":
        _fill_p010(frame, planes)
    else:
        _fill_planar(frame, planes, order)
    return frame


def _rows(frame: VideoFrame, index: int, kind: str) -> Array:
    """The memory of a plane as rows, padding at their ends included."""
    plane = frame.planes[index]
    lines = plane.buffer_size // plane.line_size
    memory: Array = np.frombuffer(memoryview(plane), dtype=kind)
    return memory.reshape(lines, -1)


def _check(plane: Array, kind: str, room: tuple[int, int]) -> None:
    bytes_ = np.dtype(kind).itemsize
    if plane.dtype.itemsize != bytes_ or plane.dtype.kind != "u":
        raise ValueError(f"planes must be uint{8 * bytes_}, not {plane.dtype}")
    if plane.shape[0] > room[0] or plane.shape[1] > room[1]:
        raise ValueError(f"a plane of {plane.shape} does not fit into {room}")


def _fill_planar(frame: VideoFrame, planes: Sequence[Array], order: str) -> None:
    if len(planes) != len(frame.planes):
        raise ValueError(f"{frame.format.name} has {len(frame.planes)} planes, not {len(planes)}")
    kind = order + "u2" if frame.format.components[0].bits > 8 else "u1"
    is_rgb = frame.format.name.startswith("gbr")
    for number, plane in enumerate(planes):
        index = _PLANAR_RGB[number] if is_rgb else number
        shape = (frame.planes[index].height, frame.planes[index].width)
        if plane.shape != shape:
            raise ValueError(f"plane {number} has the shape {plane.shape}, not {shape}")
        target = _rows(frame, index, kind)
        _check(plane, kind, (target.shape[0], target.shape[1]))
        target[: shape[0], : shape[1]] = plane


def _fill_packed(frame: VideoFrame, planes: Sequence[Array], base: str, order: str) -> None:
    bytes_, count, places = _PACKED[base]
    kind = "u1" if bytes_ == 1 else order + "u2"
    if len(planes) != len(places):
        raise ValueError(f"{frame.format.name} has {len(places)} components, not {len(planes)}")
    rows = _rows(frame, 0, kind)[: frame.height, : frame.width * count]
    for place, plane in zip(places, planes, strict=True):
        if plane.shape != (frame.height, frame.width):
            raise ValueError(f"a plane has the shape {plane.shape}")
        _check(plane, kind, (frame.height, frame.width))
        rows[:, place::count] = plane


def _fill_p010(frame: VideoFrame, planes: Sequence[Array]) -> None:
    """Luma, then U and V side by side, the ten bits at the top of the word."""
    luma, first, second = planes
    _check(luma, "<u2", (frame.height, frame.width))
    height, width = first.shape
    rows = _rows(frame, 0, "<u2")
    rows[: frame.height, : frame.width] = luma << np.uint16(6)
    pairs = _rows(frame, 1, "<u2")
    pairs[:height, 0 : width * 2 : 2] = first << np.uint16(6)
    pairs[:height, 1 : width * 2 : 2] = second << np.uint16(6)
