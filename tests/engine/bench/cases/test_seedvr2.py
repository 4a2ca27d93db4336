from dataclasses import replace

import pytest

from engine.bench.cases import seedvr2
from engine.bench.run import BenchOptions
from engine.bench.workload import dit_run
from engine.core.geometry import Size
from engine.hardware.budget import Budget, pretended_budget
from engine.hardware.gpu_table import named
from engine.models.seedvr2 import requirements
from engine.models.seedvr2.plan import SeedVr2Plan, layout_of
from engine.planner.rates import Rates
from tests.helpers.seedvr2 import tiny_config, tiny_dit_config

GIB = 2**30


def fitted(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> SeedVr2Plan:
    monkeypatch.setattr(seedvr2, "job_budget", lambda: budget)
    monkeypatch.setattr(seedvr2, "load_rates", Rates)
    run = replace(dit_run(BenchOptions(device="cpu"), "3b"), device="cuda", dtype="bfloat16")
    plan = seedvr2._plan(run, layout_of(Size(1920, 1080)), 9, "float16")
    return seedvr2._fitted(plan, 9)


def test_the_shot_is_planned_for_the_gpu_and_main_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    small = pretended_budget(named("RTX 4060"), ram_bytes=14 * GIB)
    plan = fitted(small, monkeypatch)
    needs = requirements.needs(plan)
    assert needs.device <= small.vram_bytes
    assert needs.host + requirements.streamed_bytes(plan) <= small.ram_bytes
    assert plan.decode_tile is not None
    large = fitted(replace(small, vram_bytes=80 * GIB, ram_bytes=60 * GIB), monkeypatch)
    assert (large.decode_tile, large.blocks_on_device) == (None, None)


def test_every_stage_of_a_shot_has_a_row() -> None:
    options = BenchOptions(
        config=tiny_config(),
        dit=tiny_dit_config(in_channels=9, out_channels=4),
        size=Size(32, 16),
        quick=True,
        device="cpu",
    )
    rows = list(seedvr2.seedvr2_rows(options))
    assert [row["stage"] for row in rows] == ["encode", "transformer", "decode", "colour", "all"]
    assert all("planned_gib" not in row and "allocated_gib" not in row for row in rows)
    assert rows[-1]["frames_per_s"] > 0
