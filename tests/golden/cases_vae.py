"""The SeedVR2 VAE: strict names, encode, decode, slices, tiles, and the output of every block.

The names in a file of cases state what is in it: `enc.TAG.input` with what encoding it gives,
`dec.TAG.latent` with what decoding it gives, `tile.TAG.input` and `.latent` with both for tiles,
`encode.input`, `decode.latent` and module paths for single blocks. Which outputs are there is up
to the file; those that are there are checked with both variants of the model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.models.load import FORMS
from engine.models.seedvr2.vae.config import infer_vae_config
from engine.models.seedvr2.vae.load import Vae, load_vae
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from engine.models.video_vae.slicing import LOGVAR_LIMITS
from tests.golden import files
from tests.golden.outcome import Outcome, compared, compared_names, traced_blocks
from tests.reference.tiled_vae import tiled_decode, tiled_encode

LIMIT = 5e-5  # largest absolute difference in float32; the README of the golden files suggests it


Options = dict[str, Any]  # of one case in a file's metadata
Make = Callable[[Vae, Tensor, Options], Tensor]

RECIPES: dict[tuple[str, str], tuple[str, str, Make]] = {
    ("enc", "moments_slicing_off"): ("input", "off", lambda vae, x, _: vae.posterior(x)),
    ("enc", "moments_slicing_on"): ("input", "on", lambda vae, x, _: vae.posterior(x)),
    ("enc", "mean"): ("input", "on", lambda vae, x, _: vae.encode(x)),
    ("enc", "logvar"): ("input", "on", lambda vae, x, _: vae.posterior(x).chunk(2, dim=1)[1]),
    ("dec", "sample_slicing_off"): ("latent", "off", lambda vae, z, _: vae.decode(z)),
    ("dec", "sample_slicing_on"): ("latent", "on", lambda vae, z, _: vae.decode(z)),
    ("tile", "mean_tiled"): (
        "input", "on", lambda vae, x, options: tiled_encode(vae, x, *_tiles(options))),
    ("tile", "mean_untiled"): ("input", "on", lambda vae, x, _: vae.encode(x)),
    ("tile", "sample_tiled"): (
        "latent", "on", lambda vae, z, options: tiled_decode(vae, z, *_tiles(options))),
    ("tile", "sample_untiled"): ("latent", "on", lambda vae, z, _: vae.decode(z)),
}  # fmt: skip
"""First and last part of a name -> what it is made of, in which slices, how."""

_INPUTS = {("enc", "input"), ("dec", "latent"), ("tile", "input"), ("tile", "latent")}
_BLOCKS = ("encode", "decode", "encoder", "decoder", "quant_conv", "post_quant_conv")


def check_manifest(path: Path) -> Iterator[Outcome]:
    """A list of names and shapes equals our module's, without reading any values."""
    manifest = json.loads(path.read_text("utf-8"))
    wanted = {name: tuple(shape) for name, shape in manifest["state_dict"].items()}
    config = infer_vae_config(wanted, {"config": json.dumps(manifest.get("config", {}))})
    with torch.device("meta"):
        vae = SeedVr2Vae(config)
    yield from compared_names(path, vae, wanted, manifest["total_parameters"])


def check_weights(path: Path) -> Iterator[Outcome]:
    """A file of weights loads strictly."""
    for form in FORMS:
        load_vae(path, form=form)
        yield Outcome(case=f"{path.name} loads [{form}]")


@torch.inference_mode()
def check_cases(path: Path) -> Iterator[Outcome]:
    """Every output in a file of cases, with both variants."""
    tensors, options = files.tensors(path), files.entry(path, "cases")
    weights = files.weights_next_to(path, "vae")
    groups = sorted({_group(name) for name in tensors})
    for form in FORMS:
        vae = load_vae(weights, form=form)
        for group in groups:
            inside = {name: value for name, value in tensors.items() if _group(name) == group}
            if group == _BLOCKS:
                outcomes = _check_blocks(vae, inside)
            else:
                outcomes = _check_group(vae, inside, options.get(group[1], {}))
            for outcome in outcomes:
                yield replace(outcome, case=f"{path.name} {outcome.case} [{form}]")


def _group(name: str) -> tuple[str, ...]:
    """Names of one group share their input: ("enc", TAG), or all those of single blocks."""
    first, _, rest = name.partition(".")
    return _BLOCKS if first in _BLOCKS else (first, rest.rpartition(".")[0])


def _check_group(vae: Vae, tensors: Mapping[str, Tensor], options: Options) -> Iterator[Outcome]:
    outputs = 0
    for name, wanted in tensors.items():
        kind = (name.partition(".")[0], name.rpartition(".")[2])
        if kind in _INPUTS:
            continue
        outputs += 1
        if kind not in RECIPES:
            yield Outcome(case=name, problem="unknown tensor")
            continue
        source, slices, make = RECIPES[kind]
        given = tensors.get(f"{name.rpartition('.')[0]}.{source}")
        if given is None:
            yield Outcome(case=name, problem=f"there is no {source} to make it of")
            continue
        if slices == "off":
            vae.disable_slicing()
        else:
            vae.enable_slicing()
        yield _compare(name, make(vae, given, options), wanted)
    if not outputs:
        yield Outcome(case=min(tensors), problem="there is nothing to compare with")


def _compare(name: str, found: Tensor, wanted: Tensor) -> Outcome:
    """Compare as the files store it: one frame has no time axis, log-variances are clamped."""
    if wanted.ndim == found.ndim - 1 and found.shape[2] == 1:
        wanted = wanted.unsqueeze(2)
    if "moments" in name:
        mean, logvar = wanted.chunk(2, dim=1)
        wanted = torch.cat((mean, logvar.clamp(*LOGVAR_LIMITS)), dim=1)
    return compared(name, found, wanted, LIMIT)


def _check_blocks(vae: Vae, tensors: Mapping[str, Tensor]) -> Iterator[Outcome]:
    vae.disable_slicing()
    found: dict[str, Tensor] = {}
    with traced_blocks(vae, found):
        if "encode.input" in tensors:
            found["encode.moments"] = vae.posterior(tensors["encode.input"])
        if "decode.latent" in tensors:
            found["decode.sample"] = vae.decode(tensors["decode.latent"])
    for name, wanted in tensors.items():
        if name in ("encode.input", "decode.latent"):
            continue
        if name not in found:
            yield Outcome(case=name, problem="no block of this name ran")
        elif wanted.ndim == 4 and found[name].ndim == 5 and "attentions" in name:
            frames = found[name].transpose(1, 2).flatten(0, 1)
            yield _compare(name, frames, wanted)
        else:
            yield _compare(name, found[name], wanted)


def _tiles(options: Options) -> tuple[tuple[int, int], tuple[int, int]]:
    """Height and width of a tile and of its overlap, px."""
    return tuple(options["tile_size_px"]), tuple(options["tile_overlap_px"])
