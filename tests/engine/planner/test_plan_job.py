from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import ContainerMismatch, NoUsableGpu, SettingsError, UnsupportedMedia
from engine.core.geometry import Size
from engine.models import registry
from engine.models.lite.plan import treatment_of
from engine.planner import peaks
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Rates
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_budget, a_media


def planned(*, media=None, budget=None, rates=None, **wanted) -> Plan:
    request = Request(media=media or a_media(), settings=JobSettings(**wanted))
    return plan_job(request, budget or a_budget(), rates or Rates())


def codes(plan: Plan) -> set[str]:
    return {notice.code for notice in plan.notices}


def test_the_default_is_twice_the_size_with_lite_on_the_processor():
    plan = planned()
    assert (plan.work.model, plan.work.scale, plan.work.device) == ("lite", 2, "cpu")
    assert plan.picture.size == Size(1280, 720)
    assert (plan.picture.codec, plan.container, plan.frames) == ("h264", "mkv", 250)
    assert plan.fits
    assert plan.peak_bytes < plan.budget_bytes
    assert plan.seconds > 0
    assert plan.output_bytes > 0


def test_the_same_request_gives_the_same_plan():
    assert planned(height=1080) == planned(height=1080)


@settings(max_examples=25, deadline=None)
@given(
    width=st.integers(16, 4000),
    height=st.integers(16, 2200),
    small=st.integers(10**8, 10**10),
    more=st.integers(0, 10**10),
)
def test_a_smaller_budget_never_gives_a_larger_plan(width, height, small, more):
    media = a_media(size=Size(width, height))
    little = planned(media=media, budget=a_budget(ram_bytes=small))
    much = planned(media=media, budget=a_budget(ram_bytes=small + more))
    assert peaks.ram_bytes(little) <= peaks.ram_bytes(much)


def test_too_little_memory_is_refused_in_words():
    plan = planned(budget=a_budget(ram_bytes=10**8))
    assert not plan.fits
    assert plan.notices[0].code == "plan-does-not-fit"
    assert plan.work.clip_frames == 1


def test_large_frames_are_cut_into_tiles_of_a_tenth_of_a_second():
    plan = planned(media=a_media(size=Size(1920, 1080)))
    assert plan.work.tiles > 4
    assert plan.work.tile.pixels < 320_000
    assert plan.work.overlap >= 16


def test_smaller_plans_end_at_a_floor():
    work = planned(media=a_media(size=Size(1920, 1080))).work
    steps = 0
    while (smaller := registry.family_of(work).smaller(work)) is not None:
        assert smaller.tile.pixels * smaller.clip_frames < work.tile.pixels * work.clip_frames
        work, steps = smaller, steps + 1
    assert 2 < steps < 20


@pytest.mark.parametrize(
    ("video", "form"),
    [
        ({"bit_rate": 200_000}, "restore"),
        ({"bit_rate": 8_000_000}, "faithful"),
        ({"bit_rate": 0}, "faithful"),
        ({"bit_rate": 200_000, "codec": "ffv1"}, "faithful"),
        ({"bit_rate": 200_000, "quantiser": 20.0}, "faithful"),
        ({"bit_rate": 8_000_000, "quantiser": 31.0}, "restore"),
        ({"bit_rate": 2_000_000, "codec": "av1"}, "faithful"),
        ({"bit_rate": 1_500_000, "codec": "mpeg2video"}, "restore"),
    ],
)
def test_damaged_sources_are_restored(video, form):
    assert treatment_of(a_media(**video).video) == form


def test_hdr_interlace_and_guessed_colours_are_said():
    assert {"interlaced-as-frames", "colours-guessed"} <= codes(
        planned(media=a_media(is_interlaced=True, field_order="tt"))
    )
    assert "hdr-tags-only" in codes(planned(media=a_media(hdr="pq", bit_depth=10)))


def test_a_source_that_is_cut_short_is_refused_unless_allowed():
    media = replace(a_media(), is_cut_short=True)
    assert not planned(media=media).fits
    assert planned(media=media, accept_damaged=True).fits
    assert "truncated-media" in codes(planned(media=media, accept_damaged=True))


def test_a_smaller_target_uses_no_model_and_says_so():
    plan = planned(height=180)
    assert plan.work.model == "none"
    assert "target-is-smaller" in codes(plan)


def test_beyond_four_times_is_said():
    plan = planned(height=2160)
    assert plan.work.scale == 4
    assert "beyond-model" in codes(plan)


def test_a_full_disk_is_foreseen():
    assert "disk-may-fill" in codes(planned(budget=a_budget(free_output_bytes=10**6)))


def test_trimming_counts_only_what_is_done():
    plan = planned(start="2", stop="0:00:04.5")
    assert (plan.start, plan.stop, plan.frames) == (Fraction(2), Fraction(9, 2), 62)


@pytest.mark.parametrize("wrong", [{"start": "5", "stop": "5"}, {"stop": "0"}, {"start": "10"}])
def test_times_that_leave_nothing_are_refused(wrong):
    with pytest.raises(SettingsError):
        planned(**wrong)


def test_a_card_that_is_not_there_is_refused():
    with pytest.raises(NoUsableGpu):
        planned(device="cuda")


def test_absurd_results_are_refused():
    with pytest.raises(UnsupportedMedia):
        planned(media=a_media(size=Size(8000, 4000)), scale=4)


def test_results_too_small_to_show_anything_are_refused():
    with pytest.raises(SettingsError, match="shows nothing"):
        planned(width=8, height=8)
    assert planned(media=a_media(size=Size(8, 8)), model="none").picture.size == Size(8, 8)


def test_a_film_is_not_put_into_one_picture():
    request = Request(media=a_media(), settings=JobSettings(), output=Path("out.png"))
    with pytest.raises(ContainerMismatch):
        plan_job(request, a_budget(), Rates())


def test_a_picture_that_is_turned_in_pixels_has_its_seen_size():
    media = replace(a_media(rotation=90, codec="png"), kind="image", path=Path("a.png"))
    plan = planned(media=media)
    assert (plan.container, plan.picture.rotation) == ("image", 0)
    assert plan.picture.size == Size(720, 1280)
