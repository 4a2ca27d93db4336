"""Plans of Wan 2x and of latents: the largest that fit, smaller ones down to a floor."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cli.formatting import plan_words
from engine.core.geometry import Size
from engine.models.latents import LatentFilm, LatentHeader
from engine.models.planning.memory import PhaseMemory, Room
from engine.models.wan.candidates import least_edge
from engine.models.wan.family import FAMILY
from engine.models.wan.latents.format import WanLatents
from engine.models.wan.plan import WanDecodePlan, WanPlan
from engine.models.wan.requirements import needs, stage_work
from engine.models.wan.vae.config import WAN2X, WAN22
from engine.models.wan.vae.split import decode_tiles, encode_tiles
from engine.planner import peaks, times
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Rates
from engine.protocol.plan import LatentPlan, Plan, WeightsPlan
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_budget, a_media

GIB = 2**30
HD, UHD = Size(1920, 1080), Size(3840, 2160)


@pytest.fixture(autouse=True)
def _no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPREEL_MODELS", str(tmp_path / "models"))


def plan_of(vram_gib: float, size: Size = HD, *, ram_gib: float = 44, **changes: Any) -> Plan:
    budget = a_budget(
        cuda=vram_gib > 0,
        vram_bytes=round(vram_gib * GIB),
        capability=(8, 9),
        ram_bytes=round(ram_gib * GIB),
    )
    wanted = JobSettings(**{"model": "wan-2x", **changes})
    return plan_job(Request(media=a_media(size=size), settings=wanted), budget, Rates())


def wan_of(plan: Plan) -> WanPlan:
    assert isinstance(plan.work, WanPlan)
    return plan.work


def codes(plan: Plan, severity: str = "") -> set[str]:
    return {n.code for n in plan.notices if severity in ("", n.severity)}


def test_a_large_card_takes_whole_frames() -> None:
    plan = plan_of(64, Size(854, 481))
    found = wan_of(plan)
    assert found.encode_tile is found.decode_tile is None
    assert (found.warm_up, found.parks) == (0, False)
    assert (found.size, found.padded) == (Size(854, 481), Size(856, 488))
    assert found.canvas == plan.picture.size == Size(1708, 962)
    assert (found.device, found.dtype, found.scale, found.tiles) == ("cuda", "float16", 2, 1)


def test_usual_films_fit_usual_gpus() -> None:
    for size, vram, ram in (
        (HD, 6.8, 11),
        (HD, 10.8, 11),
        (HD, 22.8, 11),
        (UHD, 14.8, 44),
        (UHD, 22.8, 44),
    ):
        plan = plan_of(vram, size, ram_gib=ram)
        assert needs(wan_of(plan)).device <= vram * GIB, (size, vram)
        assert plan.peak_bytes <= ram * GIB
        assert codes(plan, "refusal") == {"weights-missing"}
    assert "plan-does-not-fit" in codes(plan_of(1), "refusal")


def test_little_main_memory_makes_tiles_begin_early() -> None:
    plan = plan_of(7, ram_gib=11)
    assert wan_of(plan).warm_up == 8  # exact from there on, see reach
    roomy = plan_of(7, ram_gib=32)
    assert wan_of(roomy).warm_up == 0
    assert plan.seconds > roomy.seconds
    less = FAMILY.less_on_host(wan_of(roomy))
    assert less is not None
    assert needs(less).host < needs(wan_of(roomy)).host


@settings(max_examples=12, deadline=None)
@given(st.integers(2, 30), st.sampled_from([Size(320, 180), Size(640, 360), HD]))
def test_each_step_down_needs_less_until_there_is_none(vram: int, size: Size) -> None:
    work = wan_of(plan_of(vram, size))
    while (less := FAMILY.smaller(work)) is not None:
        assert needs(less).device < needs(work).device
        assert encode_tiles(WAN2X, less.padded, less.encode_tile)
        assert decode_tiles(WAN2X, less.padded, less.decode_tile)
        work = less
    if size is HD:
        assert None not in (work.encode_tile, work.decode_tile)
        assert work.parks


@settings(max_examples=12, deadline=None)
@given(st.integers(3, 24), st.integers(1, 12))
def test_a_smaller_card_never_gets_a_larger_plan(vram: int, more: int) -> None:
    small, large = (needs(wan_of(plan_of(size))).device for size in (vram, vram + more))
    assert small <= large


@pytest.mark.parametrize(("capability", "dtypes"), [((8, 9), ["bfloat16"]), ((7, 5), [])])
def test_an_overflow_makes_sums_and_then_numbers_wider(
    capability: tuple[int, int], dtypes: list[str]
) -> None:
    budget = a_budget(cuda=True, capability=capability)
    work = wan_of(plan_of(64))
    sums = FAMILY.wider(work, budget)
    assert sums is not None
    assert (sums.dtype, sums.switches.vae.fp16_sums) == ("float16", False)
    assert not wan_of(plan_of(64)).switches.vae.fp16_sums  # it is remembered
    found, wide = [], sums
    while (wider := FAMILY.wider(wide, budget)) is not None:
        same = needs(wider).device == needs(work).device
        assert same == (wider.dtype == "bfloat16")
        found.append(wider.dtype)
        wide = wider
        assert wan_of(plan_of(64)).dtype == (dtypes[0] if same else "float16")
    assert found == [*dtypes, "float32"]


def test_choices_are_kept() -> None:
    plan = plan_of(64, encode_tile=640, decode_tile=1000, vae_precision="bfloat16", shots="off")
    found = wan_of(plan)
    assert (found.encode_tile, found.decode_tile) == (Size(640, 640), Size(992, 992))
    assert (plan.work.dtype, found.shot_sensitivity) == ("bfloat16", None)
    assert "cuts-not-looked-for" in codes(plan)
    words = "\n".join(plan_words(plan))
    assert "wan-2x, cuda, bfloat16, encodes tiles of 640x640, decodes tiles of 992x992" in words


def test_limits_are_shown_where_it_is_chosen() -> None:
    plan = plan_of(64)
    assert codes(plan, "info") >= {"trained-on-stills"}
    assert not codes(plan) & {"model-makes-more", "beyond-model"}
    assert "model-makes-more" in codes(plan_of(64, height=1440))
    assert "model-makes-more" in codes(plan_of(64, height=540))
    assert "beyond-model" in codes(plan_of(64, Size(640, 360), scale=4))
    plan = plan_of(0, Size(640, 360))
    assert (plan.work.device, plan.work.dtype) == ("cpu", "float32")
    slow = next(n for n in plan.notices if n.code == "slow-on-processor")
    assert slow.message.startswith("Wan 2x ")
    assert plan.seconds > 10 * plan_of(24, Size(640, 360)).seconds


def test_planning_is_quick() -> None:
    plan_of(8)
    start = time.process_time()
    for _ in range(5):
        plan_of(8)
    assert (time.process_time() - start) / 5 < 0.05


def header(model: str, size: Size) -> LatentHeader:
    factor, rate = 16 if model == "wan22-vae" else 8, Fraction(16)
    grid = Size(size.width // factor, -(-size.height // factor))
    about = LatentFilm(size=size, frames=81, rate=rate)
    names = {"model": model, "title": model}
    return LatentHeader(
        **names, channels=16, factor=factor, rate=rate, length=21, grid=grid, film=about
    )


@pytest.mark.parametrize("model", ["wan21-vae", "wan22-vae"])
def test_latents_get_the_largest_tiles_that_fit(model: str) -> None:
    latents, wanted = WanLatents(), JobSettings()
    usual = plan_of(48, model="wan-2x").work  # with the switches of a GPU
    for gib in (3, 6, 12, 48):
        record = latents.choose(header(model, HD), wanted, "cuda", a_budget())
        decoding = latents.decoding(record, HD, usual)
        weights = latents.weights(model)
        encoding = latents.encoding(model, weights, HD, wanted, "cuda", a_budget())
        for plan in (decoding, replace(encoding, switches=usual.switches)):
            assert plan.dtype == "float16"
            assert needs(plan).device == needs(plan).stages[plan.stages[0]]
            room = Room(
                budget=a_budget(cuda=True, vram_bytes=gib * GIB, ram_bytes=44 * GIB),
                frames=81,
                peak=lambda work: PhaseMemory(needs(work).device, needs(work).host),
                seconds=lambda work: sum(one.operations for one in stage_work(work, 1).values()),
            )
            found = FAMILY.fitted(plan, room)
            tile = found.encode_tile or found.decode_tile
            smallest = tile is not None and max(tile.width, tile.height) <= 448
            assert room.holds(found) or smallest
            assert gib < 48 or tile is None
            if isinstance(plan, WanDecodePlan):
                record = latents.choose(header(model, HD), wanted, "cuda", a_budget())
                again = latents.decoding(latents.planned(record, found), HD, usual)
                assert replace(again, park_pin_bytes=found.park_pin_bytes) == found
    assert least_edge(WAN22) == 392
    small = latents.choose(header("wan21-vae", Size(64, 48)), wanted, "cpu", a_budget())
    assert (small.dtype, small.decode_tile) == ("float32", None)


def test_decoding_latents_is_a_stage_before_the_others() -> None:
    latent = LatentPlan(
        vae=WeightsPlan(path=Path("wan_2.1_vae.safetensors")), model="wan21-vae", normalised=False
    )
    usual = plan_of(0, Size(640, 360), model="none")
    plan = replace(usual, latent=latent)
    seconds = times.stage_seconds(plan, a_budget(), Rates())
    assert list(seconds)[:2] == ["latents", "read"]
    assert peaks.stage_peaks(plan)["latents"].host > 1.5 * GIB
    assert seconds["latents"] > 0.9 * times.seconds(plan, a_budget(), Rates())
    assert peaks.job_peak(plan).host > peaks.job_peak(usual).host
