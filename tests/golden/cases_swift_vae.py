"""The autoencoder of SwiftVR: strict names, encode, decode, slices, half precision, every layer.

Pixels and latents of the files are [1, time, channel, height, width]. Both variants are checked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from engine.models.load import FORMS, Form
from engine.models.swiftvr.load import AnyReae, load_reae
from engine.models.swiftvr.vae.config import REAE, infer_reae_config
from engine.models.swiftvr.vae.plain import Reae
from tests.golden import files
from tests.golden.outcome import Outcome, compared, compared_names, right, traced_blocks

LIMITS: dict[Form, float] = {"plain": 2e-5, "fast": 1e-4}
"""Largest absolute difference in float32: strict, and with fused or reordered maths."""

HALVES = {torch.float16: 10 ** (-60 / 20), torch.bfloat16: 10 ** (-45 / 20)}
"""Largest error in half precision, root mean square in units of the range: 60 and 45 dB."""

KIND = "swift_tiny_reae"
SLICES = (None, 4, 8)  # frames, after a first slice that has four more
# What the fast variant has no layer for: it is a part of the convolution that follows.
_INSIDE = (
    *(f"encoder.{layer}" for layer in (2, 7, 12)),
    *(f"decoder.{layer}" for layer in (6, 7, 12, 13, 18, 19)),
)

Make = Callable[[AnyReae, Tensor], Tensor]


def check_manifest(path: Path) -> Iterator[Outcome]:
    """A list of names and shapes equals our module's, without any values."""
    about = json.loads(path.read_text("utf-8"))
    wanted = {name: tuple(shape) for name, shape in about["keys"].items()}
    config = infer_reae_config(wanted)
    with torch.device("meta"):
        vae = Reae(config)
    yield from compared_names(path, vae, wanted, about["param_count"])
    yield right(f"{path.name} configuration", config == REAE)
    sizes = [config.encoder_width, list(config.decoder_widths), config.latent_channels]
    yield right(f"{path.name} sizes", sizes == _stated(about))


def check_weights(path: Path) -> Iterator[Outcome]:
    """A file of weights loads strictly."""
    for form in FORMS:
        load_reae(path, form=form)
        yield Outcome(case=f"{path.name} loads [{form}]")


@torch.inference_mode()
def check_encode(path: Path) -> Iterator[Outcome]:
    """Latents of a clip: at once, in slices, in half precision."""
    yield from _check(path, "x", "z", lambda vae, x: vae.encode(x))


@torch.inference_mode()
def check_decode(path: Path) -> Iterator[Outcome]:
    """Frames of a latent: at once, in slices, in half precision; and what they are made of."""
    yield from _check(path, "z", "video", lambda vae, z: vae.decode(z).clamp(0, 1))
    tensors, weights = files.tensors(path), files.weights_of(path, KIND)
    for form in FORMS:
        found: dict[str, Tensor] = {}
        vae = load_reae(weights, form=form)
        with traced_blocks(vae, found):
            vae.decode(clip_of(tensors["z"]))
        made = clip_of(found["decoder.22"])
        yield compared(f"{path.name} raw [{form}]", made, tensors["raw"], LIMITS[form])


@torch.inference_mode()
def check_trace(path: Path) -> Iterator[Outcome]:
    """The output of every layer of both variants; limits grow with the values."""
    tensors, weights = files.tensors(path), files.weights_of(path, KIND)
    for form in FORMS:
        found: dict[str, Tensor] = {}
        vae = load_reae(weights, form=form)
        with traced_blocks(vae, found):
            found["output.z"] = vae.encode(clip_of(tensors["input.x"]))
            vae.decode(clip_of(tensors["input.z"]))
        found["output.raw"] = found["decoder.22"]
        for name, wanted in tensors.items():
            if name.startswith("input.") or (form == "fast" and name in _INSIDE):
                continue
            case = f"{path.name} {name} [{form}]"
            if name in found:
                made = clip_of(found[name]) if wanted.ndim == 5 else clip_of(found[name])[0]
                limit = LIMITS[form] * max(1.0, float(wanted.abs().max()))
                yield compared(case, made, wanted, limit)
            else:
                yield Outcome(case=case, problem="no layer of this name ran")


def clip_of(tensor: Tensor) -> Tensor:
    """[1, T, C, H, W] as [1, C, T, H, W], and back."""
    return tensor.transpose(1, 2)


def _check(path: Path, given: str, wanted: str, make: Make) -> Iterator[Outcome]:
    tensors, weights = files.tensors(path), files.weights_of(path, KIND)
    source = clip_of(tensors[given])
    exact = make(load_reae(weights, form="plain", dtype=torch.float64), source.double())
    for form in FORMS:
        vae = load_reae(weights, form=form)
        for size in SLICES:
            if size is None:
                vae.disable_slicing()
            else:
                vae.enable_slicing(size)
            case = f"{path.name} {wanted} [{form}, slices: {size}]"
            yield compared(case, clip_of(make(vae, source)), tensors[wanted], LIMITS[form])
        for dtype, limit in HALVES.items():
            vae = load_reae(weights, form=form, dtype=dtype)
            error = rms_of_range(make(vae, source.to(dtype)), exact)
            yield Outcome(case=f"{path.name} {wanted} [{form}, {dtype}]", error=error, limit=limit)


def rms_of_range(found: Tensor, wanted: Tensor) -> float:
    """Root mean square of the error in units of the range of the wanted values."""
    if found.shape != wanted.shape or not bool(found.isfinite().all()):
        return float("inf")
    rms = (found.double() - wanted.double()).square().mean().sqrt()
    return float(rms / (wanted.max() - wanted.min()))


def _stated(about: Mapping[str, Mapping[str, object]]) -> list[object]:
    config = about["config"]
    return [config["encoder_width"], config["decoder_widths"], config["latent_channels"]]
