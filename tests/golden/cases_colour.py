"""The published colour methods on pictures of known content and style."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from torch import Tensor

from engine.ops.colour.correction import (
    adain,
    distances_of,
    hsv,
    lab,
    low_pass,
    wavelet,
    wavelet_adaptive,
)
from tests.golden import files
from tests.golden.outcome import Outcome, compared

LIMIT = 1e-5  # largest absolute difference; the README of the golden files suggests it
RANKED_MEAN, RANKED_MAX = 1e-5, 5e-3  # where values that are almost equal can swap their rank

_SMOOTH: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "adain": adain,
    "wavelet": wavelet,
    "wavelet_low_of_content": lambda content, _: _low(content),
    "wavelet_high_of_content": lambda content, _: content - _low(content) + 0.5,
}
_RANKED: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "hsv": hsv,
    "lab": lab,
    "lab_lw0": lambda content, style: lab(content, style, kept_luminance=0.0),
    "wavelet_adaptive": wavelet_adaptive,
}


def check_colour(path: Path) -> Iterator[Outcome]:
    """Every output in the file, by the part of its name behind the tag."""
    tensors = files.tensors(path)
    for name, wanted in tensors.items():
        tag, _, method = name.partition(".")
        if method in ("content", "style"):
            continue
        pictures = [(tensors[f"{tag}.{role}"] + 1) / 2 for role in ("content", "style")]
        case = f"{path.name} {name}"
        if method in _SMOOTH:
            yield compared(case, _SMOOTH[method](*pictures) * 2 - 1, wanted, LIMIT)
        elif method in _RANKED:
            yield from compared_ranked(case, _RANKED[method](*pictures) * 2 - 1, wanted)
        else:
            yield Outcome(case=case, problem="unknown tensor")


def compared_ranked(case: str, found: Tensor, wanted: Tensor) -> Iterator[Outcome]:
    """Two results of histograms: a strict limit for the mean, a loose one for single pixels."""
    yield compared(case, found, wanted, RANKED_MAX)
    if found.shape == wanted.shape:
        mean = (found - wanted).abs().mean()
        yield compared(f"{case} mean", mean[None], mean[None] * 0, RANKED_MEAN)


def _low(pictures: Tensor) -> Tensor:
    return low_pass(pictures, distances_of(pictures))
