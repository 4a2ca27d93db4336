"""torch's caching allocator ("native"), as its documentation and its settings describe it.

Requests are rounded to 512 bytes. Those of up to 1 MiB are served from segments of 2 MiB, others of
less than 10 MiB from segments of 20 MiB, larger ones from a segment of their own that is rounded to
2 MiB. The smallest free block that suffices is taken, among those of the same stream; what is left
of it stays a block, and free neighbours become one again. Where the limit is reached, segments that
are free altogether go back to the driver.

With `max_split_size_mb`, blocks of that size are not split: they serve requests that leave at most
20 MiB of them unused, which count as allocated. Where the limit is reached, the smallest free one
that makes enough room goes back first, or the largest ones.
"""

from __future__ import annotations

import bisect
import sys
from collections import Counter
from dataclasses import dataclass, field

import torch

FIRST_STREAM = "the default stream"
MIB = 2**20
_ROUND = 512
_SMALL, _SMALL_SEGMENT = MIB, 2 * MIB
MAX_SPLIT = 24 * MIB  # as the program sets it
_LARGE, _LARGE_SEGMENT, _LARGE_ROUND = 10 * MIB, 20 * MIB, 2 * MIB


def rounded(nbytes: int) -> int:
    """Bytes of the block for a tensor."""
    return -(-nbytes // _ROUND) * _ROUND


@dataclass(slots=True, eq=False)
class Block:
    """Part of a segment.

    Attributes:
        nbytes: Its size.
        requested: Bytes that its tensor has of them.
        pool: Stream, and whether its segment is for small requests.
        before, after: Its neighbours in the segment.
    """

    nbytes: int
    pool: tuple[str, bool]
    before: Block | None = None
    after: Block | None = None
    requested: int = 0
    is_free: bool = False


@dataclass(slots=True)
class Allocator:
    """The memory of one GPU.

    Attributes:
        limit: Bytes that it may have.
        max_split: Bytes from which on blocks are not split.
        requested, most_requested: Bytes of tensors, now and at most.
        allocated, peak: Bytes of blocks in use, now and at most.
        reserved, most_reserved: Bytes of all segments, now and at most.
        requests: To the driver.
        most_apart: Bytes of tensors at most, those that another stream than the first had at its
            most counted for as long as it has any: they serve no other stream.
    """

    limit: int
    max_split: int = sys.maxsize
    requested: int = 0
    most_requested: int = 0
    allocated: int = 0
    peak: int = 0
    reserved: int = 0
    most_reserved: int = 0
    requests: int = 0
    most_apart: int = 0
    _of_stream: Counter[str] = field(default_factory=Counter)
    _most_of_stream: dict[str, int] = field(default_factory=dict)
    _free: dict[tuple[str, bool], list[Block]] = field(default_factory=dict)  # by size

    def take(self, nbytes: int, stream: str = "") -> Block:
        """A block in use.

        Raises:
            torch.OutOfMemoryError: Beyond the limit.
        """
        nbytes = rounded(nbytes)
        pool = (stream, nbytes <= _SMALL)
        if not nbytes:
            return Block(0, pool)
        free = self._free.setdefault(pool, [])
        place = bisect.bisect_left(free, nbytes, key=_nbytes)
        block = free[place] if place < len(free) else None
        if block is not None and self._suits(block, nbytes):
            del free[place]
        else:
            block = self._segment(nbytes, pool)
        block.is_free = False
        self._split(block, nbytes)
        block.requested = nbytes
        self.requested += nbytes
        self.most_requested = max(self.most_requested, self.requested)
        self._count(stream, nbytes)
        self.allocated += block.nbytes
        self.peak = max(self.peak, self.allocated)
        return block

    def give(self, block: Block) -> None:
        """A block is free again."""
        if not block.nbytes:
            return
        self.requested -= block.requested
        self._count(block.pool[0], -block.requested)
        self.allocated -= block.nbytes
        for one in (block.before, block.after):
            if one is not None and one.is_free:
                self._remove(one)
        block = _joined(block)
        self._put(block)

    def empty(self) -> None:
        """Stands in for torch.cuda.empty_cache."""
        for pool, free in self._free.items():
            whole = [block for block in free if block.before is None and block.after is None]
            self.reserved -= sum(block.nbytes for block in whole)
            self._free[pool] = [block for block in free if block not in whole]

    def forget_peak(self, _: object = None) -> None:
        """Stands in for torch.cuda.reset_peak_memory_stats."""
        self.most_requested = self.most_apart = self.requested
        self.peak, self.most_reserved = self.allocated, self.reserved

    def _count(self, stream: str, more: int) -> None:
        self._of_stream[stream] += more
        now = self._of_stream[stream]
        is_first = stream == FIRST_STREAM
        before = 0 if is_first or not now else self._most_of_stream.get(stream, 0)
        self._most_of_stream[stream] = max(now, before)
        self.most_apart = max(self.most_apart, sum(self._most_of_stream.values()))

    def _segment(self, nbytes: int, pool: tuple[str, bool]) -> Block:
        if nbytes <= _SMALL:
            size = _SMALL_SEGMENT
        elif nbytes < _LARGE:
            size = _LARGE_SEGMENT
        else:
            size = -(-nbytes // _LARGE_ROUND) * _LARGE_ROUND
        if self.reserved + size > self.limit:
            self._give_back(max(nbytes, self.max_split), pool)
        if self.reserved + size > self.limit:
            self.empty()
        if self.reserved + size > self.limit:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {nbytes} bytes.")
        self.requests += 1
        self.reserved += size
        self.most_reserved = max(self.most_reserved, self.reserved)
        return Block(size, pool)

    def _give_back(self, nbytes: int, pool: tuple[str, bool]) -> None:
        """Free blocks that are not split, enough for so many bytes."""
        free = self._free[pool]
        place = min(bisect.bisect_left(free, nbytes, key=_nbytes), len(free) - 1)
        while nbytes > 0 and place >= 0 and free[place].nbytes >= self.max_split:
            self.reserved -= free[place].nbytes
            nbytes -= free.pop(place).nbytes
            place -= 1

    def _suits(self, block: Block, nbytes: int) -> bool:
        """Whether the smallest block that is large enough may be used."""
        if nbytes < self.max_split:
            return block.nbytes < self.max_split
        return block.nbytes < nbytes + _LARGE_SEGMENT

    def _split(self, block: Block, nbytes: int) -> None:
        """Make what a request leaves of a block a free block, where it is worth it."""
        left = block.nbytes - nbytes
        is_small = block.pool[1]
        if left < _ROUND or (not is_small and (left <= _SMALL or block.nbytes >= self.max_split)):
            return
        rest = Block(left, block.pool, before=block, after=block.after)
        if rest.after is not None:
            rest.after.before = rest
        block.nbytes, block.after = nbytes, rest
        self._put(rest)

    def _put(self, block: Block) -> None:
        block.is_free = True
        bisect.insort(self._free.setdefault(block.pool, []), block, key=_nbytes)

    def _remove(self, block: Block) -> None:
        self._free[block.pool].remove(block)


def _nbytes(block: Block) -> int:
    return block.nbytes


def _joined(block: Block) -> Block:
    """A block together with its free neighbours."""
    before, after = block.before, block.after
    if after is not None and after.is_free:
        block.nbytes += after.nbytes
        block.after = after.after
        if block.after is not None:
            block.after.before = block
    if before is not None and before.is_free:
        before.nbytes += block.nbytes
        before.after = block.after
        if before.after is not None:
            before.after.before = before
        return before
    return block
