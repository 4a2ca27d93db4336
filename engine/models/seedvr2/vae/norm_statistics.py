"""Statistics that a norm of a tile uses: those of the tile, or those of the whole frame.

Every GroupNorm of the high-resolution part of the decoder asks `Statistics.for_norm`. A tile that
uses its own statistics gets another contrast than its neighbour, and the seam shows. With a book
of statistics of the whole frame all tiles apply the same scale and shift: what two of them make
of the same pixels differs by rounding only.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from torch import Tensor

from engine.core.geometry import Box, Size
from engine.ops.norm.group_norm import GroupStatistics, group_statistics


class Book:
    """Statistics of whole frames: for each norm a list, one entry for each of its calls.

    Tiles come one after another; the n-th call of a norm in one tile is for the same frames as the
    n-th call in another.

    Memory: 16 bytes for each group of each frame of each norm.
    """

    def __init__(self) -> None:
        self._entries: defaultdict[str, list[GroupStatistics]] = defaultdict(list)

    def record(self, name: str, turn: int, own: GroupStatistics) -> None:
        """Merge the statistics of one tile's cell with those of the tiles before."""
        entries = self._entries[name]
        if turn == len(entries):
            entries.append(own)
        else:
            entries[turn] = entries[turn].merge(own)

    def lookup(self, name: str, turn: int) -> GroupStatistics | None:
        """Statistics of the frames for the `turn`-th call of a norm; None: unknown."""
        entries = self._entries.get(name, ())
        return entries[turn] if turn < len(entries) else None

    @property
    def norms(self) -> tuple[str, ...]:
        """Names of all norms that were recorded, in the order of their first call."""
        return tuple(self._entries)

    def first(self, count: int) -> Book:
        """The same of the first `count` norms only."""
        part = Book()
        part._entries.update({name: self._entries[name] for name in self.norms[:count]})
        return part


class Statistics:
    """Statistics for the norms of one tile, through all slices of the clip in order.

    Args:
        known: Used where it has an entry; None: every tile by itself.
        record: Takes the statistics of the tile's cell; None: nothing is recorded.
        cell: The tile's own part of the frame, in pixels of the features it is made from, counted
            from the tile's corner. The cells of all tiles make the frame, so that each pixel is
            counted once.
        features: Size of those features.
    """

    def __init__(self, known: Book | None, record: Book | None, cell: Box, features: Size) -> None:
        self._known = known
        self._record = record
        self._cell = cell
        self._features = features
        self._turns: Counter[str] = Counter()

    def for_norm(
        self, name: str, x: Tensor, groups: int, *, kernels: bool = False
    ) -> GroupStatistics:
        """Mean and variance that the norm `name` uses for the frames x.

        While a book is recorded, a tile uses those of its cell where nothing is known.

        Args:
            name: Module path of the norm.
            x: [T, C, H', W'], the tile at the resolution of this norm.
            groups: Of the norm.
            kernels: See ops.norm.
        """
        turn = self._turns[name]
        self._turns[name] += 1
        known = self._known.lookup(name, turn) if self._known is not None else None
        if self._record is None:
            return known or group_statistics(x, groups, kernels=kernels)
        own = group_statistics(self._inside(x), groups, kernels=kernels)
        self._record.record(name, turn, own)
        return known or own

    def _inside(self, x: Tensor) -> Tensor:
        """The cell of x: the same place of the picture at another resolution."""
        factor = x.shape[-1] // self._features.width
        if x.shape[-2:] != (self._features.height * factor, self._features.width * factor):
            raise ValueError(f"{tuple(x.shape)} is no multiple of features {self._features}")
        box = self._cell.scaled(factor)
        return x[..., box.y : box.bottom, box.x : box.right]
