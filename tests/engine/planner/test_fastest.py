"""Every plan fits or refuses, and a smaller budget never gives a bigger or a better one."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.geometry import Size
from engine.hardware.budget import Budget, pretended_budget
from engine.hardware.gpu_table import GpuSpec, gpu_specs
from engine.models import registry
from engine.models.planning.search import pairs_within
from engine.models.seedvr2.plan import SeedVr2Plan
from engine.models.seedvr2.planning.search import shared_of
from engine.models.wan.plan import WanPlan
from engine.planner import times
from engine.planner.plan_job import Request, bare_plan
from engine.planner.rates import Rates
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_media

GIB = 2**30
SIZES = (Size(320, 180), Size(640, 360), Size(960, 540), Size(720, 1280), Size(1920, 1080))
MODELS = ("seedvr2-3b", "seedvr2-7b", "wan-2x", "lite")


@pytest.fixture(autouse=True, scope="module")
def _no_models(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPREEL_MODELS", str(tmp_path_factory.mktemp("models")))
        yield


def planned(budget: Budget, size: Size, model: str, **changes: Any) -> Plan:
    wanted = JobSettings(**{"model": model, **changes})
    return bare_plan(Request(media=a_media(size=size), settings=wanted), budget, Rates())


def is_refused(plan: Plan) -> bool:
    return "plan-does-not-fit" in {notice.code for notice in plan.notices}


def rank(plan: Plan) -> tuple[int, int]:
    """What comes before time, the best first: how much clips share, how the decoder works."""
    found = plan.work
    if not isinstance(found, SeedVr2Plan):
        return int(isinstance(found, WanPlan) and found.parks), 0
    return int(shared_of(found.clip) == 0), 1 * found.decodes_whole_tiles + (2 - found.shared)


def model_seconds(plan: Plan, budget: Budget) -> float:
    return times.model_seconds(plan.work, plan.frames, budget, Rates())


JOBS = {"size": st.sampled_from(SIZES), "model": st.sampled_from(MODELS)}
GPUS = st.sampled_from(gpu_specs())
TOLERANCE = 0.98  # spans come in steps, and what they leave of main memory holds copies of weights


@settings(max_examples=40, deadline=None)
@given(gpu=GPUS, vram=st.floats(1, 46), ram=st.floats(1, 60), **JOBS)
def test_a_plan_stays_within_its_budget(
    gpu: GpuSpec, vram: float, ram: float, size: Size, model: str
) -> None:
    budget = pretended_budget(gpu, ram_bytes=round(ram * GIB))
    budget = replace(budget, vram_bytes=round(vram * GIB))
    plan = planned(budget, size, model)
    fits = plan.peak_bytes <= budget.ram_bytes and plan.device_bytes <= budget.vram_bytes
    assert fits != is_refused(plan)
    assert all(stage.device_bytes <= plan.device_bytes for stage in plan.stages)


def assert_never_better(
    size: Size, model: str, much: Budget, little: Budget, taken: Callable[[Plan], int]
) -> None:
    """What `little` gives takes no more, is no better, and as good only if it is slower."""
    large, small = planned(much, size, model), planned(little, size, model)
    assert is_refused(small) or not is_refused(large)
    if not is_refused(small):
        assert taken(small) <= taken(large)
        assert rank(small) >= rank(large)
        if rank(small) == rank(large):
            assert model_seconds(small, little) >= model_seconds(large, much) * TOLERANCE


@settings(max_examples=30, deadline=None)
@given(
    gpu=GPUS,
    vram=st.floats(2, 40),
    less=st.floats(0.01, 12),
    ram=st.sampled_from([8.0, 16.0, 24.0, 48.0]),
    **JOBS,
)
def test_less_of_the_cards_memory_never_gives_a_bigger_or_better_plan(
    gpu: GpuSpec, vram: float, less: float, ram: float, size: Size, model: str
) -> None:
    much = replace(pretended_budget(gpu, ram_bytes=round(ram * GIB)), vram_bytes=round(vram * GIB))
    little = replace(much, vram_bytes=max(0, much.vram_bytes - round(less * GIB)))
    assert_never_better(size, model, much, little, lambda plan: plan.device_bytes)


@settings(max_examples=40, deadline=None)
@given(
    gpu=st.sampled_from([None, *gpu_specs()[::9]]),
    ram=st.floats(4, 60),
    less=st.floats(0.01, 12),
    **JOBS,
)
def test_less_main_memory_never_gives_a_bigger_or_better_plan(
    gpu: GpuSpec | None, ram: float, less: float, size: Size, model: str
) -> None:
    much = pretended_budget(gpu, ram_bytes=round(ram * GIB))
    little = replace(much, ram_bytes=max(0, much.ram_bytes - round(less * GIB)))
    assert_never_better(size, model, much, little, lambda plan: plan.peak_bytes)


@settings(max_examples=20, deadline=None)
@given(
    vram=st.floats(3, 40),
    size=st.sampled_from(SIZES),
    model=st.sampled_from(("seedvr2-3b", "seedvr2-7b", "wan-2x")),
    stage=st.sampled_from(("encode", "transformer", "decode")),
)
def test_the_stage_that_failed_needs_less(vram: float, size: Size, model: str, stage: str) -> None:
    gpu = gpu_specs()[0]
    budget = replace(pretended_budget(gpu, ram_bytes=48 * GIB), vram_bytes=round(vram * GIB))
    now = planned(budget, size, model).work
    family = registry.family_of(now)
    if stage not in family.needs(now).stages:
        return
    for _ in range(120):
        less = family.smaller(now, stage)
        if less is None:
            break
        before, after = family.needs(now).stages, family.needs(less).stages
        assert after[stage] < before[stage] or sum(after.values()) < sum(before.values())
        now = less
    assert family.smaller(now, stage) is None


VALUES = st.lists(st.integers(0, 50), min_size=1, max_size=8)


@given(VALUES, VALUES, st.integers(0, 100))
def test_pairs_are_all_that_are_not_beaten(a: list[int], b: list[int], limit: int) -> None:
    first, second = sorted(a, reverse=True), sorted(b, reverse=True)
    found = set(pairs_within(len(a), len(b), lambda i, j: first[i] + second[j] <= limit))
    pairs = itertools.product(range(len(a)), range(len(b)))
    fitting = {(i, j) for i, j in pairs if first[i] + second[j] <= limit}
    beaten = {(i, j) for i, j in fitting if any(a <= i and b <= j for a, b in fitting - {(i, j)})}
    assert found == fitting - beaten
