from collections import defaultdict
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from engine.files.catalogue import catalogue
from engine.files.model_files import Store
from engine.hardware.gpu_table import GIB, find, gpu_specs
from engine.planner.preset_choice import (
    GOALS,
    named,
    offered,
    presets_for,
    presets_of,
    tier_of,
    tiers,
)
from engine.settings.presets import applied, matching
from engine.settings.schema import LITE, JobSettings

TIERS = {"cpu": (0,), "small_gpu": (2, 4), "gpu": (6, 7.9, 11.99, 16, 23.99, 96)}  # name -> GiB
GPUS = [None, *{gpu.memory_bytes: gpu for gpu in gpu_specs()}.values()]  # one of each size


def test_a_gpu_has_the_tier_of_its_memory_and_every_tier_is_reached() -> None:
    assert TIERS.keys() == {tier.name for tier in tiers()}
    for name, sizes in TIERS.items():
        assert {tier_of(round(gib * GIB)).name for gib in sizes} == {name}


def test_every_gpu_has_a_preset_for_each_goal_with_its_name() -> None:
    for gpu in GPUS:
        found = presets_for(gpu)
        assert sum((preset.goals for preset in found), ()) == GOALS
        title = gpu.title if gpu else "CPU"
        shared = " / ".join(goal.capitalize() for goal in GOALS) + " (identical on this computer)"
        titles = ["Fast", "Balanced", "Best"] if len(found) == len(GOALS) else [shared]
        assert [preset.title for preset in found] == [f"{title}: {one}" for one in titles]
        settings = [applied(preset, JobSettings()) for preset in found]  # all are possible
        assert len(set(settings)) == len(found)
        for preset, chosen in zip(found, settings, strict=True):
            assert matching(found, chosen) == preset
            assert preset.description.endswith(".")
            assert not preset.is_own


def test_presets_go_by_memory_as_their_page_says_of_rtx_40_and_rtx_50() -> None:
    found: dict[int, dict[str, list[dict[str, Any]]]] = defaultdict(dict)
    for gpu in gpu_specs():
        presets = [asdict(replace(one, title="")) for one in presets_for(gpu)]
        assert found[gpu.memory_bytes].setdefault(gpu.generation, presets) == presets
        if gpu.generation == "turing" and gpu.memory_bytes > 5 * GIB:
            assert {one["automatic"] for one in presets} == {"seedvr2-3b"}
            assert all("SeedVR2 3B at" in one["description"] for one in presets)
    both = [one for one in found.values() if {"ada", "blackwell"} <= one.keys()]
    assert len(both) > 2
    for generations in both:
        assert generations["ada"] == generations["blackwell"]
        assert all(one["changes"]["matmul"] == "none" for one in generations["blackwell"])


def test_a_preset_is_found_by_each_goal_of_a_gpu() -> None:
    small = find("RTX 3050 Laptop GPU")
    assert tuple(named(goal, small).name for goal in GOALS) == GOALS


def test_a_preset_keeps_the_choices_of_the_result_and_returns_others_to_the_planner() -> None:
    result = {"height": 2160, "codec": "hevc", "crf": 20, "container": "mkv", "seed": 7}
    how = {"clip_frames": 5, "encode_tile": 256, "blocks_on_device": 2, "matmul": "fp8"}
    chosen = JobSettings(**result, **how, strength=80, precision="fp8")
    kept = (*result, "scale", "strength", "start", "switches")
    for preset in (preset for gpu in GPUS for preset in presets_for(gpu)):
        now = applied(preset, chosen)
        assert all(getattr(now, name) == getattr(chosen, name) for name in kept), preset.title
        assert (now.clip_frames, now.encode_tile, now.blocks_on_device) == (0, 0, -1)
        assert now.matmul == "none"
        assert now.precision == "auto"


def test_presets_run_seedvr2_where_it_fits_and_built_in_models_elsewhere() -> None:
    for gpu in GPUS:
        found = {preset.name: preset.changes for preset in presets_for(gpu)}
        fresh = matching(presets_for(gpu), JobSettings())
        assert fresh is not None
        if gpu is None or gpu.memory_bytes < 6 * GIB:
            assert {goal: changes["model"] for goal, changes in found.items()} == {
                "fast": "lite",
                "balanced": "auto",
                "best": "lite-plus",
            }
            assert fresh.name == "balanced"
            continue
        assert {(one["model"], one["precision"]) for one in found.values()} == {("auto", "auto")}
        assert [one["working_size"] for one in found.values()] == [70, 84, 100]
        assert fresh.name == "best"


def test_a_gpu_in_no_table_has_presets_too() -> None:
    found = presets_of("NVIDIA RTX 6000 Ada, 48 GB", 48 * GIB)
    assert found[2].title == "NVIDIA RTX 6000 Ada, 48 GB: Best"
    assert found[0].tier == "gpu"
    known = presets_for(find("RTX 5090"))
    assert [preset.changes for preset in found] == [preset.changes for preset in known]


def test_fast_is_swiftvr_where_its_files_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPREEL_MODELS", str(tmp_path))
    gpu, store = find("RTX 3060"), Store()
    before = {one.name: one for one in offered(gpu).presets}
    files = [one for one in catalogue() if "swiftvr" in one.models]
    for number, file in enumerate(files, 1):
        with store.target(file.filename).open("wb") as hole:
            hole.truncate(file.bytes)
        assert store.has_all_of("swiftvr") == (number == len(files) == 3)
    after = {one.name: one for one in offered(gpu).presets}
    assert after["fast"].changes == before["fast"].changes | {
        "model": "swiftvr",
        "working_size": 100,
    }
    assert "redraws more" in after["fast"].description
    assert (after["balanced"], after["best"]) == (before["balanced"], before["best"])
    assert matching([*after.values()], applied(after["fast"], JobSettings())) == after["fast"]
    small = find("RTX 3050 Laptop GPU")
    assert {one.changes["model"] for one in offered(small).presets} == {"auto", *LITE}
