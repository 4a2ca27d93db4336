"""Layers of the Wan VAEs as data: the list that the fast variant runs, without tensors."""

from __future__ import annotations

from dataclasses import dataclass

from engine.models.video_vae.layer_specs import (
    Attention,
    Block,
    Conv,
    Entry,
    Exit,
    blocks,
    middle,
    point,
)
from engine.models.wan.vae import split
from engine.models.wan.vae.config import Stage, WanConfig


@dataclass(frozen=True, slots=True)
class Down:
    """Half the height and width, and with `time` half the frames but the first."""

    space: Conv
    time: Conv | None

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        """All that it has."""
        return (self.space,) if self.time is None else (self.space, self.time)

    @property
    def norm_widths(self) -> tuple[int, ...]:
        """Channels of each norm."""
        return ()


@dataclass(frozen=True, slots=True)
class Up:
    """With `time` twice the frames but the first; then twice the height and width."""

    time: Conv | None
    space: Conv

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        """All that it has when unfolded."""
        return (self.space,) if self.time is None else (self.time, self.space)

    @property
    def norm_widths(self) -> tuple[int, ...]:
        """Channels of each norm."""
        return ()


@dataclass(frozen=True, slots=True)
class Patches:
    """Squares of pixels become channels, or with `back` channels become squares."""

    side: int
    back: bool

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        """None."""
        return ()

    @property
    def norm_widths(self) -> tuple[int, ...]:
        """None."""
        return ()


@dataclass(frozen=True, slots=True)
class Around:
    """Parts of a stage of Wan 2.2, and a shortcut without weights around them.

    Attributes:
        parts: In order.
        repeats: The shortcut repeats its input to the shape of the result, else it averages it.
    """

    parts: tuple[Block | Down | Up, ...]
    repeats: bool

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        """Those of all parts."""
        return tuple(conv for part in self.parts for conv in part.convolutions)

    @property
    def norm_widths(self) -> tuple[int, ...]:
        """Those of all parts."""
        return tuple(width for part in self.parts for width in part.norm_widths)


Part = Entry | Exit | Block | Attention | Down | Up | Patches | Around
Steps = list[Block | Down | Up]


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """The parts of encoder or decoder: those that see whole frames, those that may see tiles."""

    low: list[Part]
    high: list[Part]


def encoder(config: WanConfig) -> Halves:
    """From frames to moments; the high half comes first."""
    stages, whole = config.encoder_stages, split.encoder_high_stages(config)
    first, last = stages[0].inner, stages[-1].result
    high: list[Part] = [Patches(config.patch, back=False)] if config.patch > 1 else []
    colours = config.in_channels * config.patch**2
    high.append(Entry(Conv(name="conv1", inner=colours, outer=first)))
    low: list[Part] = []
    for index, stage in enumerate(stages):
        steps = _residuals(f"{index}", stage)
        if stage.space:
            steps.append(_down(f"{index}.down", stage))
        half = high if index < whole else low
        half += [Around(tuple(steps), repeats=False)] if config.has_stage_shortcuts else steps
    moments = 2 * config.latent_channels
    low += middle(last)
    low.append(Exit(Conv(name="head", inner=last, outer=moments)))
    low.append(Entry(point("top", moments, moments)))
    return Halves(low=low, high=high)


def decoder(config: WanConfig) -> Halves:
    """From a latent to frames; the low half comes first."""
    stages, whole = config.decoder_stages, split.decoder_low_stages(config)
    latent, first = config.latent_channels, stages[0].inner
    low: list[Part] = [Entry(point("top", latent, latent))]
    low += [Entry(Conv(name="conv1", inner=latent, outer=first)), *middle(first)]
    high: list[Part] = []
    for index, stage in enumerate(stages):
        steps = _residuals(f"{index}", stage)
        if index == whole and split.is_cut_inside(config):
            low += steps
            steps = []
        if stage.space:
            steps.append(_up(f"{index}.up", stage))
        has_shortcut = config.has_stage_shortcuts and stage.space
        half = low if index < whole else high
        half += [Around(tuple(steps), repeats=True)] if has_shortcut else steps
    colours = config.out_channels * config.patch**2
    high.append(Exit(Conv(name="head", inner=stages[-1].result, outer=colours)))
    if config.patch * config.upscale > 1:
        high.append(Patches(config.patch * config.upscale, back=True))
    return Halves(low=low, high=high)


def _residuals(name: str, stage: Stage) -> Steps:
    return [*blocks(name, (stage.inner, stage.outer), stage.blocks)]


def _down(name: str, stage: Stage) -> Down:
    widths = {"inner": stage.outer, "outer": stage.result}
    time = Conv(name=f"{name}.time", **widths, side=1, time_stride=2) if stage.time else None
    return Down(Conv(name=name, **widths, taps=1, space_stride=2), time)


def _up(name: str, stage: Stage) -> Up:
    wide = 2 * stage.outer
    time = Conv(name=f"{name}.time", inner=stage.outer, outer=wide, side=1) if stage.time else None
    return Up(time, Conv(name=name, inner=stage.outer, outer=stage.result, taps=1))
