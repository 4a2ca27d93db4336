"""The source of attention with one wide head on the processor, against float64."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.ops import launches as limits
from engine.ops.kernels import build, nvrtc, wide_head
from engine.ops.kernels.wide_head import PROGRAMS, Program, WideHeadKernel
from tests.helpers.extended import extended, rest_extended
from tests.helpers.kernels import HostModule
from tests.helpers.tensors import relative_rms

AMPERE, TURING = "-D__CUDA_ARCH__=860", "-D__CUDA_ARCH__=750"
SMALL = Program(channels=128, keys=32, warps_down=1)
CANARY = 777.0
BARRIER = "__syncthreads();"


def kernel(
    folder: Path, program: Program = SMALL, arch: str = AMPERE, text: str = ""
) -> WideHeadKernel:
    options = *program.options(), arch
    return WideHeadKernel(HostModule(folder, text or build.source("wide_head"), options), program)


def sample(frames: int, queries: int, keys: int, channels: int = 128, scale: float = 1.5) -> Any:
    """q, k and v as thirds of one tensor whose rows after the last are NaN, and values around."""
    rows = max(queries, keys)
    whole = torch.full((frames, rows + 2, 3 * channels + 16), torch.nan).half()
    inner = whole[:, 1 : 1 + rows, 8:-8]
    inner.copy_(torch.randn(inner.shape) * scale)
    inner[..., channels::channels] += 3.0  # keys and values have a mean in some channels
    q, k, v = inner.chunk(3, dim=-1)
    return q[:, :queries], k[:, :keys], v[:, :keys]


def literal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q.double() @ k.double().transpose(1, 2) * q.shape[2] ** -0.5
    return torch.softmax(scores, -1) @ v.double()


def error_of(kernel: WideHeadKernel, q: Tensor, k: Tensor, v: Tensor) -> float:
    found = kernel.attend(q, k, v, q.shape[2] ** -0.5)
    assert found.is_contiguous()
    return relative_rms(found, literal(q, k, v))


SIZES = [(2, 65, 33), (1, 64, 32), (1, 1, 1), (1, 3, 100), (3, 130, 31)]


@pytest.mark.parametrize("arch", [AMPERE, TURING])
@pytest.mark.parametrize("size", SIZES)
def test_the_source_is_attention(size, arch, folder):
    """Blocks that are full or not, in queries and keys; a row of NaN follows the last ones."""
    ours = kernel(folder, arch=arch)
    assert error_of(ours, *sample(*size)) < 6e-4
    assert ours.module.conflicts == 0


@pytest.mark.parametrize("channels", [512, *extended(384)])
def test_heads_of_the_models(channels, folder):
    ours = kernel(folder, PROGRAMS[channels])
    assert error_of(ours, *sample(1, 70, 150, channels)) < 6e-4
    assert ours.module.conflicts == 0


def test_scores_that_are_far_apart_and_grow(folder):
    """Each block of keys has larger scores than all before; earlier sums shrink to nothing."""
    q, k, v = (x.clone() for x in sample(1, 64, 160))
    k *= torch.linspace(0, 40, 160)[:, None]
    q[:] = 2.0
    k[:] = k.abs()
    assert error_of(kernel(folder), q, k, v) < 6e-4
    assert error_of(kernel(folder), q, k.flip(1), v) < 6e-4


def test_scores_far_below_zero_are_not_compared_with_those_of_no_key(folder):
    q, k, v = (x.clone() for x in sample(1, 64, 40))
    k[:] = -k.abs() - 8
    q[:] = q.abs() + 8
    assert error_of(kernel(folder), q, k, v) < 6e-4


def test_values_without_end_and_scores_that_are_no_numbers_stay_in_their_rows(folder):
    q, k, v = sample(1, 66, 40)
    q[0, 5, 7] = torch.nan
    q[0, 65, 0] = torch.inf
    found = kernel(folder).attend(q, k, v, 0.1)
    assert found[0, [5, 65]].isnan().all()
    found[0, [5, 65]] = 0
    assert found.isfinite().all()


def test_nothing_is_written_beside_the_result(folder, monkeypatch):
    q, k, v = sample(2, 70, 40)
    buffer = torch.full((2, 74, 144), CANARY).half()
    monkeypatch.setattr(Tensor, "new_empty", lambda self, shape: buffer[:, 2:72, 8:136])
    found = kernel(folder).attend(q, k, v, 128**-0.5)
    assert relative_rms(found, literal(q, k, v)) < 6e-4
    found.fill_(CANARY)
    assert (buffer == CANARY).all()


def test_long_launches_are_divided(folder, monkeypatch):
    ours, whole = kernel(folder), sample(3, 200, 40)
    wanted = ours.attend(*whole, 0.1)
    assert ours.module.launched == ["attend"]
    for blocks in (1, 3, 8):
        most = blocks * 4 * 64 * 40 * 128
        monkeypatch.setattr(limits, "most_operations", lambda *_, most=most: most)
        ours.module.launched.clear()
        assert torch.equal(ours.attend(*whole, 0.1), wanted)
        assert len(ours.module.launched) == {1: 12, 3: 6, 8: 2}[blocks]


@pytest.mark.parametrize("barrier", range(4))
def test_a_missing_barrier_gives_wrong_results(barrier, folder):
    parts = build.source("wide_head").split(BARRIER)
    assert len(parts) == 5
    text = (
        BARRIER.join(parts[: barrier + 1])
        + BARRIER.join(["", *parts[barrier + 1 :]])[len(BARRIER) :]
    )
    broken = kernel(folder, text=text)
    broken.module.copies_late = False
    with pytest.raises(AssertionError):
        for late in (False, True):
            broken.module.copies_late = late
            assert error_of(broken, *sample(1, 64, 160)) < 6e-4


def test_offsets_reach_beyond_two_billion_values(folder, tmp_path):
    pitch = 2**31 + 64
    whole = torch.from_file(str(tmp_path / "x"), shared=True, size=3 * pitch, dtype=torch.float16)
    q, k, v = (whole[n * 128 :].as_strided((1, 2, 128), (8, pitch, 1)) for n in range(3))
    for x in (q, k, v):
        x.normal_()
    assert error_of(kernel(folder), q, k, v) < 6e-4
    q, k, v = (whole[n * 128 :].as_strided((2, 1, 128), (pitch, 8, 1)) for n in range(3))
    assert error_of(kernel(folder), q, k, v) < 6e-4


def test_what_does_not_fit_is_left_to_others(monkeypatch):
    monkeypatch.setattr(build, "is_gpu", lambda device: True)
    monkeypatch.setattr(wide_head.KERNELS, "load", lambda *_: "kernel")
    q, k, v = sample(1, 7, 7, 512)
    assert wide_head.find(q, k, v) == "kernel"
    assert wide_head.find(q.float(), k.float(), v.float()) is None
    assert wide_head.find(*(x[..., :256] for x in (q, k, v))) is None
    assert wide_head.find(q, k[:, :0], v[:, :0]) is None
    odd = torch.zeros(1, 7, 516).half()[..., 4:]
    assert wide_head.find(q, k, odd) is None


ARCHITECTURES = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]
CUBINS = zip(PROGRAMS, (ARCHITECTURES[0], ARCHITECTURES[-1]), strict=True)


@pytest.mark.parametrize(
    ("channels", "arch"), rest_extended(product(PROGRAMS, ARCHITECTURES), *CUBINS)
)
def test_the_source_compiles_for_every_gpu(channels, arch):
    cubin = nvrtc.compile_cuda(build.source("wide_head"), arch, PROGRAMS[channels].options())
    assert b"attend" in cubin
    assert PROGRAMS[channels].shared_bytes <= 64 * 1024


@pytest.mark.gpu
@pytest.mark.parametrize("channels", PROGRAMS)
def test_the_kernel_equals_float64_on_a_gpu(channels):
    q, k, v = (x.cuda() for x in sample(2, 1000, 777, channels))
    ours = wide_head.find(q, k, v)
    assert ours is not None
    assert error_of(ours, q, k, v) < 1e-3
