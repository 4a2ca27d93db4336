"""Weights, operations and memory of the transformer of SwiftVR, from sizes alone. No torch.

They are those of the fast variant, whose constants are folded; the tests compare both on the
pretended GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from engine.core.geometry import spread_indices
from engine.models import gpu_passes
from engine.models.gpu_passes import Passes
from engine.models.planning.memory import DTYPE_BYTES
from engine.models.planning.transformers import DitFlops
from engine.models.swiftvr.dit.config import (
    CALL_VALUES,
    CHUNK_VALUES,
    SWIFT_DIT,
    Grid,
    SwiftDitConfig,
    folds_answers,
    windows,
)
from engine.settings.optimisations import DitSwitches

_EXACT = 4  # bytes of a value that constants, sums and norms are kept in
_ALIGNED = 256  # bytes between tensors of a streamed block
_NARROW = {"fp8": 16, "int8": 8}  # sides of a matrix are multiples of it; a value is a byte
_KERNEL_ROWS = {"fp8": 8192, "int8": 4096}  # that a narrow product rounds at a time
_SPAN_BYTES = 64 * 2**20  # of rows that are normed at a time on a GPU
_CPU_SPAN_BYTES = 2**20
# Of scores for each further row of the prompt, beside those that the table was counted with: in
# float32 scaled, shifted, softmax and read once more, then in the type of the model.
_COUNTED_ROWS, _SCORE_PASSES, _MIX_PASSES = 2, 7, 1
_SMALL_BYTES = 2**20  # vectors of norms, and what allocators round up


@dataclass(frozen=True, slots=True, kw_only=True)
class DitUse:
    """Use of the transformer.

    Attributes:
        config: Its sizes.
        rows: Rows of the prompt that differ.
        dtype: Type that is computed in.
        device: "cpu" or "cuda".
        products: Format of the matrix products of the blocks; "none" for that type.
    """

    config: SwiftDitConfig
    rows: int
    dtype: str
    device: str = "cuda"
    products: str = "none"

    @property
    def item(self) -> int:
        """Bytes per value."""
        return DTYPE_BYTES[self.dtype]

    @property
    def stream_item(self) -> int:
        """Bytes per value of the residual stream."""
        return _EXACT if self.dtype == "float16" else self.item


# --- weights


def _matrices(config: SwiftDitConfig, rows: int) -> list[tuple[int, int]]:
    """Inputs and outputs of the linear layers of a block."""
    dim, answers = config.dim, config.heads * rows
    last = answers if folds_answers(config, rows) else config.dim
    inner = [(dim, config.hidden), (config.hidden, dim)]
    return [*[(dim, dim)] * 5, (last, dim), *inner]


def _tensors(use: DitUse) -> Iterator[int]:
    """Bytes of each tensor of a block, as they are on the device."""
    config, rows = use.config, use.rows
    multiple = _NARROW.get(use.products, 0)
    for into, out in _matrices(config, rows):
        is_narrow = multiple and not (into % multiple or out % multiple)
        yield into * out * (1 if is_narrow else use.item)
        yield out * use.item
        if is_narrow:
            yield _EXACT * (out if use.products == "int8" else 1)
    for _ in range(4):  # norms of queries and keys, weight and bias before the prompt
        yield config.dim * use.item
    yield from (_EXACT * count for count in (6 * config.dim, config.dim * rows, rows))
    if not folds_answers(config, rows):
        yield _EXACT * config.dim * rows


@lru_cache(maxsize=256)
def block_bytes(use: DitUse) -> int:
    """Bytes of a block on the device, its tensors one behind the other."""
    return sum(-(-size // _ALIGNED) * _ALIGNED for size in _tensors(use))


def resident_parts(use: DitUse, blocks: int | None) -> tuple[int, int, int]:
    """Bytes of the weights that stay on the device, of all buffers for others, of the latter.

    Args:
        use: Use of the transformer.
        blocks: Number of blocks that stay; None: all.

    Returns:
        Bytes that stay; bytes of the buffers on the device; bytes of all blocks that are streamed.
    """
    config, block = use.config, block_bytes(use)
    ends = use.item * (2 * config.patch_features * config.dim + config.dim + config.patch_features)
    stay = config.layers if blocks is None else len(spread_indices(config.layers, blocks))
    coming = config.layers - stay
    return ends + _EXACT * 2 * config.dim + stay * block, min(2, coming) * block, coming * block


# --- operations


@lru_cache(maxsize=256)
def forward_flops(config: SwiftDitConfig, rows: int, latent: Grid) -> DitFlops:
    """Operations of a chunk as the fast variant computes it.

    Args:
        config: Sizes of the model.
        rows: Rows of the prompt that differ.
        latent: Time, height and width.
    """
    grid = config.grid(latent)
    tokens, layers, dim = prod(grid), config.layers, config.dim
    ends = 2 * tokens * 2 * config.patch_features * dim
    each = sum(into * out for into, out in _matrices(config, rows))
    prompt = dim * rows * (1 if folds_answers(config, rows) else 2)  # scores, and values
    pairs = [
        sum(queries * keys for queries, keys in _windows(config, grid, odd))
        for odd in (False, True)
    ]
    attention = (layers - layers // 2) * pairs[0] + layers // 2 * pairs[1]
    return DitFlops(2 * tokens * layers * (each + prompt) + ends, 4 * dim * attention, ends)


def _windows(config: SwiftDitConfig, grid: Grid, odd: bool) -> list[tuple[int, int]]:
    """Tokens that each window answers, and tokens that it has."""
    return [
        (
            grid[0] * (rows.stop - rows.first) * (columns.stop - columns.first),
            grid[0] * (rows.end - rows.start) * (columns.end - columns.start),
        )
        for rows, columns in windows(config, grid, odd)
    ]


@dataclass(frozen=True, slots=True)
class WindowOrder:
    """Windows of a layer, as means of the even and the odd ones.

    Attributes:
        keys: Tokens of all windows together.
        calls: Calls of the attention.
        gathered: Most tokens that a call gathers as keys, and as queries.
    """

    keys: float
    calls: float
    gathered: tuple[int, int]


@lru_cache(maxsize=256)
def window_order(config: SwiftDitConfig, grid: Grid) -> WindowOrder:
    """Windows of a grid of tokens; those that answer as many tokens attend together."""
    keys, calls, most = 0, 0, (0, 0)
    for odd in (False, True):
        found = _windows(config, grid, odd)
        keys += sum(tokens for _, tokens in found)
        for answered in {queries for queries, _ in found}:
            group = [tokens for queries, tokens in found if queries == answered]
            together = max(1, CALL_VALUES // (config.dim * group[0]))
            calls += -(-len(group) // together)
            together = min(together, len(group))
            most = max(most, (together * group[0], together * answered), key=sum)
    return WindowOrder(keys / 2, calls / 2, most)


@lru_cache(maxsize=256)
def forward_passes(use: DitUse, latent: Grid) -> Passes:
    """Bytes of the passes of a chunk on a GPU, products apart, and kernels of all of it."""
    config = use.config
    grid = config.grid(latent)
    order = window_order(config, grid)
    layer = gpu_passes.of_layer("swiftvr-dit", use.dtype, use.products, DitSwitches())
    found = layer.of(prod(grid), order.calls, order.keys)
    moved = config.layers * found.moved * config.dim / SWIFT_DIT.dim
    scores = prod(grid) * config.heads * max(0, use.rows - _COUNTED_ROWS)
    moved += config.layers * scores * (_SCORE_PASSES * _EXACT + _MIX_PASSES * use.item)
    return Passes(moved, config.layers * found.launches)


# --- memory


@lru_cache(maxsize=256)
def forward_bytes(use: DitUse, latent: Grid) -> int:
    """Most bytes of a chunk in addition to weights and buffers, its result included.

    Those of a library's scratch are not among them.

    Args:
        use: Use of the transformer.
        latent: Time, height and width.
    """
    config = use.config
    grid = config.grid(latent)
    tokens, dim = prod(grid), config.dim
    order = window_order(config, grid)
    layout = tokens * (2 * _EXACT * config.head_dim // 2 + 2 * 8) + round(2 * 8 * order.keys)
    stream, heads = tokens * dim * use.stream_item, 3 * tokens * dim * use.item
    patches = tokens * config.patch_features * use.item
    kept = layout + patches + stream
    keys, queries = order.gathered
    attending = 2 * (keys + queries) * dim * use.item
    chunk = min(tokens, max(1, CHUNK_VALUES // config.hidden))
    phases = (
        heads + attending,
        heads + _projecting(use, chunk),
        heads + _answering(use, chunk),
        heads + _prompted(use, chunk),
        heads + _inside_mlp(use, chunk),
        tokens * dim * (use.stream_item + use.item) + 2 * patches,
    )
    return kept + max(phases) + _SMALL_BYTES


def _rows(use: DitUse, tokens: int, width: int, rows: int | None = None) -> int:
    """Bytes of some tokens' values in the type that is computed in, or of fewer rows in float32."""
    return tokens * width * use.item if rows is None else min(tokens, rows) * width * _EXACT


def _projecting(use: DitUse, tokens: int) -> int:
    """Bytes while some tokens become queries or keys: normed and turned in float32."""
    dim = use.config.dim
    span = (_SPAN_BYTES if use.device == "cuda" else _CPU_SPAN_BYTES) // (_EXACT * dim)
    copies = 3 if use.item < _EXACT else 2
    normed = tokens * dim * (use.stream_item + use.item)
    narrow = _product_bytes(use, tokens, dim, dim)
    turning = copies * _rows(use, tokens, dim, max(1, span))
    return max(normed, 2 * _rows(use, tokens, dim) + max(turning, narrow))


def _answering(use: DitUse, tokens: int) -> int:
    """Bytes while answers are added to the residual stream, in the worst case without a kernel."""
    dim = use.config.dim
    narrow = _product_bytes(use, tokens, dim, dim)
    return _rows(use, tokens, dim) + max(narrow, tokens * dim * (use.stream_item + use.item))


def _prompted(use: DitUse, tokens: int) -> int:
    """Bytes of the attention to the prompt."""
    config, dim = use.config, use.config.dim
    narrow = _product_bytes(use, tokens, dim, dim)
    scores, values = tokens * config.heads * use.rows, _rows(use, tokens, dim)
    exact = tokens * dim * _EXACT
    mixed = scores * use.item
    mixed += scores * use.item if folds_answers(config, use.rows) else 2 * values
    later = max(exact + 2 * scores * _EXACT, scores * (_EXACT + use.item), mixed + values + narrow)
    return values + max(values + exact, values + narrow, later)


def _inside_mlp(use: DitUse, tokens: int) -> int:
    """Bytes of the MLP."""
    dim, hidden = use.config.dim, use.config.hidden
    narrow = max(_product_bytes(use, tokens, *sides) for sides in ((dim, hidden), (hidden, dim)))
    return 2 * _rows(use, tokens, dim) + _rows(use, tokens, hidden) + narrow


def _product_bytes(use: DitUse, tokens: int, into: int, out: int) -> int:
    """Bytes inside of a product: values that are rounded, and sums."""
    if use.products == "none":
        return 0
    rows = min(tokens, _KERNEL_ROWS[use.products])
    codes = rows * into
    return codes + (rows * out * _EXACT if use.products == "int8" else 0)
