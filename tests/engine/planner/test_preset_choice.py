import dataclasses

import pytest

from engine.hardware.gpu_table import GIB, GpuSpec, find, gpu_specs
from engine.planner.preset_choice import GOALS, presets_for, presets_of, tier_of, tiers
from engine.settings.presets import Preset, applied, matching
from engine.settings.schema import JobSettings

CASES = [
    (0, "cpu"),
    (4, "4gb"),
    (6, "6gb"),
    (7.9, "8gb"),
    (10, "10gb"),
    (11, "10gb"),
    (11.99, "10gb"),
    (15.9, "16gb"),
    (20, "16gb"),
    (23.99, "24gb"),
    (31.8, "32gb"),
    (96, "32gb"),
]


OF_EACH_SIZE = {card.memory_bytes: card for card in gpu_specs()}.values()


@pytest.fixture(params=[None, *OF_EACH_SIZE], ids=lambda card: card.title if card else "processor")
def card(request: pytest.FixtureRequest) -> GpuSpec | None:
    return request.param


def test_a_gpu_has_the_tier_of_its_memory_and_every_tier_is_reached() -> None:
    for gib, name in CASES:
        assert tier_of(round(gib * GIB)).name == name, gib
    assert {name for _, name in CASES} == {tier.name for tier in tiers()}


def test_every_gpu_has_three_presets_with_its_name(card: GpuSpec | None) -> None:
    found = presets_for(card)
    assert tuple(preset.name for preset in found) == GOALS
    title = card.title if card else "Processor"
    assert [preset.title for preset in found] == [
        f"{title}: {goal}" for goal in ("Fast", "Balanced", "Best")
    ]
    for preset in found:
        assert preset.description.endswith(".")
        assert not preset.is_own
        applied(preset, JobSettings())  # all settings exist and are possible


def test_presets_of_a_gpu_differ(card: GpuSpec | None) -> None:
    found = presets_for(card)
    settings = [applied(preset, JobSettings()) for preset in found]
    assert len(set(settings)) == len(GOALS)
    for preset, chosen in zip(found, settings, strict=True):
        assert matching(found, chosen) == preset


def test_earlier_choices_return_to_the_planner(card: GpuSpec | None) -> None:
    odd = JobSettings(
        clip_frames=5, encode_tile=256, blocks_on_device=2, precision="fp8", matmul="fp8"
    )
    for preset in presets_for(card):
        now = applied(preset, odd)
        assert (now.clip_frames, now.encode_tile, now.blocks_on_device) == (0, 0, -1)
        assert now.matmul == "none"
        assert now.model in ("lite", "auto") or now.precision != "fp8"


def test_a_preset_keeps_the_choices_of_the_result(card: GpuSpec | None) -> None:
    chosen = JobSettings(height=2160, codec="hevc", crf=20, container="mkv", seed=7, strength=80)
    kept = ("height", "scale", "codec", "crf", "container", "seed", "strength", "start", "switches")
    for preset in presets_for(card):
        now = applied(preset, chosen)
        assert {name: getattr(now, name) for name in kept} == {
            name: getattr(chosen, name) for name in kept
        }


def _of(preset: Preset) -> tuple[object, object]:
    return preset.changes["model"], preset.changes.get("precision", "")


def test_presets_choose_the_models_that_measurements_favour(card: GpuSpec | None) -> None:
    """Never plain fp8, 7B sharp as the best, nothing but Lite without a GPU of 6 GB at least."""
    found = {preset.name: _of(preset) for preset in presets_for(card)}
    assert "fp8" not in {precision for _, precision in found.values()}
    if card is None or card.memory_bytes < 6 * GIB:
        assert {model for model, _ in found.values()} == {"lite", "auto"}  # which is Lite too
        fresh = matching(presets_for(card), JobSettings())
        assert fresh is not None
        assert fresh.goal == "balanced"
        return
    assert found["best"][0] == "seedvr2-7b-sharp"
    assert found["best"][1] == ("fp16" if card.memory_bytes >= 10 * GIB else "q4")
    small = card.memory_bytes < 8 * GIB
    assert found["balanced"][0] == ("seedvr2-3b" if small else "seedvr2-7b-sharp")
    fresh = matching(presets_for(card), JobSettings())
    assert fresh is not None
    assert fresh.goal == "fast"  # Lite: 3B saves a tenth of the time at best


def test_a_gpu_in_no_table_has_presets_too() -> None:
    found = presets_of("NVIDIA RTX 6000 Ada, 48 GB", 48 * GIB)
    assert found[2].title == "NVIDIA RTX 6000 Ada, 48 GB: Best"
    assert found[0].tier == "32gb"
    known = find("RTX 5090")
    assert known is not None
    assert [dataclasses.replace(preset, title="") for preset in found] == [
        dataclasses.replace(preset, title="") for preset in presets_for(known)
    ]
