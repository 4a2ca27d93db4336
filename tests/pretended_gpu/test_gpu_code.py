"""Parts of the program that only a GPU reaches."""

from __future__ import annotations

import gc
import threading
from contextlib import ExitStack
from typing import Any
from unittest.mock import Mock, patch

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.bench import timing
from engine.core.geometry import Box, Size
from engine.hardware import shared_memory, torch_memory
from engine.models.seedvr2.vae.fast import FastVae
from engine.ops.attention import attention
from engine.ops.attention.backends import BACKENDS
from engine.ops.attention.single_head import attend_single_head
from engine.ops.conv import frame_conv
from engine.ops.conv.temporal_conv import Form
from engine.ops.conv.trial import ConvolutionChoice, LayerKind
from engine.ops.kernels import wide_head
from engine.ops.linear import formats
from engine.ops.norm.group_norm import group_norm_silu
from engine.ops.transfer.flat_storage import FlatTensors
from engine.ops.transfer.pinned import HostBytes
from engine.ops.transfer.tile_canvas import TileSink
from engine.ops.transfer.weight_streaming import GpuBuffers, StreamedBlock
from engine.pipeline import gpu_guard
from engine.settings.optimisations import VaeSwitches
from tests.helpers.seedvr2 import random_frames, tiny_config, tiny_vae
from tests.pretended_gpu import operators
from tests.pretended_gpu.gpu import PretendedGpu, Record
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu

GPU = torch.device("cuda", 0)


def single_head(monkeypatch: pytest.MonkeyPatch, kernel: Any) -> tuple[Tensor, Tensor, set[str]]:
    """Attention with one head of 512 channels, the formula's, and the operators that ran."""
    real = operators._attention

    def attention(name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        is_efficient = "efficient" in name
        return kernel(real, name, args, kwargs) if is_efficient else real(name, args, kwargs)

    monkeypatch.setattr(operators, "_attention", attention)
    x = torch.randn(3, 2, 40, 512, generator=torch.Generator().manual_seed(1))
    q, k, v = x
    wanted = torch.softmax(q @ k.transpose(1, 2) * 512**-0.5, -1) @ v
    with pretended_gpu() as gpu:
        found = attend_single_head(*(part.to(GPU) for part in (q, k, v))).cpu()
    return found, wanted, set(gpu.record.launches)


def right(real: Any, *call: Any) -> Any:
    return real(*call)


def refusing(real: Any, *call: Any) -> Any:
    raise RuntimeError("No available kernel. Aborting execution.")


def wrong(real: Any, *call: Any) -> Any:
    found, *rest = real(*call)
    return (found * 1.5, *rest)


EFFICIENT = "_scaled_dot_product_efficient_attention"


@pytest.mark.parametrize("kernel", [right, refusing, wrong])
def test_wide_heads_are_tried_before_they_are_trusted(
    kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, wanted, launched = single_head(monkeypatch, kernel)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)
    assert ("mm" in launched) == (kernel is not right)  # in chunks
    assert (EFFICIENT in launched) == (kernel is not refusing)


def test_wide_heads_without_a_kernel_go_in_chunks() -> None:
    q, k, v = torch.randn(3, 2, 40, 512, generator=torch.Generator().manual_seed(1))
    refuses = patch.object(torch.backends.cuda, "can_use_efficient_attention", return_value=False)
    with pretended_gpu() as gpu, refuses:
        found = attend_single_head(q.to(GPU), k.to(GPU), v.to(GPU)).cpu()
    assert "mm" in gpu.record.launches
    assert EFFICIENT not in gpu.record.launches
    torch.testing.assert_close(found, attend_single_head(q, k, v), rtol=0, atol=1e-5)


OWN = "kernel attend"


def wide_heads() -> tuple[Tensor, Tensor, Tensor]:
    """Thirds of one tensor in float16, as the VAEs have them."""
    x = torch.randn(2, 70, 3 * 512, generator=torch.Generator().manual_seed(1))
    q, k, v = x.half().chunk(3, dim=-1)
    return q, k, v


def attended(gpu: PretendedGpu, **options: bool) -> set[str]:
    """Attend on the GPU, as exactly as the formula; what was launched, the trials left out."""
    q, k, v = wide_heads()
    wanted = torch.softmax(q.double() @ k.double().transpose(1, 2) * 512**-0.5, -1) @ v.double()
    x = torch.cat((q, k, v), -1).to(GPU).chunk(3, dim=-1)
    attend_single_head(*x, **options)
    gpu.record = Record()
    found = attend_single_head(*x, **options).cpu()
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=2e-3)
    return set(gpu.record.launches)


@pytest.mark.parametrize("own", [0.5, 2.0])
def test_wide_heads_of_half_precision_use_the_faster_kernel(
    own: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "measure", lambda *_: {"efficient": 1.0, "own": own})
    with pretended_gpu() as gpu:
        launched = attended(gpu)
        assert (OWN in launched, EFFICIENT in launched) == (own < 1, own > 1)
        assert EFFICIENT in attended(gpu, kernels=False)
        assert not gpu.record.problems


def test_wide_heads_use_our_kernel_where_torch_has_none() -> None:
    refuses = patch.object(torch.backends.cuda, "can_use_efficient_attention", return_value=False)
    with pretended_gpu() as gpu, refuses:
        assert OWN in attended(gpu)
        assert "mm" in attended(gpu, kernels=False)


def test_wide_heads_go_on_without_a_kernel_that_is_wrong(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wrong_kernel = patch.object(wide_head.WideHeadKernel, "attend", lambda self, q, *_: q * 1.01)
    with pretended_gpu() as gpu, wrong_kernel:
        assert not {OWN, "mm"} & attended(gpu)
    (record,) = caplog.records
    assert "wide head kernel" in record.getMessage()


@pytest.mark.parametrize("verdict", ["attention", "int8"])
def test_a_passing_lack_of_memory_is_no_verdict(
    verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked() -> bool:
        if verdict == "int8":
            return "int8" in formats.working(GPU)
        return not attention.fault_of(BACKENDS["math"], GPU, torch.float16, 128)

    lack = Mock(side_effect=torch.OutOfMemoryError)
    with pretended_gpu():
        with monkeypatch.context() as patch:
            patch.setattr(attention, "_error_of", lack)
            patch.setitem(formats.PRODUCTS, "int8", lack)
            with pytest.raises(torch.OutOfMemoryError):
                asked()
        assert asked()


@pytest.mark.parametrize(("version", "is_problem"), [(91_500, False), (90_200, True)])
def test_a_convolution_that_is_too_large_for_an_older_cudnn_is_seen(
    version: int, is_problem: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pretended_gpu(has_values=False) as gpu:
        monkeypatch.setattr(torch.backends.cudnn, "version", lambda: version)
        frames = torch.empty(1, 1, 2**16, 2**15, dtype=torch.float16, device="cuda")
        F.conv2d(frames, torch.empty(1, 1, 1, 1, dtype=torch.float16, device="cuda"))
        monkeypatch.undo()
    assert bool(gpu.record.problems) == is_problem


def test_short_work_is_called_until_the_launches_are_hidden() -> None:
    with pretended_gpu():
        x = torch.ones(8, device="cuda")
        calls = Mock(side_effect=lambda: x.add_(1))
        found = timing.measure(calls, "cuda", runs=1)
        assert calls.call_count == 1 + timing._MOST_CALLS
        assert found.seconds == pytest.approx(1e-5)
        long = Mock(side_effect=lambda: [x.add_(1) for _ in range(3000)])
        found = timing.measure(long, "cuda", runs=1)
        assert long.call_count == 1
        assert found.seconds == pytest.approx(0.03)


def test_the_spill_guard_knows_what_is_pinned_not_what_was_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_memory, "own_bytes", lambda: 0)
    guards = Mock()
    monkeypatch.setattr(gpu_guard, "SpillGuard", guards)
    monkeypatch.setattr(gpu_guard, "expected_seconds", lambda plan: {})
    gpu_guard._guard(Mock(plan=Mock(work=Mock(pin_bytes=10**9))))
    pinned = guards.call_args.args[1]
    with pretended_gpu() as gpu:
        assert pinned() == 0
        held = HostBytes(3000, GPU)
        assert held.pinned
        assert pinned() == 3000 == sum(gpu.registered.values())
        held.release()
        assert pinned() == torch_memory.pinned_bytes() == 0


def test_threads_have_the_gpu_too_and_their_own_stream() -> None:
    streams: list[Any] = []

    def work() -> None:
        streams.append(torch.cuda.current_stream())
        torch.ones(4, device="cuda").add_(1)

    with pretended_gpu() as gpu:
        with torch.cuda.stream(torch.cuda.Stream()):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            streams.append(torch.cuda.current_stream())
        gc.collect()
    assert streams[0] is gpu.default
    assert streams[1] is not gpu.default
    assert gpu.record.launches["add_"] == 1


def test_a_limit_is_kept() -> None:
    with pretended_gpu(total_bytes=2**27) as gpu:
        held = torch.empty(2**26, dtype=torch.uint8, device="cuda")
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(2**27, dtype=torch.uint8, device="cuda")
        del held
        again = torch.empty(2**27, dtype=torch.uint8, device="cuda")
        assert gpu.allocator.reserved == again.nbytes == 2**27


@pytest.mark.parametrize("fails", [False, True])
def test_memory_that_cannot_be_pinned_is_used_as_it_is(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """torch finds the error with its next kernel, which is none of the model."""
    with pretended_gpu() as gpu, ExitStack() as stack:
        refusing = Mock(cudaHostRegister=Mock(return_value=2))
        stack.enter_context(patch.object(torch.cuda, "cudart", lambda: refusing))
        if fails:
            late = RuntimeError("CUDA error: out of memory")
            stack.enter_context(patch.object(gpu, "launch", side_effect=late))
        held = HostBytes(100, GPU)
        assert not held.pinned
        assert held.flat.fill_(7).sum() == 700
        held.release()
        refusing.cudaHostUnregister.assert_not_called()
        assert torch_memory.pinned_bytes() == 0
        assert gpu.record.launches["add_"] == (not fails)  # the kernel that finds the error
    assert "100 bytes could not be pinned (CUDA error 2)" in caplog.text


def test_a_block_that_is_nowhere_on_the_host_is_an_error() -> None:
    layer = torch.nn.Linear(4, 4)
    block = StreamedBlock(FlatTensors(layer, {"weight": torch.float32}))
    with pretended_gpu():
        buffers = GpuBuffers(GPU, {0: block}, 1)
        with pytest.raises(ValueError, match="needs memory to be assembled in"):
            buffers.copy(block, buffers.slots[0])
        buffers.pin({0: block}, 0)  # that is what it is for
        buffers.copy(block, buffers.slots[0])
        buffers.wait(buffers.slots[0])
        (found,) = block.tensors_in(buffers.slots[0])
        torch.testing.assert_close(found.cpu(), layer.weight)


def test_a_dropped_canvas_waits_for_its_copies() -> None:
    with pretended_gpu() as gpu:
        sink = TileSink(4, Size(8, 6))
        sink.add(torch.zeros(4, 3, 6, 8, device="cuda"), Box(0, 0, 8, 6), 0)
        waits = gpu.record.waits.total()
        del sink
        gc.collect()
        assert gpu.record.waits.total() == waits + 1
    assert not gpu.record.problems


def test_kept_frames_of_another_layout_are_copied() -> None:
    with pretended_gpu() as gpu:
        x = torch.randn(3, 32, 4, 5, device="cuda").contiguous(memory_format=torch.channels_last)
        weight, bias = torch.ones(2, 32, device="cuda")
        out, kept = torch.empty_like(x), torch.empty(2, 32, 4, 5, device="cuda")
        group_norm_silu(x, weight, bias, 8, 1e-6, out, kernels=True, kept=kept)
        assert torch.equal(kept.cpu(), out[1:].cpu())
    assert "kernel normalise" in gpu.record.launches


def test_a_vae_takes_the_forms_that_a_trial_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(
        device: torch.device, dtype: torch.dtype, layer: LayerKind, kernel: object
    ) -> ConvolutionChoice:
        assert (device, dtype, kernel) == (GPU, torch.float32, None)
        form: Form = forms.setdefault(layer, "3d" if len(forms) % 2 else "2d")
        return ConvolutionChoice(form=form, reason="tried", winograd=True)

    forms: dict[LayerKind, Form] = {}
    monkeypatch.setattr(frame_conv, "choose_convolution", choose)
    model = tiny_vae(tiny_config(), dtype=torch.float32)
    latent = random_frames(1, tiny_config().latent_channels, 3, 6, 8, dtype=torch.float32)
    switches = VaeSwitches(temporal_winograd=True)
    with pretended_gpu() as gpu:
        vae = FastVae(tiny_config(), model.state_dict(), device="cuda", switches=switches)
        found = vae.decode(latent).cpu()
    assert len(forms) > 10
    assert {layer.stride for layer in forms} == {(1, 1), (2, 2)}
    assert not gpu.record.problems
    torch.testing.assert_close(found, model.decode(latent), rtol=0, atol=1e-4)
