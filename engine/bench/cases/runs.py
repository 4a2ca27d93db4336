"""Runs of a video VAE or of a SeedVR2 transformer with random weights and random input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

import torch
from torch import Tensor

from engine.bench.cases.vae_models import Side, VaeRun
from engine.bench.options import BenchOptions
from engine.core.errors import NoUsableGpu
from engine.core.geometry import Size
from engine.hardware import devices
from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B, DitConfig
from engine.models.seedvr2.dit.fast import FastDit
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.settings.optimisations import DitSwitches, VaeSwitches

if TYPE_CHECKING:
    from engine.bench.cases.vae_models import Plain, Vae

Kind = Literal["3b", "7b"]

TIMESTEP = 1000.0  # the only one that the upscaler uses
TEXT_LENGTH = 58  # tokens of the published text
_VAE_SEED, _DIT_SEED = 20260101, 20261120
_VAE_SIZES = {"cpu": Size(256, 256), "cuda": Size(1024, 1024)}  # cpu: that of the public figures
_DIT_SIZES = {"cpu": Size(1280, 720), "cuda": Size(1920, 1088)}
_DIT_SIZE_QUICK = Size(640, 368)

# As wide as a processor can measure in minutes; heads, windows and text are the published ones.
MIDDLE: dict[Kind, DitConfig] = {
    "3b": replace(DIT_3B, dim=512, heads=4, layers=8, separate_layers=3, mlp_hidden=1536),
    "7b": replace(DIT_7B, dim=512, heads=4, layers=8, separate_layers=8, mlp_hidden=2048),
}
_PUBLISHED: dict[Kind, DitConfig] = {"3b": DIT_3B, "7b": DIT_7B}


def device_of(options: BenchOptions) -> str:
    """Kind of the device: a GPU where torch can use one, unless the options name another.

    Raises:
        NoUsableGpu: A GPU is requested and torch has none.
    """
    has_gpu = torch.cuda.is_available()
    if options.device == "cuda" and not has_gpu:
        raise NoUsableGpu("bench")
    if options.device != "auto":
        return options.device
    return "cuda" if has_gpu else "cpu"


def capability_of(device: str) -> tuple[int, int] | None:
    """CUDA capability of the GPU; None for a processor."""
    return torch.cuda.get_device_capability() if device == "cuda" else None


# Video VAEs


def vae_run(options: BenchOptions, side: Side) -> VaeRun:
    """One frame through the plain variant, as the options say or as suits the device."""
    device = device_of(options)
    size = _VAE_SIZES[device]
    if options.quick:
        size = Size(size.width // 4, size.height // 4)
    return options.vae_model.run(
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
        torch.manual_seed(_VAE_SEED)
        return dict(run.plain().state_dict())


def build_vae(run: VaeRun, weights: Mapping[str, Tensor] | None = None) -> Vae:
    """The VAE of a run, with slicing; with random weights where none are given."""
    weights = random_weights(run) if weights is None else weights
    vae = run.fast(weights) if run.form == "fast" else _plain_vae(run, weights)
    vae.enable_slicing(run.slice_frames)
    return vae


def _plain_vae(run: VaeRun, weights: Mapping[str, Tensor]) -> Plain:
    with torch.device("meta"):
        vae = run.plain()
    tensors = {name: value.to(run.device, run.torch_dtype) for name, value in weights.items()}
    vae.load_state_dict(tensors, assign=True)
    return vae.eval().requires_grad_(False)


def vae_input(run: VaeRun) -> Tensor:
    """Frames [1, 3, T, H, W] in [-1, 1] to encode, or a latent of variance 1 to decode."""
    generator = torch.Generator().manual_seed(_VAE_SEED)
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


def vae_work(run: VaeRun, vae: Vae, clip: Tensor | None = None) -> Callable[[], Tensor]:
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


# Transformers


@dataclass(frozen=True, slots=True, kw_only=True)
class DitRun:
    """One measurement of a transformer; plain data, so that another process can do it.

    Attributes:
        size: Of a frame, in pixels; the latent has an even number of positions for it.
    """

    form: Literal["plain", "fast"]
    switches: DitSwitches
    frames: int
    size: Size
    dtype: str
    device: str
    threads: int
    config: DitConfig

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype."""
        found: torch.dtype = getattr(torch, self.dtype)
        return found

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        """Positions in time, height and width."""
        height, width = (2 * -(-side // 16) for side in (self.size.height, self.size.width))
        return (self.frames - 1) // 4 + 1, height, width

    @property
    def tokens(self) -> int:
        """Of the latent; the text has its own."""
        time, height, width = self.latent_shape
        return time * height * width // 4


def dit_run(options: BenchOptions, kind: Kind) -> DitRun:
    """Five frames through the plain variant, as the options say or as suits the device."""
    device = device_of(options)
    configs = _PUBLISHED if device == "cuda" else MIDDLE
    return DitRun(
        form="plain",
        switches=DitSwitches(),
        frames=5,
        size=options.size or (_DIT_SIZE_QUICK if options.quick else _DIT_SIZES[device]),
        dtype=options.dtype or ("bfloat16" if device == "cuda" else "float32"),
        device=device,
        threads=options.threads or devices.cpu_threads(),
        config=options.dit or configs[kind],
    )


def build_dit(run: DitRun, weights: SeedVr2Dit | None = None) -> SeedVr2Dit:
    """The transformer of a run.

    Args:
        run: What is measured.
        weights: A model to share weights with, unless a switch changes them; None makes random
            ones, the same each time.
    """
    dit = weights or _random_dit(run)
    if run.form == "plain":
        return dit
    with torch.device("meta"):
        fast = FastDit(run.config, run.switches)
    state = dit.state_dict()
    if run.switches.folded_modulation:
        state = {name: value.clone() for name, value in state.items()}
    fast.load_state_dict(state, assign=True)
    fast.eval().requires_grad_(False)
    fast.finish_loading()
    return fast


def dit_inputs(run: DitRun) -> tuple[Tensor, Tensor]:
    """A noisy latent with its condition [T, H, W, C] and a text [58, C], of variance 1."""
    generator = torch.Generator().manual_seed(_DIT_SEED)
    shapes = (*run.latent_shape, run.config.in_channels), (TEXT_LENGTH, run.config.text_in_dim)
    latent, text = (torch.randn(shape, generator=generator) for shape in shapes)
    return latent.to(run.device, run.torch_dtype), text.to(run.device, run.torch_dtype)


def dit_work(run: DitRun, dit: SeedVr2Dit) -> Callable[[], Tensor]:
    """The work of a run, to be called as often as needed."""
    latent, text = dit_inputs(run)

    def work() -> Tensor:
        with torch.inference_mode():
            return torch.as_tensor(dit(latent, text, TIMESTEP))

    return work


def _random_dit(run: DitRun) -> SeedVr2Dit:
    """Activations keep about their size; weights are equal in every dtype but for rounding."""
    with torch.device("meta"):
        dit = SeedVr2Dit(run.config).to(run.torch_dtype)
    dit.to_empty(device=run.device)
    generator = torch.Generator(run.device).manual_seed(_DIT_SEED)
    with torch.no_grad():
        for name, value in dit.named_parameters():
            noise = torch.randn(value.shape, generator=generator, device=run.device)
            is_scale = value.ndim == 1 and ("norm" in name or name.endswith("scale"))
            spread = float(value.shape[-1] ** -0.5) if value.ndim > 1 else 0.3
            value.copy_(noise * spread + float(is_scale))
    return dit.eval().requires_grad_(False)


# Both

Run = VaeRun | DitRun
AnyRun = TypeVar("AnyRun", VaeRun, DitRun)


def work_of(run: Run) -> Callable[[], Tensor]:
    """The work of a run, with a model of its own."""
    if isinstance(run, DitRun):
        return dit_work(run, build_dit(run))
    return vae_work(run, build_vae(run))


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
