"""Counted operations against those that the published programs and ours run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from engine.core.geometry import Size
from engine.models.seedvr2.planning.vae_memory import VAES as SEEDVR2
from engine.models.seedvr2.vae.config import VAE, VaeConfig
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.video_vae.measured_memory import MeasuredVae
from engine.models.video_vae.measuring import ClipUse, clip_use
from engine.models.video_vae.vae_use import Side, VaeUse
from engine.models.wan.planning.vae_memory import VAES as WAN
from engine.models.wan.vae.config import WAN2X, WAN21, WAN22
from engine.models.wan.vae.fast import FastWanVae
from engine.settings.optimisations import VaeSwitches
from tests.helpers.extended import extended
from tests.helpers.seedvr2 import tiny_vae
from tests.helpers.wan import tiny_wan, tiny_wan_config

# Counted by torch while the published program ran on the meta device: convolutions of decoding and
# of encoding, attention of either.
COUNTED = {
    (1280, 720, 1): (26253302169600, 11137528627200, 454872268800),
    (1280, 720, 5): (113052509798400, 44000162611200, 909744537600),
    (1280, 720, 21): (460249340313600, 175450698547200, 2729233612800),
    (1920, 1088, 1): (59507484917760, 25245064888320, 2250327982080),
    (1920, 1088, 5): (256252355543040, 99733701918720, 4500655964160),
    (1920, 1088, 21): (1043231838044160, 397688250040320, 13501967892480),
    (256, 256, 5): (8039289585664, 3128900452352, 8589934592),
}
# The same of five frames in multiples of 1e12: all of decoding, then of encoding.
COUNTED_OF_WAN = {
    (WAN21, 1280, 720): (41.674, 25.215),
    (WAN22, 1280, 720): (88.905, 17.214),
    (WAN2X, 1280, 720): (41.889, 25.215),
    (WAN21, 256, 256): (2.921, 1.751),
    (WAN22, 256, 256): (6.315, 1.22),
}
CHANGING = ("upsampler_fold", "first_frame_fold", "temporal_winograd")
OFF = VaeSwitches.all_off()
LAYOUTS = ("2.1", "2.2", "2x")
FAMILIES = ((VAE, SEEDVR2), *((tiny_wan_config(layout), WAN) for layout in LAYOUTS))
SIDES: tuple[Side, Side] = ("encode", "decode")


def count(
    config: Any,
    side: Side,
    size: Size,
    frames: int,
    switches: VaeSwitches = OFF,
    slice_frames: int | None = None,
) -> ClipUse:
    """Operations of a clip, at once or in slices."""
    vaes: MeasuredVae = SEEDVR2 if isinstance(config, VaeConfig) else WAN
    use = VaeUse(switches=switches, slice_frames=slice_frames or 4)
    return clip_use(vaes, config, use, side, size, frames, whole=slice_frames is None)


def convolutions(
    config: Any, side: Side, size: Size, frames: int, switches: VaeSwitches = OFF
) -> int:
    """Operations of convolutions of a clip; slices after the first one take the same."""
    if frames <= 5:
        return count(config, side, size, frames, switches).convolutions
    first, two = (count(config, side, size, n, switches, 4).convolutions for n in (5, 9))
    return first + (frames - 5) // 4 * (two - first)


def inputs(config: Any, size: Size, frames: int) -> tuple[Tensor, Tensor]:
    """A clip and a latent."""
    height, width = size.height // config.spatial_factor, size.width // config.spatial_factor
    latent = (config.latent_channels, 1 + (frames - 1) // config.temporal_factor, height, width)
    return torch.zeros(1, 3, frames, size.height, size.width), torch.zeros(1, *latent)


def convolutions_that_run(step: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        step()
    return int(counter.get_flop_counts()["Global"][torch.ops.aten.convolution])


def test_the_published_data_flow_takes_what_was_counted() -> None:
    for (width, height, frames), (decoded, encoded, attention) in COUNTED.items():
        size = Size(width, height)
        assert convolutions(VAE, "decode", size, frames) == decoded
        assert convolutions(VAE, "encode", size, frames) == encoded
        if frames <= 5:
            assert {count(VAE, side, size, frames).products for side in SIDES} == {attention}
    for (config, width, height), totals in COUNTED_OF_WAN.items():
        found = [count(config, side, Size(width, height), 5) for side in ("decode", "encode")]
        totals_found = [one.operations / 1e12 for one in found]
        assert totals_found == pytest.approx(totals, abs=0.0006)


def test_slices_take_as_much_as_the_clip_at_once() -> None:
    size = Size(64, 48)
    for config, _ in FAMILIES:
        for switches in (OFF, VaeSwitches()) if config is VAE else (OFF,):
            for side in SIDES:
                whole = count(config, side, size, 13, switches)
                found = [count(config, side, size, 13, switches, frames) for frames in (4, 8)]
                assert {one.operations for one in found} == {whole.operations}


def test_only_switches_that_say_so_change_the_count() -> None:
    for config in (VAE, WAN21):
        base = count(config, "decode", Size(64, 64), 9).operations
        for field in fields(VaeSwitches):
            if field.type == "bool":
                switches = OFF.changed(field.name, True)
                fewer = count(config, "decode", Size(64, 64), 9, switches).operations < base
                assert fewer == (field.name in CHANGING), field.name


def test_an_image_needs_one_tap_in_time() -> None:
    for config in (VAE, WAN21):
        cases = (OFF, OFF.changed("image_mode", True), OFF.changed("first_frame_fold", True))
        slow, image, folded = (
            count(config, "encode", Size(64, 64), 1, switches).convolutions for switches in cases
        )
        assert slow / 3 < image < slow / 2.8  # shortcuts and downsamplers had one anyway
        assert folded == image


def test_the_plain_form_of_wan_runs_what_is_counted() -> None:
    size = Size(64, 32)
    for layout in LAYOUTS:
        config = tiny_wan_config(layout)
        plain = tiny_wan(config, dtype=torch.float32)
        for frames in (1, 9):
            clip, latent = inputs(config, size, frames)
            tokens = latent.shape[3] * latent.shape[4]
            for step, given, side, width in (
                (plain.encode, clip, SIDES[0], config.dim),
                (plain.decode, latent, SIDES[1], config.dec_dim),
            ):
                ran = convolutions_that_run(lambda step=step, given=given: step(given))
                products = 4 * latent.shape[2] * tokens**2 * width * config.multipliers[-1]
                total = count(config, side, size, frames).operations
                assert ran == total - products  # projections are convolutions


@pytest.mark.parametrize("changed", [None, *extended(*CHANGING)])
def test_the_fast_form_runs_what_is_counted(changed: str | None) -> None:
    # One call for each convolution: torch does not count those that add up in place.
    switches = VaeSwitches(convolution="3d", in_place=False)
    if changed:
        switches = switches.changed(changed, not getattr(switches, changed))
    small = VaeConfig(
        block_out_channels=(2, 4, 6),
        norm_groups=2,
        layers_per_block=1,
        encoder_time=(False, True),
        decoder_time=(True, False),
    )
    models: list[Any] = [FastVae(small, tiny_vae(small).state_dict(), switches=switches)]
    for config in map(tiny_wan_config, LAYOUTS[1:] if changed else LAYOUTS):
        models.append(FastWanVae(config, tiny_wan(config).state_dict(), switches=switches))
    lengths = ((1, None), (9, 4)) if changed else ((1, None), (5, None), (9, 4))
    size = Size(32, 32)
    for fast in models:
        for frames, slice_frames in lengths:
            fast.disable_slicing() if slice_frames is None else fast.enable_slicing(slice_frames)
            clip, latent = inputs(fast.config, size, frames)
            for step, given, side in (
                (fast.encode, clip, SIDES[0]),
                (fast.decode, latent, SIDES[1]),
            ):
                ran = convolutions_that_run(lambda step=step, given=given: step(given))
                found = count(fast.config, side, size, frames, switches, slice_frames)
                assert ran == found.convolutions, (fast.config, frames)


def test_the_tables_of_the_manual_are_what_is_counted_here() -> None:
    manual = (Path(__file__).parents[4] / "docs" / "vae-folds.md").read_text(encoding="utf-8")
    both = OFF.changed("upsampler_fold", True).changed("first_frame_fold", True)
    columns = (
        OFF,
        OFF.changed("upsampler_fold", True),
        OFF.changed("first_frame_fold", True),
        both,
    )
    rows = re.findall(r"^\|(?: Wan (2\.[12]),)? (\d+) \|((?: [\d.]+ \|){6})$", manual, re.MULTILINE)
    assert len(rows) == 12
    size = Size(1920, 1088)
    for layout, frames, cells in rows:
        config = {"": VAE, "2.1": WAN21, "2.2": WAN22}[layout]
        counted = [convolutions(config, "decode", size, int(frames), s) for s in columns]
        counted += [
            convolutions(config, "encode", size, int(frames), s) for s in (columns[0], columns[2])
        ]
        listed = [float(cell) for cell in cells.strip(" |").split(" | ")]
        assert listed == [round(each / (1920 * 1088 * int(frames)) / 1e6, 2) for each in counted]
