"""What the fast transformer takes on a card: for the planner, from sizes alone. No torch."""

from __future__ import annotations

from functools import lru_cache

from engine.models.seedvr2.dit.config import DitConfig
from engine.models.seedvr2.dit.flops import Flops, forward_flops
from engine.models.seedvr2.dit.memory import ITEM, forward_bytes, kept_bytes
from engine.models.seedvr2.dit.parameter_count import (
    FORMAT_BYTES,
    block_tensors,
    end_tensors,
    parameters,
)
from engine.ops.attention.windows import Grid
from engine.ops.transfer.residency import resident_blocks

__all__ = [
    "FORMAT_BYTES",
    "Flops",
    "blocks_on_device",
    "forward_bytes",
    "forward_flops",
    "kept_bytes",
    "largest_block_bytes",
    "parameters",
    "resident_bytes",
    "streamed_bytes",
    "streams",
]


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


def largest_block_bytes(config: DitConfig, bytes_per_weight: float, dtype: str = "bfloat16") -> int:
    """Of the largest block: of one buffer, and of one pinned copy."""
    return max(_weights(config, bytes_per_weight, dtype)[1])


def blocks_on_device(
    config: DitConfig,
    bytes_per_weight: float,
    budget_bytes: int,
    latent: Grid,
    *,
    text: int = 58,
    dtype: str = "bfloat16",
) -> int | None:
    """The most blocks that can stay on a card beside a forward of this size.

    Args:
        config: Of the model.
        bytes_per_weight: As they are there; if less than of `dtype`, they are widened at use.
        budget_bytes: For weights and forward together.
        latent: Its time, height and width.
        text: Its text tokens.
        dtype: That is computed in.

    Returns:
        None when not even the buffers and the forward fit.
    """
    widened = bytes_per_weight < ITEM[dtype]
    left = budget_bytes - forward_bytes(config, latent, text, dtype, widened=widened)
    counts = range(config.layers, -1, -1)
    fits = (n for n in counts if resident_bytes(config, bytes_per_weight, n, dtype=dtype) <= left)
    return next(fits, None)


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
