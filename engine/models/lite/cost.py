"""What Lite needs for a tile: bytes and multiplications, from shapes alone."""

from __future__ import annotations

from dataclasses import dataclass

from engine.cost import Cost
from engine.geometry import Size
from engine.models.lite.config import COLOURS, KERNEL, LiteConfig

_FLOAT32 = 4
_BASE_KERNEL = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteWork:
    """Memory and arithmetic of one call."""

    cost: Cost
    multiplications: int


def lite_cost(config: LiteConfig, tile: Size, *, frames: int = 1, dtype_bytes: int = 4) -> LiteWork:
    """Predict one call of `LiteNet` without gradients.

    Args:
        config: Which network.
        tile: Source px of the tile, its halo included.
        frames: Frames in the same call.
        dtype_bytes: Of the residual: 4 for float32, 2 for bfloat16 and float16.

    Returns:
        Peak bytes beyond the source, the result included, and multiply-adds. The peak is the
        largest of two moments: inside the body (two feature maps; the padded source and the base
        wait) and at the end (base and residual joined, then shuffled into the result).
    """
    reach = config.receptive_radius
    padded = (tile.width + 2 * reach) * (tile.height + 2 * reach) * frames
    inner = tile.pixels * frames
    phases = COLOURS * config.scale**2
    source = padded * COLOURS * _FLOAT32 * 2  # extended, and the same as channels last
    base = inner * phases * _FLOAT32
    body = 2 * padded * config.channels * dtype_bytes + padded * COLOURS * dtype_bytes
    residual = inner * phases * dtype_bytes
    ending = max(padded * config.channels * dtype_bytes, inner * phases * _FLOAT32) + residual
    weights = sum(inner_ * outer * KERNEL**2 + outer for inner_, outer in config.widths())
    multiplications = sum(a * b for a, b in config.widths()) * KERNEL**2 * padded
    return LiteWork(
        cost=Cost(
            weights=weights * dtype_bytes,
            activations=source + base + max(body, ending),
            # oneDNN keeps reordered weights and a strip per thread; it hardly grows with the tile.
            workspace=4 << 20,
        ),
        multiplications=multiplications + phases * COLOURS * _BASE_KERNEL**2 * inner,
    )
