"""Cases `kernels`, `attention`, `products` and `layer-products`: single operators of the models.

`kernels`: how fast passes over frames and tokens move bytes, compared with a copy. Passes over
frames are those of the VAEs (a norm and SiLU: GroupNorm in SeedVR2, an RMS norm of each position in
Wan), passes over tokens those between the matrix products of the transformer.

`products`: errors of narrow formats of weights and matrix products against float64. Weights and
activations are random, like those of a transformer: tokens after an RMS norm, scaled and shifted
channel by channel. "Outliers" are one channel in 64 that is 20x as large: trained transformers have
a few of those.

`layer-products`: the products of a layer of the 3B transformer on a GPU, by torch and by our kernel
with promoted sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.bench.accuracy import relative_error
from engine.bench.report import Row
from engine.bench.run import BenchOptions
from engine.bench.timing import measure
from engine.bench.workload import device_of, dit_run, require_gpu
from engine.core.geometry import Size
from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B, DitConfig
from engine.ops.attention import attention
from engine.ops.attention.backends import BACKENDS
from engine.ops.attention.qk_rope import HeadNorm, Placement, gather_qk
from engine.ops.kernels import channel_norm, group_norm, heads, token_rows
from engine.ops.kernels.conv import promote_on
from engine.ops.linear import promoted
from engine.ops.linear.eight_bit import FP8
from engine.ops.linear.formats import (
    PRODUCTS,
    STORED,
    product_kinds,
    quantized_of,
    rounded,
    working,
)
from engine.ops.linear.matmul import product
from engine.ops.norm import group_norm as norm
from engine.ops.norm.rms_norm import rms_norm_silu
from engine.ops.norm.token_passes import add_gated, rms_modulate, swiglu

_GROUPS = 32
_EPS = 1e-6
_DIM, _HEADS, _HEAD_DIM, _HIDDEN = 2560, 20, 128, 6912  # of the 3B transformer
_WINDOW = 405  # tokens of a window of a 16:9 frame
_PAIRS = 63  # pairs of channels that RoPE rotates
_LENGTHS = (463, 926, 2546)  # tokens of 16:9 windows of 2, 5 and 20 latent steps with the text
_LAYERS = (  # input and output channels of the products of a layer
    (_DIM, 3 * _DIM),  # q, k, v
    (_DIM, _DIM),
    (_DIM, 2 * _HIDDEN),  # SwiGLU
    (_HIDDEN, _DIM),
)
_LAYER_TOKENS = 7200  # of five frames of 720p
_SPOTS = 64  # results that are compared with float64
_SEED = 20261120
_SIZES: dict[str, Any] = {"dim": 128, "text_in_dim": 96, "heads": 2, "head_dim": 64, "layers": 6}
_MODELS = {
    "3B kind": replace(DIT_3B, **_SIZES, separate_layers=3, mlp_hidden=352, rope_dim=64),
    "7B kind": replace(DIT_7B, **_SIZES, separate_layers=6, mlp_hidden=512, rope_dim=32),
}
_SIZE, _FRAMES = Size(320, 192), 9  # of what the models predict


@dataclass(frozen=True, slots=True)
class MemoryPass:
    """Work and the bytes that it has to read and write."""

    step: str
    moved_bytes: int
    work: Callable[[], object]


def kernel_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each dtype and step: seconds, GB/s, and their share of what a copy reaches.

    On a GPU each step is measured with CUDA kernels and without. Bytes are those that have to be
    read and written: a step that reads twice has half the GB/s.
    """
    device = device_of(options)
    on_gpu, quick, runs = device == "cuda", options.quick, 3 if options.quick else 15
    side = (1024 if on_gpu else 256) // (4 if quick else 1)
    tokens = _WINDOW * (40 if on_gpu else 2) // (2 if quick else 1)
    for dtype in (torch.float16, torch.bfloat16, torch.float32) if on_gpu else (torch.float32,):
        for channels in (128,) if quick else (128, 512):
            x = torch.randn(5, channels, side, side * 128 // channels, device=device)
            frames = x.to(dtype).to(memory_format=torch.channels_last)
            has_kernels = all(
                family.working(x.device, dtype) for family in (group_norm, channel_norm)
            )
            yield from _pass_rows(frames, _frame_passes, has_kernels, runs)
        x = torch.randn(tokens, _DIM, device=device).to(dtype)
        has_kernels = all(family.working(x.device, dtype) for family in (token_rows, heads))
        yield from _pass_rows(x, _token_passes, has_kernels, runs)


def _pass_rows(
    x: Tensor, passes: Callable[[Tensor, bool], list[MemoryPass]], has_kernels: bool, runs: int
) -> Iterator[Row]:
    """A copy of x, then the passes without and with kernels."""
    size = {"device": x.device.type, "dtype": str(x.dtype).removeprefix("torch.")}
    size["frames" if x.dim() == 4 else "tokens"] = "x".join(map(str, x.shape))
    copy = MemoryPass("copy", 2 * x.nbytes, partial(torch.empty_like(x).copy_, x))
    ceiling = _speed(copy, x, runs)
    yield {**size, "step": "copy", "form": "torch", **ceiling, "of_copy": 1.0}
    for form in ("torch", "kernels")[: 1 + has_kernels]:
        for one in passes(x, form == "kernels"):
            speed = _speed(one, x, runs)
            share = speed["gb_a_second"] / ceiling["gb_a_second"]
            yield {**size, "step": one.step, "form": form, **speed, "of_copy": share}


def _frame_passes(x: Tensor, kernels: bool) -> list[MemoryPass]:
    """GroupNorm and SiLU of frames [T, C, H, W]: statistics, scaling, both; then the RMS norm."""
    weight, bias = torch.rand(2, x.shape[1], device=x.device).to(x.dtype)
    gamma, out = weight.float(), torch.empty_like(x)
    statistics: Callable[[], object] = partial(norm.group_statistics, x, _GROUPS)
    factors = norm.scale_and_shift(norm.group_statistics(x, _GROUPS), weight, bias, _EPS)
    write: Callable[[], object] = partial(norm.normalise, x, *factors, out, silu=True)
    found = group_norm.find(x, _GROUPS, out) if kernels else None
    if found is not None:
        kernel, grid = found
        statistics = partial(kernel.statistics, x, grid)
        write = partial(kernel.normalise, (x, out), grid, factors, True)
    whole = partial(norm.group_norm_silu, x, weight, bias, _GROUPS, _EPS, out, kernels=kernels)
    positions = partial(rms_norm_silu, x, gamma, out, kernels=kernels)
    return [
        MemoryPass("moments", x.nbytes, statistics),
        MemoryPass("normalise", 2 * x.nbytes, write),
        MemoryPass("both", 3 * x.nbytes, whole),
        MemoryPass("positions", 2 * x.nbytes, positions),
    ]


def _token_passes(x: Tensor, kernels: bool) -> list[MemoryPass]:
    """Steps between the matrix products of a layer, for tokens [N, dim]."""
    tokens = len(x)
    scale, shift = torch.rand(2, _DIM, device=x.device)
    out, residual = torch.empty_like(x), torch.zeros_like(x)
    gate, value = x.new_ones(tokens, 2 * _HIDDEN).chunk(2, dim=1)
    qkv = x.new_ones(tokens, 3, _HEADS, _HEAD_DIM)
    weights = torch.rand(2, _HEAD_DIM, device=x.device)
    head_norm = HeadNorm(weights[0], weights[1], _EPS)
    rows = (torch.empty_like(qkv[:, 0]), torch.empty_like(qkv[:, 1]), torch.empty_like(qkv[:, 2]))
    modulate = partial(rms_modulate, x, scale, shift, _EPS, out, kernels=kernels)
    add = partial(add_gated, residual, x, scale, kernels=kernels)
    # Tokens go to other rows, and are rotated as in windows of one shape.
    angles = torch.rand(_WINDOW, _PAIRS, device=x.device)
    angle = torch.arange(tokens, device=x.device) % _WINDOW
    target = torch.arange(tokens - 1, -1, -1, device=x.device)
    placement = Placement(target, angles.cos(), angles.sin(), angle)
    gather = partial(gather_qk, qkv, placement, head_norm, rows, kernels=kernels)
    return [
        MemoryPass("rms_modulate", 2 * x.nbytes, modulate),
        MemoryPass("add_gated", 3 * x.nbytes, add),
        MemoryPass("swiglu", 3 * gate.nbytes, partial(swiglu, gate, value, gate, kernels=kernels)),
        MemoryPass("gather_qk", 2 * qkv.nbytes, gather),
    ]


def _speed(one: MemoryPass, x: Tensor, runs: int) -> dict[str, float]:
    timing = measure(one.work, x.device.type, runs=runs, warm_ups=2)
    return {"seconds": timing.seconds, "gb_a_second": one.moved_bytes / timing.seconds / 1e9}


def attention_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each dtype, length and backend: seconds, TFLOP/s, error against float64."""
    device = device_of(options)
    on_gpu, runs = device == "cuda", 3 if options.quick else 9
    for dtype in (torch.float16, torch.bfloat16) if on_gpu else (torch.float32,):
        names = attention.working(device, dtype, _HEAD_DIM)
        errors = {name: attention.error_of(name, device, dtype, _HEAD_DIM) for name in names}
        for length in _LENGTHS if on_gpu and not options.quick else _LENGTHS[:1]:
            windows, heads_ = (9, _HEADS) if on_gpu else (1, 2)
            shape = 3, windows, length, heads_, _HEAD_DIM
            q, k, v = torch.randn(shape, device=device).to(dtype).transpose(2, 3)
            flops = 4 * windows * heads_ * length**2 * _HEAD_DIM
            for name in names:
                work = partial(attention.attend, q, k, v, backend=name)
                seconds = measure(work, device, runs=runs, warm_ups=2).seconds
                yield {
                    "device": device,
                    "dtype": str(dtype).removeprefix("torch."),
                    "windows": "x".join(map(str, q.shape)),
                    "backend": name,
                    "seconds": seconds,
                    "tflops": flops / seconds / 1e12,
                    "error": errors[name],
                    "exact": "yes" if BACKENDS[name].is_exact else "no",
                }


# --- narrow formats


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
    dit = run.built()
    predict = run.work_of(dit)
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


def layer_product_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each product of a layer and way: seconds, TFLOP/s, error against float64.

    Our kernel brings the weight into its order in each call, as in a job; it exists for float16
    alone.
    """
    device, runs = torch.device(require_gpu(options)), options.runs or (3 if options.quick else 9)
    count = _LAYER_TOKENS // (4 if options.quick else 1)
    random = torch.Generator().manual_seed(_SEED)
    for inner, outer in _LAYERS:
        x = torch.randn(count, inner, generator=random)
        weight = torch.randn(outer, inner, generator=random) / math.sqrt(inner)
        rows, columns = (
            torch.randint(size, (_SPOTS,), generator=random) for size in (count, outer)
        )
        for way, compute, out, operands in _product_ways(x, weight, device):
            seconds = measure(compute, device.type, runs=runs, warm_ups=2).seconds
            tokens, matrix = (one.double().cpu() for one in operands)
            exact = (tokens[rows] * matrix[columns]).sum(1)
            found = out[rows.to(device), columns.to(device)].double().cpu()
            yield {
                "product": f"{count} tokens, {inner} to {outer}",
                "way": way,
                "seconds": seconds,
                "tflops": 2 * count * inner * outer / seconds / 1e12,
                "error": relative_error(found, exact),
            }


def _product_ways(
    x: Tensor, weight: Tensor, device: torch.device
) -> Iterator[tuple[str, Callable[[], object], Tensor, tuple[Tensor, Tensor]]]:
    """Name, work, its result and its operands of each way to multiply."""
    for dtype in (torch.float16, torch.bfloat16):
        given = x.to(device, dtype), weight.to(device, dtype)
        out = torch.empty(len(x), len(weight), dtype=dtype, device=device)
        name = str(dtype).removeprefix("torch.")
        yield f"torch, {name}", partial(product, *given, None, out), out, given
        ours = promoted.by_kernel(*given, out)
        if ours is not None:
            yield f"kernel, {name}, promoted every {promote_on(device)}", ours, out, given


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
