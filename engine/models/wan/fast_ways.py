"""Encoder and decoder of the fast form: lists of parts, cut in two where `split` says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from engine.models.fast.flow import Flow, Part
from engine.models.fast.parts import Entry, Exit
from engine.models.wan.config import WanConfig
from engine.models.wan.fast_build import Builder
from engine.models.wan.fast_parts import Patches, Pictures, Stage
from engine.models.wan.fast_shortcuts import Averaged, Repeated, Shortcut
from engine.models.wan.split import decoder_low_stages, encoder_high_stages, is_cut_inside

Parts = list[Part[Flow]]


@dataclass(frozen=True, slots=True)
class Halves:
    """The parts of a way: those that see whole frames, and those that may be given tiles."""

    low: Parts
    high: Parts


@dataclass(frozen=True, slots=True)
class Names:
    """Published names of a stage.

    Attributes:
        name: Of the stage itself; Wan 2.1 has none, its parts make one long list.
        blocks: Of its residual blocks.
        resampler: Of what changes the size behind them; None in the last stage.
        time: Whether that changes the number of frames too.
    """

    name: str
    blocks: tuple[str, ...]
    resampler: str | None
    time: bool


def encoder(build: Builder, config: WanConfig) -> Halves:
    """All parts of the encoder, of which the high half comes first."""
    stages: list[Parts] = []
    leaf, blocks = "downsamples", config.residual_blocks
    for index, names in enumerate(stage_names(config, f"encoder.{leaf}", blocks, config.time_down)):
        parts: Parts = [build.residual(name) for name in names.blocks]
        if names.resampler is not None:
            parts.append(build.downsampler(names.resampler, time=names.time))
        stages.append(_stage(names, parts, _averaged(config, names, index)))
    cut = encoder_high_stages(config)
    first: Parts = [Patches()] if config.patch > 1 else []
    return Halves(
        high=[*first, Entry(build.conv("encoder.conv1")), *chain(*stages[:cut])],
        low=[
            *chain(*stages[cut:]),
            *_middle(build, "encoder.middle"),
            Exit(build.norm("encoder.head.0"), build.conv("encoder.head.2")),
            Entry(build.conv("conv1")),
        ],
    )


def decoder(build: Builder, config: WanConfig) -> Halves:
    """All parts of the decoder, of which the low half comes first."""
    stages: list[Parts] = []
    leaf, blocks, time = "upsamples", config.residual_blocks + 1, config.time_down[::-1]
    for index, names in enumerate(stage_names(config, f"decoder.{leaf}", blocks, time)):
        parts: Parts = [build.residual(name) for name in names.blocks]
        if names.resampler is not None:
            parts.append(build.upsampler(names.resampler, time=names.time))
        stages.append(_stage(names, parts, _repeated(config, names, index)))
    cut = decoder_low_stages(config)
    later = list(chain(*stages[cut:]))
    inside = blocks if is_cut_inside(config) else 0
    return Halves(
        low=[
            Entry(build.conv("conv2")),
            Entry(build.conv("decoder.conv1")),
            *_middle(build, "decoder.middle"),
            *chain(*stages[:cut]),
            *later[:inside],
        ],
        high=[
            *later[inside:],
            Exit(build.norm("decoder.head.0"), build.conv("decoder.head.2")),
            *_pictures(config),
        ],
    )


def stage_names(config: WanConfig, root: str, blocks: int, time: Sequence[bool]) -> list[Names]:
    """Names of all stages of a way.

    Args:
        config: Of the VAE.
        root: `encoder.downsamples` or `decoder.upsamples`.
        blocks: Residual blocks of each stage.
        time: Of each resampler, whether it changes the number of frames.
    """
    leaf = root.split(".")[1]
    found, start = [], 0
    for index in range(len(config.multipliers)):
        last = index == len(config.multipliers) - 1
        nested = config.layout == "2.2"
        name = f"{root}.{index}" if nested else ""
        path, first = (f"{name}.{leaf}", 0) if nested else (root, start)
        places = [f"{path}.{first + number}" for number in range(blocks + 1)]
        resampler = None if last else places[-1]
        found.append(Names(name, tuple(places[:-1]), resampler, not last and time[index]))
        start += blocks + 1
    return found


def _stage(names: Names, parts: Parts, shortcut: Shortcut | None) -> Parts:
    return [Stage(names.name, parts, shortcut)] if names.name else parts


def _averaged(config: WanConfig, names: Names, index: int) -> Averaged:
    return Averaged(
        f"{names.name}.avg_shortcut",
        config.dim * config.multipliers[index],
        time=2 if names.time else 1,
        space=1 if names.resampler is None else 2,
    )


def _repeated(config: WanConfig, names: Names, index: int) -> Repeated | None:
    if names.resampler is None:
        return None
    channels = config.dec_dim * config.multipliers[-1 - index]
    return Repeated(f"{names.name}.avg_shortcut", channels, time=2 if names.time else 1)


def _middle(build: Builder, name: str) -> Parts:
    return [
        build.residual(f"{name}.0"),
        build.attention(f"{name}.1"),
        build.residual(f"{name}.2"),
    ]


def _pictures(config: WanConfig) -> Parts:
    if config.patch > 1:
        return [Pictures(columns_first=True)]
    return [Pictures(columns_first=False)] if config.upscale > 1 else []
