from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.ops.norm import cache_blocks
from engine.ops.norm.rms_norm import rms_norm_silu

HALVES = (torch.float16, torch.bfloat16)
DTYPES = (torch.float64, torch.float32, *HALVES)


def frames(shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> Tensor:
    """Random frames in channels last, each position of another length."""
    x = torch.randn(shape, dtype=torch.float64) * torch.rand(shape[0], 1, *shape[2:]).double() * 5
    return x.to(dtype).to(memory_format=torch.channels_last)


def gamma(channels: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return (1 + 0.3 * torch.randn(channels, dtype=torch.float64)).to(dtype)


def plain(x: Tensor, factors: Tensor, *, silu: bool = True) -> Tensor:
    """As the specification has it, in float64."""
    x = x.double()
    length = x.square().sum(1, keepdim=True).sqrt().clamp_min(1e-12)
    result = x / length * x.shape[1] ** 0.5 * factors.double()[:, None, None]
    return F.silu(result) if silu else result


@pytest.fixture(params=[1, 600, 2**21])
def _block_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of one block, of several, and of a block for each row."""
    monkeypatch.setattr(cache_blocks, "_BLOCK_BYTES", request.param)


@pytest.mark.usefixtures("_block_bytes")
def test_it_equals_the_specification() -> None:
    shapes = ((1, 8, 1, 1), (2, 12, 7, 5), (3, 5, 5, 13))
    layouts = (torch.channels_last, torch.contiguous_format)
    for shape, layout, silu in product(shapes, layouts, (True, False)):
        x, factors = frames(shape).contiguous(memory_format=layout), gamma(shape[1])
        found = rms_norm_silu(x, factors, silu=silu)
        assert found.stride() == x.stride()
        torch.testing.assert_close(found, plain(x, factors, silu=silu), rtol=1e-12, atol=1e-12)
    tile = rms_norm_silu(x[:, :, 2:, 3:], factors, silu=False)
    torch.testing.assert_close(tile, found[:, :, 2:, 3:], rtol=1e-14, atol=1e-14)


@pytest.mark.usefixtures("_block_bytes")
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_box_goes_into_a_part_of_a_window_or_in_place(dtype: torch.dtype) -> None:
    box = frames((4, 8, 11, 9), dtype)[1:3, :, 2:9, 3:8]
    window = torch.zeros(5, 8, 12, 10, dtype=dtype).to(memory_format=torch.channels_last)
    out, factors = window[2:4, :, 1:8, 4:9], gamma(8, torch.float32)
    eps, wanted = torch.finfo(dtype).eps, plain(box, factors).to(dtype)
    assert rms_norm_silu(box, factors, out) is out
    assert rms_norm_silu(box, factors, box) is box
    for found in (out, box):
        torch.testing.assert_close(found, wanted, rtol=4 * eps, atol=8 * eps)
    out.zero_()
    assert not window.any()


def test_the_minimum_is_one_of_length() -> None:
    dtypes, factors = (torch.float64, torch.float32, torch.bfloat16), gamma(16, torch.float32)
    for length, dtype in product((1e-30, 1e-13, 1e-12, 1e-11), dtypes):
        x = frames((1, 16, 2, 3))
        x = (x / x.norm(dim=1, keepdim=True) * length).to(dtype)
        found, wanted = rms_norm_silu(x, factors, silu=False), plain(x, factors, silu=False)
        eps = 4 * torch.finfo(dtype).eps
        torch.testing.assert_close(found.double(), wanted, rtol=eps, atol=eps * length)


def test_extreme_and_empty_positions() -> None:
    for dtype in DTYPES:
        x, factors = frames((1, 8, 3, 3), dtype), gamma(8, torch.float32)
        x[:, :, 1, 1] = 0
        found = rms_norm_silu(x, factors)
        assert not found[:, :, 1, 1].any()
        assert bool(found.isfinite().all())
        assert int((found == 0).all(1).sum()) == 1
    large = torch.full((1, 64, 2, 2), 6e4, dtype=torch.float16)
    found = rms_norm_silu(large, torch.ones(64), silu=False)
    torch.testing.assert_close(found, torch.ones_like(large))
    for shape in ((0, 8, 3, 3), (2, 8, 0, 3)):
        assert rms_norm_silu(torch.zeros(shape), torch.ones(8)).shape == shape


@pytest.mark.usefixtures("_block_bytes")
@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_is_rounded_once(dtype: torch.dtype) -> None:
    x, factors = frames((2, 16, 9, 11), dtype), gamma(16, torch.float32)
    wanted = plain(x, factors)
    step = torch.finfo(dtype).eps * wanted.abs().clamp_min(torch.finfo(dtype).tiny)
    assert bool(((rms_norm_silu(x, factors).double() - wanted).abs() <= 0.51 * step + 1e-6).all())


def test_sizes_that_do_not_fit_are_refused() -> None:
    x = frames((1, 6, 3, 3))
    for factors, out in ((torch.ones(5), None), (torch.ones(6), torch.empty(1, 6, 3, 2))):
        with pytest.raises(ValueError, match="do not fit"):
            rms_norm_silu(x, factors, out)
