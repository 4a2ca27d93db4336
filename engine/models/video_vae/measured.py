"""VAEs that the benchmark can measure by themselves, as a family offers them. Loads no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from engine.models.video_vae.measured_memory import MeasuredVae
from engine.protocol.plan import WeightsPlan

if TYPE_CHECKING:
    from engine.models.video_vae.slicing import SlicedVae

Side = Literal["encode", "decode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VaeVariants:
    """Constructors of a VAE, and its measured memory.

    Attributes:
        plain: Makes it from a configuration, with random weights in float32.
        fast: Makes it from a configuration and weights by name; keywords device, dtype, switches.
        load: Loads it from a path; keywords form, config and those of `fast`.
        measured: Memory of its calls.
    """

    plain: Callable[[Any], SlicedVae]
    fast: Callable[..., SlicedVae]
    load: Callable[..., SlicedVae]
    measured: MeasuredVae


@dataclass(frozen=True, slots=True, kw_only=True)
class VaeModel:
    """One VAE.

    Attributes:
        id: For the command line.
        title: For tables.
        config: Sizes of the published one; `narrower` gives smaller ones.
        published: A model in the catalogue that it belongs to.
        variants: Loads torch.
        config_of: Sizes of the VAE in a file that is here; a WeightsError where it is another.
        sides: Sides that are not those of another VAE.
    """

    id: str
    title: str
    config: Any
    published: str
    variants: Callable[[], VaeVariants]
    config_of: Callable[[WeightsPlan], Any]
    sides: tuple[Side, ...] = ("encode", "decode")
