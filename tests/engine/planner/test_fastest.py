"""Every plan fits or refuses; more memory, fewer frames and smaller ones are never slower."""

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.geometry import Size
from engine.hardware.budget import Budget, pretended_budget
from engine.hardware.gpu_table import GpuSpec, gpu_specs
from engine.models import registry
from engine.models.planning.candidates import pairs_within
from engine.models.seedvr2.candidates import PRICES, quality_of
from engine.models.seedvr2.plan import SeedVr2Plan
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


def model_seconds(plan: Plan, budget: Budget) -> float:
    return times.model_seconds(plan.work, plan.frames, budget, Rates())


JOBS = {"size": st.sampled_from(SIZES), "model": st.sampled_from(MODELS)}
GPUS = st.sampled_from(gpu_specs())
TOLERANCE = 1.02  # spans come in steps, and what they leave of main memory holds copies of weights


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


def price(better: Any, poorer: Any) -> float:
    """How many times as long a better class may take; 0 where it is none."""
    if not isinstance(better, SeedVr2Plan):
        return 0.0
    first, second = quality_of(better), quality_of(poorer)
    if first >= second:
        return 0.0
    return PRICES["tile-statistics" if first.clips == second.clips else "clips"]


def is_same_class(one: Any, other: Any) -> bool:
    return not isinstance(one, SeedVr2Plan) or quality_of(one) == quality_of(other)


def assert_not_beaten(much: Plan, little: Plan, fast: float, slow: float) -> None:
    """Whoever has more is not slower in the same class, and in another only for its price.

    Args:
        much: The plan of a machine with more memory, or of less work.
        little: The other one.
        fast, slow: Seconds of their models.
    """
    what = f"{much.work.line} | {little.work.line}"
    assert is_refused(little) or not is_refused(much), what
    if is_refused(little):
        return
    if is_same_class(much.work, little.work):
        assert fast <= slow * TOLERANCE, what
    elif price(little.work, much.work):
        assert fast * price(little.work, much.work) <= slow * TOLERANCE, what
    else:
        assert fast <= slow * price(much.work, little.work) * TOLERANCE, what


RAMS = (12, 16, 24, 32, 48, 64, 128)
VRAMS = (6, 8, 10, 12, 16, 20, 24, 32, 48)
LENGTHS = (1, 17, 96, 240, 2500)


def check_order(gpu: GpuSpec, size: Size, model: str, sample: slice) -> None:
    """Plans along main memory, GPU memory and length, each next to the one before."""

    @cache
    def plan(vram: int, ram: int, frames: int) -> tuple[Plan, float]:
        budget = pretended_budget(gpu, ram_bytes=round(0.7 * ram * GIB))
        budget = replace(budget, vram_bytes=(vram - 2) * GIB)
        media = a_media(size=size, frame_count=frames, frame_count_is_exact=True)
        found = bare_plan(Request(media=media, settings=JobSettings(model=model)), budget, Rates())
        return found, model_seconds(found, budget)

    rows = [[(vram, ram, 240) for vram in VRAMS] for ram in RAMS[sample]]
    rows += [[(vram, ram, 240) for ram in RAMS] for vram in VRAMS[sample]]
    rows += [[(vram, 32, frames) for frames in reversed(LENGTHS)] for vram in VRAMS[sample]]
    for row in rows:
        found = [plan(*case) for case in row]
        for (little, slow), (much, fast) in itertools.pairwise(found):
            assert_not_beaten(much, little, fast, slow)


@pytest.mark.extended
def test_more_memory_or_less_work_is_never_slower() -> None:
    """A fixed sample; far more in the slow test."""
    cases = zip(gpu_specs()[::17], itertools.cycle(SIZES[2:]), strict=False)
    for index, (gpu, size) in enumerate(cases):
        model = ("seedvr2-7b-sharp", "seedvr2-3b", "wan-2x")[index % 3]
        check_order(gpu, size, model, slice(index % 3, None, 4))


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("gpu", gpu_specs()[::9], ids=lambda gpu: gpu.name)
def test_more_memory_or_less_work_is_never_slower_anywhere(gpu: GpuSpec, model: str) -> None:
    for size in SIZES:
        check_order(gpu, size, model, slice(None))


@pytest.mark.extended
def test_a_larger_result_takes_longer() -> None:
    for vram, ram in itertools.product((8, 16, 24), (16, 64)):
        budget = pretended_budget(gpu_specs()[0], ram_bytes=round(0.7 * ram * GIB))
        budget = replace(budget, vram_bytes=vram * GIB)
        plans = [planned(budget, size, "seedvr2-7b-sharp") for size in sorted(SIZES, key=area)]
        for less, more in itertools.pairwise(plans):
            fast, slow = (model_seconds(plan, budget) for plan in (less, more))
            assert_not_beaten(less, more, fast, slow)


def area(size: Size) -> int:
    return size.pixels


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
    places = range(len(a)), range(len(b))
    found = set(pairs_within(*places, lambda i, j: first[i] + second[j] <= limit))
    pairs = itertools.product(*places)
    fitting = {(i, j) for i, j in pairs if first[i] + second[j] <= limit}
    beaten = {(i, j) for i, j in fitting if any(a <= i and b <= j for a, b in fitting - {(i, j)})}
    assert found == fitting - beaten
