import numpy as np
import pytest
import torch

from engine.bench import accuracy


def noisy(strength: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    first = rng.integers(40, 216, (40, 48, 3)).astype(np.uint8)
    change = rng.normal(0, strength, first.shape)
    return first, np.clip(first + change, 0, 255).astype(np.uint8)


def test_psnr_of_a_known_difference() -> None:
    ends = np.array([[[0, 0, 0], [255, 255, 255]]], np.uint8)
    np.testing.assert_allclose(accuracy.luma(ends), [[16, 235]], atol=0.01)
    first = np.full((20, 20, 3), 100, np.uint8)
    luma_step = 219 / 255  # one step of grey in limited-range luma
    wanted = 20 * np.log10(255 / luma_step)
    assert accuracy.psnr(first, first + 1) == pytest.approx(wanted, abs=0.01)
    second = first.copy()
    second[:4] = 0
    second[:, -4:] = 0
    assert accuracy.psnr(first, second) == float("inf"), "the border does not count"
    assert accuracy.psnr(first, second, border=3) < 60
    with pytest.raises(ValueError, match="differ in shape"):
        accuracy.psnr(first, first[:-1])


def test_ssim_equals_the_published_definition() -> None:
    from skimage.metrics import structural_similarity  # loads SciPy: not to collect tests

    first, second = noisy(20)
    a, b = (accuracy.luma(p)[4:-4, 4:-4] for p in (first, second))
    # Full Gaussian window, as here; scikit-image then averages without the 5 px border.
    wanted = structural_similarity(
        a, b, data_range=255, gaussian_weights=True, sigma=1.5, use_sample_covariance=False
    )
    assert accuracy.ssim(first, second) == pytest.approx(wanted, abs=2e-3)
    assert accuracy.ssim(first, first) == pytest.approx(1)


def test_relative_errors_are_of_all_values_together() -> None:
    exact = torch.tensor([3.0, 4.0])
    assert accuracy.relative_error(exact + torch.tensor([0.0, 0.5]), exact) == pytest.approx(0.1)


def test_flicker_counts_where_the_source_stands_still() -> None:
    still, moving = torch.full((3, 48, 32), 0.5), torch.rand(3, 48, 32)
    found = accuracy.Flicker()
    for number in range(4):
        source = torch.cat([still, moving.roll(5 * number, -1)], dim=-1)
        result = torch.full((3, 96, 128), number % 2 * 3 / 255)
        result[..., 64:] = number  # moves with the source
        found.add(result, source)
    assert found.levels == pytest.approx(3, rel=1e-3)
    assert 0.3 < found.still < 0.5


def test_without_anything_still_there_is_no_flicker() -> None:
    found = accuracy.Flicker()
    assert np.isnan(found.levels)
    for _ in range(3):
        found.add(torch.rand(3, 96, 64), torch.rand(3, 48, 32))
    assert np.isnan(found.levels)
    assert found.still == 0
