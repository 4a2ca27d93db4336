"""Case `products`: what weights and products in narrow formats lose, beside float64.

Random weights and activations as a transformer has them: tokens after an RMS norm, scaled and
moved channel by channel. "Outliers" are one channel in 64 that is 20 times as large, as trained
transformers have a few.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.bench.cases.vae_runs import device_of
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.bench.timing.peak_rates import clocked
from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B, DitConfig
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.ops.linear.formats import PRODUCTS, rounded, working
from engine.ops.linear.fp8 import FORMATS
from engine.ops.linear.quantize import STORED, product_kinds, quantized_of

_SEED = 20261120
_SIZES: dict[str, Any] = {"dim": 128, "text_in_dim": 96, "heads": 2, "head_dim": 64, "layers": 6}
_MODELS = {
    "3B kind": replace(DIT_3B, **_SIZES, separate_layers=3, mlp_hidden=352, rope_dim=64),
    "7B kind": replace(DIT_7B, **_SIZES, separate_layers=6, mlp_hidden=512, rope_dim=32),
}
_LATENT, _TEXT = (3, 24, 40), 58

Weights = Callable[[Tensor], Tensor]  # as they are after rounding
Product = Callable[[Tensor, Tensor], Tensor]  # tokens and weight to tokens


def product_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each format and work: error of the weight, of the result, and where it runs.

    Errors are relative RMS; those of a product that does not run here are of the same numbers,
    rounded by torch and multiplied exactly. `of_float` is the time of one large product over that
    in the number format that the device computes in; `million_a_second` are numbers that a stored
    format is widened to that one, which happens at every use.
    """
    device = torch.device(device_of(options))
    works = working(device)
    for form in ("bfloat16", *FORMATS, *PRODUCTS):
        runs = "yes" if form not in PRODUCTS or form in works else "imitated"
        about: Row = {"format": form, "here": runs}
        yield from ({**about, **row} for row in _layer_rows(form, device))
        for name, config in _MODELS.items():
            yield {**about, "work": name, "result_error": _model_error(form, config, device)}
        if form in works:
            yield {**about, **narrow_speed(form, device, options)}
    for form in sorted(STORED):
        yield {"format": form, "here": "yes", **_widening(form, device, options)}


def _layer_rows(form: str, device: torch.device) -> Iterator[Row]:
    for name, width, outliers in (("64", 64, False), ("512", 512, False), ("512", 512, True)):
        x, weight = _tokens(256, width, outliers).to(device), _weight(width, width).to(device)
        near = _rounded_weight(form, weight)
        yield {
            "work": f"linear {name}" + (", outliers" if outliers else ""),
            "weight_error": _relative(near, weight),
            "result_error": _relative(_product(form, x, weight), F.linear(x, weight)),
        }


def _model_error(form: str, config: DitConfig, device: torch.device) -> float:
    """Of a prediction of a whole transformer whose blocks have their layers in a format."""
    dit = _random_dit(config).to(device, torch.float64)
    generator = torch.Generator().manual_seed(_SEED)
    latent = torch.randn(*_LATENT, config.in_channels, generator=generator).to(device).double()
    text = torch.randn(_TEXT, config.text_in_dim, generator=generator).to(device).double()
    wanted = dit(latent, text, 1000.0)
    for path in product_kinds(dit, "nvfp4"):  # the format that suits the fewest
        owner, _, leaf = path.rpartition(".")
        linear = dit.get_submodule(path)
        setattr(dit.get_submodule(owner), leaf, _Imitation(form, linear))
    return _relative(dit(latent, text, 1000.0), wanted)


class _Imitation(nn.Module):
    """A layer that computes in a format, between layers in float64."""

    def __init__(self, form: str, linear: nn.Module) -> None:
        super().__init__()
        self._form = form
        self._linear = linear

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self._linear.weight, self._linear.bias
        found = _product(self._form, x.reshape(-1, x.shape[-1]), torch.as_tensor(weight))
        found = found.view(*x.shape[:-1], -1)
        return found if bias is None else found + torch.as_tensor(bias)


def _product(form: str, x: Tensor, weight: Tensor) -> Tensor:
    """Tokens [N, K] times a weight [M, K], all in float64, as the format has it."""
    if form not in PRODUCTS:
        near = x.bfloat16().double() if form == "bfloat16" else x
        return F.linear(near, _rounded_weight(form, weight))
    if form in working(x.device):
        layer = PRODUCTS[form](weight.shape[1], weight.shape[0], bias=False)
        layer.take(weight.float())
        return torch.as_tensor(layer.to(x.device)(x.float())).double()
    return F.linear(rounded(form, x.float()), _rounded_weight(form, weight))


def _rounded_weight(form: str, weight: Tensor) -> Tensor:
    if form in PRODUCTS:
        return rounded(form, weight.float())
    dtype: torch.dtype = FORMATS.get(form, torch.bfloat16)
    return weight.to(dtype).double()


def narrow_speed(form: str, device: torch.device, options: BenchOptions) -> Row:
    """Time of one large product over that of floats."""
    name, width = _dtype_of(device, options), _width(options)
    dtype: torch.dtype = getattr(torch, name)
    count = 8192 if device.type == "cuda" else 1024
    x = _tokens(count, width, False).to(device, dtype)
    weight = _weight(width, width).to(device, dtype)
    layer = PRODUCTS[form](width, width, bias=False).to(device)
    layer.take(weight)
    time = partial(clocked, device=device.type, runs=options.runs or 5, warm_ups=2)
    narrow, floats = time(partial(layer, x)), time(partial(F.linear, x, weight))
    work = f"linear {width}, {name}"
    return {"work": work, "of_float": narrow.seconds / floats.seconds}


def narrow_error(form: str, device: torch.device) -> float:
    """Relative error (RMS) of one product of 512 channels, beside float64."""
    x, weight = _tokens(256, 512, False).to(device), _weight(512, 512).to(device)
    return _relative(_product(form, x, weight), F.linear(x, weight))


def _widening(form: str, device: torch.device, options: BenchOptions) -> Row:
    """How fast a weight is widened."""
    name, width = _dtype_of(device, options), _width(options)
    with torch.device("meta"):
        twin = quantized_of(nn.Linear(width, width, bias=False), form)
    twin.to_empty(device=device)
    twin.weight.zero_()
    work = partial(twin.dense_weight, getattr(torch, name))
    timing = clocked(work, device.type, runs=options.runs or 5, warm_ups=2)
    return {
        "work": f"widen {width}, {name}",
        "million_a_second": width**2 / timing.seconds / 1e6,
    }


def _width(options: BenchOptions) -> int:
    return 512 if options.quick else 2560


def _dtype_of(device: torch.device, options: BenchOptions) -> str:
    return options.dtype or ("float16" if device.type == "cuda" else "float32")


def _tokens(count: int, width: int, outliers: bool) -> Tensor:
    """[count, width] float64."""
    generator = torch.Generator().manual_seed(_SEED)
    noise, changes = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((count, width), (2, width))
    )
    scale = 1 + 0.3 * changes[0]
    if outliers:
        scale[::64] *= 20
    return F.rms_norm(noise, (width,)) * scale + 0.3 * changes[1]


def _weight(out: int, into: int) -> Tensor:
    """[out, into] float64, for results as large as what comes in."""
    generator = torch.Generator().manual_seed(_SEED + 1)
    noise = torch.randn(out, into, generator=generator, dtype=torch.float64)
    return noise / math.sqrt(into)


def _random_dit(config: DitConfig) -> SeedVr2Dit:
    dit = SeedVr2Dit(config)
    generator = torch.Generator().manual_seed(_SEED)
    for name, value in dit.named_parameters():
        noise = torch.randn(value.shape, generator=generator)
        if value.ndim > 1:
            value.data = noise / value.shape[-1] ** 0.5
        else:
            value.data = 0.3 * noise + float("norm" in name or name.endswith("scale"))
    return dit.requires_grad_(False)


def _relative(found: Tensor, wanted: Tensor) -> float:
    difference = found.double() - wanted
    return float(difference.square().mean().sqrt() / wanted.square().mean().sqrt())
