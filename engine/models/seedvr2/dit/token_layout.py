"""Order of the tokens of a clip in the fast transformer: computed once per shape, then cached.

In the fast variant the tokens of a layer lie window by window, those of one shape together, so that
a layer works on ranges of rows, and the change to the next layer's order is one indexed copy.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from engine.models.seedvr2.dit.config import GROUP_ROWS, DitConfig
from engine.models.seedvr2.dit.plain import picture_angles, text_angles
from engine.ops.attention.qk_rope import Placement
from engine.ops.attention.windows import Grid, Window, windows
from engine.ops.norm.cache_blocks import work_dtype

_KEPT = 4  # layouts: some clips of a film, as the last one of a shot is shorter


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutKey:
    """Input of a layout, apart from the model.

    Attributes:
        grid: Picture tokens in time, height and width.
        text_length: Text tokens.
        device: Where the indices go.
        exact: What angles are computed in.
    """

    grid: Grid
    text_length: int
    device: torch.device
    exact: torch.dtype


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowGroup:
    """Windows of one shape whose attention is one call.

    Its rows of q, k and v are windows one after the other: the tokens of the picture in a window,
    then all tokens of the text.

    Attributes:
        begin: First of its rows in the order of the layer.
        count: Windows.
        tokens: Of the picture in each window.
        text_length: Text tokens after those.
        picture: From its rows to rows of q, k and v.
        text: From text tokens to their rows after each window.
    """

    begin: int
    count: int
    tokens: int
    text_length: int
    picture: Placement
    text: Placement

    @property
    def rows(self) -> slice:
        """Its rows in the order of the layer."""
        return slice(self.begin, self.begin + self.count * self.tokens)

    @property
    def length(self) -> int:
        """Tokens of a window, the text's included."""
        return self.tokens + self.text_length

    def chunks(self, most_rows: int) -> Iterator[slice]:
        """Windows, some at a time: about so many rows, but whole windows."""
        some = max(1, most_rows // self.tokens)
        for start in range(0, self.count, some):
            yield slice(start, min(start + some, self.count))

    def rows_of(self, chunk: slice) -> slice:
        """Rows of some of the windows, counted from its first."""
        return slice(chunk.start * self.tokens, chunk.stop * self.tokens)


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The windows of every second layer.

    Attributes:
        groups: They cover all rows, in order.
        places: [N] of each row, its token in the order time, height, width.
        windows: How many there are in all.
    """

    groups: tuple[WindowGroup, ...]
    places: Tensor
    windows: int


@dataclass(frozen=True, slots=True, eq=False)
class DitLayout:
    """Orders of regular and shifted layers and the moves between them.

    Attributes:
        orders: Of even layers (regular windows) and of odd ones (shifted windows).
        moves: For an even and an odd layer [N]: the row in the layer before of each of its rows;
            None: they are the same.
    """

    orders: tuple[Order, Order]
    moves: tuple[Tensor | None, Tensor | None]


class Layouts:
    """The layouts of a model; the last few are kept.

    Args:
        config: Of the model.
        kept: How many; 0 makes a new one each time.
        group_rows: Most rows of a window group, where a window has less than that.

    Memory: 80 bytes for each token of a layout.
    """

    def __init__(
        self, config: DitConfig, *, kept: int = _KEPT, group_rows: int = GROUP_ROWS
    ) -> None:
        self._config, self._kept, self._group_rows = config, kept, group_rows
        self._found: OrderedDict[LayoutKey, DitLayout] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def of(self, key: LayoutKey) -> DitLayout:
        """The layout of a shape."""
        found = self._found.pop(key, None) or make_layout(self._config, key, self._group_rows)
        self._found[key] = found
        while len(self._found) > self._kept:
            self._found.popitem(last=False)
        return found


def make_layout(config: DitConfig, key: LayoutKey, group_rows: int = GROUP_ROWS) -> DitLayout:
    """The layout of a shape, computed.

    Raises:
        ValueError: No text token.
    """
    if key.text_length < 1:
        raise ValueError("a text has at least one token")
    regular, shifted = (_order(config, key, is_odd, group_rows) for is_odd in (False, True))
    return DitLayout((regular, shifted), (_move(shifted, regular), _move(regular, shifted)))


def _order(config: DitConfig, key: LayoutKey, shifted: bool, group_rows: int) -> Order:
    found = sorted(windows(key.grid, config.window, shifted), key=lambda window: window.shape)
    groups: list[WindowGroup] = []
    begin = 0
    for shape, alike in groupby(found, key=lambda window: window.shape):
        left = len(list(alike))
        turns = _picture_turns(config, shape, key)
        tokens = shape[0] * shape[1] * shape[2]
        most = max(1, group_rows // tokens)
        while left:
            group = _group(config, key, turns, begin=begin, count=min(left, most))
            groups.append(group)
            begin, left = group.rows.stop, left - group.count
    places = torch.cat([_tokens_of(window, key.grid) for window in found])
    return Order(tuple(groups), places.to(key.device), len(found))


def _group(
    config: DitConfig,
    key: LayoutKey,
    turns: tuple[Tensor, Tensor],
    *,
    begin: int,
    count: int,
) -> WindowGroup:
    cos, sin = turns
    tokens, device = len(cos), key.device
    length = tokens + key.text_length
    starts = torch.arange(count, device=device)[:, None] * length
    inside = torch.arange(tokens, device=device)
    after = torch.arange(tokens, length, device=device)
    picture = Placement(
        target=(starts + inside).flatten(),
        cos=cos,
        sin=sin,
        angle=inside.repeat(count),
    )
    angles = text_angles(config, key.text_length)
    text = Placement(target=starts + after)
    if angles is not None:
        cos, sin = _turns(angles, key)
        text = Placement(target=starts + after, cos=cos, sin=sin)
    return WindowGroup(
        begin=begin,
        count=count,
        tokens=tokens,
        text_length=key.text_length,
        picture=picture,
        text=text,
    )


def _picture_turns(config: DitConfig, shape: Grid, key: LayoutKey) -> tuple[Tensor, Tensor]:
    return _turns(picture_angles(config, shape, key.text_length), key)


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


def _move(before: Order, after: Order) -> Tensor | None:
    """[N]: the row before of each row after; None: all stay where they are."""
    if torch.equal(before.places, after.places):
        return None
    row_of = torch.empty_like(before.places)
    row_of[before.places] = torch.arange(len(row_of), device=row_of.device)
    return row_of[after.places]
