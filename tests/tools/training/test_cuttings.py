"""Cuttings: sources lie over their targets, and no two are alike."""

import numpy as np
import pytest

from tools.training.cuttings import CleanCuttings, DamagedCuttings
from tools.training.degrade import reduced


def drawn(cuttings, side: int, count: int = 40, seed: int = 1) -> list:
    rng = np.random.default_rng(seed)
    return [cuttings.draw(rng, side) for _ in range(count)]


@pytest.mark.parametrize("scale", [2, 4])
def test_clean_sources_are_their_reduced_targets(scale: int):
    pictures = np.random.default_rng(2).integers(0, 256, (2, 40 * scale, 40 * scale, 3), np.uint8)
    cuttings = CleanCuttings(pictures, scale)
    assert cuttings.most_side == 40
    for side in (16, 40):
        for source, target in drawn(cuttings, side):
            assert target.shape == (side * scale, side * scale, 3)
            np.testing.assert_array_equal(source, reduced(target, scale)[None])


def test_clean_cuttings_differ_in_size_colours_and_sharpness():
    ys, xs = np.mgrid[0:128, 0:128]
    stripes = np.where(xs // 8 % 2, 200, 60)
    picture = np.stack([stripes, stripes // 2, np.full_like(ys, 40)], axis=2).astype(np.uint8)
    targets = [target.astype(int) for _, target in drawn(CleanCuttings(picture[None], 2), 16)]
    counts = {int((np.abs(np.diff(one[0].sum(-1))) > 60).sum()) for one in targets}
    assert len(counts) > 4  # edges of stripes: parts of other sizes
    orders = {tuple(np.argsort(one.reshape(-1, 3).std(0)).tolist()) for one in targets}
    assert len(orders) == 6
    steepest = [np.abs(np.diff(one, axis=1)).max() for one in targets]
    assert min(steepest) < 0.5 * max(steepest)
    again = [target for _, target in drawn(CleanCuttings(picture[None], 2), 16)]
    assert all(np.array_equal(one, other) for one, other in zip(targets, again, strict=True))


def test_all_parts_of_images_of_any_size_are_drawn_and_empty_ones_are_rare():
    rng = np.random.default_rng(4)
    large, small = (np.zeros((*size, 3), np.uint8) for size in ((64, 192), (64, 64)))
    large[:, 96:] = rng.integers(0, 256, (64, 96, 3))
    small[:] = rng.integers(100, 156, small.shape)
    targets = [target for _, target in drawn(CleanCuttings([large, small], 2), 16, count=300)]
    flat = sum(np.ptp(target) == 0 for target in targets)
    assert 0 < flat < 30, "a third of the area is empty"
    of_small = sum(0 < np.ptp(target) < 90 for target in targets)
    assert 50 < of_small < 200


def test_damaged_pairs_stay_aligned_and_keep_the_order_of_their_colours():
    rng = np.random.default_rng(3)
    ramp = np.arange(24, dtype=np.uint8)
    source = np.stack(np.broadcast_arrays(ramp[:, None] * 4, ramp[None] * 4, 9), axis=2)
    sources = np.repeat(source[None, None], 3, axis=1).astype(np.uint8)
    targets = sources[:, 1].repeat(2, axis=1).repeat(2, axis=2)
    cuttings = DamagedCuttings(sources, targets)
    values = set()
    for _ in range(40):
        window, target = cuttings.draw(rng, 10)
        assert window.shape == (3, 10, 10, 3)
        np.testing.assert_array_equal(window[1], target[::2, ::2])
        assert np.ptp(window[..., 2]) == 0
        values.add(int(window[0, 0, 0, 2]))
    assert len(values) > 5
