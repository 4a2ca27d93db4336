"""Colour correction of a result against its source: our method, and the published ones by name.

The model drifts: it makes pictures more colourful and lighter or darker, differently from frame
to frame. Only its detail is wanted, so the colours of larger areas are the source's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from engine.ops.colour.spaces import LUMA, hsv_to_rgb, lab_to_rgb, rgb_to_hsv, rgb_to_lab, weighted


def low_pass(pictures: Tensor, distances: Iterable[int]) -> Tensor:
    """The low frequencies that some stages leave.

    Distances 1, 2, 4, ... are one Gaussian: after three stages its sigma is 3.2 px, after five
    13 px, twice as much after one more.

    Args:
        pictures: [..., H, W] float.
        distances: px between the three taps of each stage.

    Memory: two more tensors of this size, one of them the result.
    """
    low, scratch = pictures.clone(), torch.empty_like(pictures)
    for distance in distances:
        smooth_(low, scratch, distance)
    return low


def smooth_(pictures: Tensor, scratch: Tensor, distance: int) -> None:
    """One stage in place: 1/4, 1/2, 1/4 along both axes; edge pixels are repeated.

    Args:
        pictures: [..., H, W] float; overwritten.
        scratch: A tensor of that shape; overwritten.
        distance: px between the taps, at least 1; may be larger than the picture.
    """
    _along(pictures, scratch, distance, -1)
    _along(scratch, pictures, distance, -2)


def _along(x: Tensor, out: Tensor, distance: int, axis: int) -> None:
    length = x.shape[axis]
    inside = max(0, length - distance)
    edge = length - inside
    torch.mul(x, 0.5, out=out)
    out.narrow(axis, 0, inside).add_(x.narrow(axis, edge, inside), alpha=0.25)
    out.narrow(axis, inside, edge).add_(x.narrow(axis, length - 1, 1), alpha=0.25)
    out.narrow(axis, edge, inside).add_(x.narrow(axis, 0, inside), alpha=0.25)
    out.narrow(axis, 0, edge).add_(x.narrow(axis, 0, 1), alpha=0.25)


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
    """Match histograms of a and b in CIELAB after `wavelet`, and that of L in part.

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

    The share of `hsv` depends on the saturation of the result.
    """
    plain = wavelet(result, source)
    wanted = _saturation(source)
    share = torch.sigmoid(5 * (_saturation(result) - wanted - 0.15))
    share = share * (_saturation(plain) - wanted > 0.075)
    return torch.lerp(plain, hsv(result, source), share[:, None])


def match_histogram(values: Tensor, wanted: Tensor) -> Tensor:
    """Replace the n-th smallest value by the wanted one of the same quantile.

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


_LUMA_STAGES, _CHROMA_STAGES = 5, 3  # of a result twice the size of its source

_PUBLISHED: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "lab": lab,
    "wavelet": wavelet,
    "wavelet_adaptive": wavelet_adaptive,
    "hsv": hsv,
    "adain": adain,
}
METHODS = ("two-scale", *_PUBLISHED, "none")


def correct_colour(method: str, result: Tensor, source: Tensor, *, scale: float = 2.0) -> Tensor:
    """Give a result the colours of its source.

    Args:
        method: One of METHODS. "two-scale" and "none" do the same to a frame in whatever clip;
            the published ones pool the frames of a call (colour_published).
        result: [T, 3, H, W] float32 RGB, nominally 0 to 1; "two-scale" overwrites it.
        source: A tensor of that shape: the source resized to the result.
        scale: Factor between the source and the result; only "two-scale" looks at it.

    Returns:
        [T, 3, H, W] float32 in 0 to 1; with "none" the result itself.

    Raises:
        ValueError: No such method, or two shapes; an internal error.
    """
    if result.shape != source.shape:
        raise ValueError(f"result {tuple(result.shape)}, source {tuple(source.shape)}")
    if method not in METHODS:
        raise ValueError(f"no colour method is called {method!r}")
    if method == "none":
        return result
    if method == "two-scale":
        return two_scale_(result, source, scale)
    return _PUBLISHED[method](result, source).clamp_(0, 1)


def two_scale_(result: Tensor, source: Tensor, scale: float = 2.0) -> Tensor:
    """Low frequencies of the source under details of the result, in place: chroma's less low.

    Y'CbCr is linear in RGB, so only the difference of both pictures is smoothed: three channels
    up to the scale of chroma, then luma alone up to its larger one. A result that equals its
    source stays as it is, bit for bit. Each frame by itself, each pixel from its surroundings.

    Args:
        result: [T, 3, H, W] float32 RGB, nominally 0 to 1; overwritten.
        source: A tensor of that shape.
        scale: Factor between the source and the result; the cuts keep their place in source px.

    Returns:
        The result, in 0 to 1.

    Memory: 32 bytes for each pixel of one frame.
    """
    luma, chroma = stages_of(scale)
    missing, scratch = torch.empty_like(result[:1]), torch.empty_like(result[:1])
    for t in range(len(result)):
        missing.copy_(source[t : t + 1]).sub_(result[t : t + 1])
        for stage in range(chroma):
            smooth_(missing, scratch, 1 << stage)
        lightness = weighted(missing, LUMA)
        missing -= lightness[:, None]
        for stage in range(chroma, luma):
            smooth_(lightness, scratch[:, 0], 1 << stage)
        missing += lightness[:, None]
        result[t : t + 1].add_(missing).clamp_(0, 1)
    return result


def stages_of(scale: float) -> tuple[int, int]:
    """Stages of luma and of chroma: one more each time that the factor doubles.

    At a factor of 2 luma is cut at a sigma of 13 px and chroma at 3.2 px, the best of the
    settings tried in public on ten clips. Chroma of 4:2:0 has one sample for 4 x 4 px there.
    """
    more = round(math.log2(max(1.0, scale))) - 1
    return _LUMA_STAGES + more, _CHROMA_STAGES + more


def blend_strength(result: Tensor, source: Tensor, strength: float) -> Tensor:
    """Take only a part of a restoration: (1 - strength) of the source, `strength` of the result.

    After "two-scale" both have the same low frequencies, so only detail is mixed: lightness and
    colours of areas are the source's at any strength.

    Args:
        result: [T, 3, H, W], colours already corrected.
        source: A tensor of that shape: the source resized to the result.
        strength: 0 (the source) to 1 (the result); both ends are exact.
    """
    if not 0 <= strength <= 1:
        raise ValueError(f"a strength of {strength} is not within 0 and 1")
    return torch.lerp(source, result, strength)
