"""One piece of work of a video VAE that is measured: random weights, random clips."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from engine.bench.cases.vae_models import VaeRun
from engine.bench.options import BenchOptions
from engine.core.errors import NoUsableGpu
from engine.core.geometry import Size
from engine.hardware import devices
from engine.settings.optimisations import VaeSwitches

if TYPE_CHECKING:
    from engine.models.video_vae.measured import Side
    from engine.models.video_vae.slicing import SlicedVae

_SEED = 20260101
_SIZE_ON_CPU = Size(256, 256)  # that of the public figures
_SIZE_ON_CARD = Size(1024, 1024)


def base_run(options: BenchOptions, side: Side) -> VaeRun:
    """What the options ask for, and what suits the device else: the plain form, one frame."""
    device = device_of(options)
    on_card = device == "cuda"
    size = _SIZE_ON_CARD if on_card else _SIZE_ON_CPU
    if options.quick:
        size = Size(size.width // 4, size.height // 4)
    return VaeRun(
        model=options.model,
        side=side,
        form="plain",
        switches=VaeSwitches(),
        frames=1,
        size=options.size or size,
        dtype=options.dtype or ("float16" if on_card else "float32"),
        device=device,
        threads=options.threads or devices.cpu_threads(),
        config=options.vae_config,
    )


def device_of(options: BenchOptions) -> str:
    """Kind of the device: a card where there is one, unless told otherwise.

    Raises:
        NoUsableGpu: A card is wanted and torch has none.
    """
    has_card = torch.cuda.is_available()
    if options.device == "cuda" and not has_card:
        raise NoUsableGpu("torch can use no NVIDIA card here.", hint="Leave --device out.")
    if options.device != "auto":
        return options.device
    return "cuda" if has_card else "cpu"


def capability_of(device: str) -> tuple[int, int] | None:
    """Of the card; None for a processor."""
    return torch.cuda.get_device_capability() if device == "cuda" else None


def random_weights(run: VaeRun) -> dict[str, Tensor]:
    """Published name -> float32 tensor, the same each time; what goes through keeps its size."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        return dict(_module(run.plain()).state_dict())


def build(run: VaeRun, weights: Mapping[str, Tensor] | None = None) -> SlicedVae:
    """The model of a run, ready; `weights` are made when they are not given."""
    weights = random_weights(run) if weights is None else weights
    vae = run.fast(weights) if run.form == "fast" else _plain(run, weights)
    vae.enable_slicing(run.slice_frames)
    return vae


def _plain(run: VaeRun, weights: Mapping[str, Tensor]) -> SlicedVae:
    with torch.device("meta"):
        vae = run.plain()
    given = {name: value.to(run.device, run.torch_dtype) for name, value in weights.items()}
    module = _module(vae)
    module.load_state_dict(given, assign=True)
    module.eval().requires_grad_(False)
    return vae


def _module(vae: SlicedVae) -> nn.Module:
    """The plain form of a VAE, which is a module of torch too."""
    assert isinstance(vae, nn.Module)
    return vae


def clip_of(run: VaeRun) -> Tensor:
    """What goes in: frames in [-1, 1], or a latent with a variance of one."""
    generator = torch.Generator().manual_seed(_SEED)
    config = run.config
    if run.side == "encode":
        shape = (1, config.in_channels, run.frames, run.size.height, run.size.width)
        clip = torch.rand(shape, generator=generator) * 2 - 1
    else:
        steps = (run.frames - 1) // config.temporal_factor + 1
        height, width = (
            side // config.spatial_factor for side in (run.size.height, run.size.width)
        )
        shape = (1, config.latent_channels, steps, height, width)
        clip = torch.randn(shape, generator=generator)
    return clip.to(run.device, run.torch_dtype)


def work_of(run: VaeRun, vae: SlicedVae, clip: Tensor | None = None) -> Callable[[], Tensor]:
    """The work itself, to be called as often as needed; without a clip on a random one.

    Both forms compute under the same settings of cuDNN: float32 means float32, and shapes are
    tried out once.
    """
    given = clip_of(run) if clip is None else clip
    cudnn = torch.backends.cudnn

    def work() -> Tensor:
        settings = cudnn.flags(enabled=True, benchmark=True, allow_tf32=False)
        with torch.inference_mode(), settings:
            return vae.encode(given) if run.side == "encode" else vae.decode(given)

    return work
