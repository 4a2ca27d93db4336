"""Optimisations of the machine around the models: transfers, memory, arithmetic of libraries."""

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

Allocator = Literal["native", "expandable", "async"]

RUN_OPTIMISATIONS: tuple[Optimisation, ...] = (
    Optimisation(
        group="run",
        name="cudnn_benchmark",
        title="cuDNN benchmark",
        exactness="exact",
        default=True,
        devices=(CUDA,),
        does="Lets cuDNN measure its algorithms for each shape that comes, and keep the fastest.",
        reason="Tiles and slices of a job have few shapes, which come again and again.",
        claim="15-30 % faster",
    ),
    Optimisation(
        group="run",
        name="tf32",
        title="TF32",
        exactness="inexact",
        default=False,
        devices=(CUDA,),
        does="Rounds float32 factors to 10 bits in convolutions and matrix products.",
        reason="Off: who asks for float32 wants its digits; half precision is faster still.",
        claim="faster float32",
        capability=(8, 0),
    ),
    Optimisation(
        group="run",
        name="pinned_transfers",
        title="pinned memory",
        exactness="exact",
        default=True,
        devices=(CUDA,),
        does="Keeps what goes to the card and comes back in memory that the card reads by itself.",
        reason="Other memory is copied twice, and the processor waits meanwhile.",
        claim="pinned copies: faster",
    ),
    Optimisation(
        group="run",
        name="copy_stream",
        title="tiles leave beside the computing",
        exactness="exact",
        default=True,
        devices=(CUDA,),
        does="Copies finished tiles off the card in a stream of their own.",
        reason="The card computes the next tile meanwhile.",
        claim="async tiles: 10-20 % faster",
    ),
    Optimisation(
        group="run",
        name="weights_stream",
        title="weights come beside the computing",
        exactness="exact",
        default=True,
        devices=(CUDA,),
        does="Copies the next blocks of a transformer in a stream of their own.",
        reason="The card computes a block while it takes in the next one.",
    ),
    Optimisation(
        group="run",
        name="passive_threads",
        title="threads that sleep",
        exactness="exact",
        default=True,
        devices=BOTH,
        does="Lets threads without work sleep at once, where torch would have them spin.",
        reason="Decoder, encoder and window need those cores.",
        at_start=True,
    ),
)

RUN_CHOICES = (
    Choice(
        group="run",
        name="allocator",
        title="allocator of the card's memory",
        exactness="exact",
        values=("native", "expandable", "async"),
        default="native",
        devices=(CUDA,),
        does="Keeps memory in blocks, in segments that grow, or leaves it to CUDA's own pools.",
        reason="torch's own: planned buffers leave it little to do, and no card has shown more.",
        claim="expandable segments: less fragmentation",
        at_start=True,
        systems=(("expandable", ("linux",)),),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSwitches(SwitchSet):
    """Which optimisations the machine around the models uses."""

    TABLE: ClassVar[tuple[Optimisation, ...]] = RUN_OPTIMISATIONS
    CHOICES: ClassVar[tuple[Choice, ...]] = RUN_CHOICES

    cudnn_benchmark: bool = True
    tf32: bool = False
    pinned_transfers: bool = True
    copy_stream: bool = True
    weights_stream: bool = True
    passive_threads: bool = True
    allocator: Allocator = "native"
