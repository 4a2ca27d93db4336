"""Case `products`: errors of narrow formats of weights and matrix products against float64.

Random weights and activations like those of a transformer: tokens after an RMS norm, scaled and
shifted channel by channel. "Outliers" are one channel in 64 that is 20x as large: trained
transformers have a few of those.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.bench.accuracy import relative_error
from engine.bench.cases.runs import device_of, dit_run
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.bench.timing.clock import measure
from engine.core.geometry import Size
from engine.models.seedvr2.dit import random_dit
from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B, DitConfig
from engine.ops.linear.eight_bit import FP8
from engine.ops.linear.formats import (
    PRODUCTS,
    STORED,
    product_kinds,
    quantized_of,
    rounded,
    working,
)

_SEED = 20261120
_SIZES: dict[str, Any] = {"dim": 128, "text_in_dim": 96, "heads": 2, "head_dim": 64, "layers": 6}
_MODELS = {
    "3B kind": replace(DIT_3B, **_SIZES, separate_layers=3, mlp_hidden=352, rope_dim=64),
    "7B kind": replace(DIT_7B, **_SIZES, separate_layers=6, mlp_hidden=512, rope_dim=32),
}
_SIZE, _FRAMES = Size(320, 192), 9  # of what the models predict


def matmul_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each format and work: error of the weight, of the result, and where it runs.

    Errors are relative (RMS); formats that this device cannot multiply are rounded by torch and
    multiplied exactly. `of_float` is the time of one large product over that in the dtype that the
    device computes in; `million_a_second` are weights widened from a stored format to that dtype,
    which happens at every use.
    """
    device = torch.device(device_of(options))
    here = working(device)
    for name in ("bfloat16", *FP8, *PRODUCTS):
        is_imitated = name in PRODUCTS and name not in here
        facts: Row = {"format": name, "here": "imitated" if is_imitated else "yes"}
        yield from ({**facts, **row} for row in _layer_rows(name, device))
        for title, config in _MODELS.items():
            yield {**facts, "work": title, "result_error": _model_error(name, config, options)}
        if name in here:
            yield {**facts, **matmul_speed(name, device, options)}
    for name in sorted(STORED):
        yield {"format": name, "here": "yes", **_widening_speed(name, device, options)}


def _layer_rows(name: str, device: torch.device) -> Iterator[Row]:
    for width, has_outliers in ((64, False), (512, False), (512, True)):
        x = _tokens(256, width, has_outliers).to(device)
        weight = _weight(width, width).to(device)
        yield {
            "work": f"linear {width}" + (", outliers" if has_outliers else ""),
            "weight_error": relative_error(_rounded_weight(name, weight), weight),
            "result_error": relative_error(_product(name, x, weight), F.linear(x, weight)),
        }


def _model_error(name: str, config: DitConfig, options: BenchOptions) -> float:
    """Error of the prediction of a transformer whose blocks have their layers in a format."""
    options = replace(options, dit=config, dtype="float64", size=_SIZE)
    run = replace(dit_run(options, "3b"), frames=_FRAMES)
    dit = random_dit.build(run)
    predict = random_dit.work_of(run, dit)
    exact = predict()
    for path in product_kinds(dit, "nvfp4"):  # the format that suits the fewest layers
        owner, _, leaf = path.rpartition(".")
        linear = dit.get_submodule(path)
        setattr(dit.get_submodule(owner), leaf, _FormatLinear(name, linear))
    return relative_error(predict(), exact)


class _FormatLinear(nn.Module):
    """A layer that multiplies in a format, between layers in float64."""

    def __init__(self, name: str, linear: nn.Module) -> None:
        super().__init__()
        self._name = name
        self._linear = linear

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self._linear.weight, self._linear.bias
        found = _product(self._name, x.reshape(-1, x.shape[-1]), torch.as_tensor(weight))
        found = found.view(*x.shape[:-1], -1)
        return found if bias is None else found + torch.as_tensor(bias)


def _product(name: str, x: Tensor, weight: Tensor) -> Tensor:
    """Tokens [N, K] times a weight [M, K], both float64, rounded to the format."""
    if name not in PRODUCTS:
        tokens = x.bfloat16().double() if name == "bfloat16" else x
        return F.linear(tokens, _rounded_weight(name, weight))
    if name in working(x.device):
        layer = PRODUCTS[name](weight.shape[1], weight.shape[0], bias=False)
        layer.take(weight.float())
        return torch.as_tensor(layer.to(x.device)(x.float())).double()
    return F.linear(rounded(name, x.float()), _rounded_weight(name, weight))


def _rounded_weight(name: str, weight: Tensor) -> Tensor:
    if name in PRODUCTS:
        return rounded(name, weight.float())
    dtype: torch.dtype = FP8.get(name, torch.bfloat16)
    return weight.to(dtype).double()


def matmul_speed(name: str, device: torch.device, options: BenchOptions) -> Row:
    """Time of one large product in a format over that in the device's dtype."""
    dtype_name, width = _dtype_of(device, options), _width(options)
    dtype: torch.dtype = getattr(torch, dtype_name)
    x = _tokens(8192 if device.type == "cuda" else 1024, width).to(device, dtype)
    weight = _weight(width, width).to(device, dtype)
    layer = PRODUCTS[name](width, width, bias=False).to(device)
    layer.take(weight)
    narrow, usual = (
        measure(work, device.type, runs=options.runs or 5, warm_ups=2).seconds
        for work in (partial(layer, x), partial(F.linear, x, weight))
    )
    return {"work": f"linear {width}, {dtype_name}", "of_float": narrow / usual}


def matmul_error(name: str, device: torch.device) -> float:
    """Relative error (RMS) of one product of 512 channels against float64."""
    x, weight = _tokens(256, 512).to(device), _weight(512, 512).to(device)
    return relative_error(_product(name, x, weight), F.linear(x, weight))


def _widening_speed(name: str, device: torch.device, options: BenchOptions) -> Row:
    dtype, width = _dtype_of(device, options), _width(options)
    with torch.device("meta"):
        stored = quantized_of(nn.Linear(width, width, bias=False), name)
    stored.to_empty(device=device)
    stored.weight.zero_()
    work = partial(stored.dense_weight, getattr(torch, dtype))
    seconds = measure(work, device.type, runs=options.runs or 5, warm_ups=2).seconds
    return {"work": f"widen {width}, {dtype}", "million_a_second": width**2 / seconds / 1e6}


def _width(options: BenchOptions) -> int:
    return 512 if options.quick else 2560


def _dtype_of(device: torch.device, options: BenchOptions) -> str:
    return options.dtype or ("float16" if device.type == "cuda" else "float32")


def _tokens(count: int, width: int, has_outliers: bool = False) -> Tensor:
    """[count, width] float64."""
    generator = torch.Generator().manual_seed(_SEED)
    noise, changes = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((count, width), (2, width))
    )
    scale = 1 + 0.3 * changes[0]
    if has_outliers:
        scale[::64] *= 20
    return F.rms_norm(noise, (width,)) * scale + 0.3 * changes[1]


def _weight(outputs: int, inputs: int) -> Tensor:
    """[outputs, inputs] float64; results have the variance of the inputs."""
    generator = torch.Generator().manual_seed(_SEED + 1)
    noise = torch.randn(outputs, inputs, generator=generator, dtype=torch.float64)
    return noise / math.sqrt(inputs)
