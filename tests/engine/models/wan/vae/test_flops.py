"""Counted operations against those that the published program and ours run."""

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
from engine.models.video_vae.workload import VaeWorkload
from engine.models.wan.vae.config import (
    WAN2X,
    WAN21,
    WAN22,
    WanConfig,
)
from engine.models.wan.vae.cost import decode_flops, encode_flops
from engine.models.wan.vae.fast import FastWanVae
from engine.settings.optimisations import VaeSwitches
from tests.helpers.wan import tiny_wan, tiny_wan_config

# Counted by torch while the published program ran five frames on the meta device, in multiples of
# 1e12: decoding, then encoding.
COUNTED = {
    (WAN21, 1280, 720): (41.674, 25.215),
    (WAN22, 1280, 720): (88.905, 17.214),
    (WAN2X, 1280, 720): (41.889, 25.215),
    (WAN21, 256, 256): (2.921, 1.751),
    (WAN22, 256, 256): (6.315, 1.22),
}
CHANGING = ("upsampler_fold", "first_frame_fold", "temporal_winograd")
SIZE = Size(64, 32)
LAYOUTS = ("2.1", "2.2", "2x")


def work(frames: int, switches: VaeSwitches | None = None, **options: Any) -> VaeWorkload:
    chosen = VaeSwitches.all_off() if switches is None else switches
    return VaeWorkload(**{"frames": frames, "size": SIZE, "switches": chosen, **options})


def clip_and_latent(config: WanConfig, frames: int) -> tuple[Tensor, Tensor]:
    height, width = SIZE.height // config.spatial_factor, SIZE.width // config.spatial_factor
    clip = torch.zeros(1, 3, frames, SIZE.height, SIZE.width)
    return clip, torch.zeros(1, config.latent_channels, 1 + frames // 4, height, width)


def convolutions_that_run(step: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        step()
    return int(counter.get_flop_counts()["Global"][torch.ops.aten.convolution])


@pytest.mark.parametrize("case", COUNTED, ids=str)
def test_the_published_data_flow_takes_what_was_counted(case: tuple[WanConfig, int, int]) -> None:
    config, width, height = case
    asked = work(5, size=Size(width, height))
    found = (decode_flops(config, asked).total, encode_flops(config, asked).total)
    assert [total / 1e12 for total in found] == pytest.approx(COUNTED[case], abs=0.0006)


def test_larger_frames_take_more_and_attention_grows_with_their_square() -> None:
    small, large = (decode_flops(WAN21, work(5, size=Size(side, side))) for side in (512, 1024))
    assert large.convolutions == 4 * small.convolutions
    assert 4 * small.attention < large.attention < 16 * small.attention


@pytest.mark.parametrize("count", [encode_flops, decode_flops])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_slices_take_as_much_as_the_clip_at_once(layout: Any, count: Any) -> None:
    config, whole = tiny_wan_config(layout), work(21)
    assert count(config, whole) == count(config, replace(whole, slice_frames=4))
    assert count(config, whole) == count(config, replace(whole, slice_frames=8))


def test_only_switches_that_say_so_change_the_count() -> None:
    for field in fields(VaeSwitches):
        if field.type != "bool":
            continue
        switched = work(9, VaeSwitches.all_off().changed(field.name, True))
        fewer = decode_flops(WAN21, switched).total < decode_flops(WAN21, work(9)).total
        assert fewer == (field.name in CHANGING), field.name


def test_an_image_needs_one_tap_in_time() -> None:
    image = work(1, VaeSwitches.all_off().changed("image_mode", True))
    slow, fast = (encode_flops(WAN21, case).convolutions for case in (work(1), image))
    assert slow / 3 < fast < slow / 2.8  # shortcuts and downsamplers had one anyway


@pytest.mark.parametrize("frames", [1, 9])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_plain_form_runs_what_is_counted(layout: Any, frames: int) -> None:
    config = tiny_wan_config(layout)
    plain = tiny_wan(config, dtype=torch.float32)
    clip, latent = clip_and_latent(config, frames)
    tokens, asked = latent.shape[3] * latent.shape[4], work(frames)
    for ran, counted, width in (
        (
            convolutions_that_run(lambda: plain.encode(clip)),
            encode_flops(config, asked),
            config.dim,
        ),
        (
            convolutions_that_run(lambda: plain.decode(latent)),
            decode_flops(config, asked),
            config.dec_dim,
        ),
    ):
        products = 4 * latent.shape[2] * tokens**2 * width * config.multipliers[-1]
        assert ran == counted.total - products  # its projections are convolutions


@pytest.mark.parametrize("changed", ["", *CHANGING])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_fast_form_runs_what_is_counted(layout: Any, changed: str) -> None:
    # One call for each convolution: torch does not count those that add up in place.
    switches = VaeSwitches(convolution="3d", in_place=False)
    if changed:
        switches = switches.changed(changed, not getattr(switches, changed))
    config = tiny_wan_config(layout)
    weights = tiny_wan(config, dtype=torch.float32).state_dict()
    fast = FastWanVae(config, weights, switches=switches)
    for frames, slice_frames in ((1, None), (9, None), (13, 4)):
        case = work(frames, switches, slice_frames=slice_frames)
        fast.disable_slicing() if slice_frames is None else fast.enable_slicing(slice_frames)
        clip, latent = clip_and_latent(config, frames)
        encoding = convolutions_that_run(lambda clip=clip: fast.encode(clip))
        decoding = convolutions_that_run(lambda latent=latent: fast.decode(latent))
        assert encoding == encode_flops(config, case).convolutions
        assert decoding == decode_flops(config, case).convolutions


def test_the_table_of_the_manual_is_what_is_counted_here() -> None:
    manual = Path(__file__).parents[5] / "docs" / "vae-folds.md"
    row = r"^\| Wan (2\.[12]), (\d+) \|((?: [\d.]+ \|){6})$"
    rows = re.findall(row, manual.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == 8
    off = VaeSwitches.all_off()
    enlarged, short = (off.changed(name, True) for name in CHANGING[:2])
    both = enlarged.changed("first_frame_fold", True)
    for layout, frames, cells in rows:
        config, size = {"2.1": WAN21, "2.2": WAN22}[layout], Size(1920, 1088)
        cases = [
            VaeWorkload(switches=switches, frames=int(frames), slice_frames=None, size=size)
            for switches in (off, enlarged, short, both)
        ]
        counted = [decode_flops(config, case).convolutions for case in cases]
        counted += [encode_flops(config, case).convolutions for case in (cases[0], cases[2])]
        told = [float(cell) for cell in cells.strip(" |").split(" | ")]
        assert told == [round(count / size.pixels / int(frames) / 1e6, 2) for count in counted]
