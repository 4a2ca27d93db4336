from __future__ import annotations

import pytest

from engine.models.shapes import agreed, count, number, size, stated_in

SHAPES = {"a.0.weight": (2, 3), "a.1.weight": (4,), "a.3.weight": (5,)}


def test_numbers_are_counted_up_to_the_first_gap() -> None:
    assert count(SHAPES, "a.{}.") == 2
    assert count(SHAPES, "b.{}.") == 0


def test_a_side_that_is_not_there_is_the_usual_one() -> None:
    assert size(SHAPES, "a.0.weight", 1, 7) == 3
    assert size(SHAPES, "a.1.weight", 1, 7) == 7
    assert size(SHAPES, "b", 0, 7) == 7


def test_most_decide_and_nothing_counts_for_nothing() -> None:
    assert agreed([3, 0, 4, 3], 9) == 3
    assert agreed([0], 9) == 9


def test_told_sizes_may_lie_under_constructor() -> None:
    assert (
        stated_in({"config": '{"constructor": {"x": 1}}'})
        == {"x": 1}
        == stated_in({"config": '{"x": 1}'})
    )


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"'])
def test_strange_metadata_tells_nothing(text: str) -> None:
    assert stated_in({"config": text}) == {}


def test_only_positive_whole_numbers_count() -> None:
    assert [number({"x": value}, "x", 5) for value in (3, 0, -1, "3", None)] == [3, 5, 5, 5, 5]
