"""Counted operations against those that the published programs and ours run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from engine.core.geometry import Size
from engine.models.seedvr2.vae import cost as seedvr2
from engine.models.seedvr2.vae.config import VAE, VaeConfig
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.video_vae.workload import VaeWorkload
from engine.models.wan.vae import cost as wan
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
FAMILIES = ((VAE, seedvr2), *((tiny_wan_config(layout), wan) for layout in LAYOUTS))


def work(
    width: int, height: int, frames: int, switches: VaeSwitches = OFF, **options: Any
) -> VaeWorkload:
    return VaeWorkload(frames=frames, size=Size(width, height), switches=switches, **options)


def inputs(config: Any, case: VaeWorkload) -> tuple[Tensor, Tensor]:
    """A clip and a latent."""
    factor = config.spatial_factor
    steps = 1 + (case.frames - 1) // config.temporal_factor
    latent = (config.latent_channels, steps, case.size.height // factor, case.size.width // factor)
    return torch.zeros(1, 3, case.frames, case.size.height, case.size.width), torch.zeros(
        1, *latent
    )


def convolutions_that_run(step: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        step()
    return int(counter.get_flop_counts()["Global"][torch.ops.aten.convolution])


def test_the_published_data_flow_takes_what_was_counted() -> None:
    for (width, height, frames), counted in COUNTED.items():
        asked = work(width, height, frames)
        decode, encode = seedvr2.decode_flops(VAE, asked), seedvr2.encode_flops(VAE, asked)
        assert (decode.convolutions, encode.convolutions, decode.attention) == counted
        assert encode.attention == decode.attention
    for (config, width, height), totals in COUNTED_OF_WAN.items():
        asked = work(width, height, 5)
        found = (wan.decode_flops(config, asked).total, wan.encode_flops(config, asked).total)
        assert [total / 1e12 for total in found] == pytest.approx(totals, abs=0.0006)


def test_slices_take_as_much_as_the_clip_at_once() -> None:
    for config, flops in FAMILIES:
        for switches in (OFF, VaeSwitches()) if flops is seedvr2 else (OFF,):
            for count in (flops.encode_flops, flops.decode_flops):
                whole = work(64, 48, 21, switches)
                for size in (4, 8):
                    assert count(config, whole) == count(config, replace(whole, slice_frames=size))


def test_only_switches_that_say_so_change_the_count() -> None:
    for config, flops in ((VAE, seedvr2), (WAN21, wan)):
        base = flops.decode_flops(config, work(64, 64, 9)).total
        for field in fields(VaeSwitches):
            if field.type == "bool":
                switched = work(64, 64, 9, OFF.changed(field.name, True))
                fewer = flops.decode_flops(config, switched).total < base
                assert fewer == (field.name in CHANGING), field.name


def test_an_image_needs_one_tap_in_time() -> None:
    for config, flops in ((VAE, seedvr2), (WAN21, wan)):
        cases = (OFF, OFF.changed("image_mode", True), OFF.changed("first_frame_fold", True))
        slow, image, folded = (
            flops.encode_flops(config, work(64, 64, 1, switches)).convolutions for switches in cases
        )
        assert slow / 3 < image < slow / 2.8  # shortcuts and downsamplers had one anyway
        assert folded == image


def test_the_plain_form_of_wan_runs_what_is_counted() -> None:
    for layout in LAYOUTS:
        config = tiny_wan_config(layout)
        plain = tiny_wan(config, dtype=torch.float32)
        for asked in (work(64, 32, 1), work(64, 32, 9)):
            clip, latent = inputs(config, asked)
            tokens = latent.shape[3] * latent.shape[4]
            for step, given, counted, width in (
                (plain.encode, clip, wan.encode_flops, config.dim),
                (plain.decode, latent, wan.decode_flops, config.dec_dim),
            ):
                ran = convolutions_that_run(lambda step=step, given=given: step(given))
                products = 4 * latent.shape[2] * tokens**2 * width * config.multipliers[-1]
                assert (
                    ran == counted(config, asked).total - products
                )  # projections are convolutions


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
    models = [(seedvr2, FastVae(small, tiny_vae(small).state_dict(), switches=switches))]
    for config in map(tiny_wan_config, LAYOUTS[1:] if changed else LAYOUTS):
        models.append((wan, FastWanVae(config, tiny_wan(config).state_dict(), switches=switches)))
    for flops, fast in models:
        for frames, slice_frames in (
            ((1, None), (9, 4)) if changed else ((1, None), (5, None), (9, 4))
        ):
            case = work(32, 32, frames, switches, slice_frames=slice_frames)
            fast.disable_slicing() if slice_frames is None else fast.enable_slicing(slice_frames)
            clip, latent = inputs(fast.config, case)
            for step, given, count in (
                (fast.encode, clip, flops.encode_flops),
                (fast.decode, latent, flops.decode_flops),
            ):
                ran = convolutions_that_run(lambda step=step, given=given: step(given))
                assert ran == count(fast.config, case).convolutions, (flops, frames)


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
    for layout, frames, cells in rows:
        config, flops = {"": (VAE, seedvr2), "2.1": (WAN21, wan), "2.2": (WAN22, wan)}[layout]
        cases = [work(1920, 1088, int(frames), switches) for switches in columns]
        counted = [flops.decode_flops(config, case).convolutions for case in cases]
        counted += [flops.encode_flops(config, case).convolutions for case in (cases[0], cases[2])]
        listed = [float(cell) for cell in cells.strip(" |").split(" | ")]
        assert listed == [round(each / (1920 * 1088 * int(frames)) / 1e6, 2) for each in counted]
