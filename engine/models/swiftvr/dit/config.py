"""Configuration of the transformer of SwiftVR, and its attention windows. No torch.

Its windows are 16 x 16 tokens of all frames of a chunk. They overlap at the far end of a frame
instead of being padded: a token is a key in every window that holds it, and takes its answer from
one of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from engine.core.errors import UnknownKeys
from engine.models.shapes import Shapes, agreed, number, size

Grid = tuple[int, int, int]  # tokens in time, height and width

# Of the fast variant: values inside the MLP, of the tokens that are worked on at a time, and of the
# keys that a call of the attention gathers.
CHUNK_VALUES = 2**26
CALL_VALUES = 2**25

_BLOCK = re.compile(r"blocks\.(\d+)\.")
_WINDOW = "self_attn_window_hw"  # of a stated configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class SwiftDitConfig:
    """Sizes of one transformer; the defaults are those of the published one.

    Attributes:
        channels: Channels of the latent, and of what is subtracted from it.
        heads: Number of attention heads.
        head_dim: Channels of a head.
        layers: Blocks.
        hidden: Width inside the MLP.
        text_dim: Width of the prompt.
        time_features: Cosines and sines that describe the time step.
        window: Tokens of a window in height and width.
        patch: Latent positions of a token per side.
        eps: Added to the mean square, or the variance, in every norm.
    """

    channels: int = 48
    heads: int = 24
    head_dim: int = 128
    layers: int = 30
    hidden: int = 14336
    text_dim: int = 4096
    time_features: int = 256
    window: tuple[int, int] = (16, 16)

    patch: ClassVar[int] = 2
    eps: ClassVar[float] = 1e-6

    def __post_init__(self) -> None:
        sizes = (self.channels, self.heads, self.layers, self.hidden, self.text_dim)
        if min(*sizes, self.time_features, *self.window) < 1 or len(self.window) != 2:
            raise ValueError("every size is at least 1")
        if self.head_dim < 6 or self.head_dim % 2:
            raise ValueError(f"heads of {self.head_dim} channels cannot be rotated")

    @property
    def dim(self) -> int:
        """Width of a token."""
        return self.heads * self.head_dim

    @property
    def patch_features(self) -> int:
        """Values of the latent that are a token."""
        return self.channels * self.patch**2

    @property
    def rope_parts(self) -> tuple[int, int, int]:
        """Channels of a head that the positions in time, height and width rotate."""
        side = 2 * (self.head_dim // 6)
        return self.head_dim - 2 * side, side, side

    def grid(self, latent: Grid) -> Grid:
        """Tokens of a latent, given by its time, height and width."""
        return latent[0], latent[1] // self.patch, latent[2] // self.patch


SWIFT_DIT = SwiftDitConfig()
"""transformer/diffusion_pytorch_model.safetensors, 4 999 787 712 parameters."""


def infer_swift_config(shapes: Shapes, stated: Mapping[str, Any]) -> SwiftDitConfig:
    """The configuration that fits the tensors of a file.

    One tensor that is missing or misshapen hardly matters here: the loader names it afterwards.

    Args:
        shapes: Shape of every tensor by its published name.
        stated: The published config.json, which has what shapes do not show: channels of a head
            and the window. What is not stated is as in the published model.

    Raises:
        UnknownKeys: Its sizes do not belong together.
    """
    usual = SWIFT_DIT
    layers = {int(match[1]) for match in map(_BLOCK.match, shapes) if match}
    blocks = [f"blocks.{layer}." for layer in sorted(layers)]
    outputs = [f"{block}attn1.to_out.0.bias" for block in blocks]
    dim = agreed([size(shapes, name, 0, 0) for name in outputs], usual.dim)
    hidden = [size(shapes, f"{block}ffn.net.0.proj.bias", 0, 0) for block in blocks]
    head_dim = number(stated, "attention_head_dim", usual.head_dim)
    if dim % head_dim:
        reason = f"{dim} channels do not come in heads of {head_dim}"
        raise UnknownKeys("swiftvr-sizes", reason=reason)
    embedder = "condition_embedder.{}_embedder.linear_1.weight"
    try:
        return replace(
            usual,
            channels=size(shapes, "patch_embedding.weight", 1, usual.channels),
            heads=dim // head_dim,
            head_dim=head_dim,
            layers=max(layers, default=usual.layers - 1) + 1,
            hidden=agreed(hidden, usual.hidden),
            text_dim=size(shapes, embedder.format("text"), 1, usual.text_dim),
            time_features=size(shapes, embedder.format("time"), 1, usual.time_features),
            window=_window(stated.get(_WINDOW)),
        )
    except ValueError as err:
        raise UnknownKeys("swiftvr-sizes", reason=str(err)) from err


def _window(stated: object) -> tuple[int, int]:
    if isinstance(stated, list) and len(stated) == 2 and all(isinstance(n, int) for n in stated):
        return stated[0], stated[1]
    return SWIFT_DIT.window


def folds_answers(config: SwiftDitConfig, keys: int) -> bool:
    """Whether the layer after the attention to the prompt is applied to its values beforehand."""
    return 2 * config.heads * keys <= config.dim


# --- windows


class Reach(NamedTuple):
    """A window along one axis: it sees tokens `start` to `end` and answers `first` to `stop`."""

    start: int
    end: int
    first: int
    stop: int


class Window(NamedTuple):
    """A window: rows and columns; it has all frames."""

    rows: Reach
    columns: Reach


def windows(config: SwiftDitConfig, grid: Grid, shifted: bool) -> list[Window]:
    """The windows of a layer, row by row; together they answer each token once.

    Args:
        config: Configuration of the model.
        grid: Tokens in time, height and width.
        shifted: Windows of the odd layers.
    """
    rows, columns = (
        reaches(length, side, shifted) for length, side in zip(grid[1:], config.window, strict=True)
    )
    return [Window(row, column) for row in rows for column in columns]


def reaches(length: int, window: int, shifted: bool) -> list[Reach]:
    """The windows along an axis.

    Of windows that overlap the first one answers, in shifted layers the last one.
    """
    starts = axis_starts(length, window, shifted)
    window = min(window, length)
    if shifted:
        stops = [*starts[1:], length]
        return [Reach(at, at + window, at, stop) for at, stop in zip(starts, stops, strict=True)]
    firsts = [0, *(start + window for start in starts[:-1])]
    return [
        Reach(at, at + window, first, at + window) for at, first in zip(starts, firsts, strict=True)
    ]


def axis_starts(length: int, window: int, shifted: bool) -> list[int]:
    """Starts of windows along an axis; only more than two of them are shifted."""
    last = length - window
    if last <= window:
        return sorted({0, max(0, last)})
    first = -(window // 2) if shifted else 0
    return sorted({min(max(0, start), last) for start in range(first, last + window, window)})
