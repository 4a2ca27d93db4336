"""Temporary."""

from __future__ import annotations

from engine.models.seedvr2.dit_config import DitConfig


def parameters(c: DitConfig) -> int:
    layer = 4 * c.dim * c.inner_dim + (3 if c.mlp == "swiglu" else 2) * c.dim * c.mlp_hidden
    return layer * (c.layers + c.separate_layers)


def resident_bytes(c: DitConfig, item: float, blocks: int) -> int:
    blocks = min(blocks, c.layers)
    return int(parameters(c) * item * (blocks + (2 if blocks < c.layers else 0)) / c.layers)


def forward_bytes(c: DitConfig, grid: tuple[int, int, int], text: int, dtype: str) -> int:
    tokens = grid[0] * grid[1] * grid[2] // 4 + text
    item = 4 if dtype == "float32" else 2
    return int(tokens * c.dim * item * 2 + min(tokens, 16384) * c.dim * item * 8 + 200e6)


def forward_flops(c: DitConfig, grid: tuple[int, int, int], text: int) -> float:
    tokens = grid[0] * grid[1] * grid[2] // 4 + text
    return 2.0 * tokens * parameters(c) * c.layers / (c.layers + c.separate_layers) * 1.1
