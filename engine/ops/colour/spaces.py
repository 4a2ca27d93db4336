"""RGB to CIELAB, HSV and linear light, and back. Frames are [T, 3, H, W] float; RGB is 0 to 1.

Light is what a display makes of code values, as far as a standard says so: of HLG, whose display
depends on the room, that of the scene. White, or 10,000 cd/m2 of PQ, is 1.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Row = tuple[float, float, float]

LUMA: Row = (0.2126, 0.7152, 0.0722)  # of gamma-encoded RGB, ITU-R BT.709

_RGB_TO_XYZ: tuple[Row, ...] = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
_XYZ_TO_RGB: tuple[Row, ...] = (
    (3.2404542, -1.5371385, -0.4985314),
    (-0.9692660, 1.8760108, 0.0415560),
    (0.0556434, -0.2040259, 1.0572252),
)
_WHITE: Row = (0.95047, 1.0, 1.08883)  # D65, 2 degrees
_KNEE = 6 / 29  # of the cube root in CIELAB; below it is a straight line
_SLOPE = (29 / 3) ** 3
_TINY = 1e-10


def weighted(pictures: Tensor, weights: Row) -> Tensor:
    """Sum of the three channels with weights: [T, 3, H, W] to [T, H, W].

    A sum, not a matrix product: those may be rounded to fewer bits on a GPU.
    """
    total = pictures[:, 0] * weights[0]
    for channel in (1, 2):
        total.add_(pictures[:, channel], alpha=weights[channel])
    return total


def srgb_to_linear(rgb: Tensor) -> Tensor:
    """Linear light of sRGB, white 1; below 0 the straight line at black goes on."""
    return torch.where(rgb > 0.04045, ((rgb + 0.055) / 1.055).clamp_(min=0) ** 2.4, rgb / 12.92)


def linear_to_srgb(linear: Tensor) -> Tensor:
    """The inverse of `srgb_to_linear`."""
    curved = 1.055 * linear.clamp(min=_TINY) ** (1 / 2.4) - 0.055
    return torch.where(linear > 0.0031308, curved, 12.92 * linear)


def rgb_to_lab(rgb: Tensor) -> Tensor:
    """L in 0 to 100, a and b around 0."""
    linear = srgb_to_linear(rgb)
    x, y, z = (
        _cube_root(weighted(linear, row) / white)
        for row, white in zip(_RGB_TO_XYZ, _WHITE, strict=True)
    )
    return torch.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], dim=1)


def lab_to_rgb(lab: Tensor) -> Tensor:
    """Back to RGB; colours that it cannot show are clipped to 0 to 1."""
    y = (lab[:, 0] + 16) / 116
    parts = (y + lab[:, 1] / 500, y, y - lab[:, 2] / 200)
    xyz = torch.stack([_cubed(p) * white for p, white in zip(parts, _WHITE, strict=True)], dim=1)
    linear = torch.stack([weighted(xyz, row) for row in _XYZ_TO_RGB], dim=1)
    return linear_to_srgb(linear).clamp_(0, 1)


def rgb_to_hsv(rgb: Tensor) -> Tensor:
    """Hue in 0 to 1 (red 0, green 1/3), saturation in 0 to 1, value: the largest channel."""
    red, green, blue = rgb.unbind(dim=1)
    value = rgb.amax(dim=1)
    spread = value - rgb.amin(dim=1)
    over = spread.clamp(min=_TINY)
    hue = torch.where(value == green, (blue - red) / over + 2, (red - green) / over + 4)
    hue = torch.where(value == red, ((green - blue) / over) % 6, hue) / 6 % 1
    saturation = spread / value.clamp(min=_TINY)
    return torch.stack([hue, saturation, value], dim=1)


def hsv_to_rgb(hsv: Tensor) -> Tensor:
    """Back to RGB."""
    hue, saturation, value = hsv.unbind(dim=1)
    away = value * saturation
    return torch.stack([value - away * _share(hue * 6 + n) for n in (5, 3, 1)], dim=1)


def _cube_root(x: Tensor) -> Tensor:
    return torch.where(x > _KNEE**3, x.clamp(min=_TINY) ** (1 / 3), (_SLOPE * x + 16) / 116)


def _cubed(x: Tensor) -> Tensor:
    return torch.where(x > _KNEE, x**3, (116 * x - 16) / _SLOPE)


def _share(sixths: Tensor) -> Tensor:
    """Distance of a channel from the largest one, 0 to 1, for a position on the hue circle."""
    place = sixths % 6
    return torch.minimum(place, 4 - place).clamp_(0, 1)


# --- linear light by the transfer of a video


_Curve = Callable[[Tensor], Tensor]

# SMPTE ST 2084
_PQ_INNER, _PQ_OUTER = 2610 / 16384, 2523 / 32
_PQ_LEAST, _PQ_ABOVE, _PQ_BELOW = 3424 / 4096, 2413 / 128, 2392 / 128
# ITU-R BT.2100
_HLG_SLOPE = 0.17883277
_HLG_BLACK = 1 - 4 * _HLG_SLOPE
_HLG_SHIFT = 0.55991073


def to_light(values: Tensor, transfer: str) -> Tensor:
    """Linear light of code values.

    Args:
        values: Float, nominally 0 to 1. Curves go on below 0, mirrored or straight, so that
            footroom and colours outside RGB are kept.
        transfer: In FFmpeg's names; whatever is not known here counts as that of videos, whose
            displays follow ITU-R BT.1886.

    Returns:
        Values of the same shape; the same tensor where it is light already.

    Memory: up to 3.3 times that of the values, the result included.
    """
    return _CURVES.get(transfer, _FILM)[0](values)


def from_light(light: Tensor, transfer: str) -> Tensor:
    """The inverse of `to_light`."""
    return _CURVES.get(transfer, _FILM)[1](light)


def _unchanged(values: Tensor) -> Tensor:
    return values


def _mirrored(curve: _Curve) -> _Curve:
    """A curve of values from 0 on, which it may overwrite, as one of all values."""
    return lambda values: curve(values.abs()).copysign_(values)


def _power(exponent: float) -> _Curve:
    """Computes pow in half of its time on a CPU; overwrites values."""
    return lambda values: values.log_().mul_(exponent).exp_()


def _powers(gamma: float) -> tuple[_Curve, _Curve]:
    return _mirrored(_power(gamma)), _mirrored(_power(1 / gamma))


def _pq_to_light(values: Tensor) -> Tensor:
    values = _power(1 / _PQ_OUTER)(values)
    above = (values - _PQ_LEAST).clamp_(min=0)
    return _power(1 / _PQ_INNER)(above.div_(values.mul_(-_PQ_BELOW).add_(_PQ_ABOVE)))


def _light_to_pq(light: Tensor) -> Tensor:
    light = _power(_PQ_INNER)(light)
    above = (light * _PQ_ABOVE).add_(_PQ_LEAST)
    return _power(_PQ_OUTER)(above.div_(light.mul_(_PQ_BELOW).add_(1)))


def _hlg_to_light(values: Tensor) -> Tensor:
    is_bright = values > 0.5
    bright = (values - _HLG_SHIFT).div_(_HLG_SLOPE).exp_().add_(_HLG_BLACK).div_(12)
    return torch.where(is_bright, bright, values.square_().div_(3), out=values)


def _light_to_hlg(light: Tensor) -> Tensor:
    is_bright = light > 1 / 12
    bright = (light * 12).sub_(_HLG_BLACK).clamp_(min=1e-6).log_()
    bright.mul_(_HLG_SLOPE).add_(_HLG_SHIFT)
    return torch.where(is_bright, bright, light.mul_(3).sqrt_(), out=light)


_FILM = _powers(2.4)
_CURVES: dict[str, tuple[_Curve, _Curve]] = {
    "bt470m": _powers(2.2),
    "smpte428": _powers(2.6),
    "iec61966-2-1": (srgb_to_linear, linear_to_srgb),
    "smpte2084": (_mirrored(_pq_to_light), _mirrored(_light_to_pq)),
    "arib-std-b67": (_mirrored(_hlg_to_light), _mirrored(_light_to_hlg)),
    "linear": (_unchanged, _unchanged),
}
