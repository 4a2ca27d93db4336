import pytest
import torch

from engine.ops.colour.correction import (
    adain,
    hsv,
    lab,
    low_pass,
    match_histogram,
    wavelet,
)
from engine.ops.colour.spaces import rgb_to_hsv, rgb_to_lab


def test_a_matched_histogram_is_the_wanted_one():
    values, wanted = torch.rand(6, 7), torch.rand(42)
    found = match_histogram(values, wanted)
    assert torch.equal(found.flatten().sort().values, wanted.sort().values)
    assert torch.equal(found.flatten().argsort(), values.flatten().argsort())


@pytest.mark.parametrize(
    ("values", "expected"), [(5, [0, 2, 4, 6, 9]), (1, [0]), (2, [0, 9]), (10, list(range(10)))]
)
def test_other_counts_take_the_next_lower_rank(values, expected):
    found = match_histogram(torch.arange(float(values)), torch.arange(10.0))
    assert found.tolist() == expected


def test_wavelet_keeps_details_and_takes_the_rest():
    result, source = torch.rand(2, 1, 3, 64, 64) * 0.2 + 0.4
    stages = [1, 2, 4, 8, 8]  # the last one is limited by the size
    expected = result - low_pass(result, stages) + low_pass(source, stages)
    torch.testing.assert_close(wavelet(result, source), expected, rtol=0, atol=1e-6)


def test_adain_gives_each_frame_the_statistics_of_its_source():
    result, source = torch.rand(2, 2, 3, 32, 32)
    source[1] *= 0.3
    found = adain(result, source)
    torch.testing.assert_close(found.mean((2, 3)), source.mean((2, 3)))
    torch.testing.assert_close(found.std((2, 3)), source.std((2, 3)), rtol=1e-3, atol=0)


def test_lab_takes_the_histograms_of_all_frames_together():
    source = torch.rand(2, 3, 32, 32) * 0.2 + 0.4
    result = (source.flip(0) * 1.1 - 0.05).clamp(0, 1)
    found = rgb_to_lab(lab(result, source, kept_luminance=0.0))
    wanted = rgb_to_lab(source)
    for channel in range(3):
        ours, theirs = (x[:, channel].flatten().sort().values for x in (found, wanted))
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0.5)


def test_hsv_leaves_hues_alone_that_hardly_occur():
    result, source = torch.zeros(2, 1, 3, 20, 20)
    result[:, 0], source[:, 0] = 0.8, 0.8  # red, of different saturation
    result[:, 1:], source[:, 1:] = 0.2, 0.4
    result[..., :1, :] = torch.tensor([0.1, 0.9, 0.1]).view(3, 1, 1)  # 20 px of green
    found = rgb_to_hsv(hsv(result, source))[:, 1]
    torch.testing.assert_close(found[:, 1:], torch.full((1, 19, 20), 0.5))
    torch.testing.assert_close(found[:, :1], rgb_to_hsv(result)[:, 1, :1])
