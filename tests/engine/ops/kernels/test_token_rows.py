from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.ops.kernels import driver, nvrtc, token_rows
from engine.ops.kernels.token_rows import RowKernels, grid_for, vector_of
from engine.ops.linear.swiglu import swiglu
from engine.ops.norm.modulate import add_gated, rms_modulate
from tests.helpers.kernels import HAS_COMPILER, host_rows, stand_in

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
CPU = torch.device("cpu")
CARD = torch.device("cuda", 0)
EPS = 1e-5

on_host = pytest.mark.skipif(not HAS_COMPILER, reason="no g++ to run the source with")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("host")


@pytest.fixture
def _launched(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[None]:
    """The processor stands in for a card; a test that launches nothing fails."""
    launched = stand_in(monkeypatch, folder)
    yield
    assert launched, "the twin did the work"


def tokens(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return (torch.randn(shape) * 3 + 1).to(dtype)


def assert_same(found: Tensor, wanted: Tensor) -> None:
    eps = max(torch.finfo(found.dtype).eps, 1e-6)
    torch.testing.assert_close(found, wanted, rtol=2 * eps, atol=2 * eps)


# What fits


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 5000),
    packs=st.integers(1, 2048),
    vector=st.sampled_from([1, 2, 4, 8]),
    processors=st.integers(1, 200),
)
def test_a_grid_covers_every_row_within_the_limits_of_every_gpu(
    rows: int, packs: int, vector: int, processors: int
) -> None:
    grid = grid_for(torch.Size((rows, packs * vector)), vector, processors)
    assert grid.threads % 32 == 0
    assert grid.threads <= 256
    assert grid.threads * grid.packs * vector >= grid.channels
    assert grid.threads * (grid.packs - 1) * vector < grid.channels
    assert 1 <= grid.blocks <= rows
    assert grid.blocks * grid.threads <= processors * 1024
    assert 1 <= grid.packs <= 8


def test_tokens_of_the_models_use_most_of_their_threads() -> None:
    for channels, dtype_vector in ((2560, 8), (3072, 8), (6912, 8), (2560, 4), (6912, 4)):
        grid = grid_for(torch.Size((100, channels)), dtype_vector, 170)
        assert channels / (grid.threads * grid.packs * dtype_vector) > 0.9


def test_alignment_narrows_the_reading() -> None:
    x = torch.zeros(4, 48, dtype=torch.float16)
    assert vector_of(x) == 8
    assert vector_of(x, x[:, 8:32].new_empty(4, 48)) == 8
    assert vector_of(x[:, 4:44]) == 4
    assert vector_of(x[:, 1:9]) == 1
    assert vector_of(torch.zeros(4, 12)) == 4
    assert vector_of(torch.zeros(4, 13)) == 1


def test_what_does_not_fit_is_left_to_the_reference() -> None:
    x = torch.zeros(4, 16)
    assert vector_of(x.double()) == 0
    assert vector_of(x.t()) == 0
    assert vector_of(x[:0]) == 0
    assert vector_of(x, x.half()) == 0
    assert vector_of(torch.zeros(1, 8196)) == 0
    assert vector_of(x[None]) == 0


def test_without_a_gpu_there_are_no_kernels(caplog: pytest.LogCaptureFixture) -> None:
    assert token_rows.find(torch.zeros(4, 16)) is None
    assert not token_rows.working(CPU)
    assert not caplog.records


# The very source, on the processor

SHAPES = [(7, 64), (3, 40), (1, 8), (5, 2056)]  # the last: two packs, one thread in the second


@on_host
@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("given", [(True, True), (True, False), (False, False)])
def test_the_source_is_the_norm(
    dtype: torch.dtype, shape: tuple[int, int], given: tuple[bool, bool]
) -> None:
    x = tokens(*shape, dtype=dtype)
    scale, shift = (tokens(shape[1]) if there else None for there in given)
    wanted = rms_modulate(x, scale, shift, EPS, kernels=False)
    assert_same(rms_modulate(x, scale, shift, EPS), wanted)


@on_host
@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_source_is_the_gated_sum(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    residual, y = (tokens(*shape, dtype=dtype) for _ in range(2))
    gate = tokens(shape[1])
    wanted = add_gated(residual.clone(), y, gate, kernels=False)
    assert add_gated(residual, y, gate) is residual
    assert_same(residual, wanted)


@on_host
@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_source_is_swiglu_of_a_joined_projection(
    dtype: torch.dtype, shape: tuple[int, int]
) -> None:
    joined = tokens(shape[0], 2 * shape[1], dtype=dtype)
    gate, value = joined.chunk(2, dim=1)
    wanted, before = swiglu(gate, value, kernels=False), value.clone()
    assert_same(swiglu(gate, value), wanted)
    assert swiglu(gate, value, gate) is gate
    assert_same(gate, wanted)
    assert torch.equal(value, before)


@on_host
@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("left", [8, 4, 1])
def test_the_source_works_inside_larger_buffers(dtype: torch.dtype, left: int) -> None:
    whole, out = tokens(6, 48, dtype=dtype), tokens(6, 48, dtype=dtype)
    box = slice(1, 6), slice(left, left + 24)
    wanted = out.clone()
    rms_modulate(whole[box], None, None, EPS, wanted[box], kernels=False)
    rms_modulate(whole[box], None, None, EPS, out[box])
    assert_same(out, wanted)
    rms_modulate(whole[box], None, None, EPS, whole[box])
    assert_same(whole[box], wanted[box])


@on_host
@pytest.mark.usefixtures("_launched")
def test_the_source_reaches_beyond_two_billion_values(tmp_path: Path) -> None:
    pitch, path = 2**31 + 8, str(tmp_path / "sparse")
    whole = torch.from_file(path, shared=True, size=2 * pitch + 8, dtype=torch.float16)
    x = whole.as_strided((3, 8), (pitch, 1))
    x.copy_(tokens(3, 8))
    wanted = rms_modulate(x.clone(), None, None, EPS, kernels=False)
    assert_same(rms_modulate(x, None, None, EPS, x), wanted)


# Trying the kernels at the start


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """A device that says it is a card; what it compiles is set by the test, and runs here."""
    measured = token_rows._error
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (8, 6))
    monkeypatch.setattr(token_rows, "_error", lambda k, _, *rest: measured(k, CPU, *rest))
    caches = token_rows.working, token_rows._load
    for cached in caches:
        cached.cache_clear()
    yield CARD
    for cached in caches:
        cached.cache_clear()


def test_what_fails_switches_the_kernels_off_with_one_warning(
    card: torch.device, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> bytes:
        raise nvrtc.CompileFailed("upreel.cu(1): error")

    monkeypatch.setattr(nvrtc, "compile_cuda", fail)
    with caplog.at_level(logging.WARNING):
        assert not token_rows.working(card)
        assert not token_rows.working(card)
    (record,) = caplog.records
    assert "upreel.cu(1)" in record.getMessage()


@on_host
@pytest.mark.parametrize("wrong", ["", "rms_modulate", "add_gated", "swiglu"])
def test_a_wrong_kernel_switches_them_off(
    wrong: str,
    card: torch.device,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    folder: Path,
) -> None:
    def compiled(_: torch.device, dtype: torch.dtype, vector: int, packs: int) -> RowKernels:
        kernels = host_rows(folder, dtype, vector, packs)
        launch = kernels.module.launch
        kernels.module.launch = lambda name, *rest: name == wrong or launch(name, *rest)
        return kernels

    monkeypatch.setattr(token_rows, "_compile", compiled)
    assert (token_rows._load(card, torch.float16, 8, 2) is None) == bool(wrong)
    assert len(caplog.records) == bool(wrong)


def test_a_driver_that_fails_is_no_error(
    card: torch.device, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> driver.Module:
        raise driver.DriverFailed("cuModuleLoadData: no binary for this card")

    monkeypatch.setattr(nvrtc, "compile_cuda", lambda *_: b"a cubin")
    monkeypatch.setattr(driver, "Module", fail)
    assert not token_rows.working(card)
    assert "no binary for this card" in caplog.text


# On a card


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("shape", [(1000, 2560), (77, 3072), (3, 6912), (5, 12), (1, 1)])
def test_kernels_equal_the_reference_on_a_gpu(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    assert token_rows.working(CARD)
    x, y = (tokens(*shape, dtype=dtype).to(CARD) for _ in range(2))
    scale, shift = tokens(2, shape[1]).to(CARD)
    assert token_rows.find(x) is not None
    wanted = rms_modulate(x, scale, shift, EPS, kernels=False)
    assert_same(rms_modulate(x, scale, shift, EPS), wanted)
    wanted = swiglu(x, y, kernels=False)
    assert_same(swiglu(x, y), wanted)
    wanted = add_gated(x.clone(), y, scale, kernels=False)
    assert_same(add_gated(x, y, scale), wanted)


@pytest.mark.gpu
def test_kernels_reach_beyond_two_billion_values_on_a_gpu() -> None:
    x = torch.ones(2**20, 2560, dtype=torch.float16, device=CARD)
    x[-1] = 3
    add_gated(x, x, torch.ones(2560, device=CARD))
    assert x[-1].eq(6).all()
    assert x[-2].eq(2).all()
