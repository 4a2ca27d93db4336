"""No launch of a GPU is long enough for Windows to restart its driver."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from engine.bench.memory import peak_bytes
from engine.hardware import gpu_table
from engine.hardware.gpu_table import GIB, GpuSpec, gpu_specs
from engine.models.seedvr2.dit.config import group_rows, layer_windows
from engine.models.seedvr2.files import TEXT_TOKENS, configs
from engine.models.seedvr2.plan import SeedVr2Plan
from engine.models.seedvr2.requirements import _grid
from engine.ops import launches
from engine.ops.attention import single_head
from engine.ops.attention.backends import Backend
from engine.ops.conv import temporal_conv
from engine.ops.conv.temporal_conv import TemporalConv, laid_out
from engine.ops.kernels import conv_tiles
from engine.ops.kernels.conv_tiles import Program, Taps, tile_for
from engine.planner.gpu_speed import OF_GENERATION, SHARES
from tools.reports.plan_table import case_of

CUDA = torch.device("cuda")
_MOST_OPERATIONS = launches.most_operations.__wrapped__  # without its cache


def limited(operations: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "most_operations", lambda *_: operations)


@pytest.mark.parametrize("form", ["2d", "3d"])
@pytest.mark.parametrize("reach", [1, 3])
@pytest.mark.parametrize("adds", [False, True])
def test_a_convolution_in_several_calls_is_the_same(
    form: str, reach: int, adds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(6, 4, reach, 3, 3, generator=generator, dtype=torch.float64)
    frames = torch.randn(7, 4, 8, 10, generator=generator, dtype=torch.float64)
    frames = frames.to(memory_format=torch.channels_last)
    conv = TemporalConv(laid_out(weight, form), None, padding=1, form=form)
    steps = conv.steps(len(frames))
    into = torch.randn(steps, 6, 8, 10, generator=generator, dtype=torch.float64)
    into = into.to(memory_format=torch.channels_last)
    wanted = conv.apply(frames, into.clone() if adds else None)
    sizes: list[int] = []
    step = 2 * weight.numel() * 80
    limited(2.5 * step, monkeypatch)
    real = launches.trials_bounded

    def seen(operations: float, *about: object) -> object:
        sizes.append(round(operations / step * reach))
        return real(operations, *about)

    monkeypatch.setattr(launches, "trials_bounded", seen)
    found = conv.apply(frames, into if adds else None)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    assert max(sizes, default=0) <= 2 * reach, "two steps at a time"


@pytest.mark.parametrize("most", [1, 4])
def test_a_convolution_in_several_calls_takes_no_more_memory(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces for the memory inside pieces for the time held two results."""
    weight = torch.zeros(32, 8, 3, 3, 3, dtype=torch.bfloat16)
    frames = torch.zeros(10, 8, 32, 32, dtype=torch.bfloat16)
    conv = TemporalConv(laid_out(weight, "2d"), None, padding=1)
    monkeypatch.setattr(temporal_conv, "_PIECE_BYTES", 3 * frames[:1].nbytes)  # of one step
    conv.apply(frames)  # oneDNN's own memory is taken once
    whole = peak_bytes(lambda: conv.apply(frames), "cpu")
    limited((most + 0.5) * 2 * weight.numel() * 32 * 32, monkeypatch)
    assert peak_bytes(lambda: conv.apply(frames), "cpu") <= whole


@pytest.mark.parametrize(("most", "calls"), [(1e9, [(3, 300)]), (2.5, [(2, 300), (1, 300)])])
def test_frames_are_attended_some_at_a_time(
    most: float, calls: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    check_attention(most * 4 * 300 * 300 * 8, calls, monkeypatch)


def test_queries_of_a_frame_are_attended_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    each = [(1, 128), (1, 128), (1, 44)]
    check_attention(4 * 150 * 300 * 8, 3 * each, monkeypatch)


def check_attention(
    operations: float, calls: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []

    def run(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        seen.append((q.shape[0], q.shape[2]))
        return torch.softmax(q @ k.transpose(-1, -2) * scale, dim=-1) @ v

    q, k, v = torch.randn(3, 3, 300, 8, dtype=torch.float64)
    limited(operations, monkeypatch)
    found = single_head._in_launches(Backend(name="formula", run=run), q, k, v)
    wanted = torch.softmax(q @ k.transpose(-1, -2) * 8**-0.5, dim=-1) @ v
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    assert seen == calls


def test_cudnn_tries_nothing_that_may_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(10.0, monkeypatch)
    with torch.backends.cudnn.flags(benchmark=True):
        for operations, tries in ((1.0, True), (1.1, False)):
            with launches.trials_bounded(operations, CUDA, torch.float16):
                assert torch.backends.cudnn.benchmark == tries
            assert torch.backends.cudnn.benchmark
    with (
        torch.backends.cudnn.flags(benchmark=False),
        launches.trials_bounded(1.0, CUDA, torch.float16),
    ):
        assert not torch.backends.cudnn.benchmark


def test_a_processor_has_no_limit() -> None:
    for kind in ("convolution", "attention"):
        assert launches.most_operations(kind, torch.device("cpu"), torch.float32) == math.inf


def most_of(
    kind: launches.Kind, gpu: GpuSpec, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> float:
    """Limit on a GPU."""
    about = SimpleNamespace(
        name=gpu.name,
        total_memory=gpu.memory_bytes,
        multi_processor_count=gpu.multiprocessors,
    )
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: about)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: gpu.capability)
    return _MOST_OPERATIONS(kind, CUDA, dtype)


def test_our_kernel_is_divided_for_the_gpu_that_it_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four frames of 1080p through the largest layer of a decoder, by multiprocessors."""
    layer = Program(taps=Taps(256, 256, 3, 3, 3), tile=tile_for(256))
    counts, blocks = dict[int, int](), 4 * 2 * 135 * 120
    for gpu in (*gpu_specs(), unknown(8), unknown(132)):
        most = most_of("convolution", gpu, torch.float16, monkeypatch)
        limited(most, monkeypatch)
        parts = list(conv_tiles.launches(layer, torch.Size((4, 256, 1080, 1920)), CUDA))
        assert sum(math.prod(part.blocks) for part in parts) == blocks
        for part in parts:
            seconds = math.prod(part.blocks) * layer.block_operations / gpu.half_flops
            assert seconds / 0.25 <= launches.LONGEST_S, gpu.title
        counts[gpu.multiprocessors] = len(parts)
    assert counts[16] > 10, "RTX 2050"
    assert counts[128] < 4, "RTX 4090"
    assert counts[8] > counts[16]
    assert counts[132] < 4


def unknown(multiprocessors: int) -> GpuSpec:
    """A GPU of no table that computes as those of its generation."""
    known = gpu_table.named("RTX 4080 Laptop GPU")
    half = known.half_flops / known.multiprocessors * multiprocessors
    return replace(known, name="RTX 1", half_flops=half, multiprocessors=multiprocessors)


def seconds_of_launches(
    gpu: GpuSpec, plan: SeedVr2Plan, monkeypatch: pytest.MonkeyPatch
) -> dict[str, float]:
    """Predicted seconds of the longest launch of each kind on a GPU."""
    dit, vae = configs(plan)
    dtype: torch.dtype = getattr(torch, plan.vae_dtype)
    half = gpu.half_flops * OF_GENERATION[gpu.generation]
    calls = most_of("convolution", gpu, dtype, monkeypatch)
    queries = most_of("attention", gpu, dtype, monkeypatch)
    is_half = plan.vae_dtype != "float32"
    convolving = half * SHARES.convolutions if is_half else gpu.single_flops * 0.5
    attending = half * SHARES.single_head if is_half else gpu.single_flops * 0.5
    tiles = (plan.encode_tile or plan.padded, plan.decode_tile or plan.padded)
    narrow, wide = vae.block_out_channels[:2]
    step = 2 * 27 * narrow * wide * max(tile.pixels for tile in tiles)  # the largest layer
    tokens = plan.padded.pixels // 64
    query = 4 * tokens * vae.block_out_channels[-1]
    rows = group_rows(dit)
    found = (layer_windows(dit, _grid(plan), shifted=odd) for odd in (False, True))
    window = max(one.tokens for windows in found for one in windows) + TEXT_TOKENS
    return {
        "convolution": max(step, min(5 * step, calls)) / convolving,
        "single head": max(128 * query, min(query * tokens, queries)) / attending,
        "product": 2 * dit.dim * dit.mlp_hidden * rows / (half * SHARES.products),
        "windows": 4 * dit.inner_dim * window * max(rows, window) / (half * 0.5),
    }


def check(gpu: GpuSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    for height in (720, 1080, 2160):
        for choice in ("3B", "Balanced", "Best"):
            case = case_of(gpu, height, choice)
            if not case.fits or not isinstance(case.plan.work, SeedVr2Plan):
                continue
            for name, seconds in seconds_of_launches(gpu, case.plan.work, monkeypatch).items():
                what = f"{gpu.title}, {height}, {choice}: {name}"
                assert seconds <= launches.LONGEST_S, what


def test_no_launch_of_the_slowest_gpus_is_planned_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpus = [gpu for gpu in gpu_specs() if gpu.memory_bytes >= 8 * GIB]
    slowest = {min(gpus, key=lambda gpu: gpu.half_flops), min(gpus, key=lambda g: g.single_flops)}
    for gpu in slowest:
        check(gpu, monkeypatch)


@pytest.mark.slow
def test_no_launch_of_any_gpu_is_planned_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    for gpu in gpu_specs():
        check(gpu, monkeypatch)
