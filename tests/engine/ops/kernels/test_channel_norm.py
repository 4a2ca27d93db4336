import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.ops.kernels import channel_norm
from engine.ops.kernels.build import DTYPES
from engine.ops.kernels.channel_norm import grid_for, lanes_and_packs, vector_of
from engine.ops.norm.rms_norm import factors_of, rms_norm_silu
from tests.helpers.extended import extended

GPU = torch.device("cuda", 0)
WIDTHS = (96, 160, 192, 256, 320, 384, 512, 640, 1024)  # of the published models


def frames(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    return (torch.randn(shape) * 2 + 1).to(dtype).to(memory_format=torch.channels_last)


def assert_same(found: Tensor, wanted: Tensor) -> None:
    eps = max(torch.finfo(found.dtype).eps, 1e-6)
    torch.testing.assert_close(found, wanted, rtol=2 * eps, atol=2 * eps)


@settings(max_examples=25, deadline=None)
@given(
    size=st.tuples(st.integers(1, 50), st.integers(1, 4000), st.integers(1, 4000)),
    reads=st.integers(1, 256),
    vector=st.sampled_from([1, 2, 4, 8]),
    processors=st.integers(1, 200),
)
def test_a_grid_covers_every_value_within_the_limits_of_every_gpu(size, reads, vector, processors):
    t, height, width = size
    grid = grid_for(torch.Size((t, reads * vector, height, width)), vector, processors)
    assert grid.lanes & (grid.lanes - 1) == 0
    assert grid.lanes <= 32
    assert grid.lanes * grid.rows == 256
    assert 1 <= grid.packs <= 8
    assert grid.lanes * grid.packs * vector >= grid.channels
    assert grid.per_block % grid.rows == 0
    assert (grid.blocks - 1) * grid.per_block < grid.pixels <= grid.blocks * grid.per_block
    assert grid.blocks * grid.per_block + grid.rows < 2**31


def test_no_thread_is_idle_at_published_widths():
    for channels in WIDTHS:
        for vector in (4, 8):
            lanes, packs = lanes_and_packs(channels // vector)
            assert lanes * packs * vector == channels
            assert lanes >= 4


def test_as_many_channels_at_once_as_lie_together():
    assert vector_of(frames((2, 96, 3, 3), torch.float16)) == 8
    assert vector_of(frames((2, 13, 3, 3), torch.bfloat16)) == 1
    assert vector_of(frames((2, 24, 5, 5), torch.float16)[:, 4:12]) == 4
    assert vector_of(frames((1, 8, 3, 3)).contiguous()) == 0
    assert vector_of(frames((1, 8, 3, 3)), frames((1, 8, 3, 3), torch.float16)) == 0
    assert vector_of(frames((1, 2048, 1, 1))) == 0
    assert vector_of(frames((1, 2048, 1, 1), torch.float16)) == 8
    assert vector_of(torch.zeros(1, 1, 1, 4).permute(0, 3, 1, 2).expand(70_000, 4, 1, 1)) == 0


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("dtype", [DTYPES[0], *extended(*DTYPES[1:])])
def test_the_source_is_the_norm(dtype):
    for shape in ((2, 96, 7, 13), (1, 40, 1, 1), (1, 8, 23, 31), (3, 13, 2, 1)):
        x, gamma = frames(shape, dtype), torch.randn(shape[1], dtype=torch.float64)
        for silu in (True, False):
            out, wanted = torch.full_like(x, math.nan), rms_norm_silu(x, gamma, silu=silu)
            rms_norm_silu(x, gamma, out, silu=silu, kernels=True)
            assert_same(out, wanted)
        rms_norm_silu(x, gamma, x, silu=False, kernels=True)  # in place
        assert_same(x, wanted)


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("count", [0, 1, 3])
def test_factors_come_with_the_last_frames(count):
    x, gamma = frames((3, 40, 5, 7), torch.float16), torch.randn(40, dtype=torch.float64)
    x[1, :, 2, 3] = 0
    buffer = torch.full_like(x, math.nan)
    kept = buffer[3 - count :] if count else None
    scale, shift, of_pixel = factors_of(x, gamma, kept)
    wanted = rms_norm_silu(x, gamma, silu=False)
    assert shift is None
    assert_same((x * of_pixel[:, None] * scale[:, None, None]).half(), wanted)
    assert_same(buffer[3 - count :], F.silu(wanted.float()).half()[3 - count :])
    assert buffer[: 3 - count].isnan().all()


@pytest.mark.usefixtures("_launched")
def test_the_source_has_the_same_minimum():
    x, gamma = frames((1, 16, 2, 3)), torch.randn(16)
    for length in (0.0, 1e-13, 1e-12, 1e-11):
        short = x / x.norm(dim=1, keepdim=True) * length
        found = rms_norm_silu(short, gamma, silu=False, kernels=True)
        wanted = rms_norm_silu(short.double(), gamma, silu=False)
        torch.testing.assert_close(found.double(), wanted, rtol=1e-6, atol=1e-6 * length)


@pytest.mark.usefixtures("_launched")
def test_the_source_reaches_beyond_two_billion_values(tmp_path):
    pitch, path = 2**31 + 8, str(tmp_path / "sparse")
    whole = torch.from_file(path, shared=True, size=2 * pitch + 8, dtype=torch.float16)
    for strides in ((pitch, 1, 8, 8), (8, 1, pitch, 8), (8, 1, 8, pitch)):
        sizes = [3 if stride == pitch else 1 for stride in strides]
        x = whole.as_strided((sizes[0], 8, *sizes[2:]), strides)
        x.copy_(frames(tuple(x.shape)))
        wanted = rms_norm_silu(x.clone(), torch.ones(8))
        assert_same(rms_norm_silu(x, torch.ones(8), x, kernels=True), wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_kernel_equals_the_reference_on_a_gpu(dtype):
    assert channel_norm.working(GPU, dtype)
    for channels in (*WIDTHS, 8, 12, 13):
        x, gamma = frames((3, channels, 37, 53), dtype).to(GPU), torch.randn(channels, device=GPU)
        assert channel_norm.find(x) is not None
        for box in (x, x[1:, :, 1:-1, 2:-2]):
            ours, wanted = torch.zeros_like(x), torch.zeros_like(x)
            place = slice(0, len(box)), slice(None), slice(0, box.shape[2]), slice(0, box.shape[3])
            rms_norm_silu(box, gamma, ours[place], kernels=True)
            rms_norm_silu(box, gamma, wanted[place])
            assert_same(ours, wanted)
