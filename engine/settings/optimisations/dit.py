"""Optimisations of the fast form of the SeedVR2 transformer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from engine.settings.optimisations.entry import (
    BOTH,
    CPU,
    CUDA,
    Choice,
    Optimisation,
    SwitchSet,
)

DIT_OPTIMISATIONS: tuple[Optimisation, ...] = (
    Optimisation(
        group="dit",
        name="grouped_windows",
        title="windows in groups",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Lets all windows of one shape attend in one call instead of one after the other.",
        reason="Fewer and larger calls.",
    ),
    Optimisation(
        group="dit",
        name="cached_layout",
        title="layouts kept",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Keeps windows, indices and rotations of the last few sizes of clips.",
        reason="Clips of a film have one size.",
    ),
    Optimisation(
        group="dit",
        name="constant_modulation",
        title="modulation kept",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Computes shifts, scales and gates of all layers once for a time step.",
        reason="A restoration has one time step.",
    ),
    Optimisation(
        group="dit",
        name="folded_modulation",
        title="modulation in the weights",
        exactness="rounding",
        default=False,
        devices=BOTH,
        does="Multiplies scales and gates of the usual time step into the weights once.",
        reason="Off: weights are rounded once more.",
    ),
    Optimisation(
        group="dit",
        name="constant_text",
        title="text kept",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Computes once what the first layer makes of the text alone.",
        reason="The text of a restoration never changes.",
    ),
    Optimisation(
        group="dit",
        name="unread_text",
        title="no text that nobody reads",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Leaves out what the last layer would make of the text.",
        reason="Nobody reads it.",
    ),
    Optimisation(
        group="dit",
        name="fused_steps",
        title="norms, rotation and activation in one pass each",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Does what lies between two products in one pass each, without tensors in between.",
        reason="These passes are bound by memory.",
        claim="fused activation: 5-10 % faster",
    ),
    Optimisation(
        group="dit",
        name="kernels",
        title="own kernels",
        exactness="exact",
        default=True,
        devices=(CUDA,),
        does="Runs these passes in kernels that are compiled on this machine.",
        reason="Checked against the ordinary way on the card before they are used.",
        capability=(7, 5),
    ),
    Optimisation(
        group="dit",
        name="in_place_residual",
        title="sums in place",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Adds what attention and MLP give to the tokens that are there already.",
        reason="Saves a tensor as large as all tokens.",
        claim="less memory",
    ),
    Optimisation(
        group="dit",
        name="token_chunks",
        title="tokens in chunks",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Projects some tokens at a time, so that memory hardly grows with the picture.",
        reason="The hidden layer of the MLP is the widest tensor of all.",
    ),
    Optimisation(
        group="dit",
        name="planned_buffers",
        title="planned buffers",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Uses the same buffers in every layer, so that the allocator has nothing to do.",
        reason="Steady memory: nothing is allocated from the second layer on.",
    ),
    Optimisation(
        group="dit",
        name="onednn_products",
        title="products by oneDNN",
        exactness="exact",
        default=True,
        devices=(CPU,),
        does="Multiplies float32 matrices, activation included, by the library for convolutions.",
        reason="The faster of the two libraries that torch brings, activation included.",
    ),
    Optimisation(
        group="dit",
        name="fp16_accumulation",
        title="sums in half precision",
        exactness="inexact",
        default=False,
        devices=(CUDA,),
        does="Lets matrix products in fp16 add up in fp16, which doubles their speed on RTX cards.",
        reason="Off: sums in half precision lose digits, and can overflow.",
        claim="fp16 accumulation: faster products",
        capability=(7, 0),
    ),
    Optimisation(
        group="dit",
        name="compile",
        title="torch.compile",
        exactness="rounding",
        default=False,
        devices=BOTH,
        does="Has torch compile the passes between the products, in the place of our own.",
        reason="Off: needs Triton or a C++ compiler, and time before the first clip.",
        claim="15-40 % faster",
    ),
)

ATTENTION = (
    "auto",
    "sdpa",
    "cudnn",
    "flash",
    "efficient",
    "math",
    "flash3",
    "flash2",
    "xformers",
    "sage2",
    "sage2-fp16",
    "sage2-fp8",
    "sage3-fp4",
    "sage3-fp4-fast",
)
PRODUCTS = ("none", "fp8", "int8", "nvfp4")
FILES = ("auto", "fp16", "fp8", "q8", "q4")

DIT_CHOICES = (
    Choice(
        group="dit",
        name="attention",
        title="attention backend",
        exactness="exact",
        values=ATTENTION,
        default="auto",
        devices=BOTH,
        does="Computes the attention by one of several libraries; sage and FP4 are inexact.",
        reason="The fastest exact one that gave the right numbers on this device.",
        setting="attention",
    ),
    Choice(
        group="dit",
        name="products",
        title="numbers of matrix products",
        exactness="inexact",
        values=PRODUCTS,
        default="none",
        devices=BOTH,
        does="Multiplies in eight or four bits a number.",
        reason="None: results change.",
        claim="FP8: faster, half the memory",
        setting="products",
    ),
    Choice(
        group="dit",
        name="precision",
        title="file of the transformer",
        exactness="inexact",
        values=FILES,
        default="auto",
        devices=BOTH,
        does="Takes weights of sixteen, eight or four bits a number, widened at use.",
        reason="The file that is here, else the largest that suits the card's memory.",
        claim="Q4: a quarter of the memory",
        setting="precision",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DitSwitches(SwitchSet):
    """Which optimisations the fast form of the SeedVR2 transformer uses.

    Attributes:
        attention: A backend of `engine.ops.attention`; "auto" takes the fastest exact one.
    """

    TABLE: ClassVar[tuple[Optimisation, ...]] = DIT_OPTIMISATIONS
    CHOICES: ClassVar[tuple[Choice, ...]] = DIT_CHOICES

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
    fp16_accumulation: bool = False
    compile: bool = False
    attention: str = "auto"
