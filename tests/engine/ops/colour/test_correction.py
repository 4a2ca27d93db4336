from itertools import product

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ops.colour import correction
from engine.ops.colour.correction import (
    METHODS,
    adain,
    blend_strength,
    correct_colour,
    hsv,
    lab,
    low_pass,
    match_histogram,
    smooth_,
    stages_of,
    two_scale_,
    wavelet,
)
from engine.ops.colour.spaces import LUMA, rgb_to_hsv, rgb_to_lab, weighted
from tests.helpers.memory import Allocations


def smooth_pictures(frames: int = 1, height: int = 96, width: int = 128) -> torch.Tensor:
    """Slow waves of other colours, 0.25 to 0.75, as a resized source has them."""
    y, x = torch.meshgrid(torch.linspace(0, 6, height), torch.linspace(0, 9, width), indexing="ij")
    phase = torch.arange(frames * 3).view(frames, 3, 1, 1)
    return 0.5 + 0.25 * torch.sin(x + phase) * torch.cos(y - 2 * phase)


def fine_grain(like: torch.Tensor) -> torch.Tensor:
    """A pattern of single pixels that is far above both cuts, and grey."""
    height, width = like.shape[-2:]
    y, x = torch.arange(height)[:, None], torch.arange(width)[None]
    return (0.1 * (1 - 2 * ((x + y) % 2))).expand_as(like)


def colourfulness(pictures: torch.Tensor) -> float:
    """Mean saturation without single pixels."""
    return float(rgb_to_hsv(low_pass(pictures, [1, 2, 4]))[:, 1].mean())


def test_a_result_that_equals_its_source_stays():
    source = torch.rand(2, 3, 33, 47)
    for scale in (1, 2, 3, 4):
        assert torch.equal(two_scale_(source.clone(), source, scale), source)


@settings(max_examples=15, deadline=None)
@given(cast=st.tuples(*[st.floats(-0.1, 0.1)] * 3), scale=st.sampled_from([1, 1.5, 2, 4]))
def test_a_flat_cast_goes_and_detail_stays(cast, scale):
    source = smooth_pictures()
    wanted = source + fine_grain(source)
    result = wanted + torch.tensor(cast).view(1, 3, 1, 1)
    found = correct_colour("two-scale", result, source, scale=scale)
    inside = (..., slice(40, -40), slice(40, -40))
    torch.testing.assert_close(found[inside], wanted[inside], rtol=0, atol=2e-3)


def test_it_splits_luma_and_chroma_as_stated():
    result, source = torch.rand(2, 1, 3, 40, 50, dtype=torch.float64) * 0.2 + 0.4
    found = two_scale_(result.clone(), source, 2)

    def planes(pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        luma = weighted(pictures, LUMA)
        return luma, pictures - luma[:, None]

    (mine, chroma), (luma, wanted), (own, its) = map(planes, (found.double(), source, result))
    five, three = [1, 2, 4, 8, 16], [1, 2, 4]
    torch.testing.assert_close(mine, own + low_pass(luma - own, five), rtol=0, atol=1e-6)
    torch.testing.assert_close(chroma, its + low_pass(wanted - its, three), rtol=0, atol=1e-6)


def test_the_cuts_keep_their_place_in_the_source():
    stages = {0.5: (4, 2), 1: (4, 2), 2: (5, 3), 3: (6, 4), 4: (6, 4)}
    assert {scale: stages_of(scale) for scale in stages} == stages


def test_frames_do_not_know_each_other():
    result, source = torch.rand(3, 3, 20, 30), torch.rand(3, 3, 20, 30)
    together = two_scale_(result.clone(), source)
    for t in range(3):
        assert torch.equal(two_scale_(result[t : t + 1], source[t : t + 1]), together[t : t + 1])


def test_every_method_takes_any_size_and_stays_in_range():
    for method, size in product(METHODS, ((1, 1), (3, 40), (24, 24))):
        result, source = torch.rand(2, 3, *size), torch.rand(2, 3, *size)
        found = correct_colour(method, result, source)
        assert found.shape == result.shape
        assert found.isfinite().all()
        assert 0 <= found.min() <= found.max() <= 1


@pytest.mark.parametrize("method", [m for m in METHODS if m != "none"])
def test_every_method_brings_colours_back(method):
    source = smooth_pictures(2)
    source[:, 0] += 0.1  # a warm picture, so that saturation says something
    result = source + fine_grain(source)
    result = (result + 0.5 * (result - result.mean(1, keepdim=True))).clamp(0, 1)  # too colourful
    found = correct_colour(method, result.clone(), source)
    wanted = colourfulness(source)
    assert abs(colourfulness(found) - wanted) < 0.7 * abs(colourfulness(result) - wanted)


def test_wrong_calls_are_refused():
    picture = torch.rand(1, 3, 4, 4)
    with pytest.raises(ValueError, match="'sepia'"):
        correct_colour("sepia", picture, picture)
    with pytest.raises(ValueError, match="source"):
        correct_colour("lab", picture, picture[..., :2])


def test_memory_is_as_stated():
    result, source = torch.rand(2, 2, 3, 64, 96)
    with Allocations() as ours:
        two_scale_(result, source)
    assert ours.peak_bytes <= 32 * 64 * 96 + 64
    for method in METHODS[1:]:
        with Allocations() as published:
            correct_colour(method, result, source)
        assert published.peak_bytes <= 9 * 4 * result.numel()


def test_both_ends_of_the_strength_are_exact():
    result, source = torch.rand(2, 1, 3, 8, 8)
    assert torch.equal(blend_strength(result, source, 1.0), result)
    assert torch.equal(blend_strength(result, source, 0.0), source)
    with pytest.raises(ValueError, match=r"1\.5"):
        blend_strength(result, source, 1.5)


@settings(max_examples=10, deadline=None)
@given(strength=st.floats(0, 1))
def test_only_detail_is_mixed(strength):
    source = smooth_pictures()
    detail = fine_grain(source)
    result = two_scale_(source + detail + 0.07, source)
    found = blend_strength(result, source, strength)
    inside = (..., slice(40, -40), slice(40, -40))
    expected = source + strength * detail
    torch.testing.assert_close(found[inside], expected[inside], rtol=0, atol=2e-3)
    low = low_pass(found, [1, 2, 4, 8, 16]) - low_pass(source, [1, 2, 4, 8, 16])
    assert low[inside].abs().max() < 1e-3


def by_convolution(pictures, distance):
    taps = torch.tensor([0.25, 0.5, 0.25], dtype=pictures.dtype)
    kernel = (taps[:, None] * taps).expand(pictures.shape[1], 1, 3, 3)
    padded = F.pad(pictures, [distance] * 4, mode="replicate")
    return F.conv2d(padded, kernel, groups=pictures.shape[1], dilation=distance)


def test_a_stage_of_the_low_pass_equals_the_convolution_with_its_kernel():
    for distance in (1, 2, 7, 12, 13, 40):
        pictures = torch.rand(2, 3, 12, 17, dtype=torch.float64)
        found, scratch = pictures.clone(), torch.empty_like(pictures)
        smooth_(found, scratch, distance)
        wanted = by_convolution(pictures, distance)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
        before = pictures.clone()
        low_pass(pictures, [distance])
        assert torch.equal(pictures, before)


def test_stages_of_the_low_pass_have_their_stated_width():
    point = torch.zeros(1, 301, 301, dtype=torch.float64)
    point[0, 150, 150] = 1
    offset = torch.arange(301, dtype=torch.float64) - 150
    for stages, sigma in ((3, 3.24), (5, 13.06), (6, 26.1)):
        spread = low_pass(point, [1 << stage for stage in range(stages)]).sum(1)[0]
        assert spread.sum() == pytest.approx(1)
        assert float((spread * offset**2).sum().sqrt()) == pytest.approx(sigma, rel=0.01)


def test_a_matched_histogram_is_the_wanted_one():
    values, wanted = torch.rand(6, 7), torch.rand(42)
    found = match_histogram(values, wanted)
    assert torch.equal(found.flatten().sort().values, wanted.sort().values)
    assert torch.equal(found.flatten().argsort(), values.flatten().argsort())
    ranks = {5: [0, 2, 4, 6, 9], 1: [0], 2: [0, 9], 10: list(range(10))}  # the next lower ones
    for count, expected in ranks.items():
        found = match_histogram(torch.arange(float(count)), torch.arange(10.0))
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


def test_the_adaptive_method_goes_over_to_hsv_where_colours_are_too_strong(monkeypatch):
    monkeypatch.setattr(correction, "hsv", lambda result, source: 0 * result)
    for own, plain, share in (  # saturations; that of the source is 0.2
        *((0.35, 0.30, 0.5), (0.35, 0.28, 0.5)),  # 0.15 above it
        (0.35, 0.27, 0.0),  # `wavelet` leaves no more than 0.075 of it
        *((0.20, 0.30, 0.3208), (0.55, 0.30, 0.7311)),  # sigmoid(5 * -0.15), sigmoid(5 * 0.2)
    ):
        result, left, source = (
            torch.tensor([0.5, *2 * (0.5 * (1 - one),)]).view(1, 3, 1, 1)
            for one in (own, plain, 0.2)
        )
        monkeypatch.setattr(correction, "wavelet", lambda *_, left=left: left)
        found = correction.wavelet_adaptive(result, source)
        torch.testing.assert_close(found, (1 - share) * left, rtol=0, atol=1e-4)


def test_hsv_leaves_hues_alone_that_hardly_occur():
    result, source = torch.zeros(2, 1, 3, 20, 20)
    result[:, 0], source[:, 0] = 0.8, 0.8  # red, of different saturation
    result[:, 1:], source[:, 1:] = 0.2, 0.4
    result[..., :1, :] = torch.tensor([0.1, 0.9, 0.1]).view(3, 1, 1)  # 20 px of green
    found = rgb_to_hsv(hsv(result, source))[:, 1]
    torch.testing.assert_close(found[:, 1:], torch.full((1, 19, 20), 0.5))
    torch.testing.assert_close(found[:, :1], rgb_to_hsv(result)[:, 1, :1])


@pytest.mark.gpu
def test_a_gpu_gives_what_the_processor_gives():
    result, source = torch.rand(2, 2, 3, 90, 130)
    for method in ("two-scale", "wavelet", "adain"):
        found = correct_colour(method, result.cuda(), source.cuda(), scale=3).cpu()
        wanted = correct_colour(method, result, source, scale=3)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)
