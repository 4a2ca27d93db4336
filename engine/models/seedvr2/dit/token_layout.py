"""Order of the tokens of a clip in the fast transformer: computed once per shape, then cached.

In the fast variant the tokens of a layer lie window by window, those of equal length together, so
that a layer works on ranges of rows, and the change to the next layer's order is one indexed copy.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from itertools import accumulate, chain

import torch
from torch import Tensor

from engine.models.seedvr2.dit.config import (
    DitConfig,
    Grid,
    Window,
    group_rows,
    window_groups,
    windows,
)
from engine.models.seedvr2.dit.plain import picture_angles, text_angles
from engine.ops.attention.qk_rope import Placement
from engine.ops.norm.cache_blocks import work_dtype

_KEPT = 4  # layouts: some clips of a video, as the last one of a shot is shorter


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutKey:
    """Input of a layout, apart from the model.

    Attributes:
        grid: Picture tokens in time, height and width.
        text_length: Text tokens.
        device: Device of the indices.
        exact: Type that angles are computed in.
    """

    grid: Grid
    text_length: int
    device: torch.device
    exact: torch.dtype


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowGroup:
    """Windows that are computed together; those of equal length attend in one call.

    Its rows of q, k and v are windows one after the other: the tokens of the picture in a window,
    then all tokens of the text.

    Attributes:
        rows: Its tokens of the picture, in the order of the layer.
        calls: For each length: tokens of the picture in a window, and windows.
        picture: Indices from video tokens to rows of q, k and v.
        text: Indices from text tokens to their rows after each window.
    """

    rows: slice
    calls: tuple[tuple[int, int], ...]
    picture: Placement
    text: Placement

    @property
    def text_length(self) -> int:
        """Text tokens after each window."""
        return self.text.target.shape[1]

    @property
    def length(self) -> int:
        """Rows of q, k and v."""
        return self.picture.target.numel() + self.text.target.numel()


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The windows of every second layer.

    Attributes:
        groups: They cover all rows, in order.
        places: [N] of each row, its token in the order time, height, width.
        windows: Number of windows in all.
    """

    groups: tuple[WindowGroup, ...]
    places: Tensor
    windows: int


@dataclass(frozen=True, slots=True, eq=False)
class DitLayout:
    """Orders of regular and shifted layers and the moves between them.

    Attributes:
        orders: Orders of even layers (regular windows) and of odd ones (shifted windows).
        moves: For an even and an odd layer [N]: the row in the layer before of each of its rows;
            None: they are the same.
    """

    orders: tuple[Order, Order]
    moves: tuple[Tensor | None, Tensor | None]


class Layouts:
    """The layouts of a model; the last few are kept.

    Args:
        config: Configuration of the model.
        kept: Number of layouts to keep; 0 makes a new one each time.

    Memory: 80 bytes for each token of a layout.
    """

    def __init__(self, config: DitConfig, *, kept: int = _KEPT) -> None:
        self._config, self._kept = config, kept
        self._found: OrderedDict[LayoutKey, DitLayout] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def of(self, key: LayoutKey) -> DitLayout:
        """The layout of a shape."""
        found = self._found.pop(key, None) or make_layout(self._config, key)
        self._found[key] = found
        while len(self._found) > self._kept:
            self._found.popitem(last=False)
        return found


def make_layout(config: DitConfig, key: LayoutKey) -> DitLayout:
    """The layout of a shape, computed.

    Raises:
        ValueError: No text token.
    """
    if key.text_length < 1:
        raise ValueError("a text has at least one token")
    orders = (windows(key.grid, config.window, shifted) for shifted in (False, True))
    found = [window_groups(order, group_rows(config)) for order in orders]
    regular, shifted = (_order(config, key, groups) for groups in found)
    if found[0] == found[1]:
        return DitLayout((regular, shifted), (None, None))
    return DitLayout((regular, shifted), (_move(shifted, regular), _move(regular, shifted)))


def _order(config: DitConfig, key: LayoutKey, groups: list[list[Window]]) -> Order:
    found = list(chain(*groups))
    cos, sin, angle = _picture_turns(config, key, found)
    words = text_angles(config, key.text_length)
    text_turns = () if words is None else _turns(words, key)
    built: list[WindowGroup] = []
    begin = 0
    for some in groups:
        picture, text = _targets(some, key)
        rows = slice(begin, begin + len(picture))
        built.append(
            WindowGroup(
                rows=rows,
                calls=tuple(Counter(window.tokens for window in some).items()),
                picture=Placement(picture, cos, sin, angle[rows]),
                text=Placement(text, *text_turns),
            )
        )
        begin = rows.stop
    places = torch.cat([_tokens_of(window, key.grid) for window in found])
    return Order(tuple(built), places.to(key.device), len(found))


def _targets(some: list[Window], key: LayoutKey) -> tuple[Tensor, Tensor]:
    """Rows of q, k and v: of a group's tokens [N], and of the text after each window [W, L]."""
    tokens = torch.tensor([window.tokens for window in some])
    texts = torch.arange(len(some)) * key.text_length  # rows of text before each window
    picture = torch.arange(int(tokens.sum())) + texts.repeat_interleave(tokens)
    text = (tokens.cumsum(0) + texts)[:, None] + torch.arange(key.text_length)
    return picture.to(key.device), text.to(key.device)


def _picture_turns(
    config: DitConfig, key: LayoutKey, found: list[Window]
) -> tuple[Tensor, Tensor, Tensor]:
    """Cosines and sines of all shapes of windows, and the row in them of each token [N]."""
    shapes = {window.shape for window in found}
    angles = {shape: picture_angles(config, shape, key.text_length) for shape in shapes}
    first = dict(zip(angles, accumulate(map(len, angles.values()), initial=0), strict=False))
    rows = torch.cat([torch.arange(window.tokens) + first[window.shape] for window in found])
    return *_turns(torch.cat(list(angles.values())), key), rows.to(key.device)


def _turns(angles: Tensor, key: LayoutKey) -> tuple[Tensor, Tensor]:
    """Cosines and sines of float32 angles."""
    angles = angles.to(key.device, work_dtype(key.exact))
    return angles.cos(), angles.sin()


def _tokens_of(window: Window, grid: Grid) -> Tensor:
    """Tokens of a window by their number in the order time, height, width."""
    _, height, width = grid
    times, rows, columns = (
        torch.arange(first, stop)
        for first, stop in (
            (window.t0, window.t1),
            (window.h0, window.h1),
            (window.w0, window.w1),
        )
    )
    return ((times[:, None, None] * height + rows[:, None]) * width + columns).flatten()


def _move(before: Order, after: Order) -> Tensor:
    """[N]: the row before of each row after."""
    row_of = torch.empty_like(before.places)
    row_of[before.places] = torch.arange(len(row_of), device=row_of.device)
    return row_of[after.places]
