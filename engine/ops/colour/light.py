"""Code values of RGB to linear light and back, by the transfer of a film.

Light is what a display makes of the values, as far as a standard says so: of HLG, whose display
depends on the room, that of the scene. White, or 10,000 cd/m2 of PQ, is 1.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from engine.ops.colour.spaces import linear_to_srgb, srgb_to_linear

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
        transfer: In FFmpeg's names; whatever is not known here counts as that of films, whose
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
