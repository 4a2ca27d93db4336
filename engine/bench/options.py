"""Options of the benchmark. Loads without torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.bench.cases.vae_models import models
from engine.core.errors import SettingsError
from engine.core.geometry import Size
from engine.hardware import devices
from engine.models.contracts import BenchRequest
from engine.models.video_vae.measured import VaeModel
from engine.settings.optimisations import (
    ALL,
    EXACT,
    DitSwitches,
    VaeSwitches,
    model_switch_names,
)

Form = Literal["plain", "fast", "both"]
DTYPES = ("float32", "float16", "bfloat16", "float64")


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What the user chose; None where the case takes what suits the device.

    Attributes:
        quick: Fewer runs and smaller frames.
        size: Of a frame, in pixels.
        frames: Lengths of clips, each measured; none takes those of the case.
        dtype: That the model computes in.
        runs: Of each piece of work, of which the median counts.
        threads: Of the processor; None takes all that this process may use.
        device: As the setting of a job; "auto" takes a GPU where torch can use one.
        form: Which variants of a model.
        without: Also measure the fast variant without each of these optimisations or groups.
        only: Also measure it with each of these alone; with "exact" without any.
        memory: Measure the peak of main memory too, in processes of their own.
        calibrate: Measure the peak rates of the device, and compare with the public figures.
        model: Which VAE.
        clip: A film for `round-trip`, or the source for `flicker`.
        result: What was made of it, for `flicker`.
        vae: Weights file of the VAE for it; None takes the published one.
        random_weights: Take random weights for it.
        config: Sizes of the VAE; None takes the published ones, tests take small ones.
        dit: Sizes of the transformer; None takes those that suit case and device.
        out: Folder for what `first-contact` writes; None: of that name, in the current one.
    """

    quick: bool = False
    size: Size | None = None
    frames: tuple[int, ...] = ()
    dtype: str | None = None
    runs: int | None = None
    threads: int | None = None
    device: str = "auto"
    form: Form = "both"
    without: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    memory: bool = True
    calibrate: bool = True
    model: str = "seedvr2-vae"
    clip: Path | None = None
    result: Path | None = None
    vae: Path | None = None
    random_weights: bool = False
    config: Any = None
    dit: Any = None
    out: Path | None = None

    @property
    def vae_model(self) -> VaeModel:
        """The VAE that is measured."""
        return models()[self.model]

    @property
    def vae_config(self) -> Any:
        """Its sizes."""
        return self.config or self.vae_model.config


def request_of(options: BenchOptions, device: str) -> BenchRequest:
    """What the options ask of the models of any family."""
    return BenchRequest(
        device=device,
        dtype=options.dtype,
        size=options.size,
        threads=options.threads or devices.cpu_threads(),
        quick=options.quick,
    )


def check(options: BenchOptions) -> None:
    """Refuse names that do not exist, and impossible sizes and lengths.

    Raises:
        SettingsError: For the first of those.
    """
    _check_switches(options.without, (*model_switch_names(), ALL))
    _check_switches(options.only, (*model_switch_names(), ALL, EXACT))
    devices.named(options.device, devices.gpus())
    _check_names("dtype", () if options.dtype is None else (options.dtype,), DTYPES)
    _check_names("vae", (options.model,), tuple(models()))
    factor, step = options.vae_config.spatial_factor, options.vae_config.temporal_factor
    size = options.size
    if size is not None and (size.is_empty or size.width % factor or size.height % factor):
        raise SettingsError("not-encodable", size=size, factor=factor)
    for frames in options.frames:
        if frames < 1 or (frames - 1) % step:
            lengths = ", ".join(str(1 + step * n) for n in range(3))
            raise SettingsError("not-a-clip-length", frames=frames, lengths=lengths)
    for name, count in (("threads", options.threads), ("runs", options.runs)):
        if count is not None and count < 1:
            raise SettingsError("less-than-one", name=name)


def _check_switches(names: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Names with and without the group: "upsampler_fold", "vae.upsampler_fold", "vae.all"."""
    for name in names:
        bare = (*VaeSwitches.known((name,)), *DitSwitches.known((name,)))
        _check_names("optimisation", bare[:1] or (name,), known)


def _check_names(kind: str, names: tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in names:
        if name not in known:
            raise SettingsError(f"unknown-{kind}", name=name, known=known)
