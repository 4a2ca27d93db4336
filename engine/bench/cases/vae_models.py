"""The video VAEs that can be measured, a line for each, and what a run needs of its family.

Loads without torch: options are checked before it is there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from engine.core.geometry import Size
from engine.models.seedvr2.vae.config import VAE, VaeConfig
from engine.models.video_vae.workload import Flops, Work
from engine.models.wan.vae.config import (
    WAN2X,
    WAN21,
    WAN22,
    WanConfig,
)
from engine.protocol.plan import WeightsPlan
from engine.settings.optimisations import VaeSwitches

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from engine.models.seedvr2.vae.fast import FastVae
    from engine.models.seedvr2.vae.plain import SeedVr2Vae
    from engine.models.wan.vae.fast import FastWanVae
    from engine.models.wan.vae.plain import WanVae

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
    def flops(self) -> int:
        """Floating-point operations of this form, the folds counted."""
        family = self.family()
        count = family.encode_flops if self.side == "encode" else family.decode_flops
        return count(self.config, self.work).total

    def plain(self) -> Plain:
        """The plain form in float32, with numbers out of torch's generator."""
        return self.family().plain(self.config)

    def fast(self, weights: Mapping[str, Tensor]) -> Fast:
        """The fast form with these numbers."""
        return self.family().fast(self.config, weights, **self._where())

    def loaded(self, path: Path) -> Vae:
        """The run's form with the numbers of a file.

        Raises:
            WeightsError: It is none of this family.
        """
        return self.family().load(path, form=self.form, config=self.config, **self._where())

    @abstractmethod
    def family(self) -> Family:
        """What the family makes and counts; loads it."""

    def _where(self) -> dict[str, Any]:
        return {"device": self.device, "dtype": self.torch_dtype, "switches": self.switches}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What a family of VAEs makes and counts."""

    plain: Callable[[Any], Plain]
    fast: Callable[..., Fast]
    load: Callable[..., Vae]
    encode_flops: Callable[[Any, Work], Flops]
    decode_flops: Callable[[Any, Work], Flops]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedVr2Run(VaeRun):
    """A run of the SeedVR2 VAE."""

    config: VaeConfig

    def family(self) -> Family:
        """That of SeedVR2."""
        from engine.models.seedvr2.vae import (
            fast as vae_fast,
        )
        from engine.models.seedvr2.vae import (
            flops,
        )
        from engine.models.seedvr2.vae import (
            load as load_vae,
        )
        from engine.models.seedvr2.vae import (
            plain as vae,
        )

        return Family(
            plain=vae.SeedVr2Vae,
            fast=vae_fast.FastVae,
            load=load_vae.load_vae,
            encode_flops=flops.encode_flops,
            decode_flops=flops.decode_flops,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WanRun(VaeRun):
    """A run of one of the Wan VAEs."""

    config: WanConfig

    def family(self) -> Family:
        """That of Wan."""
        from engine.models.wan.vae import (
            fast as vae_fast,
        )
        from engine.models.wan.vae import (
            flops,
        )
        from engine.models.wan.vae import (
            load as load_vae,
        )
        from engine.models.wan.vae import (
            plain as vae,
        )

        return Family(
            plain=vae.WanVae,
            fast=vae_fast.FastWanVae,
            load=load_vae.load_wan,
            encode_flops=flops.encode_flops,
            decode_flops=flops.decode_flops,
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
    from engine.model_files.formats.safetensors_file import SafetensorsFile
    from engine.models.seedvr2.vae.load import vae_config_of

    with SafetensorsFile(weights.path) as file:
        return vae_config_of(file)
