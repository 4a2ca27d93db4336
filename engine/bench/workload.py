"""Networks at work on random input, as the benchmark measures them, and files of such networks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.bench.run import BenchOptions, vae_models
from engine.core.errors import NoUsableGpu
from engine.core.geometry import Size
from engine.hardware import devices
from engine.hardware.budget import Budget, measure_budget
from engine.models.load import Form, shapes_alone
from engine.models.seedvr2.dit.config import DIT_3B
from engine.models.seedvr2.dit.random_dit import MIDDLE, TEXT_LENGTH, DitRun, Kind, usual_run
from engine.models.seedvr2.dit.random_file import RandomFile
from engine.models.seedvr2.vae.config import VAE
from engine.models.video_vae.measured_memory import MeasuredVae
from engine.models.video_vae.measuring import ClipUse, clip_use
from engine.models.video_vae.slicing import SlicedVae
from engine.models.video_vae.vae_use import Side, VaeUse
from engine.settings.optimisations import VaeSwitches
from engine.settings.schema import JobSettings
from engine.settings.store import load_engine_settings

_SEED = 20260101
_VAE_SIZES = {"cpu": Size(256, 256), "cuda": Size(1024, 1024)}  # cpu: that of the public figures


# --- the device


def device_of(options: BenchOptions) -> str:
    """Kind of the device: a GPU where torch can use one, unless the options name another.

    A GPU that is named and cannot be used is refused.
    """
    has_gpu = torch.cuda.is_available()
    if options.device not in (devices.AUTO, devices.CPU) and not has_gpu:
        raise NoUsableGpu("bench")
    return "cuda" if has_gpu and options.device != devices.CPU else "cpu"


def require_gpu(options: BenchOptions) -> str:
    """The device of a case that measures nothing but a GPU; refused without one."""
    device = device_of(options)
    if device != "cuda":
        raise NoUsableGpu("bench-case")
    return device


def capability_of(device: str) -> tuple[int, int] | None:
    """CUDA capability of the GPU; None for a CPU."""
    return torch.cuda.get_device_capability() if device == "cuda" else None


def job_budget() -> Budget:
    """Resources of this computer that a job may use now."""
    return measure_budget(load_engine_settings(), Path.cwd(), Path.cwd())


def allowed_gpu_bytes() -> int:
    """Memory of the GPU that a job may use now, some of it for other programs left out."""
    return job_budget().vram_bytes or int(torch.cuda.mem_get_info()[0])


# --- networks at work


@dataclass(frozen=True, slots=True, kw_only=True)
class VaeRun:
    """A video VAE at work, with random weights; plain data, so that another process can do it.

    `DitRun` is its counterpart for a SeedVR2 transformer, with the same methods.
    """

    model: str  # id of the VAE
    side: Side
    form: Form
    switches: VaeSwitches
    frames: int
    size: Size  # size of a frame that is encoded, or would be encoded to the latent that is decoded
    dtype: str
    device: str
    threads: int
    config: Any  # sizes of the VAE, of the class that its family has for them

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype."""
        found: torch.dtype = getattr(torch, self.dtype)
        return found

    @property
    def slice_frames(self) -> int:
        """Frames of a slice after the first one, as the model was published."""
        return int(self.config.slice_latents * self.config.temporal_factor)

    @property
    def operations(self) -> float:
        """Floating-point operations of this form, the folds counted."""
        return float(self._counted.operations)

    @property
    def planned_bytes(self) -> int:
        """Bytes that the planner counts for one call of the fast variant, without its weights."""
        return self._counted.peak_bytes

    @property
    def _counted(self) -> ClipUse:
        """Measured without values, at these sizes; the folds only where the form has them."""
        use = VaeUse(
            dtype=self.dtype,
            device="cuda" if self.device == "cuda" else "cpu",
            switches=self.switches if self.form == "fast" else VaeSwitches.all_off(),
            slice_frames=self.slice_frames,
        )
        return clip_use(self._code, self.config, use, self.side, self.size, self.frames)

    def weights(self) -> dict[str, Tensor]:
        """Published name -> float32 tensor, the same each time; activations keep their size."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_SEED)
            return dict(self._plain().state_dict())

    def built(self, weights: Mapping[str, Tensor] | None = None) -> SlicedVae:
        """The VAE, with slicing; with random weights where none are given."""
        weights = self.weights() if weights is None else weights
        if self.form == "fast":
            vae: Any = self._code.loader.fast(self.config, weights, **self._where())
        else:
            with shapes_alone():
                vae = self._plain()
            tensors = {name: one.to(self.device, self.torch_dtype) for name, one in weights.items()}
            vae.load_state_dict(tensors, assign=True)
            vae.eval().requires_grad_(False)
        return self._sliced(vae)

    def loaded(self, path: Path) -> SlicedVae:
        """The VAE with the weights of a file, with slicing."""
        load = self._code.loader.load
        return self._sliced(load(path, form=self.form, config=self.config, **self._where()))

    def input(self) -> Tensor:
        """Frames [1, 3, T, H, W] in [-1, 1] to encode, or a latent of variance 1 to decode."""
        generator, config = torch.Generator().manual_seed(_SEED), self.config
        if self.side == "encode":
            shape = (1, config.in_channels, self.frames, self.size.height, self.size.width)
            clip = torch.rand(shape, generator=generator) * 2 - 1
        else:
            steps = (self.frames - 1) // config.temporal_factor + 1
            factor = config.spatial_factor
            height, width = self.size.height // factor, self.size.width // factor
            shape = (1, config.latent_channels, steps, height, width)
            clip = torch.randn(shape, generator=generator)
        return clip.to(self.device, self.torch_dtype)

    def work_of(self, vae: SlicedVae, clip: Tensor | None = None) -> Callable[[], Tensor]:
        """The work, to be called as often as needed; on random input where none is given.

        Both variants compute under the same settings of cuDNN: float32 without TF32, algorithms
        tried out once for each shape.
        """
        clip = self.input() if clip is None else clip
        cudnn = torch.backends.cudnn

        def work() -> Tensor:
            settings = cudnn.flags(enabled=True, benchmark=True, allow_tf32=False)
            with torch.inference_mode(), settings:
                return vae.encode(clip) if self.side == "encode" else vae.decode(clip)

        return work

    def ready(self) -> Callable[[], Tensor]:
        """The work, with a model of its own."""
        return self.work_of(self.built())

    def _plain(self) -> nn.Module:
        """The plain variant in float32, with weights out of torch's generator."""
        vae: nn.Module = self._code.loader.plain(self.config)
        return vae

    @property
    def _code(self) -> MeasuredVae:
        return vae_models()[self.model].code

    def _where(self) -> dict[str, Any]:
        return {"device": self.device, "dtype": self.torch_dtype, "switches": self.switches}

    def _sliced(self, vae: SlicedVae) -> SlicedVae:
        vae.enable_slicing(self.slice_frames)
        return vae


AnyRun = TypeVar("AnyRun", VaeRun, DitRun)


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


def dit_run(options: BenchOptions, kind: Kind) -> DitRun:
    """Five frames through the plain variant, as the options say or as suits the device."""
    run = usual_run(options.request(device_of(options)), kind)
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


# --- files of models with random weights, so that jobs can be measured without published ones


def write_wan(folder: Path, *, codec: str) -> JobSettings:
    """Wan 2x in its published size; the settings of a job that takes it."""
    path = folder / "wan.safetensors"
    _write_vae(path, BenchOptions(model="wan-2x", device="cpu"), {})
    return JobSettings(model="wan-2x", vae=str(path), codec=codec)


def write_seedvr2(
    folder: Path, *, codec: str = "auto", device: str = "cpu", parts: int = 2
) -> JobSettings:
    """SeedVR2 3B and the settings of a job on a device that takes it.

    On a GPU it has its published size, the transformer in fp8: 4 GB; on a CPU the transformer is
    small and the VAE has one part of its channels: 150 MB with half of them.

    Memory: the transformer twice.
    """
    on_gpu = device == "cuda"
    config = VAE if on_gpu else VAE.narrower(parts)
    vae, dit, text = (folder / name for name in ("vae.safetensors", "dit.safetensors", "text.pt"))
    options = BenchOptions(model="seedvr2-vae", device="cpu", config=config)
    _write_vae(vae, options, {"config": json.dumps({"norm_num_groups": config.norm_groups})})
    sizes = DIT_3B if on_gpu else MIDDLE["3b"]
    file = RandomFile(sizes, "float16", "F8_E4M3" if on_gpu else "", device)
    save_file({name: file.tensor(name) for name in file.shapes}, dit, file.metadata)
    torch.save(torch.randn(TEXT_LENGTH, sizes.text_in_dim).bfloat16(), text)
    return JobSettings(
        model="seedvr2-3b",
        scale=2,
        codec=codec,
        device=device,
        vae=str(vae),
        dit=str(dit),
        text_embedding=str(text),
    )


def _write_vae(path: Path, options: BenchOptions, metadata: dict[str, str]) -> None:
    weights = vae_run(options, "decode").weights()
    tensors = {name: value.to(torch.float16).contiguous() for name, value in weights.items()}
    save_file(tensors, path, {"format": "pt", **metadata})
