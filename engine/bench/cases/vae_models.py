"""The video VAEs that can be measured, and what one measurement runs.

Loads without torch: options are checked before it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from engine.core.geometry import Size
from engine.core.serialization import from_plain
from engine.models import registry
from engine.models.video_vae.measured import Side, VaeModel
from engine.models.video_vae.workload import VaeWorkload
from engine.settings.optimisations import VaeSwitches

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from engine.models.video_vae.slicing import SlicedVae


@cache
def models() -> dict[str, VaeModel]:
    """Every VAE that a family offers, by its id."""
    return {vae.id: vae for family in registry.families() for vae in family.vaes()}


@dataclass(frozen=True, slots=True, kw_only=True)
class VaeRun:
    """What one measurement runs; plain data, so that another process can do it.

    Attributes:
        model: Id of the VAE.
        size: Of a frame that is encoded, or would be encoded to the latent that is decoded.
        config: Sizes of the VAE, of the class that its family has for them.
    """

    model: str
    side: Side
    form: Literal["plain", "fast"]
    switches: VaeSwitches
    frames: int
    size: Size
    dtype: str
    device: str
    threads: int
    config: Any

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype."""
        import torch

        found: torch.dtype = getattr(torch, self.dtype)
        return found

    @property
    def slice_frames(self) -> int:
        """Frames of a slice after the first one, as the model was published."""
        return int(self.config.slice_latents * self.config.temporal_factor)

    @property
    def work(self) -> VaeWorkload:
        """What the form is asked for; the folds only where it has them."""
        switches = self.switches if self.form == "fast" else VaeSwitches.all_off()
        return VaeWorkload(
            frames=self.frames,
            size=self.size,
            switches=switches,
            slice_frames=self.slice_frames,
        )

    @property
    def flops(self) -> int:
        """Floating-point operations of this form, the folds counted."""
        found = models()[self.model].variants()
        count = found.encode_flops if self.side == "encode" else found.decode_flops
        return count(self.config, self.work).total

    @property
    def planned_bytes(self) -> int:
        """What the planner counts for one call of the fast variant, without its weights."""
        found = models()[self.model].variants()
        cost_of = found.encode_cost if self.side == "encode" else found.decode_cost
        device: Literal["cpu", "cuda"] = "cuda" if self.device == "cuda" else "cpu"
        cost = cost_of(self.config, replace(self.work, dtype=self.dtype, device=device))
        return cost.peak_bytes - cost.weights

    def plain(self) -> SlicedVae:
        """The plain variant in float32, with weights out of torch's generator."""
        return models()[self.model].variants().plain(self.config)

    def fast(self, weights: Mapping[str, Tensor]) -> SlicedVae:
        """The fast variant with these weights."""
        return models()[self.model].variants().fast(self.config, weights, **self._where())

    def loaded(self, path: Path) -> SlicedVae:
        """The run's form with the weights of a file.

        Raises:
            WeightsError: It is none of this family.
        """
        load = models()[self.model].variants().load
        return load(path, form=self.form, config=self.config, **self._where())

    def ready(self) -> Callable[[], Tensor]:
        """The work itself, with random weights."""
        from engine.bench.cases import runs

        return runs.vae_work(self, runs.build_vae(self))

    @classmethod
    def read(cls, data: Any) -> VaeRun:
        """A run that was written as plain data."""
        run = from_plain(cls, data)
        return replace(run, config=from_plain(type(models()[run.model].config), run.config))

    def _where(self) -> dict[str, Any]:
        return {"device": self.device, "dtype": self.torch_dtype, "switches": self.switches}
