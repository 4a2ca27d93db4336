"""Figures of the published VAEs that are known from elsewhere: operations, sizes, carries."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core.geometry import Size
from engine.models.gpu_passes import PLANNED
from engine.models.seedvr2.vae.config import VAE
from engine.models.seedvr2.vae_memory import VAES as SEEDVR2_VAES
from engine.models.video_vae.measuring import ClipUse, clip_use
from engine.models.video_vae.vae_use import CallWork, Side, VaeUse
from engine.models.wan.vae.config import WAN21, WAN22
from engine.settings.optimisations import VaeSwitches
from tests.engine.models.vae_contract.test_memory import BOOLEAN
from tests.helpers.extended import extended, rest_extended
from tests.helpers.vaes import EACH, EACH_OF_ALL, EVERY, ROWS, SIDES, AnyVaeRow, VaeRow

OFF = VaeSwitches.all_off()
ROW_OF = {row.published: row for row in EVERY.values()}

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
    ("wan 2.1", 1280, 720): (41.674, 25.215),
    ("wan 2.2", 1280, 720): (88.905, 17.214),
    ("wan 2x", 1280, 720): (41.889, 25.215),
    ("wan 2.1", 256, 256): (2.921, 1.751),
    ("wan 2.2", 256, 256): (6.315, 1.22),
}
PARAMETERS = {
    "seedvr2": 250_648_227,
    "wan 2.1": 126_892_531,
    "wan 2.2": 704_688_668,
    "wan 2x": 126_915_868,
}


def count(
    config: Any,
    side: Side,
    size: Size,
    frames: int,
    switches: VaeSwitches = OFF,
    *,
    whole: bool = True,
) -> ClipUse:
    """Operations of a clip, at once or in slices."""
    code, use = ROW_OF[config].code, VaeUse(switches=switches)
    return clip_use(code, config, use, side, size, frames, whole=whole)


def convolutions(
    config: Any, side: Side, size: Size, frames: int, switches: VaeSwitches = OFF
) -> int:
    """Operations of convolutions of a clip; slices after the first one take the same."""
    if frames <= 5:
        return count(config, side, size, frames, switches).convolutions
    first, two = (count(config, side, size, n, switches, whole=n == 5).convolutions for n in (5, 9))
    return first + (frames - 5) // 4 * (two - first)


USUAL = [(1280, 720, 1), (1920, 1088, 5), (1280, 720, 21)]


@pytest.mark.parametrize(("width", "height", "frames"), rest_extended(COUNTED, *USUAL))
def test_the_published_data_flow_takes_what_was_counted(
    width: int, height: int, frames: int
) -> None:
    decoded, encoded, attention = COUNTED[width, height, frames]
    size = Size(width, height)
    assert convolutions(VAE, "decode", size, frames) == decoded
    assert convolutions(VAE, "encode", size, frames) == encoded
    if frames <= 5:
        assert {count(VAE, side, size, frames).products for side in SIDES} == {attention}


def test_that_of_wan_does_too() -> None:
    for (name, width, height), totals in COUNTED_OF_WAN.items():
        config = ROWS[name].published
        found = [count(config, side, Size(width, height), 5) for side in ("decode", "encode")]
        totals_found = [one.operations / 1e12 for one in found]
        assert totals_found == pytest.approx(totals, abs=0.0006)


def test_an_image_needs_one_tap_in_time() -> None:
    for config in (VAE, WAN21):
        cases = (OFF, OFF.changed("image_mode", True), OFF.changed("first_frame_fold", True))
        slow, image, folded = (
            count(config, "encode", Size(64, 64), 1, switches).convolutions for switches in cases
        )
        assert slow / 3 < image < slow / 2.8  # shortcuts and downsamplers had one anyway
        assert folded == image


@EACH_OF_ALL
def test_only_switches_that_say_so_are_planned_with_other_operations(row: AnyVaeRow) -> None:
    """Turned on alone they are not in the table of what ships; turned off, and the other way."""
    usual = VaeSwitches()
    for call in row.code.pieces(row.published, 4).keys() & set(PLANNED):
        for switch in BOOLEAN:
            if switch == "compile":
                continue
            use = VaeUse(switches=usual.changed(switch, not getattr(usual, switch)))
            found, base = (
                row.code.work(row.published, call, one, Size(256, 256)) for one in (use, VaeUse())
            )
            if operations_of(found) != operations_of(base):
                assert switch in (*row.saving, "image_mode"), (call, switch)


def operations_of(work: CallWork) -> list[tuple[float, float]]:
    """Operations of each kind of slice, in convolutions and in products."""
    slices = work.single, work.first, work.later
    return [(one.convolutions, one.products) for one in slices]


@EACH
def test_without_folds_the_tables_have_the_published_size(row: VaeRow) -> None:
    """All off keeps nothing but the parameters, norms in float32."""
    found = row.code.weights(row.published, VaeUse(switches=OFF))
    assert found == pytest.approx(4 * PARAMETERS[row.name], rel=1e-4)


def test_the_carry_of_the_published_program() -> None:
    """Measured there: 8641 bytes for each pixel of the result of a decoder without folds."""
    size = Size(1024, 1024)
    use = VaeUse(dtype="float16", device="cuda", switches=replace(OFF, convolution="3d"))
    carry = SEEDVR2_VAES.peak(VAE, "decode_slice", use, size).carry
    assert carry == pytest.approx(8641 * size.pixels, rel=0.001)
    carry = SEEDVR2_VAES.peak(VAE, "encode_slice", use, size).carry
    assert carry == pytest.approx(3.62 * 2**30 * size.pixels / 1e6, rel=0.005)


def test_the_peak_of_a_full_size_decode_on_a_processor() -> None:
    """810 to 925 MiB were measured in a process of its own, oneDNN's scratch included."""
    found = clip_use(SEEDVR2_VAES, VAE, VaeUse(), "decode", Size(256, 256), 5, whole=True)
    assert 780 * 2**20 < found.peak_bytes < 925 * 2**20


@EACH
def test_a_larger_tile_costs_more_in_every_part(row: VaeRow) -> None:
    use = VaeUse(dtype="float16", device="cuda")
    for call in row.code.pieces(row.published, 4):
        if call.endswith("high"):
            sizes = (Size(side, side) for side in (512, 1024))
            small, large = (row.code.peak(row.published, call, use, size) for size in sizes)
            assert small.first < large.first
            assert small.window < large.window
            assert 3.9 < large.carry / small.carry < 4.1


MANUAL = Path(__file__).parents[4] / "docs" / "vae-folds.md"
TABLE_ROWS = re.findall(
    r"^\|(?: Wan (2\.[12]),)? (\d+) \|((?: [\d.]+ \|){6})$",
    MANUAL.read_text(encoding="utf-8"),
    re.MULTILINE,
)


@pytest.mark.parametrize(("layout", "frames", "cells"), [TABLE_ROWS[0], *extended(*TABLE_ROWS[1:])])
def test_the_tables_of_the_manual_are_what_is_counted_here(
    layout: str, frames: str, cells: str
) -> None:
    assert len(TABLE_ROWS) == 12
    upsampler, first = (OFF.changed(name, True) for name in ("upsampler_fold", "first_frame_fold"))
    columns = (OFF, upsampler, first, upsampler.changed("first_frame_fold", True))
    size, config = Size(1920, 1088), {"": VAE, "2.1": WAN21, "2.2": WAN22}[layout]
    counted = [convolutions(config, "decode", size, int(frames), one) for one in columns]
    counted += [convolutions(config, "encode", size, int(frames), one) for one in columns[::2]]
    listed = [float(cell) for cell in cells.strip(" |").split(" | ")]
    assert listed == [round(each / (1920 * 1088 * int(frames)) / 1e6, 2) for each in counted]
