"""Optimisations of the fast form of video VAEs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from engine.settings.optimisations.entry import (
    BOTH,
    CUDA,
    Choice,
    Optimisation,
    SwitchSet,
)

Convolution = Literal["auto", "2d", "3d"]
VAE_NUMBERS = ("auto", "float16", "bfloat16", "float32")

VAE_OPTIMISATIONS: tuple[Optimisation, ...] = (
    Optimisation(
        group="vae",
        name="upsampler_fold",
        title="upsampler fold",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Convolves frames before they are enlarged, with small kernels, not afterwards.",
        reason="Equal in real arithmetic and fewer operations on any device.",
    ),
    Optimisation(
        group="vae",
        name="first_frame_fold",
        title="first-frame fold",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Sums or leaves out the taps on copies or zeros that stand before a clip.",
        reason="Equal in real arithmetic and fewer operations on any device.",
    ),
    Optimisation(
        group="vae",
        name="image_mode",
        title="image mode",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Computes a clip of one frame with two-dimensional convolutions only.",
        reason="Equal in real arithmetic; the first-frame fold does it too, where that is on.",
    ),
    Optimisation(
        group="vae",
        name="ring_buffers",
        title="ring buffers",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Keeps past frames of a convolution beside the new ones instead of joining copies.",
        reason="Saves copies of whole slices and the memory for them.",
    ),
    Optimisation(
        group="vae",
        name="channels_last",
        title="channels last",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Keeps the channels of a pixel together in memory, as convolutions want them.",
        reason="What the fast convolutions of cuDNN and oneDNN take without reordering.",
        claim="5-15 % faster",
    ),
    Optimisation(
        group="vae",
        name="fused_norm",
        title="norm and activation in one pass",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Normalises and activates in one pass that writes into the next convolution's input.",
        reason="Norms are bound by memory: one pass moves half the bytes.",
        claim="15-25 % faster",
    ),
    Optimisation(
        group="vae",
        name="in_place",
        title="sums in place",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Adds residuals and shortcuts to tensors that are there already.",
        reason="Saves a tensor as large as the result, and the time to write it.",
        claim="less memory",
    ),
    Optimisation(
        group="vae",
        name="kernels",
        title="own kernels",
        exactness="exact",
        default=True,
        devices=(CUDA,),
        does="Runs the norm and its statistics in kernels that are compiled on this machine.",
        reason="Checked against the ordinary way on the card before they are used.",
        capability=(7, 5),
    ),
    Optimisation(
        group="vae",
        name="chunked_attention",
        title="attention in chunks",
        exactness="exact",
        default=True,
        devices=(CUDA,),
        does="Attends for some of the pixels at a time, so that memory grows with the frame only.",
        reason="All scores of a frame at once would not fit; processors never make them all.",
        claim="FlashAttention in the VAE: faster, less memory",
    ),
    Optimisation(
        group="vae",
        name="chunked_upsampling",
        title="upsampling in chunks",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Upsamples frame by frame where all at once would set the peak of memory.",
        reason="The peak of the decoder is in the upsampler.",
        claim="30-50 % less memory",
    ),
    Optimisation(
        group="vae",
        name="planned_buffers",
        title="planned buffers",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Uses the same buffers for every slice, so that the allocator has nothing to do.",
        reason="Steady memory: nothing is allocated from the second slice on.",
    ),
    Optimisation(
        group="vae",
        name="temporal_winograd",
        title="Winograd over time",
        exactness="rounding",
        default=False,
        devices=BOTH,
        does="Makes two frames with four products instead of six, at slightly more rounding.",
        reason="Off: rounding grows by about half.",
    ),
    Optimisation(
        group="vae",
        name="fp16_accumulation",
        title="sums in half precision",
        exactness="inexact",
        default=False,
        devices=(CUDA,),
        does="Lets matrix products in fp16 add up in fp16, which doubles their speed on RTX cards.",
        reason="Off: sums in half precision lose digits that can be seen.",
        capability=(7, 0),
    ),
    Optimisation(
        group="vae",
        name="cuda_graph",
        title="CUDA graph",
        exactness="exact",
        default=False,
        devices=(CUDA,),
        does="Records the work of a small tile once and replays it without the processor.",
        reason="Off: helps small tiles only, keeps memory, and no card has shown yet that it pays.",
        claim="10-30 % faster",
    ),
)

VAE_CHOICES = (
    Choice(
        group="vae",
        name="convolution",
        title="form of convolutions over time",
        exactness="exact",
        values=("auto", "2d", "3d"),
        default="auto",
        devices=BOTH,
        does="Convolves over time in one three-dimensional step, or frame by frame in two.",
        reason="A short trial on the device finds out which is right and fast.",
    ),
    Choice(
        group="vae",
        name="precision",
        title="numbers of the VAE",
        exactness="inexact",
        values=VAE_NUMBERS,
        default="auto",
        devices=BOTH,
        does="Computes the VAE in half precision or in float32.",
        reason="Half precision on a card, which its matrix units are made for; else float32.",
        setting="vae_precision",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VaeSwitches(SwitchSet):
    """Which optimisations the fast form of a video VAE uses; the defaults are those of users."""

    TABLE: ClassVar[tuple[Optimisation, ...]] = VAE_OPTIMISATIONS
    CHOICES: ClassVar[tuple[Choice, ...]] = VAE_CHOICES

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
