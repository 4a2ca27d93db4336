import pytest
import torch
import torch.nn.functional as F

from engine.ops.norm import cache_blocks
from engine.ops.norm.group_norm import (
    add_residual,
    group_norm_silu,
    group_statistics,
    normalise,
    scale_and_shift,
)

HALVES = (torch.float16, torch.bfloat16)


def frames(shape, dtype=torch.float64, *, offset=0.0):
    """Random frames in channels last, each channel with another mean and spread."""
    x = torch.randn(shape, dtype=torch.float64)
    x = x * torch.rand(1, shape[1], 1, 1).double().add(0.2) + torch.randn(1, shape[1], 1, 1) * 3
    return (x + offset).to(dtype).to(memory_format=torch.channels_last)


def affine(channels, dtype=torch.float64):
    return torch.rand(channels, dtype=dtype) + 0.5, torch.randn(channels, dtype=dtype)


def plain(x, weight, bias, groups, *, silu=True):
    result = F.group_norm(x.double(), groups, weight.double(), bias.double(), 1e-6)
    return F.silu(result) if silu else result


@pytest.fixture(params=[1, 1100, 2**21])
def _block_bytes(request, monkeypatch):
    """Frames of a block for each row, of several of which the last may be shorter, and of one."""
    monkeypatch.setattr(cache_blocks, "_BLOCK_BYTES", request.param)


@pytest.mark.usefixtures("_block_bytes")
def test_equals_group_norm_and_silu_in_float64():
    for shape in ((1, 8, 1, 1), (2, 12, 7, 5), (3, 8, 5, 13), (1, 32, 9, 4)):
        x, (weight, bias) = frames(shape), affine(shape[1])
        for y, silu in ((x, True), (x, False), (x.contiguous(), True)):
            out = torch.empty_like(y)
            group_norm_silu(y, weight, bias, 4, 1e-6, out, silu=silu)
            wanted = plain(x, weight, bias, 4, silu=silu)
            torch.testing.assert_close(out, wanted, atol=1e-12, rtol=1e-12)


@pytest.mark.usefixtures("_block_bytes")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALVES])
def test_a_box_goes_into_a_part_of_a_larger_buffer_or_in_place(dtype):
    box = frames((4, 8, 11, 9), dtype)[1:3, :, 2:9, 3:8]
    buffer = torch.zeros(5, 8, 12, 10, dtype=dtype).to(memory_format=torch.channels_last)
    out, (weight, bias) = buffer[2:4, :, 1:8, 4:9], affine(8, dtype)
    wanted = torch.empty_like(box)
    group_norm_silu(box, weight, bias, 2, 1e-6, out)
    group_norm_silu(box.clone(), weight, bias, 2, 1e-6, wanted)
    group_norm_silu(box, weight, bias, 2, 1e-6, box)
    eps = torch.finfo(dtype).eps
    for found in (out, box):
        torch.testing.assert_close(found, wanted, rtol=4 * eps, atol=8 * eps)
    out.zero_()
    assert not buffer.any()


def test_a_residual_and_a_bias_are_added_without_kernels_too():
    x, change, (weight, bias) = frames((2, 8, 5, 3)), frames((2, 8, 5, 3)), affine(8)
    added, out = torch.randn(8), torch.empty_like(x)
    wanted = x + change + added[:, None, None]
    assert add_residual(x, change, added, 4) is None
    torch.testing.assert_close(x, wanted)
    group_norm_silu(x, weight, bias, 4, 1e-6, out, kernels=True, added=added)
    wanted = plain(wanted + added[:, None, None], weight, bias, 4)
    torch.testing.assert_close(out, wanted, atol=1e-12, rtol=1e-12)


@pytest.mark.usefixtures("_block_bytes")
@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_is_rounded_once(dtype):
    x, (weight, bias) = frames((2, 16, 9, 11), dtype), affine(16, dtype)
    factors = scale_and_shift(group_statistics(x, 4), weight, bias, 1e-6)
    assert {factor.dtype for factor in factors} == {torch.float32}
    out = torch.empty_like(x)
    group_norm_silu(x, weight, bias, 4, 1e-6, out)
    wanted = plain(x, weight, bias, 4)
    step = torch.finfo(dtype).eps * wanted.abs().clamp_min(torch.finfo(dtype).tiny)
    assert ((out.double() - wanted).abs() <= 0.51 * step + 1e-6).all()


def test_a_small_spread_far_from_zero_keeps_its_digits():
    x = (frames((1, 4, 16, 16)) * 0.1 + 1000).float()
    found = group_statistics(x, 1)
    spread, wanted = (found.m2 / found.count).sqrt()[0, 0], x.double().std(correction=0)
    torch.testing.assert_close(spread, wanted, rtol=1e-3, atol=0)


def test_a_flat_frame_becomes_the_bias():
    x, (weight, bias) = torch.full((1, 4, 3, 3), 7.0), affine(4, torch.float32)
    out = torch.empty_like(x)
    group_norm_silu(x, weight, bias, 2, 1e-6, out, silu=False)
    torch.testing.assert_close(out, bias.view(1, 4, 1, 1).expand_as(out), atol=2e-3, rtol=0)


def test_a_tile_can_be_normalised_with_the_statistics_of_its_frame():
    x, (weight, bias) = frames((2, 8, 9, 7)), affine(8)
    scale, shift = scale_and_shift(group_statistics(x, 4), weight, bias, 1e-6)
    tile = torch.empty_like(x[:, :, 3:, :5])
    normalise(x[:, :, 3:, :5], scale, shift, tile, silu=True)
    wanted = plain(x, weight, bias, 4)[:, :, 3:, :5]
    torch.testing.assert_close(tile, wanted, rtol=1e-12, atol=1e-12)


def test_mistakes_are_named():
    x = frames((1, 6, 3, 3))
    with pytest.raises(ValueError, match="6 channels do not come in 4 groups"):
        group_statistics(x, 4)
    with pytest.raises(ValueError, match="out is"):
        normalise(x, torch.ones(1, 6), torch.ones(1, 6), torch.empty(1, 6, 3, 2), silu=False)
