from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.models.seedvr2.dit import token_layout
from engine.models.seedvr2.dit.config import Grid, windows
from engine.models.seedvr2.dit.token_layout import LayoutKey, Layouts, Order, make_layout
from tests.helpers.seedvr2 import tiny_dit_config

CPU = torch.device("cpu")
GRIDS = st.tuples(st.integers(1, 9), st.integers(1, 40), st.integers(1, 50))


def key(grid: Grid, text: int = 3) -> LayoutKey:
    return LayoutKey(grid=grid, text_length=text, device=CPU, exact=torch.float64)


def by_window(order: Order) -> list[list[int]]:
    """Tokens of each window, in the order of the layer."""
    found: list[list[int]] = []
    for group in order.groups:
        lengths = [tokens for tokens, windows in group.calls for _ in range(windows)]
        found += [part.tolist() for part in order.places[group.rows].split(lengths)]
    return found


@settings(max_examples=20, deadline=None)
@given(GRIDS, st.sampled_from([1, 300, 16384]))
def test_rows_of_a_layer_are_its_windows(grid: Grid, group_rows: int) -> None:
    config = tiny_dit_config()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_layout, "group_rows", lambda _: group_rows)
        layout = make_layout(config, key(grid))
    tokens = torch.arange(grid[0] * grid[1] * grid[2]).view(grid)
    for shifted, order in zip((False, True), layout.orders, strict=True):
        wanted = [
            tokens[w.slices].flatten().tolist() for w in windows(grid, config.window, shifted)
        ]
        assert sorted(by_window(order)) == sorted(wanted)
        assert order.windows == len(wanted)
        edges = [0, *(group.rows.stop for group in order.groups)]
        assert [group.rows.start for group in order.groups] == edges[:-1]
        assert edges[-1] == tokens.numel()
        for group in order.groups:
            rows = group.rows.stop - group.rows.start
            assert rows <= group_rows or len(group.text.target) == 1
            assert group.length == rows + 3 * len(group.text.target)
        places, move = layout.orders[not shifted].places, layout.moves[shifted]
        moved = places if move is None else places[move]
        assert torch.equal(moved, order.places)


def test_one_window_stays_where_it_is() -> None:
    assert make_layout(tiny_dit_config(), key((1, 4, 5))).moves == (None, None)
    assert None not in make_layout(tiny_dit_config(), key((5, 4, 5))).moves


def test_the_last_few_are_kept() -> None:
    layouts = Layouts(tiny_dit_config(), kept=2)
    first, second, third = (key((1, 4, n)) for n in (4, 5, 6))
    kept = layouts.of(first)
    layouts.of(second)
    assert layouts.of(first) is kept
    layouts.of(third)  # the second one goes: it was not used for longest
    assert len(layouts) == 2
    assert layouts.of(first) is kept
    assert layouts.of(replace(first, text_length=7)) is not kept
    assert layouts.of(replace(first, exact=torch.float32)) is not kept
    none = Layouts(tiny_dit_config(), kept=0)
    assert none.of(first) is not none.of(first)
    assert len(none) == 0


def test_a_text_without_tokens_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        make_layout(tiny_dit_config(), key((1, 4, 4), text=0))
