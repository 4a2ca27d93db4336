"""Reasons of plans: true to their figures, readable for small and large GPUs, and translated."""

import re
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from engine.cli.formatting import plan_words
from engine.core.geometry import Size
from engine.hardware import gpu_table
from engine.hardware.budget import Budget, pretended_budget
from engine.hardware.commit import Cause, Commit
from engine.planner import times
from engine.planner.downgrade import without_pinning
from engine.planner.offers import with_offers
from engine.planner.plan_job import Request, bare_plan, plan_job
from engine.planner.rates import Rates
from engine.protocol.plan import Notice, Plan, Reasons
from engine.settings.assignments import with_text
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_media

GIB = 2**30
HD = Size(960, 540)


def a_machine(vram_gib: float, ram_gib: float = 24, name: str = "RTX 4090") -> Budget:
    budget = pretended_budget(gpu_table.find(name), ram_bytes=round(ram_gib * GIB))
    return replace(budget, vram_bytes=round(vram_gib * GIB))


@cache
def planned(budget: Budget, size: Size = HD, **wanted: Any) -> Plan:
    settings = JobSettings(**{"model": "seedvr2-3b", **wanted})
    return plan_job(Request(media=a_media(size=size), settings=settings), budget, Rates())


def reasons(plan: Plan) -> Reasons:
    assert plan.reasons is not None
    return plan.reasons


def choice(plan: Plan, code: str) -> str:
    return next((one.message for one in reasons(plan).choices if one.code == code), "")


def refusal(plan: Plan) -> Notice:
    return next(notice for notice in plan.notices if notice.code == "plan-does-not-fit")


def test_a_large_gpu_is_short_of_nothing() -> None:
    plan = planned(a_machine(80))
    assert reasons(plan).limited_by == "nothing"
    assert choice(plan, "blocks") == "The whole model stays on the GPU."
    assert choice(plan, "encode") == "Frames are encoded whole."
    assert choice(plan, "decode") == "Frames are decoded whole."
    assert choice(plan, "clips") == "Clips of 81 frames, 8 of them shared with the next clip."
    assert not any(one.code.startswith(("larger", "longer")) for one in reasons(plan).alternatives)
    assert reasons(planned(a_machine(80), clip_frames=81)).limited_by == "settings"


def test_what_changes_nothing_is_no_alternative() -> None:
    """The blocks of a 3B are its whole model; a 7B has weights of the text beside them."""
    for model, differs in (("seedvr2-3b", False), ("seedvr2-7b", True)):
        plan = planned(a_machine(80), model=model)
        codes = {one.code for one in reasons(plan).alternatives}
        assert plan.work.blocks_on_device is None
        assert ("fewer-blocks-on-card" in codes) == differs


def test_a_small_gpu_says_what_more_would_take() -> None:
    for vram in (3, 6, 10, 22):
        plan = planned(a_machine(vram))
        found = reasons(plan)
        assert found.limited_by == "video-memory"
        assert f"{vram}.0 GB available" in found.message
        more = [one for one in found.alternatives if one.device_bytes > plan.device_budget_bytes]
        assert more
        for one in found.alternatives:
            assert one.fits == (
                one.device_bytes <= plan.device_budget_bytes and one.ram_bytes <= plan.budget_bytes
            )
        said = [found.message, *(str(one.message) for one in (*found.choices, *found.alternatives))]
        assert not any(re.search(r"[{}]|None|False|True", sentence) for sentence in said)


def test_one_step_less_takes_less_and_more_time() -> None:
    plan = planned(a_machine(10))
    steps = {one.code: one for one in reasons(plan).alternatives}
    assert {"shorter-clips", "smaller-decode-tiles", "smaller-encode-tiles"} <= set(steps)
    for code in ("shorter-clips", "smaller-decode-tiles", "smaller-encode-tiles"):
        assert steps[code].device_bytes <= plan.device_bytes
        assert steps[code].seconds > plan.seconds
        assert steps[code].fits


def test_little_main_memory_is_what_decides() -> None:
    plan = planned(a_machine(23, ram_gib=12))
    assert "each starts with 24 extra frames" in choice(plan, "early")
    assert reasons(plan).limited_by == "memory"
    step = next(one for one in reasons(plan).alternatives if one.code == "longer-spans")
    assert (step.fits, step.ram_bytes > plan.budget_bytes) == (False, True)
    assert "of RAM" in "\n".join(plan_words(plan))
    assert "GPU: about" in "\n".join(plan_words(plan))
    tiles = planned(a_machine(6), Size(1920, 1080))
    assert tiles.work.decodes_whole_tiles
    assert "decoder-in-tiles" in {notice.code for notice in tiles.notices}
    assert choice(tiles, "decode").endswith("which are then blended.")
    assert reasons(planned(a_machine(0, ram_gib=30), device="cpu")).limited_by == "memory"


def promised(budget: Budget, left_gib: float, cause: Cause = "no-page-file") -> Budget:
    """The same computer with Windows, which promises only so much more memory."""
    left = round(left_gib * GIB)
    commit = Commit(limit_bytes=32 * GIB, left_bytes=left, counts_vram=True, cause=cause)
    return replace(budget, commit=commit)


@pytest.mark.parametrize("model", ["seedvr2-3b", "seedvr2-7b", "wan-2x", "lite"])
def test_ram_and_gpu_together_stay_within_what_windows_promises(model: str) -> None:
    """The GPU's memory is promised a second time: a plan that fits both alone was refused."""
    free = a_machine(22, ram_gib=22)
    for left in (30, 20, 14):
        found = planned(promised(free, left), Size(1920, 1080), model=model)
        assert not [one for one in found.notices if one.severity == "refusal" and "fit" in one.code]
        assert found.peak_bytes + found.device_bytes <= left * GIB
        assert found.peak_bytes <= found.budget_bytes <= free.ram_bytes
        assert found.device_bytes <= found.device_budget_bytes
        usual = planned(free, Size(1920, 1080), model=model)
        assert found.seconds >= 0.999 * usual.seconds
        if usual.peak_bytes + usual.device_bytes <= left * GIB:
            assert found.work == usual.work


def test_a_plan_that_the_commit_limit_makes_slower_says_what_helps() -> None:
    free = a_machine(22, ram_gib=22)
    usual = planned(free, Size(1920, 1080))
    assert "commit-limits" not in {notice.code for notice in usual.notices}
    for cause, words in (
        ("no-page-file", "Let Windows manage it"),
        ("fixed-page-file", "Let Windows manage it"),
        ("managed-page-file", "free space on the drive"),
    ):
        found = planned(promised(free, 12, cause), Size(1920, 1080))
        assert reasons(found).limited_by == "commit"
        assert found.seconds > usual.seconds
        (notice,) = (one for one in found.notices if one.code == "commit-limits")
        assert "The commit limit of 32.0 GB makes this plan slower" in notice.message
        assert words in notice.hint
        assert "RAM and page file together" in str(reasons(found).as_message)
    plenty = planned(promised(free, 60), Size(1920, 1080))
    assert (plenty.work, reasons(plenty).limited_by) == (usual.work, reasons(usual).limited_by)


def test_a_refusal_by_the_commit_limit_names_it() -> None:
    found = refusal(planned(promised(a_machine(22, ram_gib=22), 1.5), Size(3840, 2160)))
    assert found.case == "commit"
    assert "the commit limit of 32.0 GB leaves" in found.message
    assert found.hint.endswith("> Advanced > Virtual memory.")


def test_the_users_limit_of_gpu_memory_is_named() -> None:
    budget = replace(a_machine(6), is_vram_limited=True)
    assert reasons(planned(budget)).limited_by == "vram-limit"
    tight = replace(a_machine(0.1, ram_gib=0.3), is_vram_limited=True)
    assert "Raise the limit" in refusal(planned(tight, Size(3840, 2160))).hint


def test_models_without_shots_have_reasons_too() -> None:
    lite = planned(a_machine(10), model="lite")
    assert choice(lite, "model") == "Lite for clean sources, 2x."
    assert choice(lite, "tiles") == "Frames are processed whole."
    wan = planned(a_machine(3), Size(1920, 1080), model="wan-2x")
    assert choice(wan, "decode").startswith("Frames are decoded in ")
    assert reasons(wan).limited_by == "video-memory"
    assert choice(planned(a_machine(3), model="none"), "model").startswith("No model")


def test_a_refusal_offers_what_fits() -> None:
    large = {"height": 4320, "model": "seedvr2-7b"}
    for vram, wanted in ((2.2, {"height": 2160}), (1.0, {}), (5.0, large)):
        budget = a_machine(vram)
        found = refusal(planned(budget, Size(640, 360), **wanted))
        assert found.hint
        offers = found.params["offers"].split(";")
        settings = JobSettings(**{"model": "seedvr2-3b", **wanted})
        for offer in offers:
            other = with_text(settings, offer.split(","))
            request = Request(media=a_media(size=Size(640, 360)), settings=other)
            plan = bare_plan(request, budget, Rates())
            assert "plan-does-not-fit" not in {notice.code for notice in plan.notices}
        assert "model=lite" in offers
    found = refusal(planned(a_machine(1, ram_gib=0.3), Size(3840, 2160)))
    assert "offers" not in found.params, "nothing fits"
    assert found.hint


def test_a_result_as_high_as_its_source_is_offered() -> None:
    sizes = {"size": "20.0 GB", "budget": "15.0 GB"}
    refused = Notice(code="plan-does-not-fit", case="gpu-memory", severity="refusal", params=sizes)
    settings, hd, uhd = JobSettings(model="seedvr2-3b"), Size(1920, 1080), Size(3840, 2160)
    found = with_offers(refused, settings, (hd, uhd), lambda one: 0 < one.height <= 1080)
    assert found.params["offers"] == "height=1080,width=0"


def test_weights_that_are_not_pinned_take_longer_to_come() -> None:
    plan = planned(a_machine(4), Size(1920, 1080), model="seedvr2-7b")
    assert plan.work.pin_bytes
    other = without_pinning(plan)
    seconds = [times.seconds(one, a_machine(4), Rates()) for one in (plan, other)]
    assert seconds[0] < seconds[1]
