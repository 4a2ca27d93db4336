"""Parameters of a SeedVR2 transformer by place; from its configuration alone. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from engine.models.seedvr2.dit.config import DitConfig
from engine.ops.attention.windows import Grid, Window, windows

# Bytes that a weight takes in a published format, what scales a block of them included.
FORMAT_BYTES = {
    "fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0, "nvfp4": 0.5625,
    "Q8_0": 34 / 32, "Q6_K": 210 / 256, "Q5_K": 176 / 256, "Q4_K": 144 / 256,
}  # fmt: skip

_ALIGNED = 256  # bytes, of each tensor where blocks come and go

Of = Literal["picture", "text", "both"]


@dataclass(frozen=True, slots=True)
class Tensors:
    """Some tensors of one size.

    Attributes:
        numbers: Of each.
        of: Which tokens they are for.
        is_matrix: Whether a file may have it in a narrow format.
        count: How many.
    """

    numbers: int
    of: Of
    is_matrix: bool
    count: int = 1

    def nbytes(self, matrix_bytes: float, vector_bytes: int) -> int:
        """Of all of them, when a weight of a matrix takes so much, and any other number."""
        each = self.numbers * (matrix_bytes if self.is_matrix else vector_bytes)
        return self.count * -(-int(each) // _ALIGNED) * _ALIGNED


def block_tensors(config: DitConfig, layer: int) -> Iterator[Tensors]:
    """All tensors of one block."""
    if config.is_shared(layer):
        yield from _stream(config, "both", changed=True)
        return
    yield from _stream(config, "picture", changed=True)
    yield from _stream(config, "text", changed=not config.text_ends(layer))


def end_tensors(config: DitConfig) -> Iterator[Tensors]:
    """All tensors before and after the blocks, the time embedding among them."""
    dim, positions = config.dim, config.patch[0] * config.patch[1] * config.patch[2]
    yield from _linear(config.in_channels * positions, dim, "picture")
    yield from _linear(config.text_in_dim, dim, "text")
    for inside, outside in ((config.time_features, dim), (dim, dim), (dim, 6 * dim)):
        yield from _linear(inside, outside, "both")
    if config.out_norm:
        yield Tensors(dim, "picture", is_matrix=False, count=3)
    yield from _linear(dim, config.out_channels * positions, "picture")


@lru_cache(maxsize=32)
def parameters(config: DitConfig) -> int:
    """Parameters of the whole model."""
    blocks = (total(block_tensors(config, layer)) for layer in range(config.layers))
    return total(end_tensors(config)) + sum(blocks)


def total(tensors: Iterable[Tensors]) -> int:
    """Parameters of some tensors."""
    return sum(some.numbers * some.count for some in tensors)


def matrix_numbers(tensors: Iterable[Tensors], of: tuple[Of, ...]) -> int:
    """Parameters of those matrices that tokens of some kind go through."""
    return total(some for some in tensors if some.is_matrix and some.of in of)


def token_count(config: DitConfig, latent: Grid) -> int:
    """Tokens of a latent, given by its time, height and width."""
    time, height, width = _token_grid(config, latent)
    return time * height * width


def layer_windows(config: DitConfig, latent: Grid, *, shifted: bool) -> list[Window]:
    """Windows of the even or, shifted, of the odd layers."""
    return windows(_token_grid(config, latent), config.window, shifted)


def _token_grid(config: DitConfig, latent: Grid) -> Grid:
    time, height, width = (n // part for n, part in zip(latent, config.patch, strict=True))
    return time, height, width


def _stream(config: DitConfig, of: Of, *, changed: bool) -> Iterator[Tensors]:
    """Attention of one set of weights, and what follows where it changes anything."""
    dim, inner, hidden = config.dim, config.inner_dim, config.mlp_hidden
    yield Tensors(dim * 3 * inner, of, is_matrix=True)
    yield from _linear(inner, dim, of)
    yield Tensors(config.head_dim, of, is_matrix=False, count=2)
    if not changed:
        return
    if config.mlp == "swiglu":
        yield Tensors(dim * hidden, of, is_matrix=True, count=3)
    else:
        yield from _linear(dim, hidden, of)
        yield from _linear(hidden, dim, of)
    yield Tensors(dim, of, is_matrix=False, count=6)


def _linear(inside: int, outside: int, of: Of) -> Iterator[Tensors]:
    yield Tensors(inside * outside, of, is_matrix=True)
    yield Tensors(outside, of, is_matrix=False)
