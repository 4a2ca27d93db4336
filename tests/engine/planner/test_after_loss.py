"""Plans for a GPU that was lost with its present driver."""

from dataclasses import replace
from functools import cache

import pytest

from engine.core import gpu_loss
from engine.hardware import devices
from engine.hardware.budget import Budget, measure_budget, pretended_budget
from engine.hardware.gpu_table import GIB, named
from engine.models.seedvr2.plan import SeedVr2Plan
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Rates
from engine.protocol.plan import Plan
from engine.settings.schema import EngineSettings
from tools.reports.plan_table import settings_of, source_of

NAMES = ("RTX 2060", "RTX 4060", "RTX 5070 Ti")
ANY = named("RTX 4060")  # the 3B is chosen alike on all


@cache
def planned(budget: Budget, losses: int, height: int = 1080, **changes: object) -> Plan:
    settings = replace(settings_of(ANY, "3B", height), **changes)
    request = Request(media=source_of(height), settings=settings)
    return plan_job(request, replace(budget, gpu_losses=losses), Rates())


def here(name: str) -> Budget:
    return pretended_budget(named(name), ram_bytes=32 * GIB)


def tile_pixels(plan: Plan) -> tuple[int, int]:
    work = plan.work
    assert isinstance(work, SeedVr2Plan)
    tiles = work.encode_tile, work.decode_tile
    encode, decode = (work.padded if tile is None else tile for tile in tiles)
    return encode.pixels, decode.pixels


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_after_a_loss_is_careful(name: str) -> None:
    """Half the tiles, less memory, nothing pinned, no trials; the same clips or shorter ones."""
    usual, after = planned(here(name), 0), planned(here(name), 1)
    assert after.device_bytes < usual.device_bytes
    for less, more in zip(tile_pixels(after), tile_pixels(usual), strict=True):
        assert less <= 0.6 * more  # the first cut of a whole frame has a border on one side
    run = after.work.switches.run
    assert (run.cudnn_benchmark, run.pinned_transfers) == (False, False)
    assert isinstance(after.work, SeedVr2Plan)
    assert after.work.latents <= usual.work.latents
    notices = [notice for notice in after.notices if notice.code == "gpu-was-lost"]
    assert [notice.params["gpu"] for notice in notices] == [after.card]
    assert after.reasons is not None
    assert after.reasons.limited_by != "nothing"
    assert after.seconds > usual.seconds
    assert "gpu-was-lost" not in {notice.code for notice in usual.notices}


def test_each_loss_halves_tiles_up_to_the_third() -> None:
    found = [planned(here("RTX 4060"), losses) for losses in (0, 1, 2, 3, 20)]
    sizes = [sum(tile_pixels(plan)) for plan in found]
    assert sizes[0] > sizes[1] > sizes[2] >= sizes[3] == sizes[4]
    assert all(plan.fits or plan.notices[0].code == "weights-missing" for plan in found)


def test_a_switch_that_the_user_sets_stays() -> None:
    plan = planned(here("RTX 4060"), 1, switches="run.pinned_transfers=on")
    assert plan.work.switches.run.pinned_transfers
    assert not plan.work.switches.run.cudnn_benchmark


def test_a_plan_for_the_processor_does_not_change() -> None:
    assert planned(here("RTX 4060"), 3, device="cpu") == planned(here("RTX 4060"), 0, device="cpu")


def test_a_model_of_frames_gets_smaller_pieces() -> None:
    usual, after = (planned(here("RTX 4060"), losses, model="lite") for losses in (0, 1))
    pieces = [plan.work.clip_frames * plan.work.tile.pixels for plan in (usual, after)]
    assert pieces[1] <= pieces[0] / 2
    assert after.device_bytes < usual.device_bytes


def test_a_loss_counts_for_a_gpu_and_its_driver(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("jobs")
    (gpu,) = devices.as_gpus([named("RTX 4060")])

    def losses(driver: str, name: str = gpu.name) -> int:
        one = replace(gpu, driver=driver, name=name)
        monkeypatch.setattr("engine.hardware.budget.gpus_here", lambda *_, **__: (one,))
        return measure_budget(EngineSettings(), folder, folder).gpu_losses

    assert losses("580.97") == 0
    gpu_loss.keep(gpu.name, "580.97", "unspecified launch failure")
    gpu_loss.keep(gpu.name, "580.97", "driver shutting down")
    assert losses("580.97") == 2
    assert gpu_loss.last_reason(gpu.name, "580.97") == "driver shutting down"
    assert losses("581.29") == losses("580.97", "NVIDIA GeForce RTX 4070") == 0


def test_of_several_gpus_the_one_that_was_lost_most_often_counts() -> None:
    budget = pretended_budget(named("RTX 4060"), named("RTX 4060 Ti"), ram_bytes=64 * GIB)
    gpus = tuple(replace(one, gpu_losses=at) for at, one in enumerate(budget.gpus))
    plan = plan_job(
        Request(
            media=source_of(1080), settings=replace(settings_of(ANY, "3B", 1080), device="all")
        ),
        replace(budget, gpus=gpus),
        Rates(),
    )
    if plan.workers:
        assert not plan.work.switches.run.pinned_transfers
