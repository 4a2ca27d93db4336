"""Kernels from their source to a launch: NVRTC itself, a stand-in for the driver."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.core import paths
from engine.ops import launches as limits
from engine.ops.kernels import (
    blocks,
    build,
    channel_norm,
    conv,
    driver,
    group_norm,
    heads,
    nvrtc,
    token_rows,
)
from engine.ops.kernels.build import compiled
from engine.ops.kernels.families import FAMILIES
from engine.ops.kernels.grids import Matrix, Shape
from engine.ops.linear.gguf import dequantise
from engine.ops.norm import token_passes
from engine.ops.norm.group_norm import group_norm_silu
from engine.ops.norm.rms_norm import rms_norm_silu
from engine.ops.norm.token_passes import swiglu
from tests.helpers.model_files import random_blocks
from tests.pretended_gpu.gpu import PretendedGpu
from tests.pretended_gpu.kernels import PretendedModule
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu

GPU = torch.device("cuda", 0)
CONTEXT = 77
ROWS, SHAPE, POINTER = Matrix, Shape, ctypes.c_void_p
ARGUMENTS: dict[bytes, tuple[Any, ...]] = {
    b"rms_modulate": (ROWS, ROWS, SHAPE, POINTER, POINTER, ctypes.c_float),
    b"add_gated": (ROWS, ROWS, SHAPE, POINTER),
    b"swiglu": (ROWS, ROWS, ROWS, SHAPE),
}


class PretendedDriver:
    """The driver's library, for kernels on rows in float32.

    A launch reads its arguments where the driver would, and does what the kernel means.

    Attributes:
        refused: The function that fails, and the error that it gives.
        contexts: Current ones of the thread.
        streams: Of each launch.
    """

    def __init__(self, gpu: PretendedGpu) -> None:
        self.refused = "", 0
        self.contexts: list[int] = []
        self.streams: list[int] = []
        self._kernels = PretendedModule(gpu, "token_rows", build.macros(torch.float32))
        self._cubin, self._names = b"", list[bytes]()

    def __getattr__(self, name: str) -> Callable[..., int]:
        function = getattr(type(self), f"_{name}")

        def call(*arguments: Any) -> int:
            return self.refused[1] if self.refused[0] == name else function(self, *arguments) or 0

        return call

    def _cuInit(self, flags: int) -> None:
        assert flags == 0

    def _cuGetErrorString(self, code: int, text: Any) -> None:
        text._obj.value = b"refused"

    def _cuDeviceGet(self, handle: Any, device: int) -> None:
        assert device == 0

    def _cuDevicePrimaryCtxRetain(self, context: Any, handle: Any) -> None:
        context._obj.value = CONTEXT

    def _cuCtxPushCurrent_v2(self, context: ctypes.c_void_p) -> None:
        self.contexts.append(context.value or 0)

    def _cuCtxPopCurrent_v2(self, context: Any) -> None:
        self.contexts.pop()

    def _cuModuleLoadData(self, module: Any, cubin: bytes) -> None:
        assert self.contexts == [CONTEXT]
        assert cubin.startswith(b"\x7fELF")
        self._cubin = cubin

    def _cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> None:
        assert name in self._cubin
        self._names.append(name)
        function._obj.value = len(self._names)

    def _cuLaunchKernel(self, function: ctypes.c_void_p, *rest: Any) -> None:
        assert self.contexts == [CONTEXT]
        *sizes, shared, stream, pointers, extra = rest
        assert extra is None
        name = self._names[(function.value or 0) - 1]
        arguments = [
            kind.from_address(at) for kind, at in zip(ARGUMENTS[name], pointers, strict=True)
        ]
        grid = tuple(sizes[:3]), tuple(sizes[3:]), shared
        self.streams.append(stream.value or 0)
        self._kernels.launch(name.decode(), grid, arguments)


@contextmanager
def compiling_gpu() -> Iterator[tuple[PretendedGpu, PretendedDriver]]:
    """A pretended GPU whose kernels are compiled, and its driver."""
    real, own_name = ctypes.CDLL, driver._NAME
    with pretended_gpu() as gpu:
        library = PretendedDriver(gpu)

        def load(name: str) -> Any:
            return library if name == own_name else real(name)

        with patch.object(build, "compiled", compiled), patch.object(ctypes, "CDLL", load):
            yield gpu, library


def work() -> list[Tensor]:
    """Results of all kernels on rows."""
    x, y = torch.randn(2, 6, 64, generator=torch.Generator().manual_seed(1)).cuda()
    scale, shift = torch.linspace(-1, 2, 128).view(2, 64).cuda()
    normal = token_passes.rms_modulate(x, scale, shift, 1e-5)
    return [normal.cpu(), token_passes.add_gated(x, y, scale).cpu(), swiglu(x, y).cpu()]


def test_kernels_are_compiled_loaded_and_launched() -> None:
    try:
        nvrtc.find()
    except nvrtc.NvrtcMissing:
        pytest.skip("no NVRTC: it comes with the development packages")
    with pretended_gpu() as gpu, patch.object(token_rows, "find", return_value=None):
        wanted = work()
    with compiling_gpu() as (gpu, library):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for found, right in zip(work(), wanted, strict=True):
                torch.testing.assert_close(found, right)
    assert {f"kernel {name.decode()}" for name in ARGUMENTS} <= gpu.record.launches.keys()
    assert set(library.streams) == {stream.cuda_stream}
    assert library.contexts == []
    assert not gpu.record.problems
    kept = list((paths.cache_folder() / "kernels").glob("*.cubin"))
    assert len(kept) == 1
    with compiling_gpu() as (_, library), patch.object(nvrtc.Nvrtc, "compile", Mock()) as compiler:
        work()  # as another process would
        assert library.streams
    compiler.assert_not_called()
    kept[0].write_bytes(b"damaged")
    with compiling_gpu() as (_, library):
        work()
        assert library.streams


@pytest.mark.parametrize("code", [700, driver._OUT_OF_MEMORY])
@pytest.mark.parametrize(
    "name", ["cuInit", "cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel"]
)
def test_what_the_driver_refuses_is_computed_without_kernels(
    name: str, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    x = torch.randn(6, 64, generator=torch.Generator().manual_seed(1))
    cubin = patch.object(nvrtc, "compile_cuda", return_value=b"\x7fELF " + b" ".join(ARGUMENTS))
    with compiling_gpu() as (gpu, library), cubin:
        library.refused = name, code
        if code == driver._OUT_OF_MEMORY:
            with pytest.raises(torch.OutOfMemoryError, match=f"{name}: refused"):
                token_rows.find(x.cuda())
            library.refused = "", 0
            assert token_rows.find(x.cuda()) is not None  # nothing was remembered
            return
        found = swiglu(x.cuda(), x.cuda()).cpu()
        assert not any("kernel " in launched for launched in gpu.record.launches)
    torch.testing.assert_close(found, swiglu(x, x))
    (record,) = caplog.records
    assert f"{name}: refused" in record.getMessage()
    assert library.contexts == []


def broken_library(folder: Path) -> Any:
    """A file that is no library, where NVRTC is looked for."""
    path = folder / "libnvrtc.so.13"
    path.write_text("no library")
    return patch.object(nvrtc, "candidates", lambda: [path])


MISSING: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no NVRTC": (lambda _: patch.object(nvrtc, "candidates", list), "comes with CUDA builds"),
    "a broken NVRTC": (broken_library, "libnvrtc.so.13 cannot be loaded"),
    "a wrong source": (lambda _: patch.object(build, "source", lambda name: "no CUDA"), "error"),
    "an unknown GPU": (
        lambda _: patch.object(torch.cuda, "get_device_capability", lambda device: (1, 0)),
        "NVRTC_ERROR_INVALID_OPTION",
    ),
    "no driver": (
        lambda _: patch.object(driver, "_NAME", "libno-such-driver.so"),
        "no NVIDIA driver: libno-such-driver.so",
    ),
}


@pytest.mark.parametrize("name", MISSING)
def test_without_compiler_or_driver_there_is_one_warning(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    missing, text = MISSING[name]
    x = torch.randn(6, 64, generator=torch.Generator().manual_seed(1))
    with compiling_gpu(), missing(tmp_path):
        for _ in range(2):
            torch.testing.assert_close(swiglu(x.cuda(), x.cuda()).cpu(), swiglu(x, x))
    (record,) = caplog.records
    assert "no token row kernel" in record.getMessage()
    assert text in record.getMessage()


@pytest.mark.parametrize("kernels", FAMILIES, ids=lambda family: family.name)
def test_kernels_work_on_a_gpu_alone(kernels: Any) -> None:
    with pretended_gpu() as gpu:
        for dtype in build.DTYPES:
            assert kernels.working(GPU, dtype) == (dtype in kernels.dtypes)
            assert not kernels.working(torch.device("cpu"), dtype)
        assert gpu.launches


def test_rows_that_kernels_cannot_read_are_computed_without() -> None:
    x = torch.randn(6, 64, generator=torch.Generator().manual_seed(1))
    narrow, wide = x.half(), x.double()
    with pretended_gpu() as gpu:
        assert token_rows.find(x.cuda()) is not None
        launches = gpu.record.launches["kernel swiglu"]  # of the trial
        others = (x, narrow), (x.t(), x.t()), (wide, wide), (x[:0], x[:0])
        for gate, value in others:
            assert token_rows.find(gate.cuda(), value.cuda(), value.cuda()) is None
            found = swiglu(gate.cuda(), value.cuda())
            torch.testing.assert_close(found.cpu(), swiglu(gate, value))
        assert gpu.record.launches["kernel swiglu"] == launches
        scale = x[0].half()  # kernels read factors in float32 alone
        found = token_passes.rms_modulate(x.cuda(), scale.cuda(), None, 1e-5)
        torch.testing.assert_close(found.cpu(), token_passes.rms_modulate(x, scale, None, 1e-5))


def test_frames_that_kernels_cannot_read_are_normalised_without() -> None:
    x = torch.randn(2, 12, 5, 4, generator=torch.Generator().manual_seed(1))
    last, factors = x.to(memory_format=torch.channels_last), x[0, :, 0, 0]
    with pretended_gpu() as gpu:
        assert channel_norm.find(last.cuda()) is not None
        launches = gpu.record.launches["kernel rms_norm"]  # of the trial
        with patch.object(channel_norm, "MOST_FRAMES", 1):
            found = rms_norm_silu(last.cuda(), factors.cuda(), kernels=True)
        assert gpu.record.launches["kernel rms_norm"] == launches
        torch.testing.assert_close(found.cpu(), rms_norm_silu(last, factors))
        out, factors = torch.empty_like(x.cuda()), factors.cuda()
        group_norm_silu(x.cuda(), factors, factors, 3, 1e-6, out, kernels=True)
        assert "kernel normalise" not in gpu.record.launches
    wanted = F.silu(F.group_norm(x, 3, factors.held, factors.held, 1e-6))
    torch.testing.assert_close(out.held, wanted)


def test_the_kernel_of_heads_takes_targets_that_it_can_read() -> None:
    with pretended_gpu():
        weight, out = torch.ones(32).cuda(), torch.zeros(5, 2, 32).cuda()
        work = heads.HeadWork(
            qkv=torch.zeros(5, 3, 2, 32).cuda(),
            target=torch.arange(5).cuda()[None],
            angles=None,
            angle=None,
            norm=(weight, weight),
            eps=1e-5,
            out=(out, out.clone(), out.clone()),
        )
        assert heads.find(work) is not None
        for target in (work.target.int(), work.target[:0]):
            assert heads.find(replace(work, target=target)) is None


def test_statistics_of_kernels_are_merged_and_applied() -> None:
    x = torch.randn(2, 16, 9, 7, generator=torch.Generator().manual_seed(1))
    x = x.to(memory_format=torch.channels_last)
    weight, bias = torch.linspace(-1, 2, 32).view(2, 16)
    with pretended_gpu() as gpu:
        frames = x.cuda()
        kernels, grid = group_norm.find(frames, 4, frames)
        factors = kernels.scale_and_shift(
            kernels.statistics(frames, grid), (weight.cuda(), bias.cuda()), 1e-6
        )
        kernels.normalise((frames, frames), grid, factors, True)
    torch.testing.assert_close(frames.held, F.silu(F.group_norm(x, 4, weight, bias, 1e-6)))
    assert not gpu.record.problems


def _wrong(gpu: PretendedGpu) -> Any:
    """Kernels whose values are off by one step of a code."""
    launch = PretendedModule.launch

    def off(module: PretendedModule, name: str, grid: Any, arguments: Any) -> None:
        launch(module, name, grid, arguments)
        memory, offset = gpu.at(arguments[1].value)
        memory.storage[offset + 1] ^= 1

    return patch.object(PretendedModule, "launch", off)


@pytest.mark.parametrize("case", ["no compiler", "refused by the driver", "wrong results"])
def test_weights_are_unpacked_by_torch_where_kernels_fail(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    raw = random_blocks("Q4_K", 9)
    wanted = dequantise(raw, "Q4_K", (9, 256), torch.float16)
    with ExitStack() as stack:
        if case == "wrong results":
            gpu = stack.enter_context(pretended_gpu())
            stack.enter_context(_wrong(gpu))
        else:
            gpu, library = stack.enter_context(compiling_gpu())
            if case == "no compiler":
                stack.enter_context(patch.object(nvrtc, "candidates", list))
            else:
                cubin = b"\x7fELF unpack_q4_0"
                stack.enter_context(patch.object(nvrtc, "compile_cuda", return_value=cubin))
                library.refused = "cuLaunchKernel", 700
        for _ in range(2):
            found = dequantise(raw.cuda(), "Q4_K", (9, 256), torch.float16).cpu()
            assert torch.equal(found, wanted)
        assert not blocks.working(GPU, torch.float16)
    (record,) = caplog.records
    assert "weight block kernel" in record.getMessage()


CONVOLUTIONS = {  # the layer, the norm of its input, the group of its statistics
    "plain": (conv.Taps(40, 16, 3, 3, 3), "none", 0),
    "strides": (conv.Taps(16, 48, 3, 3, 3, 2), "none", 0),
    "phases": (conv.Taps(32, 16, 2, 2, 2), "none", 0),
    "GroupNorm and statistics": (conv.Taps(128, 32, 3, 3, 3), "group", 8),
    "RMS norm": (conv.Taps(24, 24, 3, 1, 1), "rms", 0),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_are_found_as_their_trial_is_exact(name: str) -> None:
    taps, norm, group = CONVOLUTIONS[name]
    with pretended_gpu() as gpu:
        conv.cache_clear()
        assert conv.working(GPU)  # that of a small layer, before all others
        before = gpu.record.operations
        found = conv.find(taps, GPU, norm=norm, group=group)
        assert found is not None
        assert gpu.record.launches["kernel convolve"] == 2
        above, left = taps.rows // 2, taps.columns // 2
        height = (9 + 2 * above - taps.rows) // taps.stride + 1
        width = (19 + 2 * left - taps.columns) // taps.stride + 1
        products = taps.outer * taps.inner * taps.reach * taps.rows * taps.columns
        assert gpu.record.operations - before == 2 * products * height * width
        assert not gpu.record.problems
    conv.cache_clear()


def test_a_convolution_in_several_launches_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    taps = conv.Taps(160, 16, 1, 3, 3)
    random = torch.Generator().manual_seed(1)
    x = torch.randn(2, 16, 20, 36, generator=random).half()
    weight = torch.randn(160, 16, 1, 3, 3, generator=random).half() / 12
    wanted = F.conv2d(x.double(), weight[:, :, 0].double(), padding=1) + 1
    with pretended_gpu() as gpu:
        kernel = conv.find(taps, GPU)
        assert kernel is not None
        frames = x.to(memory_format=torch.channels_last).cuda()
        packed = kernel.program.packed(weight.cuda())
        for blocks in (1, 4, 100):
            most = kernel.program.block_operations * blocks
            monkeypatch.setattr(limits, "most_operations", lambda *_, most=most: most)
            out = torch.ones_like(wanted).half().to(memory_format=torch.channels_last).cuda()
            work = conv.Work(frames=frames, out=out, above=1, left=1, residual=out)
            kernel.convolve(packed, work)
            torch.testing.assert_close(out.cpu().double(), wanted, rtol=1e-3, atol=1e-3)
        assert not gpu.record.problems
    conv.cache_clear()
