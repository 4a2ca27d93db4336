from __future__ import annotations

import math

import pytest

from engine.video.read.rotation import turn_of_matrix


def matrix(degrees: float, *, mirrored: bool = False) -> list[int]:
    """Turn clockwise with y down, then mirror left and right; 16.16 numbers in rows of three."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    sign = -1 if mirrored else 1
    rows = [[sign * cos, sin, 0], [sign * -sin, cos, 0], [0, 0, 16384]]
    return [round(value * 65536) for row in rows for value in row]


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_right_angles_are_read(degrees: int, mirrored: bool) -> None:
    assert turn_of_matrix(matrix(degrees, mirrored=mirrored)) == (degrees, mirrored)


def test_other_angles_go_to_the_nearest_right_one() -> None:
    assert turn_of_matrix(matrix(80)) == (90, False)
    assert turn_of_matrix(matrix(-3)) == (0, False)
    assert turn_of_matrix(matrix(359)) == (0, False)
