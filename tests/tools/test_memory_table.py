"""The table of memory that ships, against the code of today."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from random import Random
from typing import get_args

import pytest

from engine.core.geometry import Size
from engine.core.paths import resource
from engine.models.gpu_passes import PLANNED
from engine.models.video_vae.measured_memory import TABLE
from engine.models.video_vae.measuring import Valueless, clip_use
from engine.models.video_vae.vae_use import FIGURES, SLICES, Side, VaeUse
from engine.settings.optimisations import VaeSwitches
from tests.helpers.extended import rest_extended
from tools.memory_table import VAES, changed, table_text, uses

USES = {name: list(uses(name)) for name in VAES}
CLIP_SIZES = {Size(608, 352): (1, 5, 21), Size(96, 416): (1, 9)}  # and numbers of frames
CLIPS = [name for name in VAES if name != "swiftvr"]  # that goes latent by latent, never in clips
SLOW = VaeSwitches().changed("ring_buffers", False)
_PICK = Random(6)
CELLS = [
    pytest.param(
        name,
        use,
        call,
        Size(32 * _PICK.randint(3, 12), 32 * _PICK.randint(3, 12)),
        id=f"{name} {use.name} {call}",
    )
    for name, use, call in (
        ("seedvr2", VaeUse(device="cuda", dtype="float16"), "decode_high"),
        ("seedvr2", VaeUse(device="cuda", dtype="float16", is_image=True), "encode_slice"),
        ("seedvr2", VaeUse(), "decode_low"),
        ("wan21", VaeUse(dtype="bfloat16"), "encode_low"),
        ("wan22", VaeUse(device="cuda", dtype="float16"), "decode_slice"),
        ("wan2x", VaeUse(device="cuda"), "encode_high"),
        ("swiftvr", VaeUse(device="cuda", dtype="float16"), "decode_slice"),
        ("seedvr2", VaeUse(device="cuda", dtype="float16", switches=SLOW), "decode_slice"),
        ("wan21", VaeUse(switches=VaeSwitches.all_off()), "encode_slice"),
    )
]


@pytest.mark.parametrize(("name", "use", "call", "size"), CELLS)
def test_cells_measured_again_are_what_ships(name: str, use: VaeUse, call: str, size: Size) -> None:
    """On a failure, run `python -m tools.memory_table`: the code has changed."""
    vae, config = VAES[name].vae, VAES[name].config
    more = 1.02 if use == use.usual else 1.08  # others are measured on fewer sides
    planned = vae.peak(config, call, use, size)
    with Valueless(vae, config, use) as measured:
        found = measured.slices(call, size)
    for figure in FIGURES:
        bytes_planned, bytes_found = getattr(planned, figure), found[figure]
        assert bytes_found <= bytes_planned <= more * bytes_found + 2**16, figure
    if call not in PLANNED:
        return
    work = vae.work(config, call, use, size)
    for name in SLICES:
        counted = found.get(f"{name} convolutions"), found.get(f"{name} products")
        if None not in counted and not use.is_image:
            one = getattr(work, name)
            assert (one.convolutions, one.products) == pytest.approx(counted, rel=0.005), name


ON_GPU = VaeUse(device="cuda", dtype="float16")
FOLDS = {
    "folded": ON_GPU,
    "unfolded": replace(ON_GPU, switches=VaeSwitches().changed("first_frame_fold", False)),
    "plain": replace(ON_GPU, switches=VaeSwitches.all_off()),
}


@pytest.mark.parametrize(
    ("name", "fold"),
    rest_extended(product(CLIPS, FOLDS), ("seedvr2", "folded")),
)
def test_clips_of_every_length_take_the_operations_that_are_planned(name: str, fold: str) -> None:
    """One frame was a tenth of what it takes, or 2.9 times; longer clips were right."""
    vae, config, use = VAES[name].vae, VAES[name].config, FOLDS[fold]
    clips = [(size, frames) for size, lengths in CLIP_SIZES.items() for frames in lengths]
    for side, (size, frames) in product(get_args(Side), clips):
        counted = clip_use(vae, config, use, side, size, frames)
        planned = vae.work(config, f"{side}_slice", use, size).total(frames, 4)
        what = f"{side} {size} {frames}"
        assert planned.convolutions == pytest.approx(counted.convolutions, rel=0.005), what
        assert planned.products == pytest.approx(counted.products, rel=0.005), what


def test_all_published_vaes_and_usual_uses_are_in_the_table() -> None:
    text = resource(TABLE).read_text(encoding="utf-8")
    found = json.loads(text)
    assert set(found) == {repr(one.config) for one in VAES.values()}
    for name, one in VAES.items():
        entries = found[repr(one.config)]
        assert list(entries) == [one.name for use in USES[name] for one in (use, *changed(use))]
        for use in USES[name]:
            calls = set(one.vae.pieces(one.config, 4))
            assert set(entries[use.name]["calls"]) == calls
            assert all(set(entries[other.name]["calls"]) <= calls for other in changed(use))
    assert table_text(found) + "\n" == text
