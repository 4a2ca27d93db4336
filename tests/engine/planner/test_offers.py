"""Plans that flicker or take very long, and settings without effect: what is said and offered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.core.geometry import Size
from engine.hardware.budget import pretended_budget
from engine.hardware.gpu_table import requested
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Rates
from engine.protocol.plan import Notice, Plan
from engine.settings.assignments import with_text
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_budget, a_media

GIB = 2**30
SMALL, LARGE = "RTX 3060 Laptop GPU", "RTX 5090"
FOUR_SECONDS = a_media(size=Size(960, 540), frame_count=100, frame_count_is_exact=True)


def planned(gpu: str, *words: str, **wanted: Any) -> Plan:
    settings = with_text(JobSettings(**{"model": "seedvr2-7b-sharp", **wanted}), list(words))
    budget = pretended_budget(requested(gpu), ram_bytes=24 * GIB)
    return plan_job(Request(media=FOUR_SECONDS, settings=settings), budget, Rates())


def notices(plan: Plan, code: str) -> list[Notice]:
    return [one for one in plan.notices if one.code == code]


def test_twelve_minutes_for_four_seconds_are_told_with_what_is_faster() -> None:
    plan = planned(SMALL)
    assert plan.seconds > 100 * 4
    (slow,) = notices(plan, "plan-slow")
    assert (slow.case, slow.severity) == ("takes-long", "warning")
    offers = str(slow.params["offers"]).split(";")
    assert "working_size=70" in offers
    assert offers[-1] == "model=lite"
    for offer in offers:
        other = planned(SMALL, *offer.split(","))
        assert other.seconds < 0.7 * plan.seconds
    assert "Lite: " in slow.hint
    assert "working size of 70 %: " in slow.hint
    assert not notices(planned(LARGE), "plan-slow")


def test_clips_of_one_frame_are_told_as_flicker() -> None:
    gpu = "RTX 3050 Laptop GPU"
    plan = planned(gpu, height=720)
    assert plan.work.is_single_frames
    (slow,) = notices(plan, "plan-slow")
    assert slow.case == "flickers"
    offers = str(slow.params["offers"]).split(";")
    assert {"model=seedvr2-3b,precision=auto", "model=lite"} < set(offers)
    for offer in offers:
        other = planned(gpu, *offer.split(","), height=720)
        assert not other.work.is_single_frames
        assert other.seconds < plan.seconds
    (chosen,) = notices(planned(gpu, height=720, clip_frames=1), "plan-slow")
    assert chosen.case == "takes-long"
    still = a_media(frame_count=1, frame_count_is_exact=True)
    budget = pretended_budget(requested(gpu), ram_bytes=24 * GIB)
    settings = JobSettings(model="seedvr2-7b-sharp", height=720)
    image = plan_job(Request(media=still, settings=settings), budget, Rates())
    assert not image.work.is_single_frames


def test_a_choice_that_no_model_looks_at_is_named() -> None:
    (unused,) = notices(planned(LARGE, overlap=64), "setting-unused")
    assert unused.message == '"Tile overlap" has no effect with SeedVR2 7B sharp.'
    settings = JobSettings(model="lite", overlap=64, matmul="fp8", strength=50)
    plan = plan_job(Request(media=FOUR_SECONDS, settings=settings), a_budget(), Rates())
    found = {one.params["setting"] for one in notices(plan, "setting-unused")}
    assert found == {"matmul", "strength"}
    own = {"overlap": 64, "treatment": "restore", "steadiness": "mild"}
    settings = JobSettings(model="lite-plus", **own)
    plan = plan_job(Request(media=FOUR_SECONDS, settings=settings), a_budget(), Rates())
    assert not notices(plan, "setting-unused")
    assert {name: getattr(plan.work, name) for name in own} == own
    assert plan.work.weights == "lite_plus_x2_restore.safetensors"
    assert not notices(planned(LARGE, strength=50, clip_frames=21), "setting-unused")


@pytest.mark.parametrize(
    ("name", "wanted"), [("blocks_on_device", 16), ("clip_frames", 81), ("decode_tile", 1024)]
)
def test_a_size_that_memory_lowers_is_told(name: str, wanted: int) -> None:
    plan = planned(SMALL, **{name: wanted})
    (lowered,) = notices(plan, "setting-lowered")
    value = int(plan.work.step_values[name])
    assert value < wanted
    assert f"{value} instead of {wanted}" in lowered.message
    assert not notices(planned(LARGE, **{name: wanted}), "setting-lowered")
    assert not notices(planned(SMALL), "setting-lowered")


def test_faster_encoding_is_offered_where_the_encoder_takes_too_much() -> None:
    wanted = JobSettings(model="lite", codec="av1", bit_depth=10, speed="slow", scale=2)
    media = a_media(size=Size(1920, 1080))
    plan = plan_job(Request(media=media, settings=wanted), a_budget(ram_bytes=6 * GIB), Rates())
    (refusal,) = notices(plan, "plan-does-not-fit")
    offers = str(refusal.params["offers"]).split(";")
    assert offers[:2] == ["speed=auto", "height=1440,width=0"]
    assert refusal.hint == "Faster encoding fits, at some cost in file size or quality."
    taken = with_text(wanted, [offers[0]])
    assert plan_job(Request(media=media, settings=taken), a_budget(ram_bytes=6 * GIB), Rates()).fits
    image = replace(media, video=replace(media.video, frame_count=1, frame_count_is_exact=True))
    assert plan_job(
        Request(media=image, settings=wanted), a_budget(ram_bytes=6 * GIB), Rates()
    ).fits
    gpu = planned(SMALL, speed="slow", height=4320)
    (refusal,) = notices(gpu, "plan-does-not-fit")
    assert "speed=" not in str(refusal.params["offers"]), "the GPU is what limits it"
