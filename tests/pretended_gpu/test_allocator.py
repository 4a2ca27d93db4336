"""The stand-in for torch's caching allocator."""

from __future__ import annotations

import sys

import pytest
import torch

from tests.pretended_gpu.allocator import MIB, Allocator


def after_a_kept_tensor(max_split: int) -> Allocator:
    """An allocator where a little was kept after something large was freed."""
    allocator = Allocator(256 * MIB, max_split)
    allocator.give(allocator.take(200 * MIB))
    allocator.take(2 * MIB)
    return allocator


def test_what_is_kept_lies_in_the_way_unless_large_blocks_stay_whole() -> None:
    """Why the program has large blocks left whole."""
    split = after_a_kept_tensor(sys.maxsize)
    assert split.reserved == 200 * MIB
    with pytest.raises(torch.OutOfMemoryError):
        split.take(220 * MIB)
    whole = after_a_kept_tensor(24 * MIB)
    assert whole.reserved == 220 * MIB
    whole.take(220 * MIB)
    assert whole.reserved == 240 * MIB
    assert whole.requests == 3


def test_neighbours_become_one_block_again() -> None:
    allocator = Allocator(40 * MIB)
    blocks = [allocator.take(5 * MIB) for _ in range(4)]
    for index in (1, 0, 3, 2):
        allocator.give(blocks[index])
    assert (allocator.requests, allocator.allocated) == (1, 0)
    allocator.take(20 * MIB)
    assert allocator.requests == 1
    assert allocator.peak == 20 * MIB


def test_a_block_that_stays_whole_counts_with_what_its_tensor_leaves() -> None:
    allocator = Allocator(100 * MIB, 24 * MIB)
    allocator.give(allocator.take(60 * MIB))
    allocator.take(50 * MIB)
    assert (allocator.allocated, allocator.requested) == (60 * MIB, 50 * MIB)
    allocator.empty()
    assert allocator.reserved == 60 * MIB
