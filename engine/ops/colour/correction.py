"""Colour correction of a result against its source: our method, and the published ones by name.

The model drifts: it makes pictures more colourful and lighter or darker, differently from frame
to frame. What it is wanted for is detail, so the colours of larger areas are the source's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from engine.ops.colour import published
from engine.ops.colour.low_pass import smooth_
from engine.ops.colour.spaces import LUMA, weighted

_LUMA_STAGES, _CHROMA_STAGES = 5, 3  # of a result twice the size of its source

_PUBLISHED: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "lab": published.lab,
    "wavelet": published.wavelet,
    "wavelet_adaptive": published.wavelet_adaptive,
    "hsv": published.hsv,
    "adain": published.adain,
}
METHODS = ("two-scale", *_PUBLISHED, "none")


def correct_colour(method: str, result: Tensor, source: Tensor, *, scale: float = 2.0) -> Tensor:
    """Give a result the colours of its source.

    Args:
        method: One of METHODS. "two-scale" and "none" do the same to a frame in whatever clip;
            the published ones pool the frames of a call (colour_published).
        result: [T, 3, H, W] float32 RGB, nominally 0 to 1.
        source: The same shape: the source resized to the result.
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
        return two_scale(result, source, scale)
    return _PUBLISHED[method](result, source).clamp_(0, 1)


def two_scale(result: Tensor, source: Tensor, scale: float = 2.0) -> Tensor:
    """Low frequencies of the source under the details of the result: luma low, chroma less low.

    Y'CbCr is linear in RGB, so only the difference of both pictures is smoothed: three channels
    as far as chroma goes, then its luma alone up to where luma goes. A result that equals its
    source stays as it is, bit for bit. Each frame by itself, each pixel from its surroundings.

    Args:
        result: [T, 3, H, W] RGB, nominally 0 to 1.
        source: The same shape.
        scale: Factor between the source and the result; the cuts keep their place in source px.

    Returns:
        [T, 3, H, W] float32 in 0 to 1.

    Memory: the result and 32 bytes for each pixel of one frame.
    """
    luma, chroma = stages_of(scale)
    out = torch.empty_like(result, dtype=torch.float32)
    missing, scratch = torch.empty_like(out[:1]), torch.empty_like(out[:1])
    for t in range(len(out)):
        missing.copy_(source[t : t + 1]).sub_(result[t : t + 1])
        for stage in range(chroma):
            smooth_(missing, scratch, 1 << stage)
        lightness = weighted(missing, LUMA)
        missing -= lightness[:, None]
        for stage in range(chroma, luma):
            smooth_(lightness, scratch[:, 0], 1 << stage)
        missing += lightness[:, None]
        torch.add(result[t : t + 1], missing, out=out[t : t + 1]).clamp_(0, 1)
    return out


def stages_of(scale: float) -> tuple[int, int]:
    """Stages of luma and of chroma: one more each time that the factor doubles.

    At a factor of 2 luma is cut at a sigma of 13 px and chroma at 3.2 px, the best of what was
    tried in public on ten clips. Chroma of 4:2:0 has one sample for 4 x 4 px there.
    """
    more = round(math.log2(max(1.0, scale))) - 1
    return _LUMA_STAGES + more, _CHROMA_STAGES + more


def blend_strength(result: Tensor, source: Tensor, strength: float) -> Tensor:
    """Take only a part of a restoration: (1 - strength) of the source, `strength` of the result.

    After "two-scale" both have the same low frequencies, so only detail is mixed: lightness and
    colours of areas are the source's at any strength.

    Args:
        result: [T, 3, H, W], colours already corrected.
        source: The same shape: the source resized to the result.
        strength: 0 (the source) to 1 (the result); both ends are exact.
    """
    if not 0 <= strength <= 1:
        raise ValueError(f"a strength of {strength} is not within 0 and 1")
    return torch.lerp(source, result, strength)
