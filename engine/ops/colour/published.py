"""The published methods of colour correction, implemented from their descriptions.

All take result and source [T, 3, H, W] float32 RGB in 0 to 1 and give the same shape. Those with
histograms (`lab`, `hsv`, and `wavelet_adaptive` because of `hsv`) pool all frames of a call: the
same frame in another clip comes out differently, and equal values may be ranked in either order.

Memory: the result and up to eight times as much (`lab`), for all frames of a call.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.ops.colour.low_pass import low_pass
from engine.ops.colour.spaces import (
    hsv_to_rgb,
    lab_to_rgb,
    rgb_to_hsv,
    rgb_to_lab,
)

_STAGES = 5
_KEPT_LUMINANCE = 0.8  # share of the result's own
_HUES = 12
_LEAST_PIXELS = 100  # of a hue; fewer are left alone
_VARIANCE_FLOOR = 1e-5 / 4  # published for -1 to 1


def wavelet(result: Tensor, source: Tensor) -> Tensor:
    """Details of the result on the low frequencies of the source; clipped to 0 to 1."""
    return (result + low_pass(source - result, distances_of(result))).clamp_(0, 1)


def distances_of(pictures: Tensor) -> list[int]:
    """The five stages of `wavelet`: px between taps, in small pictures no larger ones."""
    most = max(1, min(pictures.shape[-2:]) // 8)
    return [min(1 << stage, most) for stage in range(_STAGES)]


def adain(result: Tensor, source: Tensor) -> Tensor:
    """Mean and deviation of each channel of each frame as in the source; not clipped."""
    mean, deviation = _statistics(result)
    wanted_mean, wanted_deviation = _statistics(source)
    return (result - mean) / deviation * wanted_deviation + wanted_mean


def lab(result: Tensor, source: Tensor, *, kept_luminance: float = _KEPT_LUMINANCE) -> Tensor:
    """After `wavelet`, the histograms of a and b in CIELAB, and a part of that of L.

    Args:
        result: See above.
        source: See above.
        kept_luminance: Share of L that stays; the rest comes from the matched histogram.
    """
    found = rgb_to_lab(wavelet(result, source))
    wanted = rgb_to_lab(source.clamp(0, 1))
    luminance = match_histogram(found[:, 0], wanted[:, 0])
    found[:, 0] = torch.lerp(luminance, found[:, 0], kept_luminance)
    for channel in (1, 2):
        found[:, channel] = match_histogram(found[:, channel], wanted[:, channel])
    return lab_to_rgb(found)


def hsv(result: Tensor, source: Tensor) -> Tensor:
    """The histogram of saturation within each of twelve hues; hue and value stay."""
    found, wanted = rgb_to_hsv(result.clamp(0, 1)), rgb_to_hsv(source.clamp(0, 1))
    saturation = found[:, 1].clone()
    for hue in range(_HUES):
        inside, model = _has_hue(found[:, 0], hue), _has_hue(wanted[:, 0], hue)
        if min(int(inside.sum()), int(model.sum())) > _LEAST_PIXELS:
            saturation[inside] = match_histogram(found[:, 1][inside], wanted[:, 1][model])
    found[:, 1] = saturation
    return hsv_to_rgb(found)


def wavelet_adaptive(result: Tensor, source: Tensor) -> Tensor:
    """`wavelet`, and `hsv` in its place where it would be clearly more colourful than the source.

    How far it goes over to `hsv` is decided by how colourful the result was.
    """
    plain = wavelet(result, source)
    wanted = _saturation(source)
    share = torch.sigmoid(5 * (_saturation(result) - wanted - 0.15))
    share = share * (_saturation(plain) - wanted > 0.075)
    return torch.lerp(plain, hsv(result, source), share[:, None])


def match_histogram(values: Tensor, wanted: Tensor) -> Tensor:
    """Give the n-th smallest value what is as far up among the wanted ones.

    Args:
        values: Any shape.
        wanted: Any shape; where it has another number of values, the next lower one is taken.

    Returns:
        Shape of `values`. Equal values may come out different: in which order is up to torch.
    """
    order = values.flatten().argsort()
    model = wanted.flatten().sort().values
    if len(model) != len(order):
        rank = torch.arange(len(order), device=values.device)
        model = model[rank * (len(model) - 1) // max(1, len(order) - 1)]
    matched = torch.empty_like(model)
    matched[order] = model
    return matched.view(values.shape)


def _statistics(pictures: Tensor) -> tuple[Tensor, Tensor]:
    unbiased = min(1, pictures[0, 0].numel() - 1)
    variance, mean = torch.var_mean(pictures, dim=(2, 3), correction=unbiased, keepdim=True)
    return mean, (variance + _VARIANCE_FLOOR).sqrt()


def _has_hue(hue: Tensor, number: int) -> Tensor:
    """Pixels of one of the twelve hues; the first takes those of the last as well."""
    inside = (hue >= number / _HUES) & (hue < (number + 1) / _HUES)
    return inside | (hue >= 1 - 1 / _HUES) if number == 0 else inside


def _saturation(pictures: Tensor) -> Tensor:
    return rgb_to_hsv(pictures.clamp(0, 1))[:, 1]
