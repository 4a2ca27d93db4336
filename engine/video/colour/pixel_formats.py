"""Pixel formats of FFmpeg: chroma, depth and alpha of each, and where its samples are in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from av.video.format import VideoFormat

from engine.protocol.media import Chroma

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
    """What a pixel format holds, whatever its order in memory."""

    chroma: Chroma
    bit_depth: int  # of the planes of PlanarFrame: 8 to 16
    has_alpha: bool
    is_float: bool = False  # read as 16-bit code values, clipped to 0..1


@cache
def layout_of(pixel_format: str) -> PixelLayout:
    """What a format of FFmpeg holds.

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
    """Where the samples of a pixel format are in memory.

    Attributes:
        kind: NumPy's name of a stored sample, with its byte order: "u1", "<u2", ">f4".
        shift: Bits below the code value in a sample.
        components: In the order of PlanarFrame.planes.
    """

    kind: str
    shift: int
    components: tuple[Component, ...]


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
    """Where the samples of a format are; None for a rare one that only swscale reads."""
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
