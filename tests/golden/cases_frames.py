"""Frames around the SeedVR2 models: size, padding, length, joining, published colour methods."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from torch import Tensor

from engine.core.geometry import Size
from engine.models.seedvr2.plan import reference_layout
from engine.models.seedvr2.preprocess import join, place
from engine.ops.colour.correction import (
    adain,
    distances_of,
    hsv,
    lab,
    low_pass,
    wavelet,
    wavelet_adaptive,
)
from engine.tiling.latent_clips import mirrored_indices
from tests.golden import files
from tests.golden.outcome import Outcome, compared, right
from tests.reference.frames import (
    clip_length,
    mirrored_indices_before,
    reference_overlap_weights,
    reference_result,
    reference_sizes,
    resize_as_reference,
)

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


def check_resize(path: Path) -> Iterator[Outcome]:
    """Sizes, resized frames and what enters the encoder."""
    tensors = files.tensors(path)
    for case in files.entry(path, "cases"):
        yield from _check_resize_case(case, tensors, path.name)


def check_padding(path: Path) -> Iterator[Outcome]:
    """Indices of the frames of clips made longer."""
    for case in json.loads(path.read_text("utf-8")):
        frames, mode, count = case["frames"], case["mode"], case.get("count", "")
        if mode == "append_to_4n+1":
            found = mirrored_indices(frames, clip_length(frames) - frames)
        else:
            make = {"append": mirrored_indices, "prepend": mirrored_indices_before}[mode]
            found = make(frames, count)
        name = f"{path.name} {frames} frames {mode} {count}".rstrip()
        yield right(name, found == case["index_list"])


def check_blend(path: Path) -> Iterator[Outcome]:
    """Weights and mixed frames of each overlap."""
    tensors = files.tensors(path)
    for tag in sorted({name.partition(".")[0] for name in tensors}):
        earlier, later = tensors[f"{tag}.prev_tail"], tensors[f"{tag}.cur_head"]
        weights = reference_overlap_weights(len(earlier))
        found = earlier.new_tensor(weights)
        yield compared(f"{path.name} {tag}.w_prev", found, tensors[f"{tag}.w_prev"], LIMIT)
        mixed = join(earlier, later, weights)
        yield compared(f"{path.name} {tag}.blended", mixed, tensors[f"{tag}.blended"], LIMIT)


def _check_resize_case(case: dict, tensors: dict[str, Tensor], file: str) -> Iterator[Outcome]:
    name = f"{file} {case['name']}"
    frames = tensors[f"{case['name']}.input_tchw"]
    wanted = (case["resolution_short_edge"], case["max_resolution"])
    source = Size(frames.shape[-1], frames.shape[-2])
    size = reference_sizes(source, *wanted)[-1]
    layout = reference_layout(size)
    sizes = [_hw(size), _hw(reference_result(size)), _hw(layout.padded)]
    stated = [case["resized_hw"], case["true_hw_even"], case["padded_hw"]]
    yield right(f"{name} sizes", sizes == stated)
    resized = resize_as_reference(frames, *wanted)
    yield compared(f"{name} resized", resized, tensors[f"{case['name']}.resized_tchw"], LIMIT)
    placed = place(resized, layout).transpose(0, 1)
    made = tensors[f"{case['name']}.transformed_cthw"]
    yield compared(f"{name} transformed", placed, made, LIMIT)


def _hw(size: Size) -> list[int]:
    return [size.height, size.width]


def check_colour(path: Path) -> Iterator[Outcome]:
    """Every output in the file, by the part of its name after the tag."""
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
