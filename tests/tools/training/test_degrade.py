import numpy as np
import pytest

from tools.training.damage import RECIPES, coded, h264
from tools.training.degrade import FRAMES, SOURCE, WINDOW, damaged_pairs, reduced


def smooth_pictures(count: int, side: int = 2 * SOURCE) -> np.ndarray:
    ys, xs = np.mgrid[0:side, 0:side]
    waves = [np.sin(xs / (9 + i)) * np.cos(ys / (13 + i)) for i in range(count)]
    return np.stack([np.repeat((w * 90 + 128)[..., None], 3, 2) for w in waves]).astype(np.uint8)


@pytest.fixture(scope="module")
def pairs():
    return damaged_pairs(smooth_pictures(2), scale=2, seed=2)


def test_damaged_sources_lie_over_their_targets(pairs):
    for scale in (2, 4):
        large = smooth_pictures(2, SOURCE * scale)
        sources, targets = pairs if scale == 2 else damaged_pairs(large, scale=scale, seed=2)
        assert sources.shape == (6, 3, WINDOW, WINDOW, 3)
        assert targets.shape == (6, WINDOW * scale, WINDOW * scale, 3)
        for source, target in zip(sources[:, 1], targets, strict=True):
            wanted = reduced(target, scale).astype(float)
            error = np.abs(source - wanted).mean()
            moved = np.abs(np.roll(source, 3, (0, 1)) - wanted).mean()
            assert 0 < error < 0.5 * moved


def test_damage_depends_on_the_seed_only(pairs):
    again, other = (damaged_pairs(smooth_pictures(2), scale=2, seed=seed)[0] for seed in (2, 4))
    np.testing.assert_array_equal(pairs[0], again)
    assert not np.array_equal(pairs[0], other)


def test_stronger_compression_loses_more():
    rng = np.random.default_rng(1)
    frames = rng.integers(0, 255, (3, 32, 48, 3)).astype(np.uint8)
    errors = [np.abs(coded(frames, h264(crf)).astype(int) - frames).mean() for crf in (10, 40)]
    assert errors[0] < errors[1]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_every_recipe_damages_frames_and_leaves_them_in_place(recipe):
    ys, xs = np.mgrid[0:64, 0:96]
    shapes = np.sin(xs / 7) * np.cos(ys / 5) * 60 + np.where(xs > 50, 60, 0) + 90
    frames = np.repeat(shapes[None, :, :, None], FRAMES, axis=0).repeat(3, axis=3)
    rng = np.random.default_rng(3)
    found = recipe.before(rng, frames.astype(np.float32)).clip(0, 255).astype(np.uint8)
    for coding in recipe.codings(rng):
        found = coded(found, coding)
    assert found.shape == frames.shape
    error = np.abs(found - frames).mean()
    assert 0.1 < error < 0.5 * np.abs(np.roll(frames, 3, axis=2) - frames).mean()
