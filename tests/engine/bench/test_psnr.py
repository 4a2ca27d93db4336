from __future__ import annotations

import numpy as np
import pytest
from skimage.metrics import structural_similarity

from engine.bench import psnr


def noisy(strength: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    first = rng.integers(40, 216, (40, 48, 3)).astype(np.uint8)
    change = rng.normal(0, strength, first.shape)
    return first, np.clip(first + change, 0, 255).astype(np.uint8)


def test_luma_of_white_and_black_is_limited_range() -> None:
    ends = np.array([[[0, 0, 0], [255, 255, 255]]], np.uint8)
    np.testing.assert_allclose(psnr.luma(ends), [[16, 235]], atol=0.01)


def test_psnr_of_a_known_difference() -> None:
    first = np.full((20, 20, 3), 100, np.uint8)
    luma_step = 219 / 255  # one step of grey in limited-range luma
    wanted = 20 * np.log10(255 / luma_step)
    assert psnr.psnr(first, first + 1) == pytest.approx(wanted, abs=0.01)
    assert psnr.psnr(first, first) == float("inf")


def test_border_does_not_count() -> None:
    first, _ = noisy(0)
    second = first.copy()
    second[:4] = 0
    second[:, -4:] = 0
    assert psnr.psnr(first, second) == float("inf")
    assert psnr.psnr(first, second, border=3) < 60


def test_ssim_equals_the_published_definition() -> None:
    first, second = noisy(20)
    a, b = (psnr.luma(p)[4:-4, 4:-4] for p in (first, second))
    # Full gaussian window as ours; scikit-image then averages without the 5 px border.
    wanted = structural_similarity(
        a, b, data_range=255, gaussian_weights=True, sigma=1.5, use_sample_covariance=False
    )
    assert psnr.ssim(first, second) == pytest.approx(wanted, abs=2e-3)
    assert psnr.ssim(first, first) == pytest.approx(1)


def test_pictures_of_different_shape_are_our_mistake() -> None:
    with pytest.raises(ValueError, match="differ in shape"):
        psnr.psnr(np.zeros((9, 9, 3), np.uint8), np.zeros((9, 8, 3), np.uint8))
