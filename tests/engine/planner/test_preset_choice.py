from engine.hardware.gpu_table import GIB, find, gpu_specs
from engine.planner.preset_choice import GOALS, presets_for, presets_of, tier_of, tiers
from engine.settings.presets import Preset, applied, matching
from engine.settings.schema import JobSettings

SMALL = {"cpu": (0,), "4gb": (4,), "6gb": (6,), "8gb": (7.9,), "10gb": (10, 11, 11.99)}
TIERS = {**SMALL, "16gb": (15.9, 20), "24gb": (23.99,), "32gb": (31.8, 96)}  # name -> GiB


GPUS = [None, *{gpu.memory_bytes: gpu for gpu in gpu_specs()}.values()]  # one of each size


def test_a_gpu_has_the_tier_of_its_memory_and_every_tier_is_reached() -> None:
    assert TIERS.keys() == {tier.name for tier in tiers()}
    for name, sizes in TIERS.items():
        assert {tier_of(round(gib * GIB)).name for gib in sizes} == {name}


def test_every_gpu_has_three_different_presets_with_its_name() -> None:
    for gpu in GPUS:
        found = presets_for(gpu)
        assert tuple(preset.name for preset in found) == GOALS
        title = gpu.title if gpu else "Processor"
        goals = ("Fast", "Balanced", "Best")
        assert [preset.title for preset in found] == [f"{title}: {goal}" for goal in goals]
        settings = [applied(preset, JobSettings()) for preset in found]  # all are possible
        assert len(set(settings)) == len(GOALS)
        for preset, chosen in zip(found, settings, strict=True):
            assert matching(found, chosen) == preset
            assert preset.description.endswith(".")
            assert not preset.is_own


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
        assert now.model in ("lite", "auto") or now.precision != "fp8"


def _of(preset: Preset) -> tuple[object, object]:
    return preset.changes["model"], preset.changes.get("precision", "")


def test_presets_choose_the_models_that_measurements_favour() -> None:
    """Never plain fp8, 7B sharp as the best, nothing but Lite without a GPU of 6 GB at least."""
    for gpu in GPUS:
        found = {preset.name: _of(preset) for preset in presets_for(gpu)}
        assert "fp8" not in {precision for _, precision in found.values()}
        fresh = matching(presets_for(gpu), JobSettings())
        assert fresh is not None
        if gpu is None or gpu.memory_bytes < 6 * GIB:
            assert {model for model, _ in found.values()} == {"lite", "auto"}  # which is Lite too
            assert fresh.goal == "balanced"
            continue
        best = "fp16" if gpu.memory_bytes >= 10 * GIB else "q4"
        assert found["best"] == ("seedvr2-7b-sharp", best)
        small = gpu.memory_bytes < 8 * GIB
        assert found["balanced"][0] == ("seedvr2-3b" if small else "seedvr2-7b-sharp")
        assert fresh.goal == "fast"  # Lite: 3B saves a tenth of the time at best


def test_a_gpu_in_no_table_has_presets_too() -> None:
    found = presets_of("NVIDIA RTX 6000 Ada, 48 GB", 48 * GIB)
    assert found[2].title == "NVIDIA RTX 6000 Ada, 48 GB: Best"
    assert found[0].tier == "32gb"
    known = presets_for(find("RTX 5090"))
    assert [preset.changes for preset in found] == [preset.changes for preset in known]
