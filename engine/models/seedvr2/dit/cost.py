"""Weights, operations and memory of the SeedVR2 transformer, from sizes alone. No torch.

Memory on a CPU is what torch's allocator is asked for. On a GPU workspaces of its libraries
come on top; not yet compared with a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from engine.core.geometry import spread_indices
from engine.models import gpu_passes
from engine.models.gpu_passes import Passes
from engine.models.planning.memory import DTYPE_BYTES
from engine.models.planning.transformers import DitFlops
from engine.models.seedvr2.dit.config import (
    DIT_3B,
    DIT_7B,
    DitConfig,
    Grid,
    block_tensors,
    chunk_rows,
    end_tensors,
    even_chunk,
    group_rows,
    layer_windows,
    matrix_weights,
    stream_dtype,
    token_count,
    total,
    window_groups,
)
from engine.settings.optimisations import DitSwitches


def streams(config: DitConfig, blocks: int | None, device: str) -> bool:
    """Whether weights are streamed: blocks, or on a GPU the text's share of all blocks.

    Args:
        config: Configuration of the model.
        blocks: Number of blocks that stay on the device; None: all of them.
        device: Kind of the torch device.
    """
    return blocks is not None and (blocks < config.layers or device != "cpu")


@dataclass(frozen=True, slots=True)
class WeightBytes:
    """Bytes of weights as they are on the device.

    Attributes:
        ends: Before and after the blocks.
        blocks: Bytes of each block.
        texts: The text's share of each block.
        is_narrow: Matrices of blocks have fewer bytes a weight than what is computed with.
    """

    ends: int
    blocks: tuple[int, ...]
    texts: tuple[int, ...]
    is_narrow: bool


@lru_cache(maxsize=256)
def weight_bytes(config: DitConfig, each: float, dtype: str = "bfloat16") -> WeightBytes:
    """Bytes of the weights of a file with one format.

    Args:
        config: Configuration of the model.
        each: Bytes of a weight of a matrix, see FORMAT_BYTES.
        dtype: Type of biases and vectors, and of the products.
    """
    item = DTYPE_BYTES[dtype]
    layers = [list(block_tensors(config, layer)) for layer in range(config.layers)]
    return WeightBytes(
        ends=sum(some.nbytes(each, item) for some in end_tensors(config)),
        blocks=tuple(sum(some.nbytes(each, item) for some in block) for block in layers),
        texts=tuple(
            sum(some.nbytes(each, item) for some in block if some.of == "text") for block in layers
        ),
        is_narrow=each < item,
    )


def resident_bytes(
    config: DitConfig,
    weights: WeightBytes,
    blocks: int | None,
    *,
    buffers: int = 2,
    device: str = "cuda",
) -> int:
    """Bytes of weights on the device; see `resident_parts`."""
    stay, buffer, most = resident_parts(config, weights, blocks, device)
    return stay + min(buffers, most) * buffer


def resident_parts(
    config: DitConfig, weights: WeightBytes, blocks: int | None, device: str = "cuda"
) -> tuple[int, int, int]:
    """Bytes of the weights that stay on the device, of a buffer for others, and most buffers.

    Args:
        config: Configuration of the model.
        weights: Bytes of its file.
        blocks: Number that stay there, as `load_dit` takes it; others are streamed in buffers,
            and the text's share of all of them where it has its own in every block. None: all stay.
        device: Kind of the torch device.
    """
    each, text = weights.blocks, weights.texts
    if blocks is None or not streams(config, blocks, device):
        return weights.ends + sum(each), 0, 0
    stay = spread_indices(config.layers, blocks)
    own_text = config.separate_layers == config.layers
    kept = sum(each[i] - (text[i] if own_text else 0) for i in stay)
    coming = [each[i] for i in range(config.layers) if i not in stay]
    if own_text:
        coming += [text[i] for i in stay]
    return weights.ends + kept, max(coming, default=0), len(coming)


@lru_cache(maxsize=256)
def unpacked_bytes(config: DitConfig, weights: WeightBytes, dtype: str = "bfloat16") -> int:
    """Bytes that a forward moves to unpack weights: each is read packed and written once.

    Products then read the result as they read any weight. The text part of the last layer counts
    too, although its result is not used. 0: nothing is packed.

    Args:
        config: Configuration of the model.
        weights: Bytes of its file.
        dtype: Type that is computed in.
    """
    if not weights.is_narrow:
        return 0
    blocks = (block_tensors(config, layer) for layer in range(config.layers))
    values = sum(total(some for some in block if some.is_matrix) for block in blocks)
    return sum(weights.blocks) + values * DTYPE_BYTES[dtype]


def streamed_bytes(config: DitConfig, weights: WeightBytes, blocks: int) -> int:
    """Bytes in RAM of pinned copies of all streamed weights."""
    stay = spread_indices(config.layers, blocks)
    coming = sum(weights.blocks[i] for i in range(config.layers) if i not in stay)
    own_text = config.separate_layers == config.layers
    return coming + own_text * sum(weights.texts[i] for i in stay)


# --- operations


@lru_cache(maxsize=256)
def forward_flops(config: DitConfig, latent: Grid, text: int = 58) -> DitFlops:
    """Operations of one forward, as the published data flow has it.

    Args:
        config: Configuration of the model.
        latent: Time, height and width.
        text: Text tokens.
    """
    counts = 2 * token_count(config, latent), 2 * text, 2
    ends = sum(n * one for n, one in zip(counts, _end_numbers(config), strict=True))
    linear = ends + sum(n * one for n, one in zip(counts, _block_numbers(config), strict=False))
    pairs = [
        sum((window.tokens + text) ** 2 for window in layer_windows(config, latent, shifted=odd))
        for odd in (False, True)
    ]
    odd_layers = config.layers // 2
    both = (config.layers - odd_layers) * pairs[0] + odd_layers * pairs[1]
    return DitFlops(linear, 4 * config.inner_dim * both, ends)


@lru_cache(maxsize=32)
def _end_numbers(config: DitConfig) -> tuple[int, int, int]:
    """Parameters of the matrices at the ends for a picture token, a text token and one vector."""
    ends = list(end_tensors(config))
    picture, words, once = (matrix_weights(ends, (of,)) for of in ("picture", "text", "both"))
    return picture, words, once


@lru_cache(maxsize=32)
def _block_numbers(config: DitConfig) -> tuple[int, int]:
    """Parameters of the matrices of all blocks for a picture token and a text token."""
    layers = range(config.layers)
    picture = sum(matrix_weights(block_tensors(config, n), ("picture", "both")) for n in layers)
    return picture, sum(_text_numbers(config, layer) for layer in layers)


def _text_numbers(config: DitConfig, layer: int) -> int:
    """Matrices that text tokens go through in a layer."""
    if config.text_ends(layer):
        return config.dim * 4 * config.inner_dim
    return matrix_weights(block_tensors(config, layer), ("text", "both"))


@dataclass(frozen=True, slots=True)
class WindowOrder:
    """Windows of a layer, as means of the even and the odd ones.

    Attributes:
        windows: Number of windows.
        groups: Groups that are computed together.
        calls: Calls of the attention: windows of equal length in a group attend in one.
    """

    windows: float
    groups: float
    calls: float


@lru_cache(maxsize=256)
def window_order(config: DitConfig, latent: Grid) -> WindowOrder:
    """Windows of a latent, given by its time, height and width."""
    orders = [layer_windows(config, latent, shifted=shifted) for shifted in (False, True)]
    groups = [window_groups(order, group_rows(config)) for order in orders]
    calls = [len({window.tokens for window in group}) for some in groups for group in some]
    return WindowOrder(sum(map(len, orders)) / 2, sum(map(len, groups)) / 2, sum(calls) / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class DitUse:
    """Use of a transformer on a GPU.

    Attributes:
        dtype: Type that is computed in.
        products: Format of the matrix products of the blocks; "none" for that type.
        switches: Optimisations.
    """

    dtype: str
    products: str = "none"
    switches: DitSwitches = field(default_factory=DitSwitches)

    @property
    def half_sums(self) -> bool:
        """Whether products may be those of our kernel with sums in float16."""
        switches, is_wide = self.switches, self.products == "none"
        return self.dtype == "float16" and is_wide and switches.fp16_sums and switches.kernels


@lru_cache(maxsize=1024)
def forward_passes(config: DitConfig, latent: Grid, use: DitUse) -> Passes:
    """Bytes of the passes of a forward on a GPU, products apart, and kernels of all of it."""
    name, published = ("3B", DIT_3B) if config.mlp == "swiglu" else ("7B", DIT_7B)
    order, switches = window_order(config, latent), use.switches
    layer = gpu_passes.of_layer(name, use.dtype, use.products, switches)
    found = layer.of(token_count(config, latent), order.groups, order.windows)
    calls = order.calls if switches.grouped_windows else order.windows
    moved = config.layers * found.moved * config.dim / published.dim
    return Passes(moved, config.layers * (found.launches + calls))


def packed_bytes(config: DitConfig, latent: Grid, dtype: str) -> float:
    """Bytes of bringing weights into the order of our kernel: for each group of tokens again."""
    picture, _ = _block_numbers(config)
    return 2.0 * DTYPE_BYTES[dtype] * picture * window_order(config, latent).groups


_MIB = 2**20
_EXACT = 4  # bytes of a value that sums are kept in


def forward_bytes(
    config: DitConfig,
    latent: Grid,
    text: int = 58,
    dtype: str = "bfloat16",
    device: str = "cuda",
    *,
    widened: bool = False,
) -> int:
    """Most bytes of one forward in addition to the weights, its result included.

    Args:
        config: Configuration of the model.
        latent: Time, height and width.
        text: Text tokens.
        dtype: Type that is computed in.
        device: Kind of the torch device.
        widened: Weights are in a narrow format; those of one layer at a time are widened.
    """
    wide = _widened(config) * DTYPE_BYTES[dtype] if widened else 0
    return _live_bytes(config, latent, text, dtype, device)[0] + wide


def kept_bytes(
    config: DitConfig, latent: Grid, text: int = 58, dtype: str = "bfloat16", device: str = "cuda"
) -> int:
    """Bytes that stay between two forwards whose buffers were given back; see `forward_bytes`."""
    return _live_bytes(config, latent, text, dtype, device)[1]


@lru_cache(maxsize=256)
def _live_bytes(
    config: DitConfig, latent: Grid, text: int, dtype: str, device: str
) -> tuple[int, int]:
    """Bytes at the peak of a forward, and of what stays until the next one."""
    forward = _Forward(config, latent, text, dtype, device)
    kept = forward.texts_bytes() + forward.vectors_bytes() + forward.layout_bytes()
    return forward.peak(), kept


@lru_cache(maxsize=32)
def _widened(config: DitConfig) -> int:
    """Parameters of the matrices that the picture goes through in a layer, and of one more."""
    blocks = [list(block_tensors(config, layer)) for layer in range(config.layers)]
    one = max(some.weights for block in blocks for some in block)
    return one + max(matrix_weights(block, ("picture", "both")) for block in blocks)


class _Forward:
    """Live values at the peaks of a forward of `FastDit`."""

    def __init__(self, config: DitConfig, latent: Grid, text: int, dtype: str, device: str) -> None:
        self.config, self.text = config, text
        self.item, self.on_gpu = DTYPE_BYTES[dtype], device == "cuda"
        self.stream_item = DTYPE_BYTES[stream_dtype(dtype)]
        self.tokens = token_count(config, latent)
        self.orders = [layer_windows(config, latent, shifted=shifted) for shifted in (False, True)]
        self.moves = set(self.orders[0]) != set(self.orders[1])
        self.fresh = dtype == "float32" and not self.on_gpu  # products come in new tensors
        limit, most = chunk_rows(config, device, self.item), group_rows(config)
        groups = [group for order in self.orders for group in window_groups(order, most)]
        rows = [sum(window.tokens for window in group) for group in groups]
        self.group = max(n + text * len(group) for n, group in zip(rows, groups, strict=True))
        self.chunk = max(*(even_chunk(n, limit) for n in rows), text)
        self.normed = max(self.chunk, even_chunk(self.tokens, limit))

    def peak(self) -> int:
        """Bytes of buffers that are kept, of the peak, and of all small things."""
        answers, item = self.group * self.config.inner_dim, self.item
        plain = max(self.entering(), 2 * answers) * item  # found for each call, then joined
        normed = max((answers + self.finishing()) * item, self.leaving() * self.stream_item)
        phases = max(plain, normed + self.exact_bytes())
        return self.kept_bytes() + phases + self.small_bytes() + self.layout_bytes()

    def kept_bytes(self) -> int:
        """Bytes of buffers for a purpose; nothing of them is given back."""
        config, chunk = self.config, self.chunk
        tokens = (1 + self.moves + (self.fresh and self.moves)) * self.tokens * config.dim
        heads = 3 * self.group * config.inner_dim
        wide = 0
        if not self.fresh:
            wide = chunk * max(3 * config.inner_dim, config.mlp_hidden)
            heads = max(heads, chunk * config.mlp_hidden * (config.mlp == "swiglu"))
        others = heads + wide + self.normed * config.dim
        return tokens * self.stream_item + others * self.item

    def entering(self) -> int:
        """Patches of the latent, in their order and in the windows'."""
        positions = self.config.patch[0] * self.config.patch[1] * self.config.patch[2]
        return 2 * self.tokens * positions * self.config.in_channels

    def leaving(self) -> int:
        """Patches of the result, and the result."""
        positions = self.config.patch[0] * self.config.patch[1] * self.config.patch[2]
        return 2 * self.tokens * positions * self.config.out_channels

    def finishing(self) -> int:
        """Values made of a chunk of results, where it is not in buffers."""
        config = self.config
        hidden = config.mlp_hidden * (2 if config.mlp == "swiglu" else 1)
        return self.chunk * (hidden + config.dim) if self.fresh else 0

    def exact_bytes(self) -> int:
        """Bytes of values in two bytes, some at a time."""
        config = self.config
        doubled = 2 * (config.mlp_hidden if config.mlp == "swiglu" else config.inner_dim)
        some = 0 if self.fresh or self.on_gpu else min(2 * _MIB, self.chunk * doubled * _EXACT)
        return some

    def small_bytes(self) -> int:
        """The text's values, vectors of all layers, scratch of operators."""
        config, inner = self.config, self.config.inner_dim
        text = self.text * 4 * inner * self.item + self.text * inner * 2 * _EXACT
        widest = config.dim * max(3 * inner, config.mlp_hidden, 6 * config.dim)
        some = _MIB if self.fresh else _MIB // 4
        scratch = 192 * _MIB + widest * self.item if self.on_gpu else some
        if self.on_gpu and self.stream_item > self.item:  # weights in the order of our kernel
            scratch += config.dim * max(3 * inner, config.mlp_hidden) * self.item
        return self.texts_bytes() + self.vectors_bytes() + text + scratch

    def texts_bytes(self) -> int:
        """The text, and what the first layer makes of it."""
        config = self.config
        values = config.text_in_dim + 4 * config.inner_dim
        return self.text * (values * self.item + 4 * config.dim * self.stream_item)

    def vectors_bytes(self) -> int:
        """Bytes of the modulation of layers."""
        config = self.config
        vectors = config.layers * (12 * config.dim + 4 * config.head_dim) + 12 * config.dim
        return vectors * _EXACT

    def layout_bytes(self) -> int:
        """Bytes of indices and angles."""
        angles = {window.shape: window.tokens for order in self.orders for window in order}
        channels = self.config.head_dim // 2
        texts = sum(len(order) for order in self.orders) * self.text
        return 80 * self.tokens + 8 * texts + 2 * 8 * channels * sum(angles.values())
