"""Weights and operations of the SeedVR2 transformer, from sizes alone. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from engine.models.seedvr2.dit.config import DitConfig
from engine.models.seedvr2.dit.memory import ITEM
from engine.models.seedvr2.dit.parameter_count import (
    block_tensors,
    end_tensors,
    layer_windows,
    matrix_numbers,
    token_count,
)
from engine.ops.attention.windows import Grid
from engine.ops.transfer.residency import resident_blocks


def streams(config: DitConfig, blocks: int | None, device: str) -> bool:
    """Whether anything comes and goes; a processor, which is the host, keeps the text's share.

    Args:
        config: Of the model.
        blocks: That stay on the device; None: all, and all of them.
        device: Kind of the torch device.
    """
    return blocks is not None and (blocks < config.layers or device != "cpu")


def resident_bytes(
    config: DitConfig,
    bytes_per_weight: float,
    blocks: int | None,
    *,
    dtype: str = "bfloat16",
    buffers: int = 2,
    device: str = "cuda",
) -> int:
    """Of weights on the device.

    Args:
        config: Of the model.
        bytes_per_weight: As they are there, see FORMAT_BYTES.
        blocks: That stay there, as `load_dit` takes it; the others come and go in buffers, and the
            text's share of all of them where it has its own in every block. None: all stay.
        dtype: Of biases and vectors.
        buffers: For those.
        device: Kind of the torch device.
    """
    ends, each, text = _weights(config, bytes_per_weight, dtype)
    if blocks is None or not streams(config, blocks, device):
        return ends + sum(each)
    stay = resident_blocks(config.layers, blocks)
    own_text = config.separate_layers == config.layers
    kept = sum(each[i] - (text[i] if own_text else 0) for i in stay)
    coming = [each[i] for i in range(config.layers) if i not in stay]
    if own_text:
        coming += [text[i] for i in stay]
    return ends + kept + min(buffers, len(coming)) * max(coming, default=0)


def streamed_bytes(
    config: DitConfig, bytes_per_weight: float, blocks: int, *, dtype: str = "bfloat16"
) -> int:
    """Of weights that come and go: what pinned copies of all of them take in main memory."""
    _, each, text = _weights(config, bytes_per_weight, dtype)
    stay = resident_blocks(config.layers, blocks)
    coming = sum(each[i] for i in range(config.layers) if i not in stay)
    own_text = config.separate_layers == config.layers
    return coming + own_text * sum(text[i] for i in stay)


@lru_cache(maxsize=256)
def _weights(
    config: DitConfig, bytes_per_weight: float, dtype: str
) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Bytes of the ends, of each block, and of the text's share of each block."""
    item = ITEM[dtype]
    ends = sum(some.nbytes(bytes_per_weight, item) for some in end_tensors(config))
    blocks = [list(block_tensors(config, layer)) for layer in range(config.layers)]
    each = tuple(sum(some.nbytes(bytes_per_weight, item) for some in block) for block in blocks)
    text = tuple(
        sum(some.nbytes(bytes_per_weight, item) for some in block if some.of == "text")
        for block in blocks
    )
    return ends, each, text


# --- operations


@dataclass(frozen=True, slots=True)
class DitFlops:
    """Floating-point operations of a forward; one multiply-add is two."""

    linear: int
    attention: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.linear + self.attention


@lru_cache(maxsize=256)
def forward_flops(config: DitConfig, latent: Grid, text: int = 58) -> DitFlops:
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
    return DitFlops(linear, 4 * config.inner_dim * both)


@lru_cache(maxsize=32)
def _numbers(config: DitConfig) -> tuple[int, int, int]:
    """Parameters of the matrices that a picture token, a text token and one vector go through."""
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
