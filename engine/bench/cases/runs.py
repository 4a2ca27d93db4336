"""Runs of a video VAE or of a SeedVR2 transformer with random weights and random input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn

from engine.bench.cases.vae_models import VaeRun
from engine.bench.options import BenchOptions, request_of
from engine.core.errors import NoUsableGpu
from engine.core.geometry import Size
from engine.hardware import devices
from engine.hardware.budget import Budget, measure_budget
from engine.models.seedvr2.dit.random_dit import DitRun, Kind, usual_run
from engine.settings.optimisations import VaeSwitches
from engine.settings.store import load_engine_settings

if TYPE_CHECKING:
    from engine.models.video_vae.measured import Side
    from engine.models.video_vae.slicing import SlicedVae

AnyRun = TypeVar("AnyRun", VaeRun, DitRun)

_SEED = 20260101
_VAE_SIZES = {"cpu": Size(256, 256), "cuda": Size(1024, 1024)}  # cpu: that of the public figures


def device_of(options: BenchOptions) -> str:
    """Kind of the device: a GPU where torch can use one, unless the options name another.

    Raises:
        NoUsableGpu: A GPU is requested and torch has none.
    """
    has_gpu = torch.cuda.is_available()
    if options.device not in (devices.AUTO, devices.CPU) and not has_gpu:
        raise NoUsableGpu("bench")
    return "cuda" if has_gpu and options.device != devices.CPU else "cpu"


def require_gpu(options: BenchOptions) -> str:
    """The device of a case that measures nothing but a GPU.

    Raises:
        NoUsableGpu: torch has none, or the options name the processor.
    """
    device = device_of(options)
    if device != "cuda":
        raise NoUsableGpu("bench-case")
    return device


def job_budget() -> Budget:
    """What a job may use of this machine now."""
    return measure_budget(load_engine_settings(), Path.cwd(), Path.cwd())


def allowed_gpu_bytes() -> int:
    """Memory of the GPU that a job may use now, some of it for other programs left out."""
    return job_budget().vram_bytes or int(torch.cuda.mem_get_info()[0])


def capability_of(device: str) -> tuple[int, int] | None:
    """CUDA capability of the GPU; None for a processor."""
    return torch.cuda.get_device_capability() if device == "cuda" else None


def vae_run(options: BenchOptions, side: Side) -> VaeRun:
    """One frame through the plain variant, as the options say or as suits the device."""
    device = device_of(options)
    size = _VAE_SIZES[device]
    if options.quick:
        size = Size(size.width // 4, size.height // 4)
    return VaeRun(
        model=options.model,
        side=side,
        form="plain",
        switches=VaeSwitches(),
        frames=1,
        size=options.size or size,
        dtype=options.dtype or ("float16" if device == "cuda" else "float32"),
        device=device,
        threads=options.threads or devices.cpu_threads(),
        config=options.vae_config,
    )


def random_weights(run: VaeRun) -> dict[str, Tensor]:
    """Published name -> float32 tensor, the same each time; activations keep their size."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        return dict(_module(run.plain()).state_dict())


def build_vae(run: VaeRun, weights: Mapping[str, Tensor] | None = None) -> SlicedVae:
    """The VAE of a run, with slicing; with random weights where none are given."""
    weights = random_weights(run) if weights is None else weights
    vae = run.fast(weights) if run.form == "fast" else _plain_vae(run, weights)
    vae.enable_slicing(run.slice_frames)
    return vae


def _plain_vae(run: VaeRun, weights: Mapping[str, Tensor]) -> SlicedVae:
    with torch.device("meta"):
        vae = run.plain()
    tensors = {name: value.to(run.device, run.torch_dtype) for name, value in weights.items()}
    module = _module(vae)
    module.load_state_dict(tensors, assign=True)
    module.eval().requires_grad_(False)
    return vae


def _module(vae: SlicedVae) -> nn.Module:
    """The plain variant of a VAE, which is a module of torch too."""
    assert isinstance(vae, nn.Module)
    return vae


def vae_input(run: VaeRun) -> Tensor:
    """Frames [1, 3, T, H, W] in [-1, 1] to encode, or a latent of variance 1 to decode."""
    generator = torch.Generator().manual_seed(_SEED)
    config = run.config
    if run.side == "encode":
        shape = (1, config.in_channels, run.frames, run.size.height, run.size.width)
        clip = torch.rand(shape, generator=generator) * 2 - 1
    else:
        steps = (run.frames - 1) // config.temporal_factor + 1
        factor = config.spatial_factor
        height, width = run.size.height // factor, run.size.width // factor
        shape = (1, config.latent_channels, steps, height, width)
        clip = torch.randn(shape, generator=generator)
    return clip.to(run.device, run.torch_dtype)


def vae_work(run: VaeRun, vae: SlicedVae, clip: Tensor | None = None) -> Callable[[], Tensor]:
    """The work of a run, to be called as often as needed; on random input where none is given.

    Both variants compute under the same settings of cuDNN: float32 without TF32, algorithms tried
    out once for each shape.
    """
    clip = vae_input(run) if clip is None else clip
    cudnn = torch.backends.cudnn

    def work() -> Tensor:
        settings = cudnn.flags(enabled=True, benchmark=True, allow_tf32=False)
        with torch.inference_mode(), settings:
            return vae.encode(clip) if run.side == "encode" else vae.decode(clip)

    return work


def dit_run(options: BenchOptions, kind: Kind) -> DitRun:
    """Five frames through the plain variant, as the options say or as suits the device."""
    run = usual_run(request_of(options, device_of(options)), kind)
    return run if options.dit is None else replace(run, config=options.dit)


def variants(options: BenchOptions, base: AnyRun) -> Iterator[tuple[str, AnyRun]]:
    """Title and run of everything that is compared: plain, fast, fast with other switches."""
    if options.form in ("plain", "both"):
        yield "plain", base
    fast, usual = replace(base, form="fast"), base.switches
    if options.form in ("fast", "both"):
        yield "fast", fast
    for name in usual.known(options.without):
        yield f"without {name}", replace(fast, switches=usual.changed(name, False))
    for name in usual.known(options.only):
        yield f"only {name}", replace(fast, switches=usual.only(name))
