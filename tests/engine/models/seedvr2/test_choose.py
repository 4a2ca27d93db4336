"""Plans of SeedVR2: the largest that fit, smaller ones step by step, down to a floor."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.geometry import Size
from engine.hardware import gpu_table
from engine.hardware.budget import pretended_budget
from engine.models import overflow
from engine.models.seedvr2.dit.config import DIT_3B
from engine.models.seedvr2.dit.cost import resident_bytes, weight_bytes
from engine.models.seedvr2.family import FAMILY
from engine.models.seedvr2.plan import working_size
from engine.models.seedvr2.requirements import needs
from engine.planner.downgrade import next_plan
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Rates
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_budget, a_media

GIB = 2**30
HD = Size(960, 540)


def plan_of(vram_gib: float, size: Size = HD, **changes: Any) -> Plan:
    budget = a_budget(
        cuda=vram_gib > 0, vram_bytes=round(vram_gib * GIB), capability=(12, 0), ram_bytes=24 * GIB
    )
    wanted = JobSettings(**{"model": "seedvr2-3b", **changes})
    return plan_job(Request(media=a_media(size=size), settings=wanted), budget, Rates())


def test_a_large_card_takes_whole_frames_and_all_blocks() -> None:
    found = plan_of(64).work
    assert (found.encode_tile, found.decode_tile, found.blocks_on_device) == (None, None, None)
    assert (found.clip, found.shared, found.pin_bytes) == (21, 2, 0)
    assert (found.device, found.dtype, found.vae_dtype) == ("cuda", "bfloat16", "float16")


def test_streamed_blocks_take_two_buffers_while_the_transformer_works() -> None:
    whole = plan_of(64).work
    some = replace(whole, blocks_on_device=5)
    stored = weight_bytes(DIT_3B, 2.0, some.dtype)
    without, buffered = (resident_bytes(DIT_3B, stored, 5, buffers=count) for count in (0, 2))
    assert buffered > without
    now, all_stay = needs(some), needs(whole)
    assert all_stay.weights - now.weights == resident_bytes(DIT_3B, stored, None) - without
    for name, size in all_stay.working.items():
        buffers = (buffered - without) * (name == "transformer")
        assert now.working[name] - size == buffers, name


def test_full_hd_fits_every_usual_gpu() -> None:
    for model in ("seedvr2-3b", "seedvr2-7b"):
        for vram in (7, 11, 15, 23, 31):
            plan = plan_of(vram, model=model)
            assert needs(plan.work).device <= vram * GIB, (model, vram)
            assert refusals(plan) == {"weights-missing"}
    assert "plan-does-not-fit" in refusals(plan_of(1))


def test_a_refusal_names_everything_to_download() -> None:
    """What "Download and start" of the window needs to know."""
    plan = plan_of(23, model="seedvr2-7b-sharp", precision="q4")
    notice = next(one for one in plan.notices if one.code == "weights-missing")
    params = notice.params
    assert (notice.case, params["model"], params["needs_runtime"]) == (
        "model",
        "seedvr2-7b-sharp",
        "",
    )
    assert params["files"] == "seedvr2-7b-sharp-q4,seedvr2-vae-fp16,seedvr2-text"
    assert int(params["bytes"]) == sum(weights.bytes for weights in plan.work.weights_files)
    assert int(params["seconds"]) == round(int(params["bytes"]) / 6.25e6)
    assert params["offers"] == "model=lite"
    assert "5.4 GB" in notice.message
    assert "50 Mbit/s" in notice.message
    assert "models download seedvr2-7b-sharp-q4" in notice.hint


def test_a_smaller_working_size_is_planned_with_its_bytes_and_seconds() -> None:
    plans = [plan_of(64, working_size=share) for share in (70, 84, 100)]
    sizes = [plan.work.canvas for plan in plans]
    assert sizes == [Size(1344, 752), Size(1616, 912), Size(1920, 1080)]
    assert {plan.picture.size for plan in plans} == {Size(1920, 1080)}
    assert plans[0].seconds < plans[1].seconds < plans[2].seconds
    assert needs(plans[0].work).stages["decode"] < needs(plans[2].work).stages["decode"]
    text = "Processed at 84 % of the width and height (1616x912), then resized to 1920x1080."
    said = [[choice.message for choice in FAMILY.choices(plan.work)] for plan in plans]
    assert [text in sentences for sentences in said] == [False, True, False]
    assert "processed at 1616x912" in plans[1].work.line
    assert plans[1].work.summary[0].message == "processed at 84 %"


@given(
    st.integers(16, 4000),
    st.integers(16, 4000),
    st.integers(1, 4000),
    st.integers(1, 4000),
    st.integers(70, 100),
)
def test_no_working_size_is_below_the_source_or_beyond_the_result(
    width: int, height: int, source_width: int, source_height: int, share: int
) -> None:
    result, source = Size(width, height), Size(source_width, source_height)
    found = working_size(result, source, share)
    for side, whole, least in (
        (found.width, width, source_width),
        (found.height, height, source_height),
    ):
        assert min(whole, least) <= side <= whole
        assert side >= share * whole / 100 - 8 or side == whole
    if share == 100 or source_width >= width:
        assert found == result


def test_a_still_is_planned_as_one() -> None:
    """8192x6144 from 2048x1536 on GPUs of 8, 12 and 16 GB, with 16 GB of main memory."""
    still = a_media(size=Size(2048, 1536), frame_count=1, frame_count_is_exact=True)
    wanted = JobSettings(model="seedvr2-7b-sharp", precision="q4", scale=4)
    for name in ("RTX 4060", "RTX 3060", "RTX 5070 Ti"):
        budget = pretended_budget(gpu_table.find(name), ram_bytes=round(0.7 * 16 * GIB))
        plan = plan_job(Request(media=still, settings=wanted), budget, Rates())
        assert "plan-does-not-fit" not in refusals(plan), name
        assert plan.work.latents == 1


def test_a_film_counts_by_its_length() -> None:
    found = {}
    for frames in (1, 17, 96, 2500):
        media = a_media(size=HD, frame_count=frames, frame_count_is_exact=True)
        budget = pretended_budget(gpu_table.find("RTX 3060"), ram_bytes=32 * GIB)
        wanted = JobSettings(model="seedvr2-3b")
        found[frames] = plan_job(Request(media=media, settings=wanted), budget, Rates())
    lengths = [plan.work.latents for plan in found.values()]
    assert lengths[:3] == [1, 5, 21]
    assert lengths[3] >= 9, "33 frames and more are one class"
    assert found[1].device_bytes < found[96].device_bytes
    each = [plan.seconds / frames for frames, plan in found.items()]
    assert each[1] < 1.2 * each[2]
    assert found[17].seconds < found[96].seconds < found[2500].seconds


def refusals(plan: Plan) -> set[str]:
    return {notice.code for notice in plan.notices if notice.severity == "refusal"}


@settings(max_examples=15, deadline=None)
@given(
    st.integers(4, 40),
    st.sampled_from([Size(320, 180), Size(640, 360), HD]),
    st.sampled_from(["latents", "frames"]),
)
def test_each_step_down_needs_less_until_there_is_none(vram: int, size: Size, join: str) -> None:
    work = plan_of(vram, size, join=join).work
    seen = {work}
    for _ in range(80):
        less = FAMILY.smaller(work)
        if less is None:
            break
        assert less not in seen
        seen.add(less)
        work = less
    assert FAMILY.smaller(work) is None


def test_an_overflow_makes_sums_and_then_all_of_the_vae_wider() -> None:
    work = plan_of(30).work
    found = []
    for _ in range(3):
        work = FAMILY.wider(work, a_budget(cuda=True, capability=(8, 6)), "decoder")
        assert work is not None
        found.append((work.vae_dtype, work.switches.vae.fp16_sums))
    assert found == [("float16", False), ("bfloat16", False), ("float32", False)]
    assert FAMILY.wider(work, a_budget(cuda=True, capability=(8, 6)), "decoder") is None


def test_a_transformer_of_float16_gets_other_sums_and_then_float32() -> None:
    turing, ampere = (a_budget(cuda=True, capability=one) for one in ((7, 5), (8, 6)))
    narrow = replace(plan_of(30).work, dtype="float16")
    sums = FAMILY.wider(narrow, turing, "transformer")
    assert sums is not None
    assert (sums.dtype, sums.switches.dit.fp16_sums) == ("float16", False)
    assert sums.switches.vae == narrow.switches.vae
    assert not plan_of(30).work.switches.dit.fp16_sums, "it is remembered"
    wide = FAMILY.wider(sums, turing, "transformer")
    assert wide is not None
    assert (wide.dtype, wide.vae_dtype) == ("float32", "float16")
    assert plan_of(30).work.switches.dit.fp16_sums, "it was not the reason"
    assert FAMILY.wider(wide, turing, "transformer") is None
    assert FAMILY.wider(plan_of(30).work, ampere, "transformer") is None, "bfloat16 has its range"


def test_what_overflowed_is_remembered_where_that_costs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def begins(**settings: Any) -> tuple[str, bool]:
        work = plan_of(30, **settings).work
        return work.vae_dtype, bool(work.switches.vae.fp16_sums)

    caplog.set_level(logging.INFO, overflow.logger.name)
    work = plan_of(30).work
    ampere, turing = (a_budget(cuda=True, capability=one) for one in ((8, 6), (7, 5)))
    for device, dtype, changes, wider in (
        ("cpu", "float16", {}, "float32"),
        ("cuda", "bfloat16", {}, "float32"),
        ("cuda", "float16", {"kernels": False}, "float32"),
        ("cuda", "float16", {"convolution": "3d"}, "float32"),
        ("cuda", "float16", {"fp16_sums": False}, "float32"),
    ):
        vae = replace(work.switches.vae, **changes)
        switches = replace(work.switches, vae=vae)
        other = replace(work, device=device, vae_dtype=dtype, switches=switches)
        found = FAMILY.wider(other, turing)
        assert found is not None
        assert found.vae_dtype == wider
    assert begins() == ("float16", True)
    assert not caplog.records
    without = FAMILY.wider(work, ampere)
    assert without is not None
    assert begins() == ("float16", False)
    assert len(caplog.records) == 1
    changed = replace(work, vae=replace(work.vae, bytes=work.vae.bytes + 1))
    assert FAMILY.with_switches(changed, work.switches).switches.vae.fp16_sums
    narrow = FAMILY.wider(without, ampere)
    assert narrow is not None
    assert begins() == ("bfloat16", False)
    assert begins(vae_precision="float16") == ("float16", False), "the user's own"
    assert overflow.vae_dtype("auto", "cuda", work.vae, has_bf16=False) == "float16"
    assert FAMILY.wider(narrow, ampere) is not None
    assert begins() == ("float16", True), "float32 was needed: that was not the reason"


NARROW, WIDE = ["float16", "float32"], ["float16", "bfloat16", "float32"]
CARDS = {"RTX 2060": NARROW, "RTX 4060": WIDE, "RTX 5070 Ti": WIDE, "RTX 3090": WIDE}


@pytest.mark.parametrize("card", CARDS)
def test_wider_values_are_planned_again_within_the_memory(card: str) -> None:
    budget = pretended_budget(gpu_table.named(card), ram_bytes=24 * GIB)
    wanted = JobSettings(model="seedvr2-3b")
    request = Request(media=a_media(size=HD), settings=wanted)
    first = plan = plan_job(request, budget, Rates())
    found = []
    while (after := next_plan(plan, "overflow", part="decoder")) is not None:
        assert after.device_bytes <= plan.device_budget_bytes
        assert after.peak_bytes <= plan.budget_bytes
        if after.work.vae_dtype != "float32":
            wide = replace(after.work, vae_dtype="float16", switches=first.work.switches)
            assert wide == first.work
        found.append(after.work.vae_dtype)
        plan = after
    assert found == CARDS[card]
    unchanged = replace(first.work, vae_dtype="float32")
    assert needs(unchanged).device > first.device_budget_bytes


def test_choices_are_kept() -> None:
    found = plan_of(
        64, clip_frames=30, decode_tile=512, padding="black", blocks_on_device=5, shots="off"
    ).work
    assert (found.clip, found.decode_tile, found.blocks_on_device) == (9, Size(512, 512), 5)
    assert (found.padded, found.reflected) == (Size(1920, 1088), 0)
    assert found.shot_sensitivity is None
    assert found.pin_bytes > GIB


def test_the_processor_is_slow_and_says_so() -> None:
    plan = plan_of(0, Size(320, 180))
    assert plan.work.device == "cpu"
    assert "slow-on-processor" in {notice.code for notice in plan.notices}
    assert plan.seconds > 3600
    assert plan.peak_bytes < 24 * GIB
    longer = replace(plan.work, clip=21)
    assert needs(longer).working["transformer"] > needs(plan.work).working["transformer"]


def test_half_precision_follows_the_gpu() -> None:
    for capability, dtype in (((7, 5), "float16"), ((8, 0), "bfloat16"), ((12, 0), "bfloat16")):
        budget = a_budget(cuda=True, vram_bytes=16 * GIB, capability=capability)
        request = Request(media=a_media(size=HD), settings=JobSettings(model="seedvr2-3b"))
        assert plan_job(request, budget, Rates()).work.dtype == dtype


def test_the_peak_of_decoding_has_the_frames_that_colour_correction_pools() -> None:
    for colour in ("lab", "hsv"):
        work = plan_of(7, colour=colour).work
        pictures = 11 * 3 * 4 * work.size.pixels * 4 * (work.clip - work.shared)  # float32
        found = needs(work)
        assert found.working["decode"] >= found.finishing + pictures
