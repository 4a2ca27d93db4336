"""The model "auto": SeedVR2 where the GPU can run it, else Lite Plus for short jobs, else Lite."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from engine.core.geometry import Size
from engine.hardware.budget import NeededRuntime, pretended_budget
from engine.hardware.gpu_table import GIB, named
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Learned, Rates
from engine.protocol.plan import Notice, Plan
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_budget, a_media
from tests.helpers.seedvr2 import write_seedvr2

LARGE = pretended_budget(named("RTX 5070 Ti"), ram_bytes=24 * GIB)
SMALL = pretended_budget(named("RTX 3050 Laptop GPU"), ram_bytes=24 * GIB)
# The same GPU in this machine, with a torch that cannot use it.
UNUSED = replace(
    LARGE, cuda=False, is_pretended=False, needed_runtime=NeededRuntime(id="cu130", bytes=10**9)
)


FILM = a_media(size=Size(960, 540), frame_count=15_000, duration=Fraction(600))
CLIP = a_media(size=Size(480, 270), frame_count=25, duration=Fraction(1))


def planned(budget=LARGE, media=FILM, **wanted) -> Plan:
    return plan_job(Request(media=media, settings=JobSettings(**wanted)), budget, Rates())


def notice(plan: Plan, code: str) -> Notice | None:
    return next((one for one in plan.notices if one.code == code), None)


def test_a_gpu_that_can_gets_seedvr2_and_is_told_what_to_download():
    plan = planned()
    assert (plan.work.model, plan.work.device) == ("seedvr2-7b-sharp", "cuda")
    missing = notice(plan, "weights-missing")
    assert missing is not None
    assert (missing.case, missing.params["needs_runtime"]) == ("model", "")
    assert plan.reasons is not None
    assert plan.reasons.alternatives, "that of SeedVR2"


def test_a_gpu_without_bfloat16_gets_3b_and_says_why():
    budget = pretended_budget(named("RTX 2070"), ram_bytes=24 * GIB)
    plan = planned(budget)
    assert (plan.work.model, plan.work.dtype) == ("seedvr2-3b", "float16")
    assert plan.reasons is not None
    (why,) = (one for one in plan.reasons.choices if one.code == "no-bf16")
    assert "3B is the automatic model here" in why.message
    larger = planned(budget, model="seedvr2-7b-sharp")
    assert larger.reasons is not None
    assert any(one.case == "7b" for one in larger.reasons.choices if one.code == "no-bf16")
    usual = planned()
    assert usual.reasons is not None
    assert all(one.code != "no-bf16" for one in usual.reasons.choices)


def test_lite_takes_over_on_a_gpu_that_is_too_small_and_says_why():
    plan = planned(SMALL)
    assert plan.fits
    assert plan.work.model == "lite"
    why = notice(plan, "other-model")
    assert why is not None
    assert why.message == (
        f"SeedVR2 7B sharp needs {why.params['size']} of GPU memory, but only 2.1 GB is available: "
        "Lite is used instead."
    )
    assert notice(planned(SMALL, model="seedvr2-7b-sharp"), "plan-does-not-fit") is not None
    clip = planned(SMALL, a_media(size=Size(960, 540), frame_count=50, duration=Fraction(2)))
    assert (clip.work.model, clip.work.device) == ("lite-plus", "cuda")
    assert [one.message for one in clip.notices if one.code == "other-model"] == [
        why.message.replace("Lite is", "Lite Plus is")
    ]


def test_what_else_uses_the_gpu_at_present_does_not_make_it_lite():
    busy = replace(LARGE, vram_bytes=GIB)
    plan = planned(busy)
    assert plan.work.model == "seedvr2-7b-sharp"
    refusal = notice(plan, "plan-does-not-fit")
    assert refusal is not None
    assert "model=lite" in str(refusal.params["offers"])


def test_memory_that_is_in_use_at_present_is_no_reason_against_a_model():
    """Idle the larger network fits, but takes long: that is why it is not chosen."""
    film = planned(replace(SMALL, vram_bytes=2**27))
    assert film.work.model == "lite"
    seedvr2, plus = (one for one in film.notices if one.code == "other-model")
    assert "of GPU memory, but only 2.1 GB is available" in seedvr2.message
    assert (plus.params["model"], plus.case) == ("lite-plus", "takes-long")


def test_on_a_processor_a_short_clip_gets_lite_plus_and_a_film_lite_with_a_notice():
    for budget, device in ((a_budget(), "auto"), (LARGE, "cpu"), (UNUSED, "cpu")):
        clip, film = (planned(budget, media, device=device) for media in (CLIP, FILM))
        assert (clip.work.model, clip.work.device) == ("lite-plus", "cpu")
        assert clip.fits
        assert notice(clip, "other-model") is None
        assert (film.work.model, film.work.device) == ("lite", "cpu")
        why = notice(film, "other-model")
        assert why is not None
        larger = planned(budget, FILM, device=device, model="lite-plus")
        assert larger.work.model == "lite-plus", "a model that was named is kept"
        assert larger.seconds > 60 >= clip.seconds
        assert why.severity == "info"
        assert str(why.params["time"]) in why.message
        assert (why.params["offers"], 'model="lite-plus"' in why.hint) == ("model=lite-plus", True)


def test_a_stream_of_unknown_length_gets_lite():
    endless = a_media(frame_count=0, duration=None)
    plan = planned(a_budget(), endless)
    assert plan.work.model == "lite"
    assert "length of the video is unknown" in notice(plan, "other-model").message
    assert planned(a_budget(), a_media(frame_count=1)).work.model == "lite-plus"


def test_nothing_to_enlarge_is_no_question_of_time():
    plan = planned(a_budget(), FILM, scale=1)
    assert plan.work.model == "none"
    assert notice(plan, "other-model") is None


def test_what_jobs_taught_counts_for_the_choice():
    known = Rates(jobs={"lite-plus-x2-cpu-libx264": Learned(factor=0.05)})
    media = a_media(frame_count=100, duration=Fraction(4))
    request = Request(media=media, settings=JobSettings())
    budget = a_budget(threads=4, has_fast_bf16=True)
    assert [plan_job(request, budget, one).work.model for one in (Rates(), known)] == [
        "lite",
        "lite-plus",
    ]


def test_a_gpu_without_its_runtime_is_planned_for_and_the_runtime_is_asked_for():
    for model, planned_model in (("auto", "seedvr2-7b-sharp"), ("seedvr2-3b", "seedvr2-3b")):
        plan = planned(UNUSED, model=model)
        assert (plan.work.model, plan.work.device) == (planned_model, "cuda")
        assert plan.card == "RTX 5070 Ti, 16 GB"
        assert plan.device_budget_bytes < plan.device_limit_bytes == 16 * GIB - 1860 * 2**20
        missing = notice(plan, "weights-missing")
        assert missing is not None
        assert (missing.case, missing.severity) == ("runtime-and-model", "refusal")
        params = missing.params
        assert (params["needs_runtime"], params["runtime_bytes"]) == ("cu130", str(10**9))
        weights = sum(weights.bytes for weights in plan.work.weights_files)
        assert int(params["bytes"]) == weights + 10**9
        assert "runtime install" in missing.hint
    assert planned(UNUSED, model="wan-2x").work.device == "cuda"
    lite = planned(UNUSED, model="lite")
    assert (lite.work.device, lite.fits) == ("cpu", True)


def test_an_own_transformer_decides_and_nothing_takes_its_place(tmp_path: Path):
    dit = write_seedvr2(tmp_path).settings().dit
    own = JobSettings(model="auto", dit=dit)
    request = Request(media=FILM, settings=own)
    plan = plan_job(request, LARGE, Rates())
    assert plan.work.model == "seedvr2-3b"
    tiny = replace(LARGE, vram_bytes=10**6)
    plan = plan_job(request, tiny, Rates())
    assert plan.work.model == "seedvr2-3b"
    assert notice(plan, "plan-does-not-fit") is not None


@pytest.mark.parametrize("model", ["auto", "seedvr2-7b-sharp"])
def test_lite_is_offered_until_the_files_are_here(model: str):
    missing = notice(planned(model=model), "weights-missing")
    assert missing is not None
    assert missing.params["offers"] == "model=lite"
    assert 'model="lite"' in missing.hint
    same_size = notice(planned(model=model, scale=1), "weights-missing")
    assert same_size is not None
    assert same_size.params["offers"] == "", "Lite only enlarges"
