import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from engine.core.geometry import Size
from engine.models.seedvr2.vae.config import VAE, VaeConfig
from engine.models.seedvr2.vae.cost import decode_flops, encode_flops
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from engine.models.video_vae.workload import VaeWorkload
from engine.settings.optimisations import VaeSwitches

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


CHANGING = ("upsampler_fold", "first_frame_fold", "temporal_winograd")


def work(width, height, frames, switches=None, **options):
    switches = switches or VaeSwitches.all_off()
    return VaeWorkload(frames=frames, size=Size(width, height), switches=switches, **options)


@pytest.mark.parametrize("case", COUNTED)
def test_the_published_data_flow_takes_what_was_counted(case):
    decode, encode = decode_flops(VAE, work(*case)), encode_flops(VAE, work(*case))
    assert (decode.convolutions, encode.convolutions, decode.attention) == COUNTED[case]
    assert encode.attention == decode.attention


@pytest.mark.parametrize("count", [encode_flops, decode_flops])
@pytest.mark.parametrize("switches", [VaeSwitches.all_off(), VaeSwitches()])
def test_slices_take_as_much_as_the_clip_at_once(count, switches):
    whole = work(64, 48, 21, switches)
    assert count(VAE, whole) == count(VAE, replace(whole, slice_frames=4))
    assert count(VAE, whole) == count(VAE, replace(whole, slice_frames=8))


def test_only_switches_that_say_so_change_the_count():
    base = work(64, 64, 9)
    for field in fields(VaeSwitches):
        if field.type != "bool":
            continue
        switched = replace(base, switches=VaeSwitches.all_off().changed(field.name, True))
        fewer = decode_flops(VAE, switched).total < decode_flops(VAE, base).total
        assert fewer == (field.name in CHANGING), field.name


def test_an_image_needs_one_tap_in_time():
    image = work(64, 64, 1, VaeSwitches.all_off().changed("image_mode", True))
    slow = encode_flops(VAE, work(64, 64, 1)).convolutions
    fast = encode_flops(VAE, image).convolutions
    assert slow / 3 < fast < slow / 2.8  # the shortcuts and the first downsampler had one anyway
    folded = replace(image, switches=VaeSwitches.all_off().changed("first_frame_fold", True))
    assert encode_flops(VAE, folded).convolutions == fast


def test_a_convolution_of_a_tiny_model_by_hand():
    config = VaeConfig(
        in_channels=1,
        out_channels=1,
        latent_channels=1,
        block_out_channels=(2, 2),
        layers_per_block=1,
        norm_groups=1,
        encoder_time=(True,),
        decoder_time=(True,),
    )
    plain = decode_flops(config, work(4, 4, 3))
    low = 2 * 2 * 4 * 27 * (1 * 2 + 4 * 2 * 2 + 4 * 2 * 2)  # 2x2 px, 2 steps: in, middle, level 0
    expand = 2 * 2 * 4 * (2 * 16)
    high = 2 * 3 * 16 * 27 * (2 * 2 + 4 * 2 * 2 + 2 * 1)  # 4x4 px, 3 frames: up, level 1, out
    assert plain.convolutions == low + expand + high
    fold = VaeSwitches.all_off().changed("upsampler_fold", True)
    folded = decode_flops(config, work(4, 4, 3, fold)).convolutions
    high -= 2 * 3 * 16 * 27 * 2 * 2
    assert folded == low + high + 2 * (1 + 4) * (2 * 8 * 4) * 3 * 3


def convolutions_that_run(step):
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_flop_counts()["Global"][torch.ops.aten.convolution]


@pytest.mark.parametrize("changed", [None, *CHANGING])
def test_the_fast_form_runs_what_is_counted(changed):
    # One call for each convolution: torch does not count those that add up in place.
    switches = VaeSwitches(convolution="3d", in_place=False)
    if changed:
        switches = switches.changed(changed, not getattr(switches, changed))
    config = VaeConfig(
        block_out_channels=(2, 4, 6),
        norm_groups=2,
        layers_per_block=1,
        encoder_time=(False, True),
        decoder_time=(True, False),
    )
    fast = FastVae(config, SeedVr2Vae(config).state_dict(), switches=switches)
    for frames, slice_frames in ((1, None), (9, 4)):
        case = work(12, 8, frames, switches, slice_frames=slice_frames)
        fast.disable_slicing() if slice_frames is None else fast.enable_slicing(slice_frames)
        clip, latent = torch.zeros(1, 3, frames, 8, 12), torch.zeros(1, 16, frames // 2 + 1, 2, 3)
        for step, given, count in (
            (fast.encode, clip, encode_flops),
            (fast.decode, latent, decode_flops),
        ):
            ran = convolutions_that_run(lambda step=step, given=given: step(given))
            assert ran == count(config, case).convolutions


def test_the_table_of_the_manual_is_what_is_counted_here():
    manual = Path(__file__).parents[5] / "docs" / "vae-folds.md"
    rows = re.findall(r"^\|((?: [\d.]+ \|){7})$", manual.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == 4
    off = VaeSwitches.all_off()
    both = off.changed("upsampler_fold", True).changed("first_frame_fold", True)
    columns = [
        off,
        off.changed("upsampler_fold", True),
        off.changed("first_frame_fold", True),
        both,
    ]
    for row in rows:
        frames, *told = (float(cell) for cell in row.strip(" |").split(" | "))
        pixels = 1920 * 1088 * frames
        cases = [work(1920, 1088, int(frames), switches) for switches in columns]
        counted = [decode_flops(VAE, case).convolutions for case in cases]
        counted += [encode_flops(VAE, case).convolutions for case in (cases[0], cases[2])]
        assert told == [round(count / pixels / 1e6, 2) for count in counted]
