"""How many operations the SeedVR2 transformer takes, from sizes alone. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from engine.models.seedvr2.dit_config import DitConfig
from engine.models.seedvr2.dit_numbers import (
    block_tensors,
    end_tensors,
    layer_windows,
    matrix_numbers,
    token_count,
)
from engine.ops.windows import Grid


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations of a forward; one multiply-add is two."""

    linear: int
    attention: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.linear + self.attention


def forward_flops(config: DitConfig, latent: Grid, text: int = 58) -> Flops:
    """Of one forward, as the published data flow has it.

    Args:
        config: Of the model.
        latent: Time, height and width.
        text: Text tokens.
    """
    tokens = token_count(config, latent)
    linear = 2 * _once(config)
    for layer in range(config.layers):
        tensors = list(block_tensors(config, layer))
        linear += 2 * tokens * matrix_numbers(tensors, ("picture", "both"))
        linear += 2 * text * _text_numbers(config, layer)
    ends = list(end_tensors(config))
    linear += 2 * tokens * matrix_numbers(ends, ("picture",))
    linear += 2 * text * matrix_numbers(ends, ("text",))
    pairs = sum(
        (window.tokens + text) ** 2
        for layer in range(config.layers)
        for window in layer_windows(config, latent, shifted=bool(layer % 2))
    )
    return Flops(linear, 4 * config.inner_dim * pairs)


def _once(config: DitConfig) -> int:
    """Matrices of the time embedding: one vector goes through them."""
    return matrix_numbers(end_tensors(config), ("both",))


def _text_numbers(config: DitConfig, layer: int) -> int:
    """Matrices that text tokens go through in a layer."""
    if config.text_ends(layer):
        return config.dim * 4 * config.inner_dim
    return matrix_numbers(block_tensors(config, layer), ("text", "both"))
