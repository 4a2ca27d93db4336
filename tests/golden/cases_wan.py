"""The Wan VAEs: strict names, encode, decode at once and in slices, half precision, traces.

A file of cases (`wan*_io*`) holds `x` with what encoding it gives, and `z` with what decoding it
gives; `..._norm` are for latents that are normalised. Both variants of the model are checked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.load import FORMS, Form, shapes_of
from engine.models.wan.latents.spaces import normalised, raw
from engine.models.wan.vae.config import WAN2X, WAN21, WAN22, WanConfig, infer_wan_config
from engine.models.wan.vae.load import Wan, load_wan
from engine.models.wan.vae.plain import WanVae
from engine.ops.conv.causal_conv import Carry
from tests.golden import files
from tests.golden.outcome import Outcome, compared, compared_names, right, traced_blocks

LIMITS: dict[Form, float] = {"plain": 2e-5, "fast": 1e-4}
"""Largest absolute difference in float32: strict, and with fused or reordered maths."""

HALVES = {torch.float16: 1e-3, torch.bfloat16: 10 ** (-42 / 20)}
"""Largest error in half precision, root mean square in units of the range: 60 and 42 dB."""

SLICE = 4  # frames, after a first slice that has one more: as the published program goes
PUBLISHED = {"wan21": WAN21, "wan22": WAN22, "wan21_upscale2x": WAN2X}

Make = Callable[[Wan, Mapping[str, Tensor]], Tensor]

RECIPES: dict[str, Make] = {
    "moments": lambda vae, given: vae.posterior(given["x"]),
    "mu": lambda vae, given: vae.encode(given["x"]),
    "mu_norm": lambda vae, given: normalised(vae.encode(given["x"])),
    "dec_raw": lambda vae, given: vae.decode(given["z"]),
    "dec_norm": lambda vae, given: vae.decode(raw(given["z"])),
    "recon": lambda vae, given: vae.decode(given["mu"]),
    "image": lambda vae, given: vae.decode(given["z"]),
    "image_norm": lambda vae, given: vae.decode(raw(given["z"])),
    "raw12": lambda vae, given: _unshuffled(vae.decode(given["z"])),
    "raw12_norm": lambda vae, given: _unshuffled(vae.decode(raw(given["z"]))),
}
_INPUTS = ("x", "z")
_IN_HALF_PRECISION = ("mu", "dec_raw")  # those for which the reference's own error was measured


def check_manifest(path: Path) -> Iterator[Outcome]:
    """A list of names and shapes equals our module's, in its order, without any values."""
    about = json.loads(path.read_text("utf-8"))
    wanted = {name: tuple(shape) for name, shape in about["keys"].items()}
    config = infer_wan_config(wanted)
    with torch.device("meta"):
        vae = WanVae(config)
    assert list(shapes_of(vae)) == list(wanted), "another order"
    yield from compared_names(path, vae, wanted, about["param_count"])
    yield right(f"{path.name} configuration", config == PUBLISHED[about["model"]])
    yield right(f"{path.name} sizes", _sizes(config) == _stated_sizes(about["config"]))


def check_weights(path: Path) -> Iterator[Outcome]:
    """A file of weights loads strictly, and its shapes give its configuration."""
    for form in FORMS:
        vae = load_wan(path, form=form)
        yield right(f"{path.name} loads [{form}]", vae.config == _config(path))


@torch.inference_mode()
def check_cases(path: Path) -> Iterator[Outcome]:
    """Every output in a file of cases, of both variants: at once, in slices, in half precision."""
    tensors, weights = files.tensors(path), files.weights_next_to(path, "wan")
    for form in FORMS:
        vae = load_wan(weights, form=form)
        for size in (None, SLICE):
            if size is None:
                vae.disable_slicing()
            else:
                vae.enable_slicing(size)
            how = f"{form}, at once" if size is None else f"{form}, slices of {size}"
            for name in tensors.keys() & RECIPES.keys():
                found = RECIPES[name](vae, tensors)
                yield compared(f"{path.name} {name} [{how}]", found, tensors[name], LIMITS[form])
        yield from _in_half_precision(weights, form, path.name, tensors)
    yield from _unknown(path, tensors)


@torch.inference_mode()
def check_traces(path: Path) -> Iterator[Outcome]:
    """The output of every block of both variants: of the clip at once, and joined from slices.

    Blocks inside give larger values than frames have; the limit grows with them.
    """
    tensors, weights = files.tensors(path), files.weights_next_to(path, "wan")
    for form in FORMS:
        vae = load_wan(weights, form=form)
        for how, sizes in (("at once", None), ("one by one", (1, 1))):
            found = _traced(vae, tensors, sizes)
            for name, wanted in tensors.items():
                case = f"{path.name} {name} [{form}, {how}]"
                if name in found:
                    limit = LIMITS[form] * max(1.0, float(wanted.abs().max()))
                    yield compared(case, found[name], wanted, limit)
                elif not name.startswith("input.") and (form == "plain" or not _is_inside(name)):
                    yield Outcome(case=case, problem="no block of this name ran")


def _traced(
    vae: Wan, tensors: Mapping[str, Tensor], sizes: tuple[int, int] | None
) -> dict[str, Tensor]:
    """What every block gave, its slices joined.

    Args:
        vae: Of either variant.
        tensors: With the inputs.
        sizes: Latent steps of the first slice and of those after it; None: at once.
    """
    found: dict[str, list[Tensor]] = {}
    x, z = tensors["input.x"], tensors["input.z"]
    first, later = sizes or (z.shape[2], 1)
    for output, step, whole, start, size in (
        ("output.mu", vae.encode_slice, x, 4 * first - 3, 4 * later),
        ("output.dec", vae.decode_slice, z, first, later),
    ):
        carry = Carry()
        parts = [whole[:, :, :start], *whole[:, :, start:].split(size, dim=2)]
        for part in (part for part in parts if part.shape[2]):
            inside: dict[str, Tensor] = {}
            with traced_blocks(vae, inside):
                result, carry = step(part, carry)
            inside[output] = result.chunk(2, dim=1)[0] if output == "output.mu" else result
            for name in tensors.keys() & inside.keys():
                found.setdefault(name, []).append(inside[name])
    return {name: torch.cat(values, dim=2) for name, values in found.items()}


def _is_inside(name: str) -> bool:
    """Whether a block is no part of its own in the fast variant: the norm before a convolution."""
    return name.endswith(".head.0")


def _in_half_precision(
    weights: Path, form: Form, file: str, tensors: Mapping[str, Tensor]
) -> Iterator[Outcome]:
    for dtype, limit in HALVES.items():
        vae = load_wan(weights, form=form, dtype=dtype)
        given = {name: value.to(dtype) for name, value in tensors.items()}
        for name in _IN_HALF_PRECISION:
            if name in tensors:
                error = _rms_of_range(RECIPES[name](vae, given), tensors[name])
                case = f"{file} {name} [{form}, {dtype}]"
                yield Outcome(case=case, error=error, limit=limit)


def _rms_of_range(found: Tensor, wanted: Tensor) -> float:
    if found.shape != wanted.shape or not bool(found.isfinite().all()):
        return float("inf")
    rms = (found.double() - wanted.double()).square().mean().sqrt()
    return float(rms / (wanted.max() - wanted.min()))


def _unshuffled(pictures: Tensor) -> Tensor:
    """The 12 channels of the head that enlarged pictures were made of."""
    frames = pictures.transpose(1, 2)
    return F.pixel_unshuffle(frames, 2).transpose(1, 2)


def _unknown(path: Path, tensors: Mapping[str, Tensor]) -> Iterator[Outcome]:
    for name in tensors:
        if name not in RECIPES and name not in _INPUTS:
            yield Outcome(case=f"{path.name} {name}", problem="unknown tensor")
    if not any(name in RECIPES for name in tensors):
        yield Outcome(case=path.name, problem="there is nothing to compare with")


def _config(path: Path) -> WanConfig:
    return infer_wan_config({name: tuple(v.shape) for name, v in files.tensors(path).items()})


def _sizes(config: WanConfig) -> dict[str, object]:
    return {
        "dim": config.dim,
        "dec_dim": config.dec_dim,
        "z_dim": config.latent_channels,
        "dim_mult": list(config.multipliers),
        "num_res_blocks": config.residual_blocks,
        "temperal_downsample": list(config.time_down),
        "decoder_out_channels": config.out_channels,
    }


def _stated_sizes(stated: Mapping[str, object]) -> dict[str, object]:
    """A published configuration with what it leaves out."""
    usual = {"dec_dim": stated["dim"], "decoder_out_channels": 3}
    return {**usual, **{k: v for k, v in stated.items() if k not in ("attn_scales", "dropout")}}
