"""Encoder and decoder of the fast variant: lists of parts, cut in two by `split`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from engine.models.video_vae.context import Part
from engine.models.video_vae.layers import ConvLayer, Mark, OutputLayer
from engine.models.wan.vae.config import Stage, WanConfig
from engine.models.wan.vae.fast_build import WanVaeBuilder
from engine.models.wan.vae.fast_layers import Bridged, PatchLayer, Pictures
from engine.models.wan.vae.fast_shortcuts import Averaged, Repeated
from engine.models.wan.vae.split import decoder_low_stages, encoder_high_stages, is_cut_inside

Parts = list[Part]


@dataclass(frozen=True, slots=True)
class SplitCoder:
    """The parts of encoder or decoder: `low` takes whole frames, `high` may take tiles."""

    low: Parts
    high: Parts


def encoder(build: WanVaeBuilder, config: WanConfig) -> SplitCoder:
    """All parts of the encoder; the high half runs first."""
    stages = _stages(config, "encoder.downsamples", config.encoder_stages)
    parts = [_down(build, names, stage) for names, stage in stages]
    cut = encoder_high_stages(config)
    first: Parts = [PatchLayer()] if config.patch > 1 else []
    return SplitCoder(
        high=[*first, ConvLayer(build.conv("encoder.conv1")), *chain(*parts[:cut])],
        low=[
            *chain(*parts[cut:]),
            *_middle(build, "encoder.middle"),
            OutputLayer(build.norm("encoder.head.0"), build.conv("encoder.head.2")),
            ConvLayer(build.conv("conv1")),
        ],
    )


def decoder(build: WanVaeBuilder, config: WanConfig) -> SplitCoder:
    """All parts of the decoder; the low half runs first."""
    stages = _stages(config, "decoder.upsamples", config.decoder_stages)
    parts = [_up(build, names, stage) for names, stage in stages]
    cut = decoder_low_stages(config)
    later = list(chain(*parts[cut:]))
    inside = config.decoder_stages[cut].blocks if is_cut_inside(config) else 0
    return SplitCoder(
        low=[
            ConvLayer(build.conv("conv2")),
            ConvLayer(build.conv("decoder.conv1")),
            *_middle(build, "decoder.middle"),
            *chain(*parts[:cut]),
            *later[:inside],
        ],
        high=[
            *later[inside:],
            OutputLayer(build.norm("decoder.head.0"), build.conv("decoder.head.2")),
            *_pictures(config),
        ],
    )


@dataclass(frozen=True, slots=True)
class Names:
    """Published names of a stage and its parts: residual blocks, and a resampler after them."""

    stage: str  # Wan 2.1 knows no stages: their parts make one long list
    parts: tuple[str, ...]


def _stages(config: WanConfig, root: str, stages: Sequence[Stage]) -> Iterator[tuple[Names, Stage]]:
    start = 0
    for index, stage in enumerate(stages):
        count = stage.blocks + stage.space
        if config.has_stage_shortcuts:
            name = f"{root}.{index}"
            path, start = f"{name}.{root.split('.')[1]}", 0
        else:
            name, path = "", root
        yield Names(name, tuple(f"{path}.{start + number}" for number in range(count))), stage
        start += count


def _down(build: WanVaeBuilder, names: Names, stage: Stage) -> Parts:
    parts: Parts = [build.residual(name) for name in names.parts[: stage.blocks]]
    if stage.space:
        parts.append(build.downsampler(names.parts[-1], time=stage.time))
    if not names.stage:
        return parts
    return [Bridged(names.stage, parts, Averaged(f"{names.stage}.avg_shortcut", stage))]


def _up(build: WanVaeBuilder, names: Names, stage: Stage) -> Parts:
    parts: Parts = [build.residual(name) for name in names.parts[: stage.blocks]]
    if stage.space:
        parts.append(build.upsampler(names.parts[-1], time=stage.time))
    if not names.stage:
        return parts
    if not stage.space:
        return [*parts, Mark(names.stage)]
    return [Bridged(names.stage, parts, Repeated(f"{names.stage}.avg_shortcut", stage))]


def _middle(build: WanVaeBuilder, name: str) -> Parts:
    return [
        build.residual(f"{name}.0"),
        build.attention(f"{name}.1"),
        build.residual(f"{name}.2"),
    ]


def _pictures(config: WanConfig) -> Parts:
    if config.patch > 1:
        return [Pictures(columns_first=True)]
    return [Pictures(columns_first=False)] if config.upscale > 1 else []
