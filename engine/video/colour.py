"""Code values of a file to RGB and back, in float32, on any device.

Only matrix, range, depth and chroma location are converted. Transfer and primaries stay as they
are: the result keeps the tags of its source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from engine.protocol.media import Chroma, VideoInfo, subsampling
from engine.protocol.plan import PicturePlan
from engine.video.colour_tags import assumed_matrix

# Shares of red and blue in luma (ITU-R BT.709, BT.601, FCC 73.682, SMPTE 240M, BT.2020).
_LUMA_WEIGHTS = {
    "bt709": (0.2126, 0.0722),
    "smpte170m": (0.299, 0.114),
    "fcc": (0.30, 0.11),
    "smpte240m": (0.212, 0.087),
    "bt2020nc": (0.2627, 0.0593),
}
_ALIASES = {
    "bt470bg": "smpte170m",
    # Not linear: the nearest linear matrix in both directions, so that nothing is lost.
    "bt2020c": "bt2020nc",
    "ictcp": "bt2020nc",
    "ipt-c2": "bt2020nc",
    "chroma-derived-nc": "bt709",
    "chroma-derived-c": "bt2020nc",
    "smpte2085": "bt2020nc",
    "ycgco-re": "ycgco",
    "ycgco-ro": "ycgco",
}
_CENTRED_CODECS = ("mjpeg", "webp", "theora", "mpeg1video")

Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class ColourSpec:
    """Meaning of the code values of a picture.

    `matrix` is one of "bt709", "smpte170m", "fcc", "smpte240m", "bt2020nc", "ycgco", "rgb",
    "gray"; `chroma_location` one of FFmpeg's names, "" where chroma is not reduced.
    """

    matrix: str
    full_range: bool
    bit_depth: int
    chroma: Chroma
    chroma_location: str
    has_alpha: bool

    @property
    def peak(self) -> int:
        """Largest code value."""
        return (1 << self.bit_depth) - 1


def colour_spec(picture: VideoInfo | PicturePlan) -> ColourSpec:
    """Meaning of a source's or a result's code values, by its tags.

    Without tags: BT.601 for SD and BT.709 above, full range for JPEG and RGB.
    """
    tags, chroma = picture.tags, picture.chroma
    if chroma in ("rgb", "gray"):
        full = chroma == "rgb" or tags.range != "tv"
        return ColourSpec(str(chroma), full, picture.bit_depth, chroma, "", picture.has_alpha)
    full = tags.range == "pc" or picture.pixel_format.startswith("yuvj")
    matrix = _ALIASES.get(tags.matrix, tags.matrix)
    if matrix not in _LUMA_WEIGHTS and matrix != "ycgco":
        matrix = assumed_matrix(picture.size)
    location = tags.chroma_location or ("center" if picture.codec in _CENTRED_CODECS else "left")
    location = "" if chroma == "444" else location
    return ColourSpec(matrix, full, picture.bit_depth, chroma, location, picture.has_alpha)


def to_rgb(planes: Sequence[Tensor], spec: ColourSpec, device: torch.device | str) -> Tensor:
    """Frames as RGB, or RGBA where the source has alpha.

    Args:
        planes: Planes of PlanarFrame, stacked: [T, h, w] each, uint8, uint16 or int32.
        spec: Meaning of the code values.
        device: Device of the result; the code values are copied there first.

    Returns:
        [T, 3 or 4, H, W] float32, nominally 0..1 and not clipped: footroom, headroom and colours
        outside RGB are kept. Gray gives three equal channels.

    Memory: twice the result: 2 x 100 MB for a frame of 4K.
    """
    colours = 3 if spec.chroma != "gray" else 1
    frames, (height, width) = planes[0].shape[0], planes[0].shape[1:]
    codes = torch.empty((frames, colours, height, width), dtype=torch.float32, device=device)
    codes[:, 0] = _on_device(planes[0], device)
    if colours == 3:
        halvings = halvings_of(spec.chroma, spec.chroma_location)
        for index in (1, 2):
            plane = _on_device(planes[index], device)
            codes[:, index] = upsample(plane, halvings)[:, :height, :width]
    rows, offsets = _decoding(spec)
    rgb = _transform(rows, offsets, codes)
    if not spec.has_alpha:
        return rgb
    alpha = _on_device(planes[colours], device).float().mul_(1 / spec.peak)
    return torch.cat((rgb, alpha[:, None]), dim=1)


def from_rgb(rgb: Tensor, spec: ColourSpec) -> tuple[Tensor, ...]:
    """Code values of frames: the inverse of `to_rgb`, rounded to nearest.

    Luma, and chroma where it is flat, come back bit for bit from `to_rgb` with the same spec.

    Args:
        rgb: [T, 3 or 4, H, W] float32; a missing alpha is opaque, a surplus one is dropped.
        spec: Meaning of the returned code values.

    Returns:
        Planes [T, h, w], uint8 up to 8 bits and uint16 above, in the order of PlanarFrame, with
        values 0..2^n - 1, on the device of `rgb`.

    Memory: 1.5 times the float frames for 4:2:0, twice for 4:4:4: 150 to 200 MB for a frame of 4K.
    """
    colour = rgb[:, :3]
    rows, offsets = _encoding(spec)
    halvings = halvings_of(spec.chroma, spec.chroma_location)
    planes: list[Tensor]
    if spec.chroma == "gray" or not halvings:
        codes = _codes(_transform(rows, offsets, colour), spec)
        planes = [codes[:, index] for index in range(codes.shape[1])]
    else:
        luma = _codes(_transform(rows[:1], offsets[:1], colour), spec)
        vertical = [each for each in halvings if each.axis == -2]
        across = [each for each in halvings if each.axis == -1]
        chroma = _transform(rows[1:], offsets[1:], downsample(colour, vertical))
        chroma = _codes(downsample(chroma, across), spec)
        planes = [luma[:, 0], chroma[:, 0], chroma[:, 1]]
    if spec.has_alpha:
        planes.append(_alpha_codes(rgb, spec))
    return tuple(planes)


def _alpha_codes(rgb: Tensor, spec: ColourSpec) -> Tensor:
    if rgb.shape[1] < 4:
        alpha = torch.full_like(rgb[:, 0], float(spec.peak))
    else:
        alpha = rgb[:, 3] * float(spec.peak) + 0.5
    return _codes(alpha, spec)


def _on_device(plane: Tensor, device: torch.device | str) -> Tensor:
    """Code values on the device of the result; int32 for uint16, which few kernels support."""
    if plane.dtype == torch.uint16:
        plane = plane.to(torch.int32)
    return plane.to(device)


def _transform(rows: Rows, offsets: tuple[float, ...], values: Tensor) -> Tensor:
    """[T, n, H, W] to [T, len(rows), H, W]: one matrix product per pixel, plus offsets."""
    frames, channels, height, width = values.shape
    matrix = torch.tensor(rows, dtype=torch.float32, device=values.device)
    offset = torch.tensor(offsets, dtype=torch.float32, device=values.device)
    flat = values.reshape(frames, channels, height * width)
    result = torch.baddbmm(offset[None, :, None], matrix.expand(frames, *matrix.shape), flat)
    return result.reshape(frames, len(rows), height, width)


def _codes(values: Tensor, spec: ColourSpec) -> Tensor:
    """Values plus 0.5, truncated to code values."""
    limited = values.clamp_(0.0, float(spec.peak))
    if spec.bit_depth <= 8:
        return limited.to(torch.uint8)
    return limited.to(torch.int32).to(torch.uint16)


@cache
def _forward(matrix: str) -> Rows:
    """RGB to Y, Cb, Cr (or Y, Cg, Co), chroma from -0.5 to 0.5."""
    if matrix == "rgb":
        return ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    if matrix == "ycgco":
        return ((0.25, 0.5, 0.25), (-0.25, 0.5, -0.25), (0.5, 0.0, -0.5))
    red, blue = _LUMA_WEIGHTS[matrix]
    luma = (red, 1 - red - blue, blue)
    cb = tuple(
        (part - weight) / (2 - 2 * blue) for part, weight in zip((0, 0, 1), luma, strict=True)
    )
    cr = tuple(
        (part - weight) / (2 - 2 * red) for part, weight in zip((1, 0, 0), luma, strict=True)
    )
    return (luma, cb, cr)


def _scales(spec: ColourSpec) -> tuple[tuple[float, float], tuple[float, float]]:
    """Code value of 0 and code values of a unit, of luma and of chroma."""
    step = 1 << (spec.bit_depth - 8)
    if spec.full_range:
        return (0.0, float(spec.peak)), (float(1 << (spec.bit_depth - 1)), float(spec.peak))
    return (16.0 * step, 219.0 * step), (128.0 * step, 224.0 * step)


@cache
def _encoding(spec: ColourSpec) -> tuple[Rows, tuple[float, ...]]:
    """Matrix and offsets from RGB to code values plus 0.5."""
    (black, luma_scale), (middle, chroma_scale) = _scales(spec)
    if spec.matrix == "gray":
        third = luma_scale / 3
        return ((third, third, third),), (black + 0.5,)
    is_rgb = spec.matrix == "rgb"
    scales = (luma_scale, *((luma_scale,) * 2 if is_rgb else (chroma_scale,) * 2))
    offsets = (black, *((black,) * 2 if is_rgb else (middle,) * 2))
    forward = _forward(spec.matrix)
    rows = tuple(
        tuple(value * scale for value in row) for row, scale in zip(forward, scales, strict=True)
    )
    return rows, tuple(offset + 0.5 for offset in offsets)


@cache
def _decoding(spec: ColourSpec) -> tuple[Rows, tuple[float, ...]]:
    """Matrix and offsets from code values to RGB."""
    (black, luma_scale), _ = _scales(spec)
    if spec.matrix == "gray":
        return ((1 / luma_scale,),) * 3, (-black / luma_scale,) * 3
    rows, offsets = _encoding(spec)
    inverse = torch.linalg.inv(torch.tensor(rows, dtype=torch.float64))
    bias = -(inverse @ (torch.tensor(offsets, dtype=torch.float64) - 0.5))
    return tuple(map(tuple, inverse.tolist())), tuple(bias.tolist())


# --- resolution of the colour planes


Location = Literal["middle", "first", "second"]  # between two samples of luma, or on one of them


@dataclass(frozen=True, slots=True)
class ChromaHalving:
    """One halving of an axis (-1 across, -2 down)."""

    axis: int
    location: Location


def halvings_of(chroma: Chroma, location: str) -> tuple[ChromaHalving, ...]:
    """The halvings that lead from full to reduced chroma; none where it is not reduced.

    Args:
        chroma: Name of the chroma subsampling, as in VideoInfo.
        location: "left" (MPEG-2 and later), "center" (JPEG, MPEG-1), "topleft" (BT.2020), "top",
            "bottomleft" or "bottom".
    """
    across, down = (factor.bit_length() - 1 for factor in subsampling(chroma))
    horizontal: Location = "first" if location in ("left", "topleft", "bottomleft") else "middle"
    vertical: Location = "middle"
    if location.startswith("top"):
        vertical = "first"
    elif location.startswith("bottom"):
        vertical = "second"
    return (ChromaHalving(-2, vertical),) * down + (ChromaHalving(-1, horizontal),) * across


def downsample(values: Tensor, halvings: Sequence[ChromaHalving]) -> Tensor:
    """Halves axes of [..., H, W]; an odd side is rounded up, its last line counts twice.

    Flat areas stay exactly as they are. Memory: half of `values` for each halving.
    """
    for halving in halvings:
        values = _halved(values, halving)
    return values


def upsample(values: Tensor, halvings: Sequence[ChromaHalving]) -> Tensor:
    """Doubles axes of [..., h, w] linearly: the inverse of `downsample` in flat areas.

    Returns:
        float32; the caller cuts a side that was odd.
    """
    values = values.float()
    for halving in reversed(halvings):  # across first: fewer rows to go through
        values = _doubled(values, halving)
    return values


def _halved(values: Tensor, halving: ChromaHalving) -> Tensor:
    axis = halving.axis
    if values.shape[axis] % 2:
        last = values.narrow(axis, values.shape[axis] - 1, 1)
        values = torch.cat((values, last), dim=axis)
    even, odd = _every_other(values, axis)
    if halving.location == "middle":
        return torch.add(even, odd).mul_(0.5)
    # A sample on one of the two weighs 1 2 1, with the line outside the picture repeated.
    own, other = (even, odd) if halving.location == "first" else (odd, even)
    rest = own.shape[axis] - 1
    result = torch.mul(own, 0.5).add_(other, alpha=0.25)
    if halving.location == "first":
        result.narrow(axis, 1, rest).add_(other.narrow(axis, 0, rest), alpha=0.25)
        result.narrow(axis, 0, 1).add_(own.narrow(axis, 0, 1), alpha=0.25)
    else:
        result.narrow(axis, 0, rest).add_(other.narrow(axis, 1, rest), alpha=0.25)
        result.narrow(axis, rest, 1).add_(own.narrow(axis, rest, 1), alpha=0.25)
    return result


def _doubled(values: Tensor, halving: ChromaHalving) -> Tensor:
    axis, count = halving.axis, values.shape[halving.axis]
    shape = list(values.shape)
    shape[axis] = 2 * count
    result = values.new_empty(shape)
    even, odd = _every_other(result, axis)
    first, rest = values.narrow(axis, 0, count - 1), values.narrow(axis, 1, count - 1)
    share = 0.25 if halving.location == "middle" else 0.5  # of the neighbour
    if halving.location == "first":
        even.copy_(values)
    else:
        even.narrow(axis, 0, 1).copy_(values.narrow(axis, 0, 1))
        even.narrow(axis, 1, count - 1).copy_(torch.lerp(rest, first, share))
    if halving.location == "second":
        odd.copy_(values)
    else:
        odd.narrow(axis, count - 1, 1).copy_(values.narrow(axis, count - 1, 1))
        odd.narrow(axis, 0, count - 1).copy_(torch.lerp(first, rest, share))
    return result


def _every_other(values: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    if axis == -1:
        return values[..., 0::2], values[..., 1::2]
    return values[..., 0::2, :], values[..., 1::2, :]
