"""How thorough the benchmark is, and what the cases of video models measure; without torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.bench.cases.vae_models import MODELS, Config, VaeModel
from engine.core.errors import SettingsError
from engine.core.geometry import Size
from engine.models.seedvr2.dit.config import DitConfig
from engine.settings.optimisations import (
    ALL,
    EXACT,
    DitSwitches,
    VaeSwitches,
    model_switch_names,
)

Form = Literal["plain", "fast", "both"]
DTYPES = ("float32", "float16", "bfloat16", "float64")
DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """Choices of the user; None where the case knows what suits the device.

    Attributes:
        quick: Fewer runs and smaller pictures.
        size: Of a frame, in pixels.
        frames: Lengths of clips, one after the other; none takes those that suit the case.
        dtype: What the model computes in.
        runs: Of each piece of work, of which the median counts; None takes what suits the device.
        threads: Of the processor; None takes all that this process may use.
        device: "auto" takes a card where torch can use one.
        form: Which form of a model.
        without: Also measure the fast form without each of these optimisations, or groups of them.
        only: Also measure it with each of these alone; with "exact" without any.
        memory: Measure the peak of main memory too, in processes of their own.
        calibrate: Measure what the device can do at most, and how it compares with the machine of
            the public figures.
        model: Which VAE.
        clip: A film for `round-trip`.
        vae: File of the VAE for it; None takes the published one.
        random_weights: Take random numbers for it.
        config: Sizes of the VAE; None takes those of the published one, tests take small ones.
        dit: Sizes of the transformer; None takes those that suit case and device.
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
    vae: Path | None = None
    random_weights: bool = False
    config: Config | None = None
    dit: DitConfig | None = None

    @property
    def vae_model(self) -> VaeModel:
        """The VAE that is measured."""
        return MODELS[self.model]

    @property
    def vae_config(self) -> Config:
        """Its sizes."""
        return self.config or self.vae_model.config


def check(options: BenchOptions) -> None:
    """Refuse what no model can do.

    Raises:
        SettingsError: A name that does not exist, or an impossible size or length.
    """
    _known_switches(options.without, (*model_switch_names(), ALL))
    _known_switches(options.only, (*model_switch_names(), ALL, EXACT))
    _known("device", (options.device,), DEVICES)
    if options.dtype is not None:
        _known("number format", (options.dtype,), DTYPES)
    _known("VAE", (options.model,), tuple(MODELS))
    side, step = options.vae_config.spatial_factor, options.vae_config.temporal_factor
    size = options.size
    if size is not None and (size.is_empty or size.width % side or size.height % side):
        raise SettingsError(f"{size} cannot be encoded.", hint=f"Take multiples of {side} pixels.")
    for frames in options.frames:
        if frames < 1 or (frames - 1) % step:
            lengths = ", ".join(str(1 + step * n) for n in range(3))
            raise SettingsError(
                f"A clip cannot have {frames} frames.", hint=f"Take {lengths}, ... frames."
            )
    for name in ("threads", "runs"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise SettingsError(f"There must be one of the {name}.", hint=f"Leave --{name} out.")


def _known_switches(names: tuple[str, ...], choice: tuple[str, ...]) -> None:
    """Names with and without the group: "upsampler_fold", "vae.upsampler_fold", "vae.all"."""
    for name in names:
        bare = (*VaeSwitches.known((name,)), *DitSwitches.known((name,)))
        _known("optimisation", bare[:1] or (name,), choice)


def _known(what: str, names: tuple[str, ...], choice: tuple[str, ...]) -> None:
    for name in names:
        if name not in choice:
            raise SettingsError(
                f"There is no {what} {name!r}.", hint=f"Choose among: {', '.join(choice)}."
            )
