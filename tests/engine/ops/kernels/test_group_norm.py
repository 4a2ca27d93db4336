from __future__ import annotations

import logging
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ops.kernels import build, driver, group_norm, nvrtc
from engine.ops.kernels.group_norm import GroupNormGrid, GroupNormKernels, grid_for, vector_of
from engine.ops.norm import group_norm as norm
from tests.helpers import kernels as kernel_grid
from tests.helpers.kernels import HAS_COMPILER, host_module

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
CPU = torch.device("cpu")

on_host = pytest.mark.skipif(not HAS_COMPILER, reason="no g++ to run the source with")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("host")


def host_kernels(folder, dtype, vector, group):
    return host_module(folder, "group_norm", dtype, VECTOR=vector, GROUP=group)


@pytest.fixture
def _on_host(monkeypatch, folder):
    """The processor stands in for a card of two processors that runs the very source."""
    modules = []

    def compiled(device, dtype, vector, group):
        modules.append(host_kernels(folder, dtype, vector, group))
        return GroupNormKernels(modules[-1])

    monkeypatch.setattr(group_norm, "working", lambda device: True)
    monkeypatch.setattr(group_norm, "_load", compiled)
    monkeypatch.setattr(build, "processors", lambda device: 2)
    yield
    launched = {name for module in modules for name in module.launched}
    assert launched >= {"group_statistics", "normalise"}, "the reference did the work"


def frames(shape, dtype=torch.float32):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3)) * 2 + 5
    return x.to(dtype).to(memory_format=torch.channels_last)


def tolerance(dtype):
    eps = max(torch.finfo(dtype).eps, 1e-6)
    return {"rtol": eps, "atol": eps}


# Which thread takes which number


@settings(max_examples=25, deadline=None)
@given(
    size=st.tuples(st.integers(1, 3), st.integers(1, 12), st.integers(1, 40)),
    channels=st.sampled_from([(12, 3, 1), (16, 4, 4), (32, 4, 8), (32, 16, 4), (64, 2, 8)]),
    processors=st.integers(1, 3),
)
def test_every_value_is_taken_once(size, channels, processors):
    (t, height, width), (count, group, vector) = size, channels
    grid = grid_for(torch.Size((t, count, height, width)), group, vector, processors)
    strides = (50_000, count * (width + 3), count)  # a box of a wider buffer
    taken = list(kernel_grid.addresses(grid, strides))
    every = torch.arange(t * 50_000).as_strided((t, height, width, count), (*strides, 1))
    assert sorted(taken) == every.flatten().tolist()


@settings(max_examples=25, deadline=None)
@given(
    size=st.tuples(st.integers(1, 9), st.integers(1, 25)),
    channels=st.sampled_from([(12, 3, 1), (16, 4, 4), (16, 4, 8), (32, 16, 4), (24, 6, 2)]),
)
def test_the_order_of_the_kernel_gives_the_same_statistics(size, channels):
    (height, width), (count, group, vector) = size, channels
    x = frames((1, count, height, width))
    grid = grid_for(x.shape, group, vector, 1)
    frame = x[0].permute(1, 2, 0).numpy()
    parts = [kernel_grid.moments(frame, grid, block) for block in range(grid.blocks)]
    assert {part[0] for part in parts[-1]} == {grid.in_last * group}
    mean, m2 = (
        torch.tensor(np.array([[part[i] for part in block] for block in parts]))[None, ..., None]
        for i in (1, 2)
    )
    found = norm.combine((grid.per_block * group, grid.in_last * group), mean, m2)
    wanted = norm.group_statistics(x.double(), count // group)
    assert found.count == wanted.count
    torch.testing.assert_close(found.mean, wanted.mean, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found.m2, wanted.m2, rtol=2e-6, atol=1e-4)


@pytest.mark.parametrize("size", [(40, 512, 2160, 3840), (2, 8, 32_768, 32_768), (9, 128, 1, 9)])
def test_the_last_number_of_huge_frames_is_reached(size):
    t, channels, height, width = size
    grid = grid_for(torch.Size(size), channels // 4, 4, 170)
    rows = [list(kernel_grid.traversal(grid, grid.blocks - 1, row)) for row in range(grid.rows)]
    assert max(pixel for row in rows for pixel in row) == (height - 1, width - 1)
    strides = (height * width * channels, width * channels, channels)
    last = (t - 1) * strides[0] + (height - 1) * strides[1] + (width - 1) * strides[2]
    assert last + grid.lanes * grid.vector == math.prod(size)
    assert grid.blocks * grid.per_block >= grid.pixels
    assert max(grid.blocks * grid.per_block, grid.frames) <= kernel_grid.INT_MAX


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
    assert 0 < grid.in_last <= grid.per_block


# What fits


def test_half_precision_is_read_eight_channels_at_once():
    assert vector_of(4, frames((1, 128, 3, 3), torch.float16)) == 8
    assert vector_of(16, frames((1, 512, 3, 3), torch.bfloat16)) == 8
    assert vector_of(4, frames((1, 128, 3, 3))) == 4


def test_alignment_and_groups_narrow_the_reading():
    buffer = torch.zeros(2000, dtype=torch.float16)
    shifted = buffer[2:].as_strided((1, 8, 3, 3), (72, 1, 24, 8))
    assert vector_of(4, shifted) == 2
    assert vector_of(3, frames((1, 12, 3, 3), torch.float16)) == 1
    assert vector_of(6, frames((1, 24, 3, 3), torch.float16)) == 2


def test_what_does_not_fit_is_left_to_the_reference():
    assert vector_of(4, frames((1, 8, 3, 3)).contiguous()) == 0
    assert vector_of(4, frames((1, 8, 3, 3), torch.float64)) == 0
    assert vector_of(4, frames((1, 8, 0, 3))) == 0
    assert vector_of(4, torch.zeros(4, 1, 1).expand(70_000, 4, 1, 1)) == 0


def test_without_a_gpu_there_are_no_kernels(caplog):
    x = frames((1, 8, 3, 3))
    assert group_norm.find(x, 2) is None
    assert not group_norm.working(CPU)
    assert not caplog.records


# The very source, on the processor


@on_host
@pytest.mark.usefixtures("_on_host")
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(2, 64, 7, 13), (1, 64, 1, 1), (1, 64, 23, 31)])
def test_the_source_equals_group_norm_and_silu(name, shape):
    dtype, groups = DTYPES[name], 16
    x, (weight, bias) = frames(shape, dtype), torch.randn(2, shape[1]).to(dtype)
    out = torch.full_like(x, math.nan)
    norm.group_norm_silu(x, weight, bias, groups, 1e-6, out, kernels=True)
    wanted = F.silu(F.group_norm(x.double(), groups, weight.double(), bias.double(), 1e-6))
    torch.testing.assert_close(out.double(), wanted, **tolerance(dtype))


@on_host
@pytest.mark.usefixtures("_on_host")
@pytest.mark.parametrize("name", DTYPES)
def test_the_source_writes_a_box_into_a_part_of_a_ring(name):
    dtype = DTYPES[name]  # the weights stay in float32
    box = frames((3, 32, 12, 15), dtype)[1:, :, 2:11, 3:14]
    ring = torch.zeros(4, 32, 13, 14, dtype=dtype).to(memory_format=torch.channels_last)
    out = ring[2:, :, 1:10, 2:13]
    weight, bias = torch.randn(2, 32)
    norm.group_norm_silu(box, weight, bias, 8, 1e-6, out, silu=False, kernels=True)
    wanted = F.group_norm(box.double(), 8, weight.double(), bias.double(), 1e-6)
    torch.testing.assert_close(out.double(), wanted, **tolerance(dtype))
    out.zero_()
    assert not ring.any()


@on_host
@pytest.mark.usefixtures("_on_host")
def test_the_source_normalises_groups_of_several_threads_in_place():
    x = frames((1, 64, 9, 20), torch.float16)
    weight, bias = torch.randn(2, 64).half()
    wanted = F.silu(F.group_norm(x.double(), 4, weight.double(), bias.double(), 1e-6))
    norm.group_norm_silu(x, weight, bias, 4, 1e-6, x, kernels=True)
    torch.testing.assert_close(x.double(), wanted, **tolerance(torch.float16))


@on_host
@pytest.mark.usefixtures("_on_host")
def test_statistics_and_normalise_of_the_source_work_apart():
    x = frames((2, 16, 8, 9))
    weight, bias = torch.randn(2, 16)
    whole = norm.group_statistics(x[:, :, :3], 4, kernels=True)
    whole = whole.merge(norm.group_statistics(x[:, :, 3:], 4, kernels=True))
    plain = norm.group_statistics(x.double(), 4)
    assert whole.count == plain.count
    torch.testing.assert_close(whole.mean, plain.mean, rtol=1e-6, atol=0)
    torch.testing.assert_close(whole.m2, plain.m2, rtol=1e-5, atol=0)
    scale, shift = norm.scale_and_shift(whole, weight, bias, 1e-6)
    out = torch.empty_like(x)
    norm.normalise(x, scale, shift, out, silu=True, kernels=True)
    wanted = F.silu(F.group_norm(x.double(), 4, weight.double(), bias.double(), 1e-6))
    torch.testing.assert_close(out.double(), wanted, **tolerance(torch.float32))


# Trying the kernels at the start


@pytest.fixture
def card(monkeypatch):
    """A device that says it is a card; what it compiles is set by the test."""
    device = torch.device("cuda", 0)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (8, 6))
    group_norm.working.cache_clear()
    group_norm._load.cache_clear()
    yield device
    group_norm.working.cache_clear()
    group_norm._load.cache_clear()


def raising(error):
    def fail(*_):
        raise error

    return fail


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ((nvrtc, "find"), nvrtc.NvrtcMissing("no library here")),
        ((nvrtc, "compile_cuda"), nvrtc.CompileFailed("upreel.cu(1): error")),
        ((driver, "Module"), driver.DriverFailed("cuModuleLoadData: no binary for this card")),
    ],
)
def test_what_fails_switches_the_kernels_off_with_one_warning(
    where, error, card, monkeypatch, caplog
):
    if where[0] is driver:
        monkeypatch.setattr(nvrtc, "compile_cuda", lambda *_: b"a cubin")
    monkeypatch.setattr(*where, raising(error))
    with caplog.at_level(logging.WARNING):
        assert not group_norm.working(card)
        assert not group_norm.working(card)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert str(error) in record.getMessage()


class Deaf:
    """A module whose kernels do nothing."""

    def launch(self, *_):
        pass


def test_wrong_results_switch_the_kernels_off(card, monkeypatch, caplog):
    monkeypatch.setattr(group_norm, "_compile", lambda *_: GroupNormKernels(Deaf()))
    measured = group_norm._error
    monkeypatch.setattr(
        group_norm, "_error", lambda kernels, device, *rest: measured(kernels, CPU, *rest)
    )
    assert not group_norm.working(card)
    (record,) = caplog.records
    assert "wrong" in record.getMessage()


@on_host
def test_right_results_keep_the_kernels_on(card, monkeypatch, caplog, folder):
    def compiled(device, dtype, vector, group):
        return GroupNormKernels(host_kernels(folder, dtype, vector, group))

    measured = group_norm._error
    monkeypatch.setattr(group_norm, "_compile", compiled)
    monkeypatch.setattr(
        group_norm, "_error", lambda kernels, device, *rest: measured(kernels, CPU, *rest)
    )
    assert group_norm.working(card)
    assert not caplog.records


# On a card


@pytest.mark.gpu
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize(
    ("shape", "groups"),
    [
        ((5, 128, 37, 53), 32),
        ((2, 256, 64, 33), 32),
        ((1, 512, 17, 19), 32),
        ((1, 12, 7, 5), 4),
        ((3, 128, 256, 256), 32),
    ],
)
def test_kernels_equal_the_reference_on_a_gpu(name, shape, groups):
    dtype, device = DTYPES[name], torch.device("cuda", 0)
    assert group_norm.working(device)
    x = frames(shape, dtype).to(device)
    weight, bias = torch.randn(2, shape[1]).to(device, dtype)
    assert group_norm.find(x, groups) is not None
    for box in (x, x[:, :, 1:-1, 2:-2]):
        ours, twins = torch.zeros_like(x), torch.zeros_like(x)
        target = (slice(None), slice(None), slice(0, box.shape[2]), slice(0, box.shape[3]))
        norm.group_norm_silu(box, weight, bias, groups, 1e-6, ours[target], kernels=True)
        norm.group_norm_silu(box, weight, bias, groups, 1e-6, twins[target])
        torch.testing.assert_close(ours.double(), twins.double(), **tolerance(dtype))


@pytest.mark.gpu
def test_kernels_reach_beyond_two_billion_values():
    device = torch.device("cuda", 0)
    x = torch.ones(3, 1024, 1024, 768, device=device, dtype=torch.float16).permute(0, 3, 1, 2)
    x[-1, :, -1, -1] = 3
    weight = torch.ones(768, device=device, dtype=torch.float16)
    found = norm.group_statistics(x, 32, kernels=True)
    torch.testing.assert_close(found.m2[0], torch.zeros_like(found.m2[0]))
    assert (found.m2[2] > 90).all()
    norm.group_norm_silu(x, weight, 0 * weight, 32, 1e-6, x, silu=False, kernels=True)
    assert (x[-1, :, -1, -1] > 100).all()
    assert (x[-1, :, -1, -2].abs() < 1).all()


def test_a_grid_has_its_shared_memory():
    grid = GroupNormGrid(
        frames=2, width=9, pixels=90, channels=32, group=4, vector=8, rows=8, per_block=32
    )
    assert (grid.lanes, grid.blocks, grid.in_last) == (4, 3, 26)
    assert grid.shared_bytes == 8 * 8 * 12
