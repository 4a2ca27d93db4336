"""Each VAE with its convolutions by our kernel, on a pretended GPU that computes what it means.

The kernel itself is tested in `tests/engine/ops/kernels`: here is what layers give it to read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from engine.models.video_vae.causal_layers import KernelCausalConv
from engine.ops.conv import frame_conv
from engine.ops.conv.kernel_conv import KernelConv, KernelPhases
from engine.ops.conv.trial import ConvolutionChoice, LayerKind
from engine.ops.kernels import build, nvrtc
from engine.settings.optimisations import VaeSwitches
from tests.helpers.tensors import relative_rms
from tests.helpers.vaes import EACH, ROWS, VaeRow, clip_of, latent_of
from tests.pretended_gpu.gpu import PretendedGpu
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu

KERNEL = VaeSwitches(convolution="kernel")
HALF = torch.float16
Cases = tuple[tuple[int, tuple[int, int], tuple[int | None, ...]], ...]
MOST = 6e-3  # error of half precision here, in units of the result's RMS


@pytest.fixture
def gpu() -> Iterator[PretendedGpu]:
    with pretended_gpu() as gpu:
        yield gpu
    assert not gpu.record.problems


def on_gpu(row: VaeRow, plain: Any, switches: VaeSwitches = KERNEL) -> Any:
    return row.fast(plain, switches, device="cuda", dtype=HALF)


def both_ways(vae: Any, clip: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and log-variance of a clip, and the frames of a latent."""
    return vae.posterior(clip).double().cpu(), vae.decode(latent).double().cpu()


def assert_near(found: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> None:
    for one, other in zip(found, right, strict=True):
        assert one.shape == other.shape
        assert relative_rms(one, other) < MOST


def assert_equal(row: VaeRow, gpu: PretendedGpu, cases: Cases, switches: VaeSwitches) -> None:
    """The fast variant is the plain one but for rounding: frames, positions, sizes of slices."""
    plain = row.plain(row.half)
    vae = on_gpu(row, plain, switches)
    for frames, places, slices in cases:
        clip = clip_of(row.half, frames, *places)
        latent = latent_of(row.half, 1 + frames // 4, *places)
        right = both_ways(plain, clip, latent)
        for size in slices:
            vae.disable_slicing() if size is None else vae.enable_slicing(size)
            gpu.record.launches.clear()
            assert_near(both_ways(vae, clip.half(), latent.half()), right)
            ours = gpu.record.launches["kernel convolve"]
            assert ours > 10 * gpu.record.launches["convolution"]  # of three colours


IMAGE: Cases = ((1, (3, 3), (None,)),)  # takes the fold
CLIPS: Cases = ((5, (1, 3), (None, 4)), (13, (2, 1), (4, 8)))  # slices shorter than the past, too


@EACH
def test_it_equals_the_plain_variant_in_slices_and_whole(row: VaeRow, gpu: PretendedGpu) -> None:
    assert_equal(row, gpu, IMAGE + CLIPS, KERNEL)


@pytest.mark.parametrize("name", ["fused_norm", "in_place", "first_frame_fold", "ring_buffers"])
def test_switches_change_nothing(name: str, gpu: PretendedGpu) -> None:
    switches = KERNEL.changed(name, on=False)
    assert_equal(ROWS["seedvr2"], gpu, CLIPS[:1], switches)


@pytest.mark.parametrize("works", [True, False])
def test_layers_are_left_to_cudnn_where_the_kernel_does_not_work(
    works: bool, gpu: PretendedGpu, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Log line, and the VAE that a trial would have given the kernel."""
    compiled, row = build.compiled, ROWS["wan 2.1"]

    def failing(device: torch.device, name: str, options: tuple[str, ...]) -> Any:
        if name == "conv" and not works:
            raise nvrtc.CompileFailed("no such architecture")
        return compiled(device, name, options)

    def choose(
        device: torch.device, dtype: torch.dtype, layer: LayerKind, kernel: object
    ) -> ConvolutionChoice:
        form: Literal["3d", "kernel"] = "3d" if kernel is None else "kernel"
        return ConvolutionChoice(form=form, reason="tried")

    monkeypatch.setattr(build, "compiled", failing)
    monkeypatch.setattr(frame_conv, "choose_convolution", choose)
    plain = row.plain(row.half)
    vae = on_gpu(row, plain, VaeSwitches())
    clip, latent = clip_of(row.half, 5, 2, 1), latent_of(row.half, 2, 2, 1)
    assert_near(both_ways(vae, clip.half(), latent.half()), both_ways(plain, clip, latent))
    assert bool(gpu.record.launches["kernel convolve"]) == works
    lines = [one for one in caplog.records if "convolution kernel" in one.getMessage()]
    assert len(lines) == (0 if works else 1)


# --- mistakes


def _in_another_order(self: Any, given: Any, into: Any = None) -> Any:
    past = given.past.flip(0) if len(given.past) > 1 else given.past.roll(1, -1)
    return _RUN(self, given._replace(past=past), into)


def _zeros_for_copies(self: Any, given: Any, into: Any = None) -> Any:
    return self._into(given, into, self._usual.program.taps.reach - 1)


@contextmanager
def _nothing_kept(self: Any, *given: Any) -> Iterator[Tensor | None]:
    with _KEEPING(self, *given) as kept:
        yield kept
        if kept is not None:
            kept.zero_()


def _without_past(self: Any, frames: Tensor, out: Tensor, past: Any = None) -> None:
    _WRITE(self, frames, out, None if past is None else torch.zeros_like(past))


_RUN, _KEEPING = KernelConv.run, KernelCausalConv._keeping
_WRITE = KernelPhases.write
MISTAKES: dict[str, tuple[Any, str, Any, Cases]] = {
    "past frames in another order": (KernelConv, "run", _in_another_order, CLIPS),
    "zeros where copies belong": (KernelConv, "run_first", _zeros_for_copies, IMAGE),
    "last frames that are not kept": (KernelCausalConv, "_keeping", _nothing_kept, CLIPS),
    "an upsampler without a past": (KernelPhases, "write", _without_past, CLIPS),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_found(name: str, gpu: PretendedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, method, wrong, cases = MISTAKES[name]
    monkeypatch.setattr(owner, method, wrong)
    with pytest.raises(AssertionError):
        assert_equal(ROWS["seedvr2"], gpu, cases, KERNEL)
