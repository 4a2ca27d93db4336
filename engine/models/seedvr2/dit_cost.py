"""How many bytes and operations the fast transformer takes: for the planner, from sizes alone.

On a processor the figures are what torch's allocator is asked for. On a card workspaces of its
libraries come on top; not yet compared with a card. No torch.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from engine.models.seedvr2.dit_chunks import GROUP_ROWS, chunk_rows
from engine.models.seedvr2.dit_config import DitConfig
from engine.models.seedvr2.dit_numbers import (
    FORMAT_BYTES,
    block_tensors,
    end_tensors,
    matrix_numbers,
    parameters,
)
from engine.ops.residency import resident_blocks
from engine.ops.windows import Grid, Window, windows

__all__ = [
    "FORMAT_BYTES",
    "Flops",
    "blocks_on_device",
    "forward_bytes",
    "forward_flops",
    "largest_block_bytes",
    "parameters",
    "resident_bytes",
    "streamed_bytes",
]

ITEM = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
_MIB = 2**20
_EXACT = 4  # bytes of a number that sums are kept in


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations of a forward; one multiply-add is two."""

    linear: int
    attention: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.linear + self.attention


def resident_bytes(
    config: DitConfig,
    bytes_per_weight: float,
    blocks: int | None,
    *,
    dtype: str = "bfloat16",
    buffers: int = 2,
) -> int:
    """Of weights on a card.

    Args:
        config: Of the model.
        bytes_per_weight: As they are there, see FORMAT_BYTES.
        blocks: That stay there, as `load_dit` takes it; the others come and go in buffers, and the
            text's share of all of them where it has its own in every block. None: all stay.
        dtype: Of biases and vectors.
        buffers: For those.
    """
    ends, each, text = _weights(config, bytes_per_weight, dtype)
    if blocks is None:
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
        bytes_per_weight: As they are there.
        budget_bytes: For weights and forward together.
        latent: Its time, height and width.
        text: Its text tokens.
        dtype: That is computed in.

    Returns:
        None when not even the buffers and the forward fit.
    """
    left = budget_bytes - forward_bytes(config, latent, text, dtype)
    counts = range(config.layers, -1, -1)
    fits = (n for n in counts if resident_bytes(config, bytes_per_weight, n, dtype=dtype) <= left)
    return next(fits, None)


def forward_flops(config: DitConfig, latent: Grid, text: int = 58) -> Flops:
    """Of one forward, as the published data flow has it.

    Args:
        config: Of the model.
        latent: Time, height and width.
        text: Text tokens.
    """
    tokens = _tokens(config, latent)
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
        for window in _windows(config, latent, shifted=bool(layer % 2))
    )
    return Flops(linear, 4 * config.inner_dim * pairs)


@lru_cache(maxsize=256)
def forward_bytes(
    config: DitConfig, latent: Grid, text: int = 58, dtype: str = "bfloat16", device: str = "cuda"
) -> int:
    """Most bytes of one forward beside the weights, its result included.

    Args:
        config: Of the model.
        latent: Time, height and width.
        text: Text tokens.
        dtype: That is computed in.
        device: Kind of the torch device.
    """
    return _Forward(config, latent, text, dtype, device).peak()


class _Forward:
    """What is alive at the high points of a forward of `FastDit`; numbers until the end."""

    def __init__(self, config: DitConfig, latent: Grid, text: int, dtype: str, device: str) -> None:
        self.config, self.text = config, text
        self.item, self.is_card = ITEM[dtype], device == "cuda"
        self.tokens = _tokens(config, latent)
        self.orders = [_windows(config, latent, shifted=shifted) for shifted in (False, True)]
        self.moves = set(self.orders[0]) != set(self.orders[1])
        self.fresh = dtype == "float32" and not self.is_card  # products come in new tensors
        self.groups = [group for order in self.orders for group in _groups(order)]
        limit = chunk_rows(config, device, self.item)
        self.chunk = max(min(n, max(1, limit // tokens)) * tokens for tokens, n in self.groups)
        self.chunk = max(self.chunk, text)
        self.normed = max(self.chunk, min(self.tokens, limit))

    def peak(self) -> int:
        """Bytes of buffers that are kept, of the highest moment, and of all small things."""
        moments = (self.entering(), self.attending(), self.finishing(), self.leaving())
        numbers = self.kept() + max(moments)
        return numbers * self.item + self.small_bytes() + self.layout_bytes()

    def kept(self) -> int:
        """Buffers for a purpose; nothing of them is given back."""
        config, chunk = self.config, self.chunk
        tokens = (1 + self.moves + (self.fresh and self.moves)) * self.tokens * config.dim
        windows = 3 * self.group_rows() * config.inner_dim
        chunked = self.normed * config.dim
        if not self.fresh:
            wide = max(3 * config.inner_dim, config.mlp_hidden)
            gate = config.mlp_hidden if config.mlp == "swiglu" else 0
            chunked += chunk * (wide + gate + config.dim)
        return tokens + windows + chunked

    def entering(self) -> int:
        """Patches of the latent, in their order and in the windows'."""
        positions = self.config.patch[0] * self.config.patch[1] * self.config.patch[2]
        return 2 * self.tokens * positions * self.config.in_channels

    def leaving(self) -> int:
        """Patches of the result, and the result."""
        positions = self.config.patch[0] * self.config.patch[1] * self.config.patch[2]
        return 2 * self.tokens * positions * self.config.out_channels

    def attending(self) -> int:
        """Answers of a window group beside those of the one before; a card turns them over."""
        orders = [[self.rows(group) for group in _groups(order)] for order in self.orders]
        pairs = [before + now for rows in orders for before, now in pairwise((0, *rows))]
        rows = max(pairs) + self.chunk + self.is_card * self.group_rows()
        return rows * self.config.inner_dim

    def finishing(self) -> int:
        """Answers, and what becomes of a chunk of them."""
        config, inside = self.config, 0
        if self.fresh:
            inside = config.mlp_hidden * (2 if config.mlp == "swiglu" else 1) + config.dim
        answers = self.group_rows() * config.inner_dim
        return answers + self.chunk * (config.inner_dim + inside)

    def group_rows(self) -> int:
        """Rows of q, k and v of the largest window group."""
        return max(self.rows(group) for group in self.groups)

    def rows(self, group: tuple[int, int]) -> int:
        """Rows of q, k and v of a window group."""
        tokens, count = group
        return count * (tokens + self.text)

    def small_bytes(self) -> int:
        """The text's numbers, vectors of all layers, scratch of operators."""
        config, inner = self.config, self.config.inner_dim
        text = self.text * (config.text_in_dim + 4 * config.dim + 8 * inner) * self.item
        sums = self.text * inner * 2 * _EXACT
        vectors = config.layers * (12 * config.dim + 4 * config.head_dim) + 12 * config.dim
        widest = config.dim * max(3 * inner, config.mlp_hidden, 6 * config.dim)
        scratch = 192 * _MIB + widest * self.item if self.is_card else 2 * _MIB
        return text + sums + vectors * _EXACT + scratch

    def layout_bytes(self) -> int:
        """Of indices and angles."""
        angles = {window.shape: window.tokens for order in self.orders for window in order}
        channels = self.config.head_dim // 2
        texts = sum(len(order) for order in self.orders) * self.text
        return 80 * self.tokens + 8 * texts + 2 * 8 * channels * sum(angles.values())


def _tokens(config: DitConfig, latent: Grid) -> int:
    time, height, width = _grid(config, latent)
    return time * height * width


def _grid(config: DitConfig, latent: Grid) -> Grid:
    time, height, width = (n // part for n, part in zip(latent, config.patch, strict=True))
    return time, height, width


def _windows(config: DitConfig, latent: Grid, *, shifted: bool) -> list[Window]:
    return windows(_grid(config, latent), config.window, shifted)


def _groups(order: list[Window]) -> list[tuple[int, int]]:
    """Tokens of a window and windows of each group that attends in one call."""
    found = []
    for shape, count in sorted(Counter(window.shape for window in order).items()):
        tokens = shape[0] * shape[1] * shape[2]
        most = max(1, GROUP_ROWS // tokens)
        while count > 0:
            found.append((tokens, min(count, most)))
            count -= most
    return found


def _once(config: DitConfig) -> int:
    """Matrices of the time embedding: one vector goes through them."""
    return matrix_numbers(end_tensors(config), ("both",))


def _text_numbers(config: DitConfig, layer: int) -> int:
    """Matrices that text tokens go through in a layer."""
    if config.text_ends(layer):
        return config.dim * 4 * config.inner_dim
    return matrix_numbers(block_tensors(config, layer), ("text", "both"))


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
