from __future__ import annotations

from engine.models.shapes import agreed, count, number, size, stated_in

SHAPES = {"a.0.weight": (2, 3), "a.1.weight": (4,), "a.3.weight": (5,)}


def test_sizes_are_read_off_shapes() -> None:
    assert (count(SHAPES, "a.{}."), count(SHAPES, "b.{}.")) == (2, 0)  # up to the first gap
    assert size(SHAPES, "a.0.weight", 1, 7) == 3
    assert size(SHAPES, "a.1.weight", 1, 7) == size(SHAPES, "b", 0, 7) == 7
    assert (agreed([3, 0, 4, 3], 9), agreed([0], 9)) == (3, 9)


def test_sizes_are_read_off_metadata() -> None:
    for text in ('{"constructor": {"x": 1}}', '{"x": 1}'):
        assert stated_in({"config": text}) == {"x": 1}
    for text in ("", "{", "[]", "null", '"x"'):
        assert stated_in({"config": text}) == {}
    assert [number({"x": value}, "x", 5) for value in (3, 0, -1, "3", None)] == [3, 5, 5, 5, 5]
