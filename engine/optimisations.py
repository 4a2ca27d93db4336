"""Every optimisation as data: what it is called, what it does, how exact it is, where it works.

A switch of a model is a field of its dataclass (`VaeSwitches`, `DitSwitches`) and a line of that
model's table; the benchmark turns each line on or off alone and measures it on the machine at
hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

Exactness = Literal["exact", "near-exact", "inexact"]
Convolution = Literal["auto", "2d", "3d"]

CPU = "cpu"
CUDA = "cuda"


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimisation:
    """One optimisation that can be switched on and off by itself."""

    name: str  # field of the switches
    title: str
    exactness: Exactness  # exact: equal but for rounding; near-exact: some more rounding
    default: bool
    devices: tuple[str, ...]  # kinds of torch devices that it does something on
    does: str  # one sentence
    capability: tuple[int, int] | None = None  # least CUDA capability; None: any

    def works_on(self, device: str, capability: tuple[int, int] | None = None) -> bool:
        """Whether it does something on a kind of device, a card of this capability."""
        if device not in self.devices:
            return False
        return (
            device != CUDA or self.capability is None or (capability or (0, 0)) >= self.capability
        )


_BOTH = (CPU, CUDA)

VAE_OPTIMISATIONS: tuple[Optimisation, ...] = (
    Optimisation(
        name="upsampler_fold",
        title="upsampler fold",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Convolves frames before they are enlarged, with small kernels, not afterwards.",
    ),
    Optimisation(
        name="first_frame_fold",
        title="first-frame fold",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Sums or leaves out the taps on copies or zeros that stand before a clip.",
    ),
    Optimisation(
        name="image_mode",
        title="image mode",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Computes a clip of one frame with two-dimensional convolutions only.",
    ),
    Optimisation(
        name="ring_buffers",
        title="ring buffers",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Keeps past frames of a convolution beside the new ones instead of joining copies.",
    ),
    Optimisation(
        name="channels_last",
        title="channels last",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Keeps the channels of a pixel together in memory, as convolutions want them.",
    ),
    Optimisation(
        name="fused_norm",
        title="norm and activation in one pass",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Normalises and activates in one pass that writes into the next convolution's input.",
    ),
    Optimisation(
        name="in_place",
        title="sums in place",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Adds residuals and shortcuts to tensors that are there already.",
    ),
    Optimisation(
        name="kernels",
        title="own kernels",
        exactness="exact",
        default=True,
        devices=(CUDA,),
        does="Runs the norm and its statistics in kernels that are compiled on this machine.",
        capability=(7, 5),
    ),
    Optimisation(
        name="chunked_attention",
        title="attention in chunks",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Attends for some of the pixels at a time, so that memory grows with the frame only.",
    ),
    Optimisation(
        name="chunked_upsampling",
        title="upsampling in chunks",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Upsamples frame by frame where all at once would set the peak of memory.",
    ),
    Optimisation(
        name="planned_buffers",
        title="planned buffers",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Uses the same buffers for every slice, so that the allocator has nothing to do.",
    ),
    Optimisation(
        name="temporal_winograd",
        title="Winograd over time",
        exactness="near-exact",
        default=False,
        devices=_BOTH,
        does="Makes two frames with four products instead of six, at slightly more rounding.",
    ),
    Optimisation(
        name="fp16_accumulation",
        title="sums in half precision",
        exactness="inexact",
        default=False,
        devices=(CUDA,),
        does="Lets matrix products in fp16 add up in fp16, which doubles their speed on RTX cards.",
        capability=(7, 0),
    ),
    Optimisation(
        name="cuda_graph",
        title="CUDA graph",
        exactness="exact",
        default=False,
        devices=(CUDA,),
        does="Records the work of a small tile once and replays it without the processor.",
    ),
)

DIT_OPTIMISATIONS: tuple[Optimisation, ...] = (
    Optimisation(
        name="grouped_windows",
        title="windows in groups",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Lets all windows of one shape attend in one call instead of one after the other.",
    ),
    Optimisation(
        name="cached_layout",
        title="layouts kept",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Keeps windows, indices and rotations of the last few sizes of clips.",
    ),
    Optimisation(
        name="constant_modulation",
        title="modulation kept",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Computes shifts, scales and gates of all layers once for a time step.",
    ),
    Optimisation(
        name="folded_modulation",
        title="modulation in the weights",
        exactness="near-exact",
        default=False,
        devices=_BOTH,
        does="Multiplies scales and gates of the usual time step into the weights once.",
    ),
    Optimisation(
        name="constant_text",
        title="text kept",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Computes once what the first layer makes of the text alone.",
    ),
    Optimisation(
        name="unread_text",
        title="no text that nobody reads",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Leaves out what the last layer would make of the text.",
    ),
    Optimisation(
        name="fused_steps",
        title="norms, rotation and activation in one pass each",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Does what lies between two products in one pass each, without tensors in between.",
    ),
    Optimisation(
        name="kernels",
        title="own kernels",
        exactness="exact",
        default=True,
        devices=(CUDA,),
        does="Runs these passes in kernels that are compiled on this machine.",
        capability=(7, 5),
    ),
    Optimisation(
        name="in_place_residual",
        title="sums in place",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Adds what attention and MLP give to the tokens that are there already.",
    ),
    Optimisation(
        name="token_chunks",
        title="tokens in chunks",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Projects some tokens at a time, so that memory hardly grows with the picture.",
    ),
    Optimisation(
        name="planned_buffers",
        title="planned buffers",
        exactness="exact",
        default=True,
        devices=_BOTH,
        does="Uses the same buffers in every layer, so that the allocator has nothing to do.",
    ),
    Optimisation(
        name="onednn_products",
        title="products by oneDNN",
        exactness="exact",
        default=True,
        devices=(CPU,),
        does="Multiplies float32 matrices, activation included, by the library for convolutions.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Switches:
    """What switches of every model can do; a field that is no line of the table is a choice."""

    TABLE: ClassVar[tuple[Optimisation, ...]]

    @classmethod
    def all_off(cls) -> Self:
        """No optimisation at all; choices are still made by themselves."""
        return cls(**{entry.name: False for entry in cls.TABLE})

    def changed(self, name: str, on: bool) -> Self:
        """The same with one optimisation on or off.

        Raises:
            KeyError: There is no such optimisation.
        """
        change: dict[str, Any] = {find(name, self.TABLE).name: on}
        return replace(self, **change)

    @classmethod
    def known(cls, names: Iterable[str]) -> tuple[str, ...]:
        """Those of some names that are optimisations of this model."""
        return tuple(name for name in names if any(entry.name == name for entry in cls.TABLE))

    def names_on(self) -> tuple[str, ...]:
        """Names of the optimisations that are on, in the order of the table."""
        return tuple(entry.name for entry in self.TABLE if getattr(self, entry.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class VaeSwitches(_Switches):
    """Which optimisations the fast form of a video VAE uses; the defaults are those of users."""

    TABLE: ClassVar[tuple[Optimisation, ...]] = VAE_OPTIMISATIONS

    upsampler_fold: bool = True
    first_frame_fold: bool = True
    image_mode: bool = True
    ring_buffers: bool = True
    channels_last: bool = True
    fused_norm: bool = True
    in_place: bool = True
    kernels: bool = True
    chunked_attention: bool = True
    chunked_upsampling: bool = True
    planned_buffers: bool = True
    temporal_winograd: bool = False
    fp16_accumulation: bool = False
    cuda_graph: bool = False
    convolution: Convolution = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class DitSwitches(_Switches):
    """Which optimisations the fast form of the SeedVR2 transformer uses.

    Attributes:
        attention: A backend of `engine.ops.attention`; "auto" takes the fastest exact one.
    """

    TABLE: ClassVar[tuple[Optimisation, ...]] = DIT_OPTIMISATIONS

    grouped_windows: bool = True
    cached_layout: bool = True
    constant_modulation: bool = True
    folded_modulation: bool = False
    constant_text: bool = True
    unread_text: bool = True
    fused_steps: bool = True
    kernels: bool = True
    in_place_residual: bool = True
    token_chunks: bool = True
    planned_buffers: bool = True
    onednn_products: bool = True
    attention: str = "auto"


def find(name: str, table: tuple[Optimisation, ...] = VAE_OPTIMISATIONS) -> Optimisation:
    """The line of one optimisation.

    Raises:
        KeyError: There is no such optimisation.
    """
    for entry in table:
        if entry.name == name:
            return entry
    raise KeyError(name)


def switch_names() -> tuple[str, ...]:
    """What can be switched on and off in any model, each name once."""
    tables = (VAE_OPTIMISATIONS, DIT_OPTIMISATIONS)
    return tuple(dict.fromkeys(entry.name for table in tables for entry in table))
