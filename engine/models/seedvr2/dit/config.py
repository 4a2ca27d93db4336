"""Configuration of a SeedVR2 transformer, its attention windows and its tensors. No torch.

One model serves both published sizes; where they differ there is a field here. The configuration is
also inferred from the shapes of tensors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from engine.core.errors import UnknownKeys
from engine.files.formats.keymap import KeyMap
from engine.files.formats.scales import UNUSED
from engine.models.shapes import Shapes, agreed, size, stated_in

Grid = tuple[int, int, int]  # tokens in time, height and width
Mlp = Literal["swiglu", "gelu"]
Rope = Literal["mm", "axial"]

_BLOCK = re.compile(r"blocks\.(\d+)\.")
_MARK = ".attn.proj_qkv."  # only these transformers have it


DIT_KEYS = KeyMap(
    renames=((r"^model\.diffusion_model\.", ""),),  # some tools put that before every name
    # Frequencies are rounded, ours are computed; ComfyUI's files have the text's embedding too.
    ignored=(r"^blocks\.\d+\.attn\.rope\.rope\.freqs$", *UNUSED),
)
"""Names in the published files -> names of our modules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DitConfig:
    """Sizes of one transformer; the defaults are those of the published 3B one.

    Attributes:
        in_channels: Channels of a position of its input: noise, condition and mask.
        out_channels: Channels of a position of its result.
        dim: Width of a token, of picture and text alike.
        text_in_dim: Width of the text embedding that it is given.
        heads: Number of attention heads.
        head_dim: Channels of a head.
        layers: Blocks.
        separate_layers: Blocks at the beginning with own weights for picture and text; those
            after them share one set.
        mlp: "swiglu", without biases, or "gelu", with biases.
        mlp_hidden: Width inside the MLP.
        rope: "mm" counts tokens and rotates picture and text; "axial" spreads a window over -1 to
            1 and rotates the picture only.
        rope_dim: Channels of a head that share the angles of the three axes.
        out_norm: A norm and a modulation come after the last block.
        text_ends_early: The last block only looks at the text: no modulation, no MLP for it.
        window: Parts that 30 tokens x 720p are cut into, in time, height and width.
        patch: Positions of the latent that one token holds, in time, height and width.
        norm_eps: Added to the mean square in every norm.
        time_features: Sines and cosines that describe the time step.
    """

    in_channels: int = 33
    out_channels: int = 16
    dim: int = 2560
    text_in_dim: int = 5120
    heads: int = 20
    head_dim: int = 128
    layers: int = 32
    separate_layers: int = 10
    mlp: Mlp = "swiglu"
    mlp_hidden: int = 6912
    rope: Rope = "mm"
    rope_dim: int = 128
    out_norm: bool = True
    text_ends_early: bool = True
    window: tuple[int, int, int] = (4, 3, 3)
    patch: tuple[int, int, int] = (1, 2, 2)
    norm_eps: float = 1e-5
    time_features: int = 256

    def __post_init__(self) -> None:
        sizes = (self.in_channels, self.out_channels, self.dim, self.text_in_dim, self.heads)
        if min(*sizes, self.head_dim, self.layers, self.mlp_hidden, *self.window) < 1:
            raise ValueError("every size is at least 1")
        if not 0 <= self.separate_layers <= self.layers:
            raise ValueError(f"{self.separate_layers} of {self.layers} layers cannot be separate")
        if self.rope_dim > self.head_dim:
            raise ValueError(f"{self.rope_dim} channels of rope in heads of {self.head_dim}")

    @property
    def inner_dim(self) -> int:
        """Channels of all heads together."""
        return self.heads * self.head_dim

    def is_shared(self, layer: int) -> bool:
        """Whether picture and text have one set of weights in a layer."""
        return layer >= self.separate_layers

    def text_ends(self, layer: int) -> bool:
        """Whether a layer only looks at the text and does not change it."""
        return self.text_ends_early and layer == self.layers - 1


DIT_3B = DitConfig()
"""The published 3B: 3 391 475 776 parameters."""

DIT_7B = DitConfig(
    dim=3072,
    heads=24,
    layers=36,
    separate_layers=36,
    mlp="gelu",
    mlp_hidden=12288,
    rope="axial",
    rope_dim=64,
    out_norm=False,
    text_ends_early=False,
)
"""The published 7B and its sharp version: 8 239 607 872 parameters."""


def infer_dit_config(shapes: Shapes, metadata: Mapping[str, str]) -> DitConfig:
    """The configuration that fits the tensors of a file.

    One tensor that is missing or misshapen hardly matters here: the loader names it afterwards.

    Args:
        shapes: Published name and logical shape of every tensor.
        metadata: Metadata of the file. Its entry "config" (JSON; the sizes themselves or under
            "constructor") has what shapes do not show: parts of the window and eps of the norms.

    Raises:
        UnknownKeys: The names are not those of a SeedVR2 transformer, or its sizes are
            impossible.
    """
    shapes = {DIT_KEYS.ours(name): shape for name, shape in shapes.items()}
    if not any(_MARK in name for name in shapes):
        raise UnknownKeys("not-dit", tensors=", ".join(sorted(shapes)[:8]))
    try:
        return _config(shapes, stated_in(metadata))
    except ValueError as err:
        raise UnknownKeys("dit-sizes", reason=str(err)) from err


def _config(shapes: Shapes, metadata: Mapping[str, Any]) -> DitConfig:
    gated = any(".proj_in_gate." in name for name in shapes)  # no 7B has that
    usual = DIT_3B if gated else DIT_7B
    layers = _blocks(shapes)
    head_dim = agreed(_sides(shapes, r"attn\.norm_[qk]\.\w+\.weight", 0), usual.head_dim)
    inner_dim = agreed(_sides(shapes, r"attn\.proj_out\.\w+\.weight", 1), usual.inner_dim)
    if inner_dim % head_dim:
        raise ValueError(f"{inner_dim} channels do not come in heads of {head_dim}")
    return replace(
        usual,
        in_channels=size(shapes, "vid_in.proj.weight", 1, 0) // 4 or usual.in_channels,
        out_channels=size(shapes, "vid_out.proj.weight", 0, 0) // 4 or usual.out_channels,
        dim=agreed(_sides(shapes, r"attn\.proj_qkv\.\w+\.weight", 1), usual.dim),
        text_in_dim=size(shapes, "txt_in.weight", 1, usual.text_in_dim),
        heads=inner_dim // head_dim,
        head_dim=head_dim,
        layers=len(layers),
        separate_layers=len(layers - _blocks(name for name in shapes if ".all." in name)),
        mlp_hidden=agreed(_sides(shapes, r"mlp\.\w+\.proj_in\.weight", 0), usual.mlp_hidden),
        rope_dim=head_dim * usual.rope_dim // usual.head_dim,
        window=_window(metadata, usual.window),
        norm_eps=_eps(metadata, usual.norm_eps),
        time_features=size(shapes, "emb_in.proj_in.weight", 1, usual.time_features),
    )


def _blocks(names: Iterable[str]) -> set[int]:
    """Indices of the blocks that names belong to, those between them included."""
    found = [int(match[1]) for match in map(_BLOCK.match, names) if match]
    return set(range(min(found), max(found) + 1)) if found else set()


def _sides(shapes: Shapes, pattern: str, axis: int) -> Iterator[int]:
    """One side of every tensor of a kind, whatever block and stream it is of."""
    kind = re.compile(rf"{_BLOCK.pattern}{pattern}")
    return (size(shapes, name, axis, 0) for name in shapes if kind.fullmatch(name))


def _window(metadata: Mapping[str, Any], otherwise: tuple[int, int, int]) -> tuple[int, int, int]:
    """Stated once for every block, or as one list for each; they are all alike."""
    value = metadata.get("window")
    first = value[0] if isinstance(value, list) and value else None
    parts = first if isinstance(first, list) else value
    if isinstance(parts, list) and len(parts) == 3 and all(isinstance(n, int) for n in parts):
        return parts[0], parts[1], parts[2]
    return otherwise


def _eps(metadata: Mapping[str, Any], otherwise: float) -> float:
    value = metadata.get("norm_eps")
    return value if isinstance(value, float) and 0 < value < 1 else otherwise


# --- attention windows
#
# The size of a window follows the shape of the frame and not its resolution: the rule takes the
# tokens that the frame would have at 720p (45 x 80) and cuts them into a fixed number of parts, so
# a larger frame has more windows of the same size. Every other layer uses shifted windows, half a
# window towards the origin; the first and last of them are cut at the border.

_USUAL_TOKENS = 45 * 80  # of a frame at 720p
_LONGEST = 30  # tokens in time that count


class Window(NamedTuple):
    """A box of tokens: `t0 <= t < t1`, and so on."""

    t0: int
    t1: int
    h0: int
    h1: int
    w0: int
    w1: int

    @property
    def shape(self) -> Grid:
        """Tokens in time, height and width."""
        return self.t1 - self.t0, self.h1 - self.h0, self.w1 - self.w0

    @property
    def tokens(self) -> int:
        """Number of tokens in it."""
        return (self.t1 - self.t0) * (self.h1 - self.h0) * (self.w1 - self.w0)

    @property
    def slices(self) -> tuple[slice, slice, slice]:
        """Index of the window in a grid of tokens [T, H, W, ...]."""
        return slice(self.t0, self.t1), slice(self.h0, self.h1), slice(self.w0, self.w1)


def window_size(grid: Grid, counts: Grid) -> Grid:
    """Tokens of a whole window in time, height and width; some are larger than the grid.

    Args:
        grid: Tokens in time, height and width, each at least 1.
        counts: Parts that a clip of 720p and 30 tokens in time is cut into along each axis.
    """
    time, height, width = grid
    scale = math.sqrt(_USUAL_TOKENS / (height * width))
    return (
        math.ceil(min(time, _LONGEST) / counts[0]),
        math.ceil(round(height * scale) / counts[1]),  # half goes to even, as Python rounds
        math.ceil(round(width * scale) / counts[2]),
    )


def windows(grid: Grid, counts: Grid, shifted: bool) -> list[Window]:
    """The windows of one layer: together they hold every token exactly once.

    Args:
        grid: Tokens in time, height and width.
        counts: See `window_size`.
        shifted: Move them by half a window, along axes that have more than one.

    Returns:
        In the order of the published model: width outermost, then height, time innermost.
    """
    cut = _shifted_cuts if shifted else _cuts
    sizes = window_size(grid, counts)
    times, rows, columns = (cut(axis, size) for axis, size in zip(grid, sizes, strict=True))
    return [Window(*t, *h, *w) for w in columns for h in rows for t in times]


def _cuts(length: int, size: int) -> list[tuple[int, int]]:
    return [(start, min(start + size, length)) for start in range(0, length, size)]


def _shifted_cuts(length: int, size: int) -> list[tuple[int, int]]:
    """Borders at half windows, odd ones truncated; empty windows at the end are left out."""
    if size >= length:
        return [(0, length)]
    count = math.ceil((length - 0.5) / size) + 1
    borders = [min(max(int((index - 0.5) * size), 0), length) for index in range(count + 1)]
    return [(start, stop) for start, stop in pairwise(borders) if start < stop]


def token_count(config: DitConfig, latent: Grid) -> int:
    """Tokens of a latent, given by its time, height and width."""
    time, height, width = _token_grid(config, latent)
    return time * height * width


@lru_cache(maxsize=64)
def layer_windows(config: DitConfig, latent: Grid, *, shifted: bool) -> tuple[Window, ...]:
    """Windows of the even or, shifted, of the odd layers."""
    return tuple(windows(_token_grid(config, latent), config.window, shifted))


def _token_grid(config: DitConfig, latent: Grid) -> Grid:
    time, height, width = (n // part for n, part in zip(latent, config.patch, strict=True))
    return time, height, width


_GROUP_VALUES = 30 * 2**20  # of a group's tokens: enough for a large GPU, a bound for small ones
_CHUNK_BYTES = 6 * 2**20  # of an MLP's activations for one chunk: they stay in a CPU's cache
_LEAST_ROWS = 1024  # libraries rearrange the weights for each matmul: fewer rows are slower


def group_rows(config: DitConfig) -> int:
    """Most tokens of a window group: 12288 of the 3B, 10240 of the 7B."""
    return max(1, _GROUP_VALUES // config.dim)


def window_groups(order: Iterable[Window], most_rows: int) -> list[list[Window]]:
    """The windows of a layer in groups, windows of equal length next to each other.

    Args:
        order: All windows.
        most_rows: Tokens of a group; a window that has more is a group of its own.
    """
    groups: list[list[Window]] = []
    rows = most_rows
    for window in sorted(order, key=lambda window: window.tokens):
        rows += window.tokens
        if rows > most_rows:
            groups.append([])
            rows = window.tokens
        groups[-1].append(window)
    return groups


def stream_dtype(dtype: str) -> str:
    """Type of the residual stream: its sums grow beyond the range of float16, never of bfloat16.

    Args:
        dtype: Type that a transformer computes in.
    """
    return "float32" if dtype == "float16" else dtype


def chunk_rows(config: DitConfig, device_type: str, itemsize: int) -> int:
    """Most tokens that are projected at a time; off a CPU those of a window group.

    Args:
        config: Configuration of the model.
        device_type: Kind of the torch device.
        itemsize: Bytes of a value of the dtype it computes in.
    """
    if device_type != "cpu":
        return group_rows(config)
    row_bytes = (2 * config.mlp_hidden + 2 * config.dim) * itemsize
    return max(_LEAST_ROWS, _CHUNK_BYTES // row_bytes)


def even_chunk(rows: int, most: int) -> int:
    """Rows of each chunk, where they are cut into as few equal ones as a limit allows."""
    return -(-rows // -(-rows // most))


# --- tensors

# Bytes that a weight takes in a published format, what scales a block of them included.
FORMAT_BYTES = {
    "fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0, "nvfp4": 0.5625,
    "Q8_0": 34 / 32, "Q6_K": 210 / 256, "Q5_K": 176 / 256, "Q4_K": 144 / 256,
}  # fmt: skip

_ALIGNED = 256  # bytes

Of = Literal["picture", "text", "both"]


@dataclass(frozen=True, slots=True)
class Tensors:
    """Some tensors of one size.

    Attributes:
        weights: Number of weights of each.
        of: Which tokens they are for.
        is_matrix: Whether a file may have it in a narrow format.
        count: Number of them.
    """

    weights: int
    of: Of
    is_matrix: bool
    count: int = 1

    def nbytes(self, matrix_bytes: float, vector_bytes: int) -> int:
        """Bytes of all of them, given bytes per weight of a matrix and per other number."""
        each = self.weights * (matrix_bytes if self.is_matrix else vector_bytes)
        return self.count * aligned(int(each))


def aligned(nbytes: int) -> int:
    """Bytes that a tensor takes among others of a streamed block."""
    return -(-nbytes // _ALIGNED) * _ALIGNED


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
    return sum(some.weights * some.count for some in tensors)


def matrix_weights(tensors: Iterable[Tensors], of: tuple[Of, ...]) -> int:
    """Parameters of those matrices that tokens of some kind go through."""
    return total(some for some in tensors if some.is_matrix and some.of in of)


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
