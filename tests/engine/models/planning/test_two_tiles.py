"""Two tiles at once: where they may gain something, and which plans have them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core.geometry import Size
from engine.core.messages import text_of
from engine.hardware import gpu_table
from engine.hardware.budget import pretended_budget
from engine.models import registry
from engine.models.planning.two_tiles import may_gain, share_of_time
from engine.models.seedvr2.vae import cost as seedvr2
from engine.models.seedvr2.vae.config import VAE
from engine.models.video_vae.workload import Launch, VaeWorkload
from engine.models.wan.vae import cost as wan
from engine.models.wan.vae.config import WAN2X
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Rates
from engine.protocol.plan import Plan
from engine.settings.optimisations import VaeSwitches
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_media

GIB = 2**30
BLOCK = 128


def blocks(count: int, work: int = 1000) -> Launch:
    """A convolution that a GPU computes in so many blocks."""
    return Launch(count * BLOCK, BLOCK, count * work)


@pytest.mark.parametrize(
    ("count", "share"), [(1, 0.5), (10, 0.5), (20, 1.0), (24, 0.75), (40, 1.0), (41, 5 / 6)]
)
def test_what_the_last_wave_leaves_idle_can_be_filled(count: int, share: float) -> None:
    assert share_of_time([blocks(count)], 10) == pytest.approx(share)  # 20 blocks at a time
    assert may_gain([blocks(count)], 10) == (share <= 0.9)


def test_a_convolution_counts_by_its_time() -> None:
    mostly_full = [blocks(10), *[blocks(20)] * 9]
    assert share_of_time(mostly_full, 10) == pytest.approx(0.95)
    assert not may_gain(mostly_full, 10)
    assert share_of_time([blocks(10, work=9000), blocks(20)], 10) == pytest.approx(0.55)
    assert share_of_time([], 10) == 1
    wide = Launch(10 * BLOCK, 2 * BLOCK, 1000)
    assert share_of_time([wide], 10) == 1


SIDES: dict[str, tuple[Any, Any]] = {
    "seedvr2 decode": (seedvr2.decode_high_launches, VAE),
    "seedvr2 encode": (seedvr2.encode_launches, VAE),
    "seedvr2 whole": (seedvr2.decode_launches, VAE),
    "wan decode": (wan.decode_high_launches, WAN2X),
    "wan encode": (wan.encode_high_launches, WAN2X),
}
# Of the time that two tiles can save at most on any GPU of the table, as docs/claims.md says, from
# tiles of 256 px and of 640 px on.
MOST_SAVED = {
    "seedvr2 decode": (0.1, 0.04),
    "seedvr2 encode": (0.23, 0.04),
    "seedvr2 whole": (0.18, 0.04),
    "wan decode": (0.1, 0.04),
    "wan encode": (0.1, 0.04),
}


@pytest.mark.parametrize("side", SIDES)
def test_tiles_of_usual_size_fill_every_gpu(side: str) -> None:
    launches, config = SIDES[side]
    for least, most in zip((256, 640), MOST_SAVED[side], strict=True):
        for edge in (256, 384, 512, 640, 768, 1024):
            about = {"switches": VaeSwitches(), "slice_frames": 4, "dtype": "float16"}
            work = VaeWorkload(frames=17, size=Size(edge, edge), device="cuda", **about)
            found = launches(config, work)
            for gpu in gpu_table.gpu_specs():
                if edge >= least:
                    assert 1 - share_of_time(found, gpu.multiprocessors) <= most


@pytest.fixture(autouse=True)
def _no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPREEL_MODELS", str(tmp_path))


def planned(switches: str, vram_gib: float = 24, gpu: str = "RTX 5090", **wanted: Any) -> Plan:
    budget = pretended_budget(gpu_table.find(gpu), ram_bytes=48 * GIB)
    budget = replace(budget, vram_bytes=round(vram_gib * GIB))
    settings = JobSettings(**{"model": "seedvr2-3b", "switches": switches, **wanted})
    return plan_job(Request(media=a_media(size=Size(960, 540)), settings=settings), budget, Rates())


ON = "run.two_tiles=on"


def at_once(plan: Plan) -> tuple[int, int]:
    work: Any = plan.work
    return work.encode_at_once, work.decode_at_once


def needs(plan: Plan) -> dict[str, int]:
    return registry.family_of(plan.work).needs(plan.work).stages


def test_plans_take_two_where_they_may_gain_and_say_so() -> None:
    usual, both = (planned(switches, encode_tile=256, decode_tile=1024) for switches in ("", ON))
    assert at_once(usual) == (1, 1)
    assert at_once(both) == (2, 1)  # large tiles of the decoder fill any GPU
    assert needs(both)["encode"] > needs(usual)["encode"]
    assert needs(both)["decode"] == needs(usual)["decode"]
    alike = replace(both.work, encode_at_once=1, switches=usual.work.switches)
    assert alike == usual.work
    assert both.reasons is not None
    codes = {one.code: text_of(one.as_message) for one in both.reasons.choices}
    assert codes["at-once"] == "2 tiles are computed at the same time."


@pytest.mark.parametrize(
    "about",
    [
        {"encode_tile": 0, "decode_tile": 0},  # whole frames
        {"encode_tile": 1024, "decode_tile": 1024},
        {"encode_tile": 256, "gpu": "RTX 3060"},  # fewer multiprocessors
        {"encode_tile": 256, "device": "cpu"},
    ],
)
def test_plans_take_one_where_nothing_can_be_gained(about: dict[str, Any]) -> None:
    assert at_once(planned(ON, **about)) == (1, 1)


def test_plans_take_one_where_the_vae_is_compiled() -> None:
    assert at_once(planned(f"{ON},vae.compile=on", encode_tile=256)) == (1, 1)


def test_plans_take_one_where_there_is_no_room_for_two() -> None:
    two = planned(ON, encode_tile=512, decode_tile=256, gpu="RTX 5090")
    assert at_once(two)[0] == 2
    enough = max(needs(replace(two, work=replace(two.work, encode_at_once=1))).values())
    assert enough < needs(two)["encode"]
    less = planned(ON, enough / GIB, encode_tile=512, decode_tile=256)
    assert at_once(less) == (1, 1)
    assert less.device_bytes <= less.device_budget_bytes


@pytest.mark.parametrize("stage", ["encode", "decode"])
@pytest.mark.parametrize("model", ["seedvr2-3b", "wan-2x"])
def test_where_memory_runs_out_one_at_a_time_is_tried_first(model: str, stage: str) -> None:
    plan = planned("", model=model, encode_tile=512, decode_tile=512)
    work: Any = replace(plan.work, encode_at_once=2, decode_at_once=2, parks=True)
    family = registry.family_of(work)
    less = family.smaller(work, stage)
    assert less is not None
    assert getattr(less, f"{stage}_at_once") == 1
    assert replace(less, encode_at_once=2, decode_at_once=2) == work
    (change,) = family.changes(work, less)
    assert text_of(change) == "one tile at a time instead of two"
    assert family.needs(less).stages[stage] < family.needs(work).stages[stage]
