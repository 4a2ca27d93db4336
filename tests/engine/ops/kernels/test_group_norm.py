import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.ops.kernels import group_norm
from engine.ops.kernels.build import DTYPES
from engine.ops.kernels.group_norm import grid_for, vector_of
from engine.ops.norm import group_norm as norm
from tests.helpers.gpu import need_gpu_memory
from tests.helpers.kernels import INT_MAX, traversal

GPU = torch.device("cuda", 0)
Affine = tuple[Tensor, Tensor]


def frames(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3)) * 2 + 5
    return x.to(dtype).to(memory_format=torch.channels_last)


def exact(x: Tensor, groups: int, affine: Affine) -> Tensor:
    weight, bias = affine
    return F.group_norm(x.double(), groups, weight.double(), bias.double(), 1e-6)


def assert_same(found: Tensor, wanted: Tensor, dtype: torch.dtype, terms: float = 1.0) -> None:
    """Equal but for rounding to a dtype, and to float32 of terms of some size before that."""
    eps = max(torch.finfo(dtype).eps, 1e-6)
    least = max(eps, terms * torch.finfo(torch.float32).eps)
    torch.testing.assert_close(found.double(), wanted.double(), rtol=eps, atol=least)


@pytest.mark.parametrize("size", [(40, 512, 2160, 3840), (2, 8, 32_768, 32_768), (9, 128, 1, 9)])
def test_the_last_value_of_huge_frames_is_reached(size):
    t, channels, height, width = size
    grid = grid_for(torch.Size(size), channels // 4, 4, 170)
    rows = [list(traversal(grid, grid.blocks - 1, row)) for row in range(grid.rows)]
    assert max(pixel for row in rows for pixel in row) == (height - 1, width - 1)
    strides = (height * width * channels, width * channels, channels)
    last = (t - 1) * strides[0] + (height - 1) * strides[1] + (width - 1) * strides[2]
    assert last + grid.lanes * grid.vector == math.prod(size)
    assert grid.blocks * grid.per_block >= grid.pixels
    assert max(grid.blocks * grid.per_block, grid.frames) <= INT_MAX


@settings(max_examples=25, deadline=None)
@given(
    channels=st.sampled_from([(12, 3, 1), (128, 4, 8), (128, 4, 4), (512, 16, 8), (512, 16, 1)]),
    size=st.tuples(st.integers(1, 50), st.integers(1, 4000), st.integers(1, 4000)),
    processors=st.integers(1, 200),
)
def test_a_grid_is_within_the_limits_of_every_gpu(channels, size, processors):
    count, group, vector = channels
    t, height, width = size
    grid = grid_for(torch.Size((t, count, height, width)), group, vector, processors)
    assert grid.lanes * grid.rows <= 512
    assert grid.rows & (grid.rows - 1) == 0
    assert grid.per_block % grid.rows == 0
    assert grid.shared_bytes <= 48 * 1024
    assert 0 <= grid.blocks * grid.per_block - grid.pixels < grid.per_block


def test_alignment_and_groups_narrow_the_reading():
    assert vector_of(4, frames((1, 128, 3, 3), torch.float16)) == 8
    assert vector_of(16, frames((1, 512, 3, 3), torch.bfloat16)) == 8
    assert vector_of(4, frames((1, 128, 3, 3))) == 4
    shifted = torch.zeros(2000, dtype=torch.float16)[2:].as_strided((1, 8, 3, 3), (72, 1, 24, 8))
    assert vector_of(4, shifted) == 2
    assert vector_of(3, frames((1, 12, 3, 3), torch.float16)) == 1
    assert vector_of(6, frames((1, 24, 3, 3), torch.float16)) == 2


def test_what_does_not_fit_is_left_to_the_reference():
    assert vector_of(4, frames((1, 8, 3, 3)).contiguous()) == 0
    assert vector_of(4, frames((1, 8, 3, 3), torch.float64)) == 0
    assert vector_of(4, frames((1, 8, 0, 3))) == 0
    assert vector_of(4, torch.zeros(4, 1, 1).expand(70_000, 4, 1, 1)) == 0


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_source_equals_group_norm_and_silu(dtype):
    for shape in ((2, 64, 7, 13), (1, 64, 1, 1), (1, 64, 23, 31)):
        x, (weight, bias) = frames(shape, dtype), torch.randn(2, shape[1]).to(dtype)
        wanted = F.silu(exact(x, 16, (weight, bias)))
        for out in (torch.full_like(x, math.nan), x):
            norm.group_norm_silu(x, weight, bias, 16, 1e-6, out, kernels=True)
            assert_same(out, wanted, dtype)


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_source_adds_residuals_and_biases(dtype):
    whole, change = frames((3, 64, 9, 13), dtype), frames((2, 64, 8, 13), dtype) - 5
    bias, affine = torch.randn(64), torch.randn(2, 64)
    box, untouched = whole[1:, :, 1:], whole.clone()
    assert_sums_and_norms(box, change, bias, affine, 16)
    assert torch.equal(whole[:1], untouched[:1])
    assert torch.equal(whole[:, :, :1], untouched[:, :, :1])


def assert_sums_and_norms(x: Tensor, change: Tensor, bias: Tensor, affine: Affine, groups: int):
    """The sum, its norm by the statistics that came with it, and a norm of x + bias."""
    dtype, added = x.dtype, bias.double()[:, None, None]
    terms = float(x.abs().max() / x.float().std() * affine[0].abs().max())
    out = torch.empty_like(x)
    norm.group_norm_silu(x, *affine, groups, 1e-6, out, kernels=True, added=bias)
    assert_same(out, F.silu(exact(x.double() + added, groups, affine)), dtype, terms)
    wanted = x.double() + change.double() + added
    known = norm.add_residual(x, change, bias, groups)
    assert known is not None
    assert_same(x, wanted, dtype)
    kept = torch.empty_like(x[1:])
    norm.group_norm_silu(x, *affine, groups, 1e-6, out, kernels=True, known=known, kept=kept)
    assert_same(out, F.silu(exact(x, groups, affine)), dtype, terms)
    assert torch.equal(kept, out[1:])


@pytest.mark.usefixtures("_launched")
def test_the_source_normalises_groups_of_several_threads():
    x, (weight, bias) = frames((1, 64, 9, 20), torch.float16), torch.randn(2, 64).half()
    wanted = F.silu(exact(x, 4, (weight, bias)))
    norm.group_norm_silu(x, weight, bias, 4, 1e-6, x, kernels=True)
    assert_same(x, wanted, torch.float16)


@pytest.mark.usefixtures("_launched")
def test_statistics_and_normalise_of_the_source_work_apart():
    x, (weight, bias) = frames((2, 16, 8, 9)), torch.randn(2, 16)
    kernels, grid = group_norm.find(x, 4)
    factors = kernels.scale_and_shift(kernels.statistics(x, grid), (weight, bias), 1e-6)
    plain = norm.scale_and_shift(norm.group_statistics(x.double(), 4), weight, bias, 1e-6)
    for ours, wanted in zip(factors, plain, strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-6)
    out = torch.empty_like(x)
    kernels.normalise((x, out), grid, factors, True)
    assert_same(out, F.silu(exact(x, 4, (weight, bias))), torch.float32)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(5, 128, 37, 53), (2, 256, 64, 33), (1, 512, 17, 19), (1, 12, 7, 5)]
)
def test_kernels_equal_the_reference_on_a_gpu(dtype, shape):
    assert group_norm.working(GPU, dtype)
    x, groups = frames(shape, dtype).to(GPU), 4 if shape[1] == 12 else 32
    weight, bias = torch.randn(2, shape[1]).to(GPU, dtype)
    assert group_norm.find(x, groups) is not None
    for box in (x, x[:, :, 1:-1, 2:-2]):
        ours, wanted = torch.zeros_like(x), torch.zeros_like(x.double())
        target = (slice(None), slice(None), slice(0, box.shape[2]), slice(0, box.shape[3]))
        norm.group_norm_silu(box, weight, bias, groups, 1e-6, ours[target], kernels=True)
        factors = weight.double(), bias.double()
        norm.group_norm_silu(box.double(), *factors, groups, 1e-6, wanted[target])
        terms = float(x.abs().max() / x.float().std() * weight.abs().max())  # of x * scale + shift
        assert_same(ours, wanted, dtype, terms)
    change, more = frames(shape, dtype).to(GPU), torch.randn(shape[1]).to(GPU)
    assert_sums_and_norms(x, change, more, (weight, bias), groups)


@pytest.mark.real_gpu("5 GB of main memory")
@pytest.mark.gpu
def test_kernels_reach_beyond_two_billion_values():
    need_gpu_memory(6 * 10**9)
    x = torch.ones(3, 1024, 1024, 768, device=GPU, dtype=torch.float16).permute(0, 3, 1, 2)
    x[-1, :, -1, -1] = 3
    weight = torch.ones(768, device=GPU, dtype=torch.float16)
    kernels, grid = group_norm.find(x, 32)
    squares = kernels.statistics(x, grid).m2.sum(1)
    torch.testing.assert_close(squares[0], torch.zeros_like(squares[0]))
    assert (squares[2] > 90).all()
    norm.group_norm_silu(x, weight, 0 * weight, 32, 1e-6, x, silu=False, kernels=True)
    assert (x[-1, :, -1, -1] > 100).all()
    assert (x[-1, :, -1, -2].abs() < 1).all()
