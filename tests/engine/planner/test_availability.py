"""Choices that this machine cannot carry out: refused by plans, and known to lists."""

from __future__ import annotations

import sys

import pytest

from engine.core.errors import FeatureMissing
from engine.core.geometry import Size
from engine.hardware.budget import Budget
from engine.ops.attention.backends import BACKENDS
from engine.ops.linear.formats import PRODUCTS
from engine.pipeline.prepare import check_plan
from engine.planner.availability import unavailable, unpublished
from engine.planner.notices import choice_notices
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Rates
from engine.protocol.plan import Notice, Plan
from engine.settings import optimisations, requirements
from engine.settings.assignments import with_text
from engine.settings.requirements import ATTENTION, MATMUL
from engine.settings.schema import JobSettings
from tests.helpers.plans import GIB, a_budget, a_media

CPU = a_budget()
TURING, AMPERE, ADA, BLACKWELL = (
    a_budget(cuda=True, vram_bytes=16 * GIB, capability=one)
    for one in ((7, 5), (8, 6), (8, 9), (12, 0))
)


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Optional packages that seem to be installed."""
    found: set[str] = set()
    monkeypatch.setattr(optimisations, "is_installed", found.__contains__)
    return found


def planned(budget: Budget, *assignments: str, model: str = "seedvr2-3b") -> Plan:
    settings = with_text(JobSettings(model=model), list(assignments))
    media = a_media(size=Size(160, 90))  # small: few tiles to choose from, a third of the time
    return plan_job(Request(media=media, settings=settings), budget, Rates())


def refused(plan: Plan) -> dict[str, Notice]:
    return {str(n.params["choice"]): n for n in plan.notices if n.code == "feature-missing"}


def test_what_cannot_be_carried_out_is_refused_with_why_and_what_works() -> None:
    for choice, refusing, taking in (
        ("matmul=fp8", (TURING, AMPERE), (ADA, BLACKWELL, CPU)),
        ("matmul=int8", (), (TURING, CPU)),
        ("matmul=nvfp4", (CPU, ADA), (BLACKWELL,)),
        ("attention=flash3", (CPU, TURING, ADA), ()),
        ("attention=cudnn", (CPU, TURING), (AMPERE,)),
        ("attention=efficient", (CPU,), (TURING,)),
        ("vae_precision=bfloat16", (TURING,), (AMPERE, CPU)),
        ("dit.compile=on", (CPU, BLACKWELL), ()),
        ("vae.compile=on", (CPU, BLACKWELL), ()),
        ("run.compiler=max-autotune", (CPU,), (TURING,)),
        ("dit.token_chunks=on", (ADA,), (CPU,)),
        ("run.tf32=on", (CPU, TURING), (AMPERE,)),
        ("run.tf32=off", (), (CPU, TURING)),
        ("run.allocator=async", (CPU,), (TURING,)),
        ("all=on", (), (CPU, TURING, BLACKWELL)),
    ):
        for budget in (*refusing, *taking):
            plan = planned(budget, choice)
            found = refused(plan)
            assert set(found) == ({choice} if budget in refusing else set()), budget
            for notice in found.values():
                assert notice.severity == "refusal"
                working = notice.params["working"]
                assert working
                assert choice not in working
                assert f"{choice} cannot be used: " in notice.message
                with pytest.raises(FeatureMissing, match=choice):
                    check_plan(a_media(), plan, overwrite=True)


def test_an_installed_package_or_compiler_makes_its_choices_work(installed: set[str]) -> None:
    for part, budget, choice in (
        ("sageattn3", BLACKWELL, "attention=sage3-fp4"),
        ("triton", ADA, "dit.compile=on"),
        (requirements.COMPILER, CPU, "dit.compile=on"),
        (requirements.COMPILER, CPU, "vae.compile=on"),
    ):
        notice = refused(planned(budget, choice))[choice]
        assert part.partition("attn")[0] in notice.message or "Triton" in notice.message
        installed.add(part)
        assert not refused(planned(budget, choice))
        installed.clear()
    assert "RTX 50" in refused(planned(ADA, "attention=sage3-fp4"))["attention=sage3-fp4"].message


def test_the_packaged_program_does_not_compile_whatever_is_installed(
    installed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed |= {"triton", requirements.COMPILER}
    choices = {"vae.compile=on", "dit.compile=on"}
    for budget in (CPU, ADA):
        assert not refused(planned(budget, *choices))
        with monkeypatch.context() as patch:
            patch.setattr(sys, "frozen", True, raising=False)
            found = refused(planned(budget, *choices))
        assert set(found) == choices
        assert all("packaged program" in notice.message for notice in found.values())


def test_the_environment_counts_and_other_models_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UPREEL_DIT_ATTENTION", "flash2")
    monkeypatch.setenv("UPREEL_VAE_FP16_ACCUMULATION", "on")
    names = {"attention=flash2", "vae.fp16_sums=on"}
    assert set(refused(planned(CPU))) == names
    assert not refused(planned(CPU, "matmul=nvfp4", "dit.compile=on", model="lite"))
    assert set(refused(planned(CPU, "matmul=nvfp4", model="wan-2x"))) == names - {
        "attention=flash2"
    }


def test_inexact_switches_that_work_have_a_notice_each() -> None:
    def found(text: str, budget: Budget) -> set[object]:
        plan = planned(budget, *text.split(","))
        notices = choice_notices(plan, JobSettings(switches=text), budget)
        return {n.params["switch"] for n in notices if n.code == "switch-inexact"}

    text = "run.tf32=on,vae.temporal_winograd=on"
    assert found(text, ADA) == {"run.tf32"}
    assert found(text, TURING) == set()
    assert found("run.tf32=off", ADA) == set()


def test_lists_lack_what_plans_refuse(installed: set[str]) -> None:
    for budget in (CPU, TURING, BLACKWELL):
        device = "cuda" if budget.cuda else "cpu"
        found = unavailable(device, budget.capability)
        for setting, values in (("attention", ATTENTION), ("matmul", MATMUL)):
            for value in values:
                is_refused = bool(refused(planned(budget, f"{setting}={value}")))
                assert is_refused == (value in found.get(setting, {})), (setting, value)
    assert set(found["encoder"]) == {"nvenc"}
    packages = {backend.name for backend in BACKENDS.values() if backend.package}
    assert set(found["attention"]) == packages, "all of torch's own work on a new GPU"
    assert {name for name, one in ATTENTION.items() if one.parts} == packages
    assert tuple(MATMUL)[-1] == "nvfp4", "experimental: below the others"
    assert set(MATMUL) == {"none", *PRODUCTS}
    assert unpublished()["seedvr2-7b"] == ("q8",)
    assert "seedvr2-3b" not in unpublished()
