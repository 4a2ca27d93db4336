import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.ops.kernels import build, token_rows
from engine.ops.kernels.build import DTYPES
from engine.ops.kernels.grids import grid_for, vector_of
from engine.ops.norm.token_passes import add_gated, rms_modulate, swiglu
from tests.helpers.extended import extended

GPU = torch.device("cuda", 0)
EPS = 1e-5
BARRIER = "__syncthreads();"


def tokens(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return (torch.randn(shape) * 3 + 1).to(dtype)


def assert_same(found: Tensor, wanted: Tensor) -> None:
    eps = max(torch.finfo(found.dtype).eps, 1e-6)
    torch.testing.assert_close(found, wanted, rtol=2 * eps, atol=2 * eps)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 5000),
    packs=st.integers(1, 2048),
    vector=st.sampled_from([1, 2, 4, 8]),
    processors=st.integers(1, 200),
)
def test_a_grid_covers_every_row_within_the_limits_of_every_gpu(rows, packs, vector, processors):
    grid = grid_for(torch.Size((rows, packs * vector)), vector, processors)
    assert grid.threads % 32 == 0
    assert grid.threads <= 256
    assert grid.threads * grid.packs * vector >= grid.channels
    assert grid.threads * (grid.packs - 1) * vector < grid.channels
    assert 1 <= grid.blocks <= rows
    assert grid.blocks * grid.threads <= processors * 1024
    assert 1 <= grid.packs <= 8


def test_tokens_of_the_models_use_most_of_their_threads():
    for channels, dtype_vector in ((2560, 8), (3072, 8), (6912, 8), (2560, 4), (6912, 4)):
        grid = grid_for(torch.Size((100, channels)), dtype_vector, 170)
        assert channels / (grid.threads * grid.packs * dtype_vector) > 0.9


def test_what_does_not_fit_is_left_to_the_reference():
    x = torch.zeros(4, 16)
    assert vector_of(x) == 4
    assert vector_of(x.double()) == 0
    assert vector_of(x, x.half()) == 0
    assert vector_of(torch.zeros(1, 8196)) == 0
    assert vector_of(x[None]) == 0


SHAPES = [(7, 64), (3, 40), (1, 8), (5, 2056)]  # the last: two packs, one thread in the second


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_source_is_the_norm_the_gated_sum_and_swiglu(dtype, shape):
    x, y = (tokens(*shape, dtype=dtype) for _ in range(2))
    scale, shift = tokens(2, shape[1])
    for factors in ((scale, shift), (scale, None), (None, None)):
        wanted = rms_modulate(x, *factors, EPS, kernels=False)
        assert_same(rms_modulate(x, *factors, EPS), wanted)
    wanted = add_gated(x.clone(), y, scale, kernels=False)
    assert add_gated(x, y, scale) is x
    assert_same(x, wanted)
    gate, value = tokens(shape[0], 2 * shape[1], dtype=dtype).chunk(2, dim=1)
    wanted, before = swiglu(gate, value, kernels=False), value.clone()
    assert_same(swiglu(gate, value), wanted)
    assert swiglu(gate, value, gate) is gate
    assert_same(gate, wanted)
    assert torch.equal(value, before)


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("dtype", [torch.float16, *extended(torch.bfloat16)])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_source_norms_and_adds_to_a_stream_of_float32(dtype, shape):
    x, y = tokens(*shape) * 1e5, tokens(*shape, dtype=dtype)
    scale, shift = tokens(2, shape[1])
    for factors in ((scale, shift), (scale, None), (None, None)):
        wanted = rms_modulate(x, *factors, EPS, torch.empty_like(y), kernels=False)
        assert_same(rms_modulate(x, *factors, EPS, torch.empty_like(y)), wanted)
    wanted = add_gated(x.clone(), y, scale, kernels=False)
    assert add_gated(x, y, scale) is x
    assert x.dtype == torch.float32
    torch.testing.assert_close(x, wanted, rtol=1e-6, atol=1e-6)


def test_rows_of_two_types_are_read_by_the_narrower():
    wide = torch.zeros(4, 64)
    rows = torch.zeros(4, 64, dtype=torch.float16)
    assert vector_of(rows, wide=wide) == 8
    assert vector_of(rows[:, 8:40], wide=wide[:, 4:36]) == 4
    assert vector_of(rows, wide=torch.zeros(64, 4).t()) == 0
    assert vector_of(rows, wide=wide.double()) == 0


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("dtype", [*extended(*DTYPES[:2]), DTYPES[2]])
def test_the_source_works_inside_larger_buffers(dtype):
    for left in (8, 4, 1):
        whole, out = tokens(6, 48, dtype=dtype), tokens(6, 48, dtype=dtype)
        box, wanted = (slice(1, 6), slice(left, left + 24)), out.clone()
        rms_modulate(whole[box], None, None, EPS, wanted[box], kernels=False)
        rms_modulate(whole[box], None, None, EPS, out[box])
        assert_same(out, wanted)
        rms_modulate(whole[box], None, None, EPS, whole[box])
        assert_same(whole[box], wanted[box])


@pytest.mark.usefixtures("_launched")
def test_the_source_reaches_beyond_two_billion_values(tmp_path):
    pitch, path = 2**31 + 8, str(tmp_path / "sparse")
    whole = torch.from_file(path, shared=True, size=2 * pitch + 8, dtype=torch.float16)
    x = whole.as_strided((3, 8), (pitch, 1))
    x.copy_(tokens(3, 8))
    wanted = rms_modulate(x.clone(), None, None, EPS, kernels=False)
    assert_same(rms_modulate(x, None, None, EPS, x), wanted)


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("barrier", [0, 1])
def test_a_missing_barrier_gives_wrong_results(barrier, monkeypatch):
    before, between, after = build.source("token_rows").split(BARRIER)
    texts = before + between + BARRIER + after, before + BARRIER + between + after
    monkeypatch.setattr(build, "source", lambda _: texts[barrier])
    x = tokens(9, 2056)
    wanted = rms_modulate(x, None, None, EPS, kernels=False)
    with pytest.raises(AssertionError, match="not close"):
        assert_same(rms_modulate(x, None, None, EPS), wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1000, 2560), (77, 3072), (3, 6912), (5, 12), (1, 1)])
def test_kernels_equal_the_reference_on_a_gpu(dtype, shape):
    assert token_rows.working(GPU, dtype)
    x, y = (tokens(*shape, dtype=dtype).to(GPU) for _ in range(2))
    scale, shift = tokens(2, shape[1]).to(GPU)
    assert token_rows.find(x) is not None
    exact = x.double(), y.double()
    wanted = rms_modulate(exact[0], scale, shift, EPS, kernels=False)
    assert_same(rms_modulate(x, scale, shift, EPS), wanted.to(dtype))
    assert_same(swiglu(x, y), swiglu(*exact, kernels=False).to(dtype))
    wanted = add_gated(*exact, scale, kernels=False)
    assert_same(add_gated(x, y, scale), wanted.to(dtype))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_a_stream_of_float32_equals_the_reference_on_a_gpu(dtype):
    assert token_rows.STREAM_KERNELS.working(GPU, dtype)
    x, y = tokens(1000, 2560).to(GPU) * 1e5, tokens(1000, 2560, dtype=dtype).to(GPU)
    scale, shift = tokens(2, 2560).to(GPU)
    assert token_rows.find(x, y) is not None
    wanted = rms_modulate(x.double(), scale, shift, EPS, kernels=False)
    assert_same(rms_modulate(x, scale, shift, EPS, torch.empty_like(y)), wanted.to(dtype))
    wanted = add_gated(x.double(), y.double(), scale, kernels=False)
    torch.testing.assert_close(add_gated(x, y, scale).double(), wanted, rtol=1e-6, atol=1e-6)
