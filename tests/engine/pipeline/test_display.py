import itertools
from fractions import Fraction

import torch

from engine.core.geometry import Box, Size
from engine.pipeline.display import picture_of, seen, turn, turn_box


def test_a_box_turns_with_its_picture():
    canvas, box = Size(12, 7), Box(2, 1, 3, 4)
    picture = torch.zeros(7, 12)
    picture[box.y : box.bottom, box.x : box.right] = 1
    for rotation, mirrored in itertools.product((0, 90, 180, 270), (False, True)):
        turned = turn(picture, rotation, mirrored)
        where = turn_box(box, canvas, rotation, mirrored)
        assert turned[where.y : where.bottom, where.x : where.right].sum() == picture.sum()
        assert where.width * where.height == 12


def test_90_is_clockwise_and_mirroring_comes_after_turning():
    picture = torch.tensor([[1, 2], [3, 4]])
    assert turn(picture, 90, False).tolist() == [[3, 1], [4, 2]]
    assert turn(picture, 90, True).tolist() == [[1, 3], [2, 4]]


def test_pictures_are_small_rgb_and_never_enlarged():
    frame = torch.zeros(3, 100, 400)
    frame[0] = 1.2  # beyond white
    picture = picture_of(frame, 100)
    assert picture.size == Size(100, 25)
    assert picture.rgb == bytes([255, 0, 0]) * 2500
    assert picture_of(frame[:, :3, :5], 100).size == Size(5, 3)


def test_wide_pixels_are_shown_wide():
    frame, aspect = torch.rand(3, 576, 720), Fraction(16, 15)
    picture = seen(frame, rotation=90, mirrored=False, aspect=aspect, longest_side=5000)
    assert picture.size == Size(576, 768)
