"""Bytes that passes move and kernels that are launched, counted on the pretended GPU.

`python -m tests.pretended_gpu.passes` writes `resources/passes.json`, which plans for GPUs count
with (`engine.models.gpu_passes`): the fast variants of all video VAEs and of both transformers run
without values, with each set of switches that changes what they move. It is to be run after a
change of a fast variant, and takes about half an hour on one core. `test_passes` compares a part.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from engine.core.geometry import Size
from engine.core.paths import resource
from engine.models.gpu_passes import (
    BYTES_SWITCHES,
    PLANNED,
    RECOMPUTED,
    SLICE_SWITCHES,
    TABLE,
    layer_name,
    products_name,
)
from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B, DitConfig, token_count
from engine.models.seedvr2.dit.cost import window_order
from engine.models.seedvr2.dit.fast import FastDit
from engine.models.swiftvr.dit.config import SWIFT_DIT, SwiftDitConfig
from engine.models.swiftvr.dit.cost import WindowOrder
from engine.models.swiftvr.dit.cost import window_order as swift_windows
from engine.models.swiftvr.dit.fast import FastSwiftDit
from engine.models.video_vae.measured_memory import MeasuredVae
from engine.models.video_vae.vae_use import SLICES, Piece
from engine.ops.conv.causal_conv import Carry
from engine.ops.linear.formats import product_kinds, swap_linears
from engine.settings.optimisations import DitSwitches, VaeSwitches
from tests.pretended_gpu.gpu import PretendedGpu, Record
from tests.pretended_gpu.machine import pretended_gpu
from tests.pretended_gpu.published import DIT, GPU, TEXT, VAE
from tools.memory_table import VAES, table_text

SIZE = Size(1280, 704)
# What multiplies; all other operators and kernels pass over values.
MULTIPLYING = ("convolution", "addmm", "mm", "bmm", "kernel attend", "_scaled_mm", "_int_mm")
SWIFT = "swiftvr-dit"
COUNTED = ("seedvr2", "wan21", "wan22", "swiftvr")
FORMATS = {"bfloat16": ("int8", "fp8", "nvfp4"), "float16": ("int8",)}
# Latents of 7,200 to 48,960 tokens, in different numbers of windows and of their groups.
GRIDS = (2, 90, 160), (2, 136, 240), (6, 90, 160), (6, 136, 240)
LAYERS = 2, 4

Counts = tuple[float, float]  # bytes of passes, and launches


def counts(gpu: PretendedGpu) -> Counts:
    """Bytes that passes have read and written, and kernels."""
    touched = gpu.record.touched.items()
    moved = sum(n for name, n in touched if name not in MULTIPLYING and "attention" not in name)
    return float(moved), float(sum(gpu.record.launches.values()))


# --- VAEs


def of_vae(
    code: MeasuredVae, config: Any, switches: VaeSwitches = VAE
) -> Iterator[tuple[str, list[Counts]]]:
    """Each call, and the counts of a clip of one frame, of a first slice, and of a later one."""
    with torch.device("meta"):
        weights = code.loader.plain(config).state_dict()
    about: dict[str, Any] = {"device": "cuda", "dtype": torch.float16, "switches": switches}
    with pretended_gpu(**GPU) as gpu:
        vae = code.loader.fast(config, weights, **about)
        calls = {call: piece for call, piece in code.pieces(config, 4).items() if call in PLANNED}
        for call, piece in calls.items():
            found = []
            for steps in (
                (piece.single,),
                (piece.first, piece.later),
            ) * 2:  # the first time with trials
                carry = Carry()
                for count in steps:
                    frames = _given(piece, count)
                    gpu.record = Record(convolutions=gpu.record.convolutions)
                    carry = carry.handed_over(last=len(steps) == 1)
                    _, carry = getattr(vae, call)(frames, carry)
                    found.append(counts(gpu))
            yield call, found[len(SLICES) :]


def _given(piece: Piece, steps: int) -> Tensor:
    shape = SIZE.height // piece.factor, SIZE.width // piece.factor
    about: dict[str, Any] = {"device": "cuda", "dtype": torch.float16}
    if piece.is_clip:
        return torch.empty(1, piece.channels, steps, *shape, **about)
    last = torch.channels_last
    return torch.empty(steps, piece.channels, *shape, memory_format=last, **about)


def _changes() -> Iterator[tuple[str, VaeSwitches]]:
    yield "", VAE
    for name in SLICE_SWITCHES:
        yield name, VAE.changed(name, not getattr(VAE, name))
    yield "all", replace(VaeSwitches.all_off(), convolution="3d")


def vae_table(name: str) -> dict[str, Any]:
    """Bytes for a px and launches of each slice, by call, for each switch that is changed alone."""
    code, config = VAES[name].vae, VAES[name].config
    found: dict[str, Any] = {}
    for changed, switches in _changes():
        calls = {
            call: [[round(moved / SIZE.pixels), launched] for moved, launched in slices]
            for call, slices in of_vae(code, config, switches)
        }
        found[changed] = {k: v for k, v in calls.items() if not changed or found[""][k] != v}
        print(name, changed, flush=True)
    return found


# --- transformers


def of_transformer(
    config: DitConfig,
    grid: tuple[int, int, int],
    switches: DitSwitches = DIT,
    dtype: str = "bfloat16",
    products: str = "none",
) -> Counts:
    """A forward, the second one."""
    exact = getattr(torch, dtype)
    with pretended_gpu(**GPU) as gpu:
        with torch.device("meta"):
            dit: nn.Module = FastDit(config, switches)
        if products != "none":
            swap_linears(dit, product_kinds(dit, products))
        weights = {
            name: torch.empty(one.shape, dtype=_type_of(name, one, exact), device="cuda")
            for name, one in dit.state_dict().items()
        }
        dit.load_state_dict(weights, assign=True)
        dit.requires_grad_(False)
        dit.finish_loading()
        about: dict[str, Any] = {"device": "cuda", "dtype": exact}
        latent = torch.empty(*grid, config.in_channels, **about)
        text = torch.empty(TEXT, config.text_in_dim, **about)
        dit(latent, text, 1000.0)
        gpu.record = Record()
        dit(latent, text, 1000.0)
        return counts(gpu)


def _type_of(name: str, weight: Tensor, dtype: torch.dtype) -> torch.dtype:
    """Type of a weight; scales of products stay in float32."""
    is_wide = weight.dtype == torch.float32 and not name.endswith("weight_scale")
    return dtype if is_wide else weight.dtype


def of_layer(config: DitConfig, switches: DitSwitches, dtype: str, products: str) -> list[float]:
    """Figures of a layer, fitted to clips of several sizes."""
    moved, launched, sizes = [], [], []
    for grid in GRIDS:
        few, more = (
            of_transformer(
                replace(config, layers=layers, separate_layers=min(config.separate_layers, layers)),
                grid,
                switches,
                dtype,
                products,
            )
            for layers in LAYERS
        )
        deep = LAYERS[1] - LAYERS[0]
        order = window_order(config, grid)
        moved.append((more[0] - few[0]) / deep)
        launched.append((more[1] - few[1]) / deep - order.calls)
        sizes.append([1.0, float(token_count(config, grid)), order.groups, order.windows])
    size = torch.tensor(sizes, dtype=torch.float64)
    return [*_solved(size[:, [0, 1, 3]], moved), *_solved(size, launched)]


def _solved(factors: Tensor, sums: list[float]) -> list[float]:
    aim = torch.tensor(sums, dtype=torch.float64)[:, None]
    return list(torch.linalg.lstsq(factors, aim).solution.flatten().tolist())


def transformer_table(config: DitConfig) -> dict[str, list[float]]:
    """Figures of a layer, as `LayerPasses` has them, by type and the switches that are off.

    Those of a format of products are what it takes in addition.
    """
    found: dict[str, list[float]] = {}
    for dtype, formats in FORMATS.items():
        for number in range(2 ** len(BYTES_SWITCHES)):
            switches = DIT
            for place, name in enumerate(BYTES_SWITCHES):
                switches = switches.changed(name, not number >> place & 1)
            name = layer_name(dtype, switches)
            if name not in found:
                found[name] = of_layer(config, switches, dtype, "none")
                print(name, found[name], flush=True)
        for products in formats:
            for switches in (DIT, DIT.changed("kernels", False)):
                usual = found[layer_name(dtype, switches)]
                name = products_name(dtype, products, switches)
                if name not in found:
                    row = of_layer(config, switches, dtype, products)
                    found[name] = [a - b for a, b in zip(row, usual, strict=True)]
                    print(name, found[name], flush=True)
    for name in RECOMPUTED:
        row = of_layer(config, DIT.changed(name, False), "bfloat16", "none")
        found[name] = [a - b for a, b in zip(row, found[layer_name("bfloat16", DIT)], strict=True)]
    return {name: [rounded(one) for one in row] for name, row in found.items()}


# --- the transformer of SwiftVR: its layers gather keys, window by window

SWIFT_FORMATS = {"bfloat16": ("none", "int8", "fp8"), "float16": ("none", "int8")}
SWIFT_GRIDS = (2, 90, 160), (2, 136, 240), (6, 46, 80), (6, 68, 120)  # latents


def swift_dit(
    config: SwiftDitConfig, dtype: str, products: str = "none", rows: int = 2
) -> FastSwiftDit:
    """A transformer on the pretended GPU, without values."""
    with torch.device("meta"):
        dit = FastSwiftDit(config, rows)
    if products != "none":
        swap_linears(dit, product_kinds(dit, products))
    exact, kept = getattr(torch, dtype), dict(dit.named_buffers())
    weights = {
        name: torch.empty(
            one.shape,
            dtype=one.dtype if name in kept else _type_of(name, one, exact),
            device="cuda",
        )
        for name, one in dit.state_dict().items()
    }
    dit.load_state_dict(weights, assign=True)
    dit.attention = "efficient"
    return dit.requires_grad_(False)


def swift_latent(config: SwiftDitConfig, grid: tuple[int, int, int], dtype: str) -> Tensor:
    """A latent on the pretended GPU, without values."""
    shape = 1, config.channels, *grid
    return torch.empty(shape, dtype=getattr(torch, dtype), device="cuda")


def of_swift(
    config: SwiftDitConfig, grid: tuple[int, int, int], dtype: str, products: str, rows: int = 2
) -> Counts:
    """A forward, the second one."""
    with pretended_gpu(**GPU) as gpu:
        dit = swift_dit(config, dtype, products, rows)
        latent = swift_latent(config, grid, dtype)
        dit(latent)
        gpu.record = Record()
        dit(latent)
        return counts(gpu)


def swift_layer(dtype: str, products: str) -> list[float]:
    """Figures of a layer of SwiftVR: tokens that are gathered as keys are its windows."""
    few, more = LAYERS
    moved, launched, sizes = [], [], []
    for grid in SWIFT_GRIDS:
        less, deep = (
            of_swift(replace(SWIFT_DIT, layers=layers), grid, dtype, products) for layers in LAYERS
        )
        moved.append((deep[0] - less[0]) / (more - few))
        launched.append((deep[1] - less[1]) / (more - few))
        order: WindowOrder = swift_windows(SWIFT_DIT, SWIFT_DIT.grid(grid))
        tokens = grid[0] * grid[1] * grid[2] / SWIFT_DIT.patch**2
        sizes.append([1.0, tokens, order.calls, order.keys])
    size = torch.tensor(sizes, dtype=torch.float64)
    return [0.0, *_solved(size[:, [1, 3]], moved), *_solved(size[:, :3], launched), 0.0]


def swift_table() -> dict[str, list[float]]:
    """Figures of a layer of SwiftVR by type; those of a format are what it takes in addition."""
    found: dict[str, list[float]] = {}
    for dtype, formats in SWIFT_FORMATS.items():
        for products in formats:
            row = swift_layer(dtype, products)
            name = dtype if products == "none" else products_name(dtype, products, DIT)
            usual = [0.0] * len(row) if products == "none" else found[dtype]
            found[name] = [a - b for a, b in zip(row, usual, strict=True)]
            print(name, found[name], flush=True)
    return {name: [rounded(one) for one in row] for name, row in found.items()}


def rounded(figure: float) -> float:
    """A figure without noise of the fit."""
    return 0.0 if abs(figure) < 1e-6 else float(f"{figure:.6g}")


def main() -> None:
    """Count, and write the table."""
    path = resource(TABLE)
    table = json.loads(path.read_text("utf-8")) if path.exists() else {}
    some = sys.argv[1:] or [*COUNTED, "3B", "7B", SWIFT]
    for name in some:
        if name == SWIFT:
            table[name] = swift_table()
            path.write_text(table_text(table) + "\n", encoding="utf-8")
            continue
        config = {"3B": DIT_3B, "7B": DIT_7B}.get(name)
        table[name] = vae_table(name) if config is None else transformer_table(config)
        path.write_text(table_text(table) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
