"""Plans for a GPU, and what benchmarks and models take for one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.core.geometry import Size
from engine.hardware import gpu_table
from engine.hardware.budget import Budget, pretended_budget
from engine.models import registry
from engine.models.contracts import BenchRequest
from engine.models.lite import upscaler as lite
from engine.models.lite.plan import CUDA_PIXELS
from engine.models.planning.memory import PhaseMemory, Room
from engine.models.seedvr2.dit import load, random_dit
from engine.models.seedvr2.dit.config import DIT_3B
from engine.models.seedvr2.dit.load import LoadOptions
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae_memory import VAES
from engine.models.video_vae.vae_use import VaeUse
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Rates
from engine.protocol.plan import Plan
from engine.settings.optimisations import VaeSwitches
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_media
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu

GIB = 2**30
HD = Size(960, 540)


@pytest.fixture(autouse=True)
def _no_models(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPREEL_MODELS", str(tmp_path / "models"))


def machine(vram_gib: float, ram_gib: float = 24, gpu: str = "RTX 4090") -> Budget:
    budget = pretended_budget(gpu_table.find(gpu), ram_bytes=round(ram_gib * GIB))
    return replace(budget, vram_bytes=round(vram_gib * GIB))


def planned(budget: Budget, **wanted: Any) -> Plan:
    settings = JobSettings(**{"model": "seedvr2-3b", **wanted})
    return plan_job(Request(media=a_media(size=HD), settings=settings), budget, Rates())


def steps(plan: Plan) -> dict[str, Any]:
    """The next larger and smaller plans, by the code of the step."""
    found = registry.family_of(plan.work).steps(plan.work)
    return {step.code: step.work for step in found}


def choices(plan: Plan) -> dict[str, str]:
    assert plan.reasons is not None
    return {one.code: one.case for one in plan.reasons.choices}


def assert_fits(plan: Plan) -> None:
    assert plan.work.device == "cuda"
    assert 0 < plan.device_bytes <= plan.device_budget_bytes
    assert plan.peak_bytes <= plan.budget_bytes


def test_a_large_gpu_holds_all_of_seedvr2() -> None:
    plan = planned(machine(64))
    assert_fits(plan)
    work: Any = plan.work
    assert (work.dtype, work.vae_dtype, work.blocks_on_device) == ("bfloat16", "float16", None)
    assert "all blocks on the GPU" in work.line
    assert choices(plan)["blocks"] == "whole"
    assert steps(plan)["fewer-blocks-on-card"].blocks_on_device == DIT_3B.layers
    assert "more-blocks-on-card" not in steps(plan)


def test_a_small_gpu_is_visited_by_the_blocks_of_seedvr2() -> None:
    plan = planned(machine(8))
    assert_fits(plan)
    work: Any = plan.work
    assert work.blocks_on_device is not None
    assert f"{work.blocks_on_device} blocks on the GPU" in work.line
    assert 0 < work.pin_bytes <= 0.4 * plan.budget_bytes
    assert choices(plan)["copies"] == ""
    more = steps(plan)["more-blocks-on-card"]
    assert more.blocks_on_device > work.blocks_on_device
    assert more.pin_bytes < work.pin_bytes
    needs = registry.family_of(work).needs
    assert needs(more).weights > needs(work).weights


def test_tiles_begin_early_where_main_memory_is_short() -> None:
    for model, vram, ram in (("seedvr2-3b", 6, 3.5), ("wan-2x", 4, 2.5)):
        plan = planned(machine(vram, ram), model=model)
        assert_fits(plan)
        work: Any = plan.work
        assert work.warm_up > 0
        assert choices(plan)["early"] == ""
        if model == "wan-2x":
            assert steps(plan)["tiles-that-remember"] == replace(work, warm_up=0)
        else:
            assert steps(plan)["longer-spans"].encode_span > work.encode_span
    assert "early" not in choices(planned(machine(6), model="wan-2x"))


def test_a_state_of_wan_that_waits_takes_less_of_a_gpu() -> None:
    family = registry.family_of(planned(machine(2), model="wan-2x").work)
    less: Any = replace(planned(machine(2), model="wan-2x").work, parks=False)
    while not less.parks:
        less = family.smaller(less)
    assert family.smaller(less) is None
    before = replace(less, parks=False)
    assert family.needs(less).device < family.needs(before).device


def test_the_bytes_of_a_gpu_depend_on_the_switches_of_a_vae() -> None:
    def peak(**changed: bool) -> tuple[int, int]:
        switches = replace(VaeSwitches(), **changed)
        use = VaeUse(dtype="float16", device="cuda", switches=switches)
        found = VAES.peak(VaeConfig(), "decode_low", use, Size(1920, 1088))
        return found.first, found.later

    assert peak(kernels=False) == peak()  # the sums of a frame are less than a convolution takes
    assert peak(fused_norm=False)[0] > 1.04 * peak()[0]
    pairs = zip(peak(temporal_winograd=True), peak(), strict=True)
    assert all(some >= none for some, none in pairs)  # a trial may leave all layers their taps
    first, later = peak(chunked_attention=False)
    scores = 2 * (240 * 136) ** 2 * 2
    assert first > scores
    assert later > scores


def test_what_fits_is_asked_of_both_memories() -> None:
    work = planned(machine(8)).work
    needs = registry.family_of(work).needs(work)
    for vram, ram, does in ((8, 24, True), (1, 24, False), (8, 1, False)):
        room = Room(
            budget=machine(vram, ram),
            frames=1,
            peak=lambda _: PhaseMemory(needs.device, needs.host),
            seconds=lambda _: 1.0,
        )
        assert room.holds(work) == does


def test_a_plan_takes_the_dtypes_that_its_gpu_is_fast_in() -> None:
    for gpu, wide in (("RTX 2080 Ti", "float16"), ("RTX 3090", "bfloat16")):
        assert planned(machine(20, gpu=gpu)).work.dtype == wide
        assert planned(machine(20, gpu=gpu), model="lite").work.dtype == "float16"
    codes = [notice.code for notice in planned(machine(20, gpu="RTX 3090"), matmul="fp8").notices]
    assert "feature-missing" in codes
    codes = [notice.code for notice in planned(machine(20), matmul="fp8").notices]
    assert "feature-missing" not in codes


def test_tiles_of_lite_are_larger_on_a_gpu() -> None:
    media = a_media(size=Size(7680, 4320))
    request = Request(media=media, settings=JobSettings(model="lite"))
    on_gpu = plan_job(request, machine(40), Rates()).work
    on_cpu = plan_job(request, pretended_budget(None, ram_bytes=40 * GIB), Rates()).work
    assert on_cpu.tile.pixels < on_gpu.tile.pixels <= CUDA_PIXELS


def test_a_benchmark_on_a_gpu_takes_published_sizes_in_half_precision() -> None:
    on_gpu, on_cpu = (
        random_dit.usual_run(BenchRequest(device=device), "3b") for device in ("cuda", "cpu")
    )
    assert (on_gpu.config, on_gpu.dtype) == (DIT_3B, "bfloat16")
    assert on_cpu.dtype == "float32"
    assert on_gpu.operations > 100 * on_cpu.operations
    with pretended_gpu(has_values=False):
        work = lite.upscaling(BenchRequest(device="cuda"), 2)
    assert work.dtype == "float16"
    assert work.megapixels > 10


@pytest.mark.parametrize(("free", "pinned"), [(100, 40), (10, 7)])
def test_weights_are_pinned_in_a_share_of_main_memory(
    free: int, pinned: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "ram", lambda: (100, free))
    devices = [torch.device(kind) for kind in ("cuda", "cpu")]
    assert [load._pin_bytes(LoadOptions(), device) for device in devices] == [pinned, 0]
