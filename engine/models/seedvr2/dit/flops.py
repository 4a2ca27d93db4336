"""How many operations the SeedVR2 transformer takes, from sizes alone. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from engine.models.seedvr2.dit.config import DitConfig
from engine.models.seedvr2.dit.parameter_count import (
    block_tensors,
    end_tensors,
    layer_windows,
    matrix_numbers,
    token_count,
)
from engine.ops.attention.windows import Grid


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations of a forward; one multiply-add is two."""

    linear: int
    attention: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.linear + self.attention


@lru_cache(maxsize=256)
def forward_flops(config: DitConfig, latent: Grid, text: int = 58) -> Flops:
    """Of one forward, as the published data flow has it.

    Args:
        config: Of the model.
        latent: Time, height and width.
        text: Text tokens.
    """
    picture, words, once = _numbers(config)
    linear = 2 * once + 2 * token_count(config, latent) * picture + 2 * text * words
    pairs = [
        sum((window.tokens + text) ** 2 for window in layer_windows(config, latent, shifted=odd))
        for odd in (False, True)
    ]
    odd_layers = config.layers // 2
    both = (config.layers - odd_layers) * pairs[0] + odd_layers * pairs[1]
    return Flops(linear, 4 * config.inner_dim * both)


@lru_cache(maxsize=32)
def _numbers(config: DitConfig) -> tuple[int, int, int]:
    """Numbers of the matrices that a picture token, a text token and one vector go through."""
    ends = list(end_tensors(config))
    picture = matrix_numbers(ends, ("picture",))
    words = matrix_numbers(ends, ("text",))
    for layer in range(config.layers):
        picture += matrix_numbers(block_tensors(config, layer), ("picture", "both"))
        words += _text_numbers(config, layer)
    return picture, words, matrix_numbers(ends, ("both",))


def _text_numbers(config: DitConfig, layer: int) -> int:
    """Matrices that text tokens go through in a layer."""
    if config.text_ends(layer):
        return config.dim * 4 * config.inner_dim
    return matrix_numbers(block_tensors(config, layer), ("text", "both"))
