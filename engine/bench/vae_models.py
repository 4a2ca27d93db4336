"""The video VAEs that can be measured, a line for each, and what a run needs of its family.

Loads without torch: options are checked before it is there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from engine.geometry import Size
from engine.models.seedvr2.config import VAE, VaeConfig
from engine.models.wan.config import WAN2X, WAN21, WAN22, WanConfig
from engine.models.work import Work
from engine.optimisations import VaeSwitches
from engine.plan import WeightsPlan

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from engine.models.seedvr2.vae import SeedVr2Vae
    from engine.models.seedvr2.vae_fast import FastVae
    from engine.models.wan.vae import WanVae
    from engine.models.wan.vae_fast import FastWanVae

    Plain = SeedVr2Vae | WanVae
    Fast = FastVae | FastWanVae
    Vae = Plain | Fast

Side = Literal["encode", "decode"]
Config = VaeConfig | WanConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class VaeRun(ABC):
    """What one measurement runs; plain data, so that another process can do it.

    Attributes:
        size: Of a frame that is encoded, or would be encoded to the latent that is decoded.
    """

    side: Side
    form: Literal["plain", "fast"]
    switches: VaeSwitches
    frames: int
    size: Size
    dtype: str
    device: str
    threads: int
    config: Any  # each family says what it is

    @property
    def torch_dtype(self) -> torch.dtype:
        """The number format."""
        import torch

        found: torch.dtype = getattr(torch, self.dtype)
        return found

    @property
    def slice_frames(self) -> int:
        """Frames of a slice after the first one, as the model was published."""
        return int(self.config.slice_latents * self.config.temporal_factor)

    @property
    def work(self) -> Work:
        """What the form is asked for; the folds only where it has them."""
        switches = self.switches if self.form == "fast" else VaeSwitches.all_off()
        return Work(
            frames=self.frames,
            size=self.size,
            switches=switches,
            slice_frames=self.slice_frames,
        )

    @property
    @abstractmethod
    def flops(self) -> int:
        """Floating-point operations of this form, the folds counted."""

    @abstractmethod
    def plain(self) -> Plain:
        """The plain form in float32, with numbers out of torch's generator."""

    @abstractmethod
    def fast(self, weights: Mapping[str, Tensor]) -> Fast:
        """The fast form with these numbers."""

    @abstractmethod
    def loaded(self, path: Path) -> Vae:
        """The run's form with the numbers of a file.

        Raises:
            WeightsError: It is none of this family.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedVr2Run(VaeRun):
    """A run of the SeedVR2 VAE."""

    config: VaeConfig

    @property
    def flops(self) -> int:
        """Floating-point operations of this form, the folds counted."""
        from engine.models.seedvr2 import flops

        count = flops.encode_flops if self.side == "encode" else flops.decode_flops
        return count(self.config, self.work).total

    def plain(self) -> SeedVr2Vae:
        """The plain form in float32, with numbers out of torch's generator."""
        from engine.models.seedvr2.vae import SeedVr2Vae

        return SeedVr2Vae(self.config)

    def fast(self, weights: Mapping[str, Tensor]) -> FastVae:
        """The fast form with these numbers."""
        from engine.models.seedvr2.vae_fast import FastVae

        return FastVae(
            self.config,
            weights,
            device=self.device,
            dtype=self.torch_dtype,
            switches=self.switches,
        )

    def loaded(self, path: Path) -> Vae:
        """The run's form with the numbers of a file."""
        from engine.models.seedvr2.load_vae import load_vae

        return load_vae(
            path,
            form=self.form,
            device=self.device,
            dtype=self.torch_dtype,
            switches=self.switches,
            config=self.config,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WanRun(VaeRun):
    """A run of one of the Wan VAEs."""

    config: WanConfig

    @property
    def flops(self) -> int:
        """Floating-point operations of this form, the folds counted."""
        from engine.models.wan import flops

        count = flops.encode_flops if self.side == "encode" else flops.decode_flops
        return count(self.config, self.work).total

    def plain(self) -> WanVae:
        """The plain form in float32, with numbers out of torch's generator."""
        from engine.models.wan.vae import WanVae

        return WanVae(self.config)

    def fast(self, weights: Mapping[str, Tensor]) -> FastWanVae:
        """The fast form with these numbers."""
        from engine.models.wan.vae_fast import FastWanVae

        return FastWanVae(
            self.config,
            weights,
            device=self.device,
            dtype=self.torch_dtype,
            switches=self.switches,
        )

    def loaded(self, path: Path) -> Vae:
        """The run's form with the numbers of a file."""
        from engine.models.wan.load_vae import load_wan

        return load_wan(
            path,
            form=self.form,
            device=self.device,
            dtype=self.torch_dtype,
            switches=self.switches,
            config=self.config,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VaeModel:
    """One VAE that can be measured.

    Attributes:
        title: For tables.
        config: Sizes of the published one.
        run: What its measurements are.
        published: A model in the catalogue that it belongs to.
    """

    title: str
    config: Config
    run: type[VaeRun]
    published: str


MODELS = {
    "seedvr2-vae": VaeModel(
        title="SeedVR2 VAE", config=VAE, run=SeedVr2Run, published="seedvr2-3b"
    ),
    "wan21-vae": VaeModel(title="Wan 2.1 VAE", config=WAN21, run=WanRun, published="wan21-vae"),
    "wan22-vae": VaeModel(title="Wan 2.2 VAE", config=WAN22, run=WanRun, published="wan22-vae"),
    "wan-2x": VaeModel(title="Wan 2x", config=WAN2X, run=WanRun, published="wan-2x"),
}


def config_of(model: str, weights: WeightsPlan) -> Config:
    """Sizes of the VAE in a file that is here.

    Raises:
        WeightsError: It cannot be read, or holds another model.
    """
    if MODELS[model].run is WanRun:
        from engine.models.wan.files import wan_config

        return wan_config(weights, model)
    from engine.models.seedvr2.load_vae import vae_config_of
    from engine.weights.safetensors_file import SafetensorsFile

    with SafetensorsFile(weights.path) as file:
        return vae_config_of(file)
