import numpy as np
import pytest

from tools.training.generated import textures
from tools.training.generated.fields import cells_field, spectral_noise
from tools.training.generated.scenes import Surfaces, blurred, page, random_picture


def pictures(seed: int, count: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    surfaces = Surfaces(rng, count=3, size=160)
    return np.stack([random_picture(rng, surfaces, 64) for _ in range(count)])


def test_the_same_seed_draws_the_same_pictures():
    first = pictures(5, 4)
    np.testing.assert_array_equal(first, pictures(5, 4))
    assert not np.array_equal(first, pictures(6, 4))
    assert first.dtype == np.uint8


def test_every_surface_is_finite_light():
    for make, _ in textures._KINDS:
        surface = make(np.random.default_rng(2), 96)
        assert (surface.shape, surface.dtype) == ((96, 96, 3), np.float32), make
        assert 0 <= surface.min() <= surface.max() <= 1, make


def test_noise_has_the_spectrum_that_was_asked_for():
    f = np.hypot(np.fft.fftfreq(256)[:, None], np.fft.fftfreq(256)[None])
    for slope in (0.0, 1.0, 3.0):
        field = spectral_noise(np.random.default_rng(1), 256, slope)
        power = np.abs(np.fft.fft2(field)) ** 2
        low = np.log(power[(f > 0.04) & (f < 0.06)].mean())
        high = np.log(power[(f > 0.35) & (f < 0.45)].mean())
        assert (low - high) / np.log(0.4 / 0.05) == pytest.approx(slope, abs=0.15)


def test_cells_are_ordered_by_distance_and_pages_have_sharp_ink():
    first, second, value = cells_field(np.random.default_rng(1), 64, 9, 0.8)
    assert np.all(first <= second)
    assert len(np.unique(value)) > 20
    sheet = page(np.random.default_rng(3), 128)
    assert np.abs(np.diff(sheet.mean(axis=2), axis=1)).max() > 0.1


def test_blur_keeps_the_mean_and_lowers_the_contrast():
    noise = np.random.default_rng(1).random((64, 64, 3), dtype=np.float32)
    soft = blurred(noise, 1.5)
    assert soft.mean() == pytest.approx(noise.mean(), abs=0.01)
    assert soft.std() < 0.3 * noise.std()
    assert blurred(noise, 0) is noise
