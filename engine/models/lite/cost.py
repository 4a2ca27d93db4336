"""Cost of Lite for a tile: bytes and multiplications, from shapes alone."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.geometry import Size
from engine.models.lite.files import COLOURS, KERNEL, LiteConfig

_FLOAT32 = 4
_BASE_KERNEL = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteCost:
    """Memory of one call, in bytes."""

    weights: int
    activations: int  # frames in computation, the result included
    workspace: int  # buffers that operators take for as long as they run

    @property
    def working(self) -> int:
        """Most bytes in addition to the weights."""
        return self.activations + self.workspace


def lite_cost(config: LiteConfig, tile: Size, frames: int = 1, dtype_bytes: int = 4) -> LiteCost:
    """Predict the memory of one call of `LiteNet` without gradients.

    Args:
        config: Which network.
        tile: Source px of the tile, its halo included.
        frames: Frames in the same call.
        dtype_bytes: Bytes per value of the residual: 4 for float32, 2 for bfloat16 and float16.

    Returns:
        Bytes beyond the source, the result included. The peak is the larger of two phases:
        inside the body (two feature maps, the extended source and the base) and at the end (base
        and residual joined, then shuffled into the result).
    """
    padded, inner = _padded_pixels(config, tile) * frames, tile.pixels * frames
    phases = COLOURS * config.scale**2
    source = padded * COLOURS * config.frames * _FLOAT32  # extended, as channels last
    base = inner * phases * _FLOAT32
    body = padded * 2 * config.channels * dtype_bytes
    ending = max(padded * config.channels * dtype_bytes, base) + inner * phases * dtype_bytes
    weights = sum(inside * outside * KERNEL**2 + outside for inside, outside in config.widths())
    return LiteCost(
        weights=weights * dtype_bytes,
        activations=source + base + max(body, ending),
        # oneDNN keeps reordered weights and a strip per thread; it hardly grows with the tile.
        workspace=4 << 20,
    )


def lite_multiplications(config: LiteConfig, tile: Size, frames: int = 1) -> int:
    """Multiply-adds of the same call."""
    body = sum(
        inside * outside * _pixels(tile, config.layers + 1 - layer)
        for layer, (inside, outside) in enumerate(config.widths())
    )
    base = COLOURS**2 * config.scale**2 * _BASE_KERNEL**2
    return frames * (body * KERNEL**2 + base * tile.pixels)


def lite_passed_bytes(config: LiteConfig, tile: Size, frames: int = 1, dtype_bytes: int = 2) -> int:
    """Bytes that a GPU moves in the same call: each convolution, and the pass after it, in and out.

    That pass adds the bias and rectifies.
    """
    values = sum(
        (inside + outside) * _pixels(tile, config.layers + 1 - layer)
        for layer, (inside, outside) in enumerate(config.widths())
    )
    return 2 * values * frames * dtype_bytes


def _padded_pixels(config: LiteConfig, tile: Size) -> int:
    return _pixels(tile, config.receptive_radius)


def _pixels(tile: Size, around: int) -> int:
    """Pixels of a tile and of those around it, n on each side."""
    return (tile.width + 2 * around) * (tile.height + 2 * around)
