"""The convolution's CUDA source on the processor, against float64."""

from __future__ import annotations

import logging
import math
import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engine.core.errors import ChoiceMissing
from engine.ops import launches as limits
from engine.ops.choices import Choices, following
from engine.ops.conv import folds
from engine.ops.kernels import build, conv, conv_tiles, nvrtc
from engine.ops.kernels.conv import ConvKernel, Factors, Work
from engine.ops.kernels.conv_tiles import TILES, Program, Taps, Tile, launches, tile_for
from engine.ops.kernels.group_norm import GroupNormKernels
from tests.helpers.kernel_sums import kernel_sums
from tests.helpers.kernels import HostModule, host_module

SMALL = Tile(channels=32, warps=(2, 2), height=4, width=16)
NARROW = Tile(channels=16, warps=(4, 1), height=4, width=16)
CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
CANARY, LAST = 777.0, torch.channels_last
AMPERE, TURING = "-D__CUDA_ARCH__=860", "-D__CUDA_ARCH__=750"


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer as a VAE has it, on small frames."""

    taps: Taps
    size: tuple[int, int, int]  # frames, height, width of the input
    time_stride: int = 1
    before: int = 0  # past frames
    above: int = 0  # zeros on two sides, and on the others as many as `below`
    below: int = 0

    def result(self) -> tuple[int, int, int, int]:
        taps, (count, *sides) = self.taps, self.size
        lines = [side + self.above + self.below for side in sides]
        kernel = taps.rows, taps.columns
        return (
            (self.before + count - taps.reach) // self.time_stride + 1,
            taps.outer,
            *((n - k) // taps.stride + 1 for n, k in zip(lines, kernel, strict=True)),
        )


def same(taps: Taps, *size: int) -> Layer:
    """A causal convolution as wide as its result."""
    margin = taps.rows // 2
    return Layer(taps=taps, size=size, before=taps.reach - 1, above=margin, below=margin)


# Kinds of layers of SeedVR2, Wan 2.1 and Wan 2.2, whose channels are divided by up to 16 where that
# leaves the kind: chunks that are full, not full, or one; all odd and even sizes around a tile.
LAYERS = {
    "3x3x3 of every family": same(Taps(32, 64, 3, 3, 3), 3, 5, 17),
    "96 channels of Wan 2.1": same(Taps(48, 48, 3, 3, 3), 1, 4, 16),
    "160 channels of Wan 2.2": same(Taps(40, 40, 3, 3, 3), 2, 3, 33),
    "a single pixel": same(Taps(32, 32, 3, 3, 3), 1, 1, 1),
    "latents of 16 channels": same(Taps(32, 16, 3, 3, 3), 1, 6, 7),
    "latents of 48 channels": same(Taps(32, 48, 3, 3, 3), 1, 6, 7),
    "encoder's last": same(Taps(32, 32, 3, 3, 3), 1, 4, 15),
    "decoder's last, 3 colours": same(Taps(3, 32, 3, 3, 3), 1, 5, 18),
    "decoder's last of Wan 2.2": same(Taps(12, 32, 3, 3, 3), 1, 5, 18),
    "a frame alone": same(Taps(32, 32, 1, 3, 3), 1, 8, 16),
    "shortcut": same(Taps(32, 64, 1, 1, 1), 2, 5, 19),
    "time of Wan": same(Taps(32, 64, 3, 1, 1), 2, 5, 19),
    "downsampler": Layer(taps=Taps(32, 32, 3, 3, 3, 2), size=(1, 9, 35), before=2, below=1),
    "downsampler, even": Layer(taps=Taps(32, 48, 1, 3, 3, 2), size=(2, 8, 32), below=1),
    "downsampler over time": Layer(
        taps=Taps(32, 32, 3, 3, 3, 2), size=(4, 6, 18), before=1, below=1, time_stride=2
    ),
    "time of Wan's downsampler": Layer(
        taps=Taps(32, 32, 3, 1, 1), size=(4, 5, 17), before=1, time_stride=2
    ),
    "phases": Layer(taps=Taps(32, 32, 2, 2, 2), size=(2, 5, 17), before=1, above=1, below=1),
}


def program(taps: Taps, promote: int = conv_tiles.PROMOTE, **others: Any) -> Program:
    tile = NARROW if taps.outer <= NARROW.channels else SMALL
    return Program(**{"taps": taps, "tile": tile, "promote": promote, **others})


def kernel(folder: Path, program: Program, text: str = "", arch: str = AMPERE) -> ConvKernel:
    options = *program.options(), arch
    return ConvKernel(HostModule(folder, text or build.source("conv"), options), program)


def whole_numbers(*shape: int) -> Tensor:
    """Values whose sums of products are exact in half precision."""
    return torch.randint(-2, 3, shape).half()


def inside(frames: Tensor, around: float = torch.nan) -> tuple[Tensor, Tensor]:
    """Channels-last frames inside a buffer of one value: the buffer and the frames."""
    count, channels, height, width = frames.shape
    shape = count + 2, height + 2, width + 2, channels + 16
    like: Any = {"dtype": frames.dtype, "device": frames.device}
    buffer = torch.full(shape, around, **like).permute(0, 3, 1, 2)
    view = buffer[1:-1, 8:-8, 1:-1, 1:-1]
    view.copy_(frames)
    return buffer, view


def work_of(
    layer: Layer, values: Any = whole_numbers, device: torch.device | str = "cpu"
) -> tuple[Tensor, Work, Tensor]:
    """Weights and frames of a layer, and the buffer around its result."""

    def numbers(*shape: int) -> Tensor:
        return values(*shape).to(device)

    taps = layer.taps
    weight = numbers(taps.outer, taps.inner, taps.reach, taps.rows, taps.columns)
    count, height, width = layer.size
    _, frames = inside(numbers(count, taps.inner, height, width))
    past = None
    if layer.before:
        _, past = inside(numbers(layer.before, taps.inner, height, width))
    buffer, out = inside(torch.zeros(layer.result()).half().to(device), CANARY)
    sides = {"above": layer.above, "left": layer.above, "time_stride": layer.time_stride}
    return weight, Work(frames=frames, out=out, past=past, **sides), buffer


def truth(weight: Tensor, work: Work, stride: int = 1) -> Tensor:
    """The convolution in float64; zeros below and to the right as far as the result needs them."""
    height, width = work.out.shape[2:]
    zeros = work.frames.new_zeros(work.past_count, *work.frames.shape[1:])
    clip = torch.cat([zeros if work.past is None else work.past, work.frames])
    padded = F.pad(clip.double(), (work.left, weight.shape[4], work.above, weight.shape[3]))
    strides = work.time_stride, stride, stride
    found = F.conv3d(padded.movedim(0, 1)[None], weight.double(), None, strides)
    found = found[0].movedim(1, 0)[:, :, :height, :width]
    if work.bias is not None:
        found = found + work.bias.double()[:, None, None]
    return found if work.residual is None else found + work.residual.double()


def assert_exact(ours: ConvKernel, weight: Tensor, work: Work, buffer: Tensor) -> None:
    """The result, nothing beside it, and no conflict of banks."""
    wanted = truth(weight, work, ours.program.taps.stride)
    outside = (buffer == CANARY).sum()
    ours.convolve(ours.program.packed(weight), work)
    assert torch.equal(work.out.double(), wanted)
    assert (buffer == CANARY).sum() >= outside
    assert ours.module.conflicts == 0


@pytest.mark.parametrize("name", LAYERS)
def test_every_kind_of_layer_is_exact(folder, name):
    layer = LAYERS[name]
    weight, work, buffer = work_of(layer)
    ours = kernel(folder, program(layer.taps, store=work.store))
    assert_exact(ours, weight, work, buffer)


@pytest.mark.parametrize("promote", [0, conv_tiles.PROMOTE_TURING])
def test_gpus_without_asynchronous_copies_have_their_own_instructions(folder, promote):
    layer = LAYERS["3x3x3 of every family"]
    weight, work, buffer = work_of(layer)
    assert_exact(kernel(folder, program(layer.taps, promote), arch=TURING), weight, work, buffer)


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: str(tile.channels))
def test_every_tile_is_exact(folder, tile):
    layer = same(Taps(tile.channels + 8, 40, 1, 3, 3), 1, 9, 17)
    weight, work, buffer = work_of(layer)
    ours = kernel(folder, program(layer.taps, tile=tile))
    assert_exact(ours, weight, work, buffer)


def test_before_a_clip_are_copies_of_its_first_frame_or_zeros(folder):
    layer = LAYERS["3x3x3 of every family"]
    weight, work, buffer = work_of(layer)
    ours = kernel(folder, program(layer.taps))
    copies = work.frames[:1].expand(2, -1, -1, -1)
    for past, count in ((copies, 2), (None, 2)):
        assert_exact(ours, weight, replace(work, past=past, past_count=count), buffer)
    single = replace(work, past=None, frames=work.frames, out=work.out[:1])
    assert_exact(ours, weight, single, buffer)


def test_bias_and_residual_are_added_before_the_only_rounding(folder):
    layer = same(Taps(32, 32, 1, 3, 3), 2, 5, 18)
    weight, work, _ = work_of(layer)
    bias = torch.linspace(-1, 1, 32)
    _, residual = inside(torch.randn(work.out.shape).half())
    ours = kernel(folder, program(layer.taps))
    added = replace(work, bias=bias, residual=residual)
    wanted = truth(weight, added).half()
    ours.convolve(ours.program.packed(weight), added)
    torch.testing.assert_close(work.out, wanted, rtol=2**-11, atol=0)
    work.out.copy_(residual)
    ours.convolve(ours.program.packed(weight), replace(added, residual=work.out))
    torch.testing.assert_close(work.out, wanted, rtol=2**-11, atol=0)


def normed(x: Tensor, factors: Factors | None, silu: bool) -> Tensor:
    """Frames with the norm that they lack, rounded once."""
    if factors is None:
        return x
    found = x.double() * factors.scale.expand(x.shape[:2])[:, :, None, None]
    if factors.of_pixel is not None:
        found = found * factors.of_pixel[:, None]
    if factors.shift is not None:
        found = found + factors.shift[:, :, None, None]
    return (F.silu(found) if silu else found).half()


def group_factors() -> Factors:
    return Factors(torch.rand(2, 48) + 0.5, torch.randn(2, 48))


def rms_factors() -> Factors:
    return Factors(torch.rand(48) + 0.5, None, torch.rand(2, 5, 18) + 0.5)


NORMS = {  # the norm; factors of new and of past frames; SiLU
    "GroupNorm": ("group", group_factors, group_factors, True),
    "RMS norm": ("rms", rms_factors, rms_factors, True),
    "without SiLU": ("group", group_factors, group_factors, False),
    "the past has its norm": ("group", group_factors, lambda: None, True),
}


@pytest.mark.parametrize("arch", [AMPERE, TURING])
@pytest.mark.parametrize("name", NORMS)
def test_frames_are_normalised_on_their_way_and_zeros_around_them_stay(folder, name, arch):
    kind, new, past, silu = NORMS[name]
    layer = same(Taps(32, 48, 3, 3, 3), 2, 5, 18)
    weight, work, buffer = work_of(layer, lambda *shape: torch.randn(shape).half())
    work = replace(work, norm=new(), past_norm=past(), silu=silu)
    frames = {
        "frames": normed(work.frames, work.norm, silu),
        "past": normed(work.past, work.past_norm, silu),
    }
    wanted, outside = truth(weight, replace(work, **frames)), (buffer == CANARY).sum()
    ours = kernel(folder, program(layer.taps, 0, norm=kind), arch=arch)
    ours.convolve(ours.program.packed(weight), work)
    assert (buffer == CANARY).sum() >= outside
    difference = (work.out.double() - wanted).abs().max() / wanted.abs().max()
    assert difference < 1e-3


@pytest.mark.parametrize("group", [4, 8, 16])
def test_statistics_of_the_result_come_with_it(folder, group):
    layer = same(Taps(64, 32, 1, 3, 3), 2, 5, 18)
    weight, work, _ = work_of(layer)
    work = replace(work, residual=whole_numbers(*work.out.shape).contiguous(memory_format=LAST))
    ours = kernel(folder, program(layer.taps, group=group, tile=TILES[2]))
    wanted = truth(weight, work)
    statistics = ours.convolve(ours.program.packed(weight), work)
    assert torch.equal(work.out.double(), wanted)
    module = host_module(folder, "group_norm", torch.float16, VECTOR=8, GROUP=group)
    factors = torch.randn(2, 64)
    scale, shift = GroupNormKernels(module).scale_and_shift(statistics, tuple(factors), 1e-6)
    found = wanted * scale[:, :, None, None] + shift[:, :, None, None]
    normed = F.group_norm(wanted, 64 // group, *factors.double(), 1e-6)
    torch.testing.assert_close(found, normed, rtol=1e-5, atol=1e-5)


def test_phases_are_written_between_each_other(folder):
    weight = whole_numbers(24, 32, 3, 3)
    frames = inside(whole_numbers(1, 32, 5, 17))[1]
    buffer, out = inside(torch.zeros(1, 24, 10, 34).half(), CANARY)
    table = folds.nearest(weight).half().view(4, 24, 32, 1, 2, 2)
    ours = kernel(folder, program(Taps(24, 32, 1, 2, 2)))
    for phase in range(4):
        sy, sx = divmod(phase, 2)
        part = Work(frames=frames, out=out[:, :, sy::2, sx::2], above=1 - sy, left=1 - sx)
        ours.convolve(ours.program.packed(table[phase]), part)
    doubled = frames.repeat_interleave(2, 2).repeat_interleave(2, 3)
    assert torch.equal(out.double(), F.conv2d(doubled.double(), weight.double(), padding=1))
    assert (buffer == CANARY).sum() == buffer.numel() - out.numel()


def test_sums_of_half_precision_that_are_promoted_lose_little(folder):
    """RMS of the error, in units of the result's: all in float32, promoted, and never promoted."""
    layer = same(Taps(32, 256, 3, 3, 3), 1, 4, 8)
    weight, work, _ = work_of(layer, lambda *shape: torch.randn(shape).half())
    weight = weight / 64
    wanted, errors = truth(weight, work), []
    for promote in (0, 32, 128, 2**20):
        ours = kernel(folder, program(layer.taps, promote))
        ours.convolve(ours.program.packed(weight), work)
        difference = (work.out.double() - wanted).square().mean() / wanted.square().mean()
        errors.append(float(difference.sqrt()))
    exact, often, usual, never = errors
    assert exact < 2.5e-4
    assert exact < often < usual < 1e-3
    assert never > 3 * usual


@pytest.mark.parametrize(
    ("arch", "depth", "promote"), [(AMPERE, 16, 0), (TURING, 8, 32), (AMPERE, 16, 128)]
)
@pytest.mark.parametrize("name", LAYERS)
def test_fast_sums_of_whole_vaes_are_those_of_the_source(folder, name, arch, depth, promote):
    """Bit for bit."""
    layer = LAYERS[name]
    weight, work, _ = work_of(layer, lambda *shape: torch.randn(shape).half())
    ours = kernel(folder, program(layer.taps, promote, store=work.store), arch=arch)
    ours.convolve(ours.program.packed(weight), work)
    clip = work.frames if work.past is None else torch.cat([work.past, work.frames])
    stride, (height, width) = layer.taps.stride, work.out.shape[2:]
    beside = (work.left, width * stride, work.above, height * stride)
    seen = ((n - 1) * stride + k for n, k in zip((height, width), weight.shape[3:], strict=True))
    rows, columns = seen
    clip = F.pad(clip, beside)[..., :rows, :columns]
    strides, chunk = (work.time_stride, stride), ours.program.chunk
    sums = {"chunk": chunk, "promote": promote, "depth": depth}
    found = kernel_sums(clip, weight, strides=strides, **sums)
    assert torch.equal(found.half(), work.out)


# --- races


SYNCHRONISATION = re.compile(r"__syncthreads\(\);|wait_for_groups<STAGES - 2>\(\);|end_group\(\);")


def lines_that_synchronise() -> list[int]:
    """Offsets of the statements that synchronise, in the kernel itself and not in its includes."""
    text = build.source("conv")
    start = text.index('extern "C"')
    return [found.start() for found in SYNCHRONISATION.finditer(text, start)]


def is_exact(folder: Path, text: str, *, late: bool) -> bool:
    torch.manual_seed(1)
    layer = same(Taps(32, 64, 3, 3, 3), 1, 4, 16)
    weight, work, buffer = work_of(layer)
    ours = kernel(folder, program(layer.taps), text)
    ours.module.copies_late = late
    try:
        assert_exact(ours, weight, work, buffer)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("late", [True, False])
def test_copies_may_arrive_early_or_late(folder, late):
    assert is_exact(folder, build.source("conv"), late=late)


@pytest.mark.parametrize("number", range(6))
def test_no_barrier_and_no_wait_can_be_left_out(folder, number):
    text, places = build.source("conv"), lines_that_synchronise()
    assert len(places) == 6
    end = text.index(";", places[number]) + 1
    without = text[: places[number]] + text[end:]
    assert not all(is_exact(folder, without, late=late) for late in (True, False))


def test_the_barrier_of_the_statistics_cannot_be_left_out(folder):
    text = build.source("conv")
    inside = text.index("__syncthreads();", text.index("struct Statistics"))
    assert inside < text.index('extern "C"')
    for source, is_right in ((text, True), (text[:inside] + text[inside + 16 :], False)):
        weight, work, _ = work_of(same(Taps(64, 16, 1, 3, 3), 1, 8, 16))
        ours = kernel(folder, program(Taps(64, 16, 1, 3, 3), group=8, tile=TILES[2]), source)
        statistics = ours.convolve(ours.program.packed(weight), work)
        wanted = truth(weight, work).unflatten(1, (8, 8)).mean((2, 3, 4))
        assert torch.allclose(statistics.mean[:, 0].double(), wanted, atol=1e-5) == is_right


def test_waiting_for_one_group_less_is_found(folder):
    text = build.source("conv").replace(
        "wait_for_groups<STAGES - 2>", "wait_for_groups<STAGES - 1>"
    )
    assert not is_exact(folder, text, late=True)


def test_one_buffer_less_is_found(folder):
    text = build.source("conv").replace(
        "#define UNITS", "#undef HALOS\n#define HALOS 1\n#define UNITS"
    )
    assert not all(is_exact(folder, text, late=late) for late in (True, False))


# --- finding kernels


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[torch.device]:
    """The processor, which passes for a GPU."""
    monkeypatch.setattr(build, "is_gpu", lambda device: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 6))
    monkeypatch.setattr(conv, "compile_for", lambda device, program: kernel(folder, program))
    conv.cache_clear()
    yield torch.device("cpu")
    conv.cache_clear()


FOUND = {
    "plain": (Taps(32, 32, 3, 3, 3), {}),
    "phases": (Taps(32, 16, 2, 2, 2), {}),
    "strides": (Taps(32, 16, 3, 3, 3, 2), {}),
    "3 colours": (Taps(3, 32, 1, 3, 3), {"store": 1}),
    "GroupNorm and statistics": (Taps(64, 32, 3, 3, 3), {"norm": "group", "group": 4}),
    "RMS norm": (Taps(32, 32, 3, 1, 1), {"norm": "rms"}),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_kernel_is_found_when_its_trial_is_exact(gpu, name, caplog):
    taps, options = FOUND[name]
    caplog.set_level(logging.INFO)
    assert conv.find(taps, gpu, **options) == conv.find(taps, gpu, **options) is not None
    *usual, record = caplog.records  # a small layer is tried before all others
    assert len(usual) == (name != "plain")
    text, error = record.getMessage().rsplit(maxsplit=1)
    assert text == "convolution kernel for torch.float16 works on cpu, error"
    assert float(error) < (1e-6 if "group" in options else 1e-30)


def test_a_kernel_that_is_wrong_or_does_not_compile_is_left_to_cudnn(
    gpu, folder, monkeypatch, caplog
):
    wrong = build.source("conv").replace("value.of[j] += bias[c + j]", "value.of[j] -= bias[c + j]")
    monkeypatch.setattr(conv, "compile_for", lambda device, program: kernel(folder, program, wrong))
    assert conv.find(Taps(16, 16, 1, 1, 1), gpu) is None
    conv.cache_clear()
    refused = Mock(side_effect=nvrtc.CompileFailed("no such architecture"))
    monkeypatch.setattr(conv, "compile_for", refused)
    for rows in (1, 3):
        assert conv.find(Taps(16, 16, 1, rows, rows), gpu) is None
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert refused.call_count == 1


def test_layers_that_no_kernel_computes_are_not_compiled(gpu, monkeypatch):
    monkeypatch.setattr(conv, "compile_for", Mock(side_effect=AssertionError))
    assert conv.find(Taps(128, 3, 3, 3, 3), gpu) is None
    assert conv.find(Taps(128, 12, 3, 3, 3), gpu) is None
    assert conv.find(Taps(96, 96, 3, 3, 3), gpu, group=4) is None  # 6 packs a pixel
    assert conv.find(Taps(128, 128, 3, 3, 3), gpu, group=12) is None
    monkeypatch.setattr(build, "is_gpu", lambda device: False)
    assert conv.find(Taps(128, 128, 3, 3, 3), gpu) is None


@pytest.mark.parametrize(("capability", "promote"), [((7, 5), 32), ((9, 0), 0), ((12, 0), 128)])
def test_gpus_of_full_rate_keep_sums_in_float32(gpu, monkeypatch, capability, promote):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(conv, "load", lambda device, program: program)
    assert conv.find(Taps(128, 128, 3, 3, 3), gpu).promote == promote


def test_a_job_keeps_the_sums_of_the_gpu_that_it_was_begun_on(gpu, monkeypatch):
    monkeypatch.setattr(conv, "load", lambda device, program: program)
    taps = Taps(128, 128, 3, 3, 3)
    for capability, other, promote in (((8, 6), (9, 0), 128), ((7, 5), (8, 6), 32)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, it=capability: it)
        job = Choices()
        with following(job):
            assert conv.find(taps, gpu).promote == promote
            assert conv.find(taps, gpu, half_sums=False).promote == 0
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, it=other: it)
        with following(Choices(job.known)):
            assert conv.find(taps, gpu).promote == promote
        assert conv.find(taps, gpu).promote != promote


def test_a_job_is_refused_where_its_kernel_does_not_work(gpu, monkeypatch):
    job, taps = Choices(), Taps(32, 32, 3, 3, 3)
    with following(job):
        assert conv.find(taps, gpu) is not None
    refused = Mock(side_effect=nvrtc.CompileFailed("no such architecture"))
    monkeypatch.setattr(conv, "compile_for", refused)
    conv.cache_clear()
    without = Choices()
    with following(without):
        assert conv.find(taps, gpu) is None
    with following(Choices(job.known)), pytest.raises(ChoiceMissing, match="kernel “convolution”"):
        conv.find(taps, gpu)
    assert "not used" in without.known.values()


# --- sizes


@pytest.mark.parametrize("outer", [3, 12, 16, 32, 48, 96, 128, 160, 192, 320, 384, 512, 640, 1024])
def test_every_width_of_a_vae_has_a_tile_that_wastes_little(outer):
    tile = tile_for(outer)
    padded = -(-outer // tile.channels) * tile.channels
    assert padded - outer <= {3: 13, 12: 4, 48: 16, 160: 32}.get(outer, 0)
    assert tile.channels <= 32 or outer > 32


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: str(tile.channels))
def test_a_half_warp_hands_sums_over_to_different_banks(tile):
    """Two floats of a lane: of 4 rows, SUM_PITCH apart, and 4 pairs of columns."""
    pitch = Program(taps=Taps(8, 8, 1, 1, 1), tile=tile).sum_pitch
    assert pitch >= tile.channels // tile.warps[1]
    banks = {(row * pitch + column) % 32 for row in range(4) for column in range(8)}
    assert len(banks) == 32


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: str(tile.channels))
@pytest.mark.parametrize("taps", [(3, 3, 1), (3, 3, 2), (2, 2, 1), (1, 1, 1)])
def test_two_blocks_fit_the_shared_memory_of_a_geforce(tile, taps):
    for inner in (16, 512):
        one = Program(taps=Taps(128, inner, 3, *taps), tile=tile)
        assert one.shared_bytes <= 48 * 1024
        assert tile.blocks * (one.shared_bytes + 1024) <= 100 * 1024
        assert (one.halos - 1) * taps[0] * taps[1] >= tile.stages - 1


@pytest.mark.parametrize("inner", [8, 16, 40, 48, 96, 160, 320, 512, 1024])
@pytest.mark.parametrize("outer", [3, 32, 96, 160, 512])
def test_layers_of_the_same_macros_are_tried_once_with_few_channels(outer, inner):
    one = Program(taps=Taps(outer, inner, 3, 3, 3), tile=tile_for(outer))
    assert one.smallest.options() == one.options()
    assert max(one.smallest.taps[:2]) <= 256
    assert one.smallest.smallest == one.smallest


def test_sizes_that_do_not_fit_each_other_do_not_compile():
    usual = program(Taps(32, 32, 3, 3, 3))
    for options in (replace(usual, promote=24).options(), (*usual.options(), "-DHALOS=1")):
        with pytest.raises(nvrtc.CompileFailed, match="halos would come later"):
            nvrtc.compile_cuda(build.source("conv"), "sm_86", options)


@given(
    shape=st.tuples(st.integers(1, 50), st.just(512), st.integers(1, 2160), st.integers(1, 3840)),
    taps=st.sampled_from([Taps(512, 512, 3, 3, 3), Taps(3, 128, 3, 3, 3), Taps(96, 96, 1, 1, 1)]),
    most=st.floats(1e12, 1e14),
)
def test_launches_cover_every_block_once_and_are_short(shape, taps, most):
    one = Program(taps=taps, tile=tile_for(taps.outer))
    sides = one.parts * -(-shape[3] // 16), -(-shape[2] // 8), shape[0]
    seen = 0
    with patch.object(limits, "most_operations", lambda *_: most):
        found = list(launches(one, torch.Size(shape), GPU))
    for first, blocks in found:
        assert all(
            0 <= at < at + n <= side for at, n, side in zip(first, blocks, sides, strict=True)
        )
        assert max(blocks[1:]) <= 65_535
        assert math.prod(blocks) * one.block_operations <= most
        seen += math.prod(blocks)
    assert seen == math.prod(sides)


def test_many_launches_compute_what_one_does(folder, monkeypatch):
    """Bit for bit, its statistics too: a job goes on with the same result on a GPU of any size."""
    layer = same(Taps(128, 32, 1, 3, 3), 2, 5, 18)
    weight, work, buffer = work_of(layer, lambda *shape: torch.randn(shape).half())
    _, residual = inside(torch.randn(work.out.shape).half())
    work = replace(work, bias=torch.randn(128), residual=residual)
    ours = kernel(folder, program(layer.taps, group=8, tile=TILES[2]))
    packed, found = ours.program.packed(weight), list[tuple[Tensor, ...]]()
    for blocks in (math.inf, 1, 3, 5):
        work.out.zero_()
        most = ours.program.block_operations * blocks
        monkeypatch.setattr(limits, "most_operations", lambda *_, most=most: most)
        ours.module.launched.clear()
        statistics = ours.convolve(packed, work)
        found.append((buffer.clone(), statistics.mean, statistics.m2))
        assert (len(ours.module.launched) == 1) == (blocks == math.inf)
        assert all(map(torch.equal, found[0], found[-1]))


def test_offsets_beyond_two_billion_values(folder):
    """Rows that are 2^30 values apart, in memory that is not there until it is touched."""
    step, (height, width) = 2**30, (3, 4)
    no_reserve = 0x4000  # MAP_NORESERVE, which Python 3.11 does not name
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve
    memory = mmap.mmap(-1, 2 * height * step, flags=flags)
    whole = torch.frombuffer(memory, dtype=torch.float16)
    taps = Taps(16, 16, 1, 3, 3)
    views = [
        whole[n * 2**20 :].as_strided((1, 16, height, width), (0, 1, step, 16)) for n in (0, 1)
    ]
    views[0].copy_(whole_numbers(1, 16, height, width))
    weight, work = (
        whole_numbers(16, 16, 1, 3, 3),
        Work(frames=views[0], out=views[1], above=1, left=1),
    )
    ours = kernel(folder, program(taps))
    ours.convolve(ours.program.packed(weight), work)
    assert torch.equal(views[1].double(), truth(weight, work))


def test_what_the_kernel_cannot_read_is_left_to_cudnn():
    def store(frames: Tensor, out: Tensor, past: Tensor | None = None) -> int:
        return Work(frames=frames, out=out, past=past).store

    def frames(channels: int, dtype: torch.dtype = torch.float16) -> Tensor:
        return torch.zeros(1, 3, 3, channels, dtype=dtype).permute(0, 3, 1, 2)

    assert store(frames(16), frames(16)) == 8
    assert [store(frames(16), frames(n)) for n in (3, 12, 10)] == [1, 4, 2]
    assert [store(frames(n), frames(16)) for n in (3, 12, 10)] == [0, 0, 0]
    assert store(frames(16), frames(16), frames(24)[:, 4:20]) == 0
    assert store(frames(16, torch.bfloat16), frames(16, torch.bfloat16)) == 0
    assert store(frames(16), frames(16, torch.float32)) == 0
    assert store(frames(16).contiguous(), frames(16)) == 0
    large = torch.zeros(16).half().expand(1, 2**16, 2**16, 16).permute(0, 3, 1, 2)
    assert store(frames(16), large) == store(large, frames(16)) == 0


@pytest.mark.gpu
@pytest.mark.parametrize("name", LAYERS)
def test_every_kind_of_layer_is_exact_on_a_gpu(name):
    layer = LAYERS[name]
    weight, work, buffer = work_of(layer, device=GPU)
    host = replace(work, **{part: getattr(work, part).cpu() for part in ("frames", "out")})
    host = replace(host, past=None if work.past is None else work.past.cpu())
    wanted, outside = truth(weight.cpu(), host, layer.taps.stride), (buffer.cpu() == CANARY).sum()
    ours = conv.find(layer.taps, GPU, store=work.store)
    assert ours is not None
    ours.convolve(ours.program.packed(weight), work)
    assert torch.equal(work.out.cpu().double(), wanted)
    assert (buffer.cpu() == CANARY).sum() >= outside
