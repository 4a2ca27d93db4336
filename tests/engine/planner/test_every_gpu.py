"""Every GPU, size, model and goal: a plan that fits, or a refusal that says what would."""

import itertools
from pathlib import Path

import pytest

from engine.hardware.budget import PROGRAM_BYTES, gpu_here
from engine.hardware.gpu_table import GIB, GpuSpec, gpu_specs
from engine.models.seedvr2.plan import SeedVr2Plan
from engine.planner.preset_choice import presets_for, presets_of
from engine.settings.presets import applied
from engine.settings.schema import JobSettings
from tools.reports import plan_table
from tools.reports.plan_table import CHOICES, HEIGHTS, Case, case_of, plan_of

DOCS = Path(__file__).parents[3] / "docs" / "presets.md"
BY_MEMORY = {gpu.memory_bytes: gpu for gpu in gpu_specs()}  # one of each size


def check(gpu: GpuSpec) -> None:
    rams_gib = (32, 16) if gpu.memory_bytes <= 8 * GIB else (32,)
    for height, choice, ram_gib in itertools.product(HEIGHTS, CHOICES, rams_gib):
        case = case_of(gpu, height, choice, ram_gib)
        check_case(case, f"{gpu.title} {height} {choice} {ram_gib}")


def check_case(case: Case, what: str) -> None:
    plan = case.plan
    refusals = {n.code for n in plan.notices if n.severity == "refusal"}
    assert refusals <= {"weights-missing", "plan-does-not-fit", "pretended-card"}, what
    fits = plan.device_bytes <= plan.device_budget_bytes and plan.peak_bytes <= plan.budget_bytes
    assert case.fits == fits, what
    assert plan.seconds > 0, what
    if not case.fits:
        notice = next(n for n in plan.notices if n.code == "plan-does-not-fit")
        assert notice.hint, what
        assert int(notice.params["needed"]) > int(notice.params["allowed"]), what


@pytest.mark.extended
def test_gpus_of_some_sizes_have_plans_or_refusals() -> None:
    for memory in (4, 8, 12, 24):
        check(BY_MEMORY[memory * GIB])


@pytest.mark.slow
def test_every_gpu_has_plans_or_refusals() -> None:
    for gpu in gpu_specs():
        check(gpu)


def check_presets(gpu: GpuSpec) -> None:
    """They are SeedVR2 where all fit, each takes at least 1.4 times as long as the one before.

    Elsewhere Balanced is Lite for this film, as Fast.
    """
    before, presets = 0.0, presets_for(gpu)
    fits = all(case_of(gpu, 1080, preset).fits for preset in ("Fast", "Balanced", "Best"))
    for preset in presets:
        plan = plan_of(gpu, 1080, applied(preset, JobSettings(height=1080)))
        codes = {notice.code for notice in plan.notices}
        assert "plan-does-not-fit" not in codes, preset.title
        is_named = preset.changes["model"] != "auto"
        wanted = preset.changes["model"] if is_named else preset.automatic
        assert plan.work.model == wanted, preset.title
        model = "seedvr2-3b" if gpu.generation == "turing" else "seedvr2-7b-sharp"
        assert preset.automatic == (model if fits else "lite"), preset.title
        assert ("other-model" in codes) != (fits or is_named), preset.title
        times = 1 if preset.name == "balanced" and not fits else 1.4
        assert plan.seconds >= times * before, preset.title
        before = plan.seconds
        assert gpu.memory_bytes < 8 * GIB or (fits and len(presets) == 3), preset.title
    check_swiftvr(gpu)


def check_swiftvr(gpu: GpuSpec) -> None:
    """SwiftVR is Fast with its files where there are three presets, which are 1.4 apart as well."""
    usual, presets = presets_for(gpu), presets_of(*gpu_here(gpu), installed=("swiftvr",))
    if usual[0].changes["model"] == "lite":
        assert presets == usual, gpu.title
        return
    assert presets[1:] == usual[1:], gpu.title
    plans = [plan_of(gpu, 1080, applied(one, JobSettings(height=1080))) for one in presets]
    assert plans[0].work.model == "swiftvr", gpu.title
    for plan in plans:
        assert "plan-does-not-fit" not in {notice.code for notice in plan.notices}, gpu.title
    seconds = [plan.seconds for plan in plans]
    assert all(1.4 * less <= more for less, more in itertools.pairwise(seconds)), gpu.title


@pytest.mark.extended
def test_presets_of_a_gpu_of_each_size_differ_in_time() -> None:
    """Of a film that becomes 1080p."""
    for gpu in BY_MEMORY.values():
        check_presets(gpu)


@pytest.mark.slow
def test_presets_of_every_gpu_differ_in_time() -> None:
    for gpu in gpu_specs():
        check_presets(gpu)


def test_little_is_computed_twice() -> None:
    """Operations of the VAE over those of whole frames, of 240; main memory without weights."""
    most = {
        **{(6, 720, 32): 1.2, (8, 720, 32): 1.15, (12, 720, 32): 1.15, (24, 720, 32): 1.15},
        **{(6, 1080, 32): 1.4, (8, 1080, 32): 1.25, (12, 1080, 32): 1.15, (24, 1080, 32): 1.15},
        **{(6, 2160, 64): 1.5, (8, 2160, 64): 1.4, (12, 2160, 64): 1.3, (24, 2160, 64): 1.3},
        **{(memory, 1080, 16): 1.5 for memory in (6, 8, 12, 16, 24)},
    }
    for (memory, height, ram), limit in most.items():
        gpu = BY_MEMORY[memory * GIB]
        for model in ("seedvr2-3b", "seedvr2-7b-sharp"):
            plan = plan_table.work_plan(gpu, height, ram, model)
            assert isinstance(plan.work, SeedVr2Plan)
            case = (memory, height, ram, model)
            assert plan_table.extra_work(plan.work, plan.frames) <= limit, case
            waiting = plan.peak_bytes - plan.work.pin_bytes - PROGRAM_BYTES
            assert waiting <= (24 if height > 1080 else 20) * 10**9, case


@pytest.mark.extended
def test_the_page_in_docs_is_that_of_this_program() -> None:
    """Of the GPUs of one size; all of them in the slow test."""
    some = [gpu for gpu in gpu_specs() if gpu.memory_bytes == 32 * GIB]
    assert len(some) > 1
    assert "\n".join(plan_table.page(some)) in DOCS.read_text("utf-8")


@pytest.mark.slow
def test_the_whole_page_in_docs_is_that_of_this_program() -> None:
    assert DOCS.read_text("utf-8") == "\n".join(plan_table.page()) + "\n"
