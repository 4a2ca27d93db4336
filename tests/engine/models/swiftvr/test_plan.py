"""Plans of SwiftVR: what fits, the plans next to it, and what they take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.geometry import Size
from engine.hardware import gpu_table
from engine.hardware.budget import pretended_budget
from engine.models.swiftvr.chunks import latents_of
from engine.models.swiftvr.dit.config import SWIFT_DIT
from engine.models.swiftvr.dit.cost import DitUse, block_bytes, forward_flops, resident_parts
from engine.models.swiftvr.family import FAMILY
from engine.models.swiftvr.plan import GRID, SwiftVrPlan, padded_size
from engine.models.swiftvr.requirements import chunks, needs, streamed_bytes
from engine.planner import times
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Rates
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_media

GIB, GB = 2**30, 10**9
HD = Size(960, 540)


@pytest.fixture(autouse=True)
def _no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPREEL_MODELS", str(tmp_path / "models"))


def plan_of(vram_bytes: float, size: Size = HD, gpu: str = "RTX 4090", **changes: Any) -> Plan:
    budget = pretended_budget(gpu_table.find(gpu), ram_bytes=32 * GIB)
    budget = replace(budget, vram_bytes=round(vram_bytes))
    wanted = JobSettings(**{"model": "swiftvr", **changes})
    return plan_job(Request(media=a_media(size=size), settings=wanted), budget, Rates())


def work_of(vram_bytes: float, **changes: Any) -> SwiftVrPlan:
    work = plan_of(vram_bytes, **changes).work
    assert isinstance(work, SwiftVrPlan)
    return work


@pytest.mark.parametrize(
    ("gigabytes", "matmul", "blocks"), [(11, "none", None), (6.5, "fp8", None), (3, "none", 0)]
)
def test_full_hd_fits(gigabytes: float, matmul: str, blocks: int | None) -> None:
    plan = plan_of(gigabytes * GB, matmul=matmul)
    assert plan.picture.size == Size(1920, 1080)
    assert plan.device_bytes <= gigabytes * GB
    assert (plan.work.blocks_on_device, plan.work.products) == (blocks, matmul)
    assert {one.code for one in plan.notices if one.severity == "refusal"} == {"weights-missing"}
    notice = next(one for one in plan.notices if one.code == "weights-missing")
    assert notice.params["files"] == "swiftvr-fp32,swiftvr-vae,swiftvr-prompt"


def test_what_does_not_fit_is_refused() -> None:
    refused = {one.code for one in plan_of(GB).notices if one.severity == "refusal"}
    assert "plan-does-not-fit" in refused


def test_a_plan_takes_the_dtypes_that_its_gpu_is_fast_in() -> None:
    found = [work_of(11 * GB, gpu=gpu) for gpu in ("RTX 2080 Ti", "RTX 3060")]
    assert [one.dtype for one in found] == ["float16", "bfloat16"]
    assert {one.vae_dtype for one in found} == {"float16"}
    assert "all blocks on the GPU" in found[1].line


def test_streamed_blocks_leave_the_device_and_take_two_buffers() -> None:
    whole = work_of(11 * GB)
    some = replace(whole, blocks_on_device=5)
    use = DitUse(config=SWIFT_DIT, rows=512, dtype="bfloat16")
    block, layers = block_bytes(use), SWIFT_DIT.layers
    assert needs(whole).weights - needs(some).weights == (layers - 5) * block
    assert needs(some).working["transformer"] - needs(whole).working["transformer"] == 2 * block
    assert streamed_bytes(some) == resident_parts(use, 5)[2] == (layers - 5) * block
    assert streamed_bytes(whole) == 0


def test_the_next_plans_have_other_blocks_and_formats() -> None:
    small = work_of(6 * GB)
    assert small.blocks_on_device
    found = {one.code: one for one in FAMILY.steps(small)}
    assert found["more-blocks-on-card"].work.blocks_on_device > small.blocks_on_device
    assert found["fewer-blocks-on-card"].work.blocks_on_device < small.blocks_on_device
    assert found["matmul-fp8"].setting == "matmul=fp8"
    assert not list(FAMILY.steps(replace(small, device="cpu")))


def test_a_lack_of_memory_streams_more_down_to_a_floor() -> None:
    work: SwiftVrPlan | None = work_of(11 * GB)
    seen: list[int] = []
    while work is not None:
        seen.append(needs(work).device)
        last, work = work, FAMILY.smaller(work)
    assert seen == sorted(seen, reverse=True)
    assert last.blocks_on_device == 0
    assert [str(one) for one in FAMILY.changes(work_of(11 * GB), last)]


def test_a_published_file_is_folded_while_it_is_loaded_and_the_time_includes_it() -> None:
    """12 CPU seconds were measured for 30 blocks and 512 rows of a prompt."""
    plan = plan_of(11 * GB)
    work = plan.work
    assert isinstance(work, SwiftVrPlan)
    converted = replace(work, text=None)
    folding = FAMILY.loading_seconds(work) - FAMILY.loading_seconds(converted)
    assert folding == pytest.approx(12.7, rel=0.1)
    assert 0.1 < FAMILY.loading_seconds(converted) < 0.5
    fixed = [times.fixed_seconds(replace(plan, work=one), Rates()) for one in (work, converted)]
    assert fixed[0] - fixed[1] >= folding / 16


def test_what_overflows_becomes_wider() -> None:
    budget = pretended_budget(gpu_table.find("RTX 2080 Ti"), ram_bytes=32 * GIB)
    work = work_of(11 * GB, gpu="RTX 2080 Ti")
    assert FAMILY.wider(work, budget, "transformer") == replace(work, dtype="float32")
    decoder = FAMILY.wider(work, budget, "decoder")
    assert decoder is not None
    assert decoder.dtype == "float16"
    assert FAMILY.wider(replace(work, dtype="bfloat16"), budget, "transformer") is None


@settings(deadline=None)
@given(frames=st.integers(1, 2000))
def test_work_counts_the_chunks_that_a_shot_has(frames: int) -> None:
    count, found = latents_of(frames), list[int]()
    while (chunk := GRID.ready(len(found), count, ended=True)) is not None:
        found.append(chunk.zeros + chunk.stop - chunk.front)
    assert chunks(frames) == (found.count(GRID.length + 1), found.count(GRID.length))


def test_operations_are_those_of_the_description() -> None:
    """10^12 of a megapixel and frame at 1080p: transformer 2.42, less what is folded."""
    tokens = 1920 * 1088 / 1e6 * 24
    found = forward_flops(SWIFT_DIT, 2, (6, 68, 120)).total / tokens / 1e12
    assert 2.1 < found < 2.42


def test_frames_are_padded_to_whole_tokens() -> None:
    assert padded_size(Size(1920, 1080)) == Size(1920, 1088)
    assert padded_size(Size(33, 32)) == Size(64, 32)


def test_the_user_reads_what_the_model_does() -> None:
    found = {one.code: one for one in plan_of(11 * GB).notices}
    assert "redraws-more" in found
    assert "(20.0 GB)" in str(found["convert-once"].message)
    work = work_of(11 * GB)
    own = replace(work, dit=replace(work.dit, published=""))
    budget = pretended_budget(gpu_table.find("RTX 4090"), ram_bytes=32 * GIB)
    assert "convert-once" not in {one.code for one in FAMILY.notices(own, budget)}
