"""The setting `vae_precision=fastest` becomes a dtype in the plan."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine.hardware.budget import Budget, NeededRuntime
from engine.models.wan.plan import WanPlan
from engine.ops.conv import cpu_dtype
from engine.pipeline.prepare import Machine, taken_up
from engine.planner.plan_job import Request, plan_job, with_fastest_dtype
from engine.planner.rates import Rates
from engine.protocol.plan import Plan
from engine.settings.schema import EngineSettings, JobSettings
from tests.helpers.plans import a_budget, a_media

FASTEST = JobSettings(vae_precision="fastest")
FAST: Budget = replace(a_budget(), has_fast_bf16=True)


@pytest.fixture(autouse=True)
def trial(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Results of the trial, of which the last one holds; without any it must not run."""
    results: list[str] = []

    def tried() -> cpu_dtype.DtypeChoice:
        return cpu_dtype.DtypeChoice(dtype=results[-1], ratio=1.0, reason="")

    monkeypatch.setattr(cpu_dtype, "fastest_dtype", tried)
    return results


def test_a_trial_decides_on_this_cpu(trial: list[str]) -> None:
    for dtype in ("bfloat16", "float32"):
        trial.append(dtype)
        assert with_fastest_dtype(FASTEST, "cpu", FAST).vae_precision == dtype


def test_no_trial_runs_elsewhere_or_unasked() -> None:
    assert with_fastest_dtype(FASTEST, "cuda", FAST).vae_precision == "auto"
    assert with_fastest_dtype(FASTEST, "cpu", a_budget()).vae_precision == "float32"
    pretended = replace(FAST, is_pretended=True)
    assert with_fastest_dtype(FASTEST, "cpu", pretended).vae_precision == "float32"
    awaiting = replace(FAST, needed_runtime=NeededRuntime(id="cu130", bytes=1))
    assert with_fastest_dtype(FASTEST, "cpu", awaiting).vae_precision == "auto"
    for wanted in ("auto", "float32", "bfloat16"):
        settings = JobSettings(vae_precision=wanted)
        assert with_fastest_dtype(settings, "cpu", FAST) is settings


def test_a_plan_keeps_what_the_trial_said(tmp_path: Path, trial: list[str]) -> None:
    settings = JobSettings(model="wan-2x", vae_precision="fastest")
    usual = replace(settings, vae_precision="auto")
    assert dtype_of(plan_job(Request(media=a_media(), settings=usual), FAST, Rates())) == "float32"
    trial.append("bfloat16")
    plan = plan_job(Request(media=a_media(), settings=settings), FAST, Rates())
    assert dtype_of(plan) == "bfloat16"
    assert any("computed in bfloat16" in choice.message for choice in plan.reasons.choices)
    trial.clear()  # taken up after a crash: without a trial, which would say something else now
    machine = Machine(settings=EngineSettings(), jobs_folder=tmp_path)
    again = taken_up(a_media(), settings, None, plan, machine)
    assert dtype_of(again) == "bfloat16"


def dtype_of(plan: Plan) -> str:
    assert isinstance(plan.work, WanPlan)
    return plan.work.dtype
