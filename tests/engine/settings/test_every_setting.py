"""Every setting does something: changed alone it gives another plan, or has a test of its own."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.core.errors import EngineError
from engine.core.serialization import to_plain
from engine.hardware import gpu_table
from engine.hardware.budget import pretended_budget
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Rates
from engine.settings.schema import EngineSettings, JobSettings, Setting, describe
from tests.helpers.clips import make_clip
from tests.helpers.plans import a_media

TESTS = Path(__file__).parents[2]
MODELS = {"lite": "lite", "seedvr2": "seedvr2-3b", "swiftvr": "swiftvr", "wan": "wan-2x"}
# Values that no rule finds, with what they need.
VALUES: dict[str, dict[str, object]] = {
    "scale": {"scale": 4},
    "width": {"width": 400, "height": 300},
    "start": {"start": "1"},
    "stop": {"stop": "2"},
    "join_frames": {"join_frames": 8, "join": "frames"},
    "vae_precision": {"vae_precision": "float32"},
    "device": {"device": "cpu"},
    "workers": {"workers": 2, "device": "cpu"},
    "switches": {"switches": "run.passive_threads=off"},
}
# Of a source of its own, of hardware, of the window or of the network.
ELSEWHERE = {
    "model_file": "engine/pipeline/test_alpha.py::test_alpha_is_enlarged_by_itself_in_its_depth",
    "latents": "engine/pipeline/test_latents.py::test_new_settings_are_a_new_film",
    "latent_rate": "engine/pipeline/test_sources.py::test_the_rate_follows_the_settings",
    "latent_vae": "engine/pipeline/test_latents.py::test_latents_become_a_film",
    "black_bars": "engine/pipeline/test_real_sources.py::test_black_bars_are_left_out_and_put_back",
    "aspect": "engine/pipeline/test_real_sources.py::test_a_wrong_shape_is_corrected",
    "video_stream": "engine/video/read/test_video_tracks.py"
    "::test_another_video_track_is_named_and_can_be_chosen",
    "accept_damaged": "engine/planner/test_plan_job.py"
    "::test_a_source_that_is_cut_short_is_refused_unless_allowed",
    "sound": "engine/video/write/test_converted_sound.py"
    "::test_sound_that_is_encoded_again_is_alike_and_named",
    "overwrite": "engine/pipeline/test_output.py"
    "::test_an_existing_file_is_replaced_only_when_allowed_and_a_folder_never",
    "excluded_gpus": "engine/hardware/test_devices.py"
    "::test_all_gpus_are_those_that_are_not_excluded_the_fastest_first",
    "job_folder": "engine/jobs/test_folders.py"
    "::test_pieces_are_kept_and_played_in_the_chosen_folder_of_jobs",
    "watch_folder": "app/controllers/test_watch.py"
    "::test_films_come_with_the_choices_of_new_films_and_wait",
    "watch_starts": "app/controllers/test_watch.py"
    "::test_they_start_at_once_where_that_is_chosen_and_nothing_else_does",
    "after_queue": "app/controllers/test_after_queue.py"
    "::test_a_minute_after_the_last_film_though_one_has_failed",
    "after_queue_command": "app/controllers/test_after_queue.py"
    "::test_a_command_is_shown_as_it_is_and_started_as_words",
    "resume_after_update": "app/controllers/test_session.py"
    "::test_with_the_setting_windows_may_restart_and_starts_the_program_again",
    "lend": "app/machines/test_machines_page.py"
    "::test_lending_is_kept_and_begins_again_at_the_next_start",
    "farm_port": "engine/farm/test_commands.py::test_it_makes_parts_of_a_film_of_another_computer",
    "tile_previews": "engine/pipeline/stages/test_upscale.py"
    "::test_tiles_are_told_without_pictures_where_the_user_wants_none",
}
OF_JOBS = [name for name in describe(JobSettings) if name not in ELSEWHERE]
OF_PROGRAM = [name for name in describe(EngineSettings) if name not in ELSEWHERE]


def planned(**settings: Any) -> object:
    """Decisions of a plan for an RTX 4090, without notices; the error where there is no plan."""
    budget = pretended_budget(gpu_table.find("RTX 4090"), ram_bytes=24 * 2**30)
    request = Request(media=a_media(), settings=JobSettings(**settings))
    try:
        plan = plan_job(request, budget, Rates())
    except EngineError as err:
        return str(err)
    return _decided(plan)


def _decided(plan: Any) -> dict[str, Any]:
    said = ("notices", "reasons", "free_disk_bytes")
    plain: dict[str, Any] = to_plain(plan)
    return {name: value for name, value in plain.items() if name not in said}


def another(name: str, about: Setting) -> object:
    """A value of a setting that is not its usual one."""
    now = next(one.default for one in fields(JobSettings) if one.name == name)
    if about.choices or about.values:
        return [value for value in about.choices or about.values if value != now][-1]
    if about.kind == "path":
        return "missing.safetensors"
    if isinstance(now, bool):
        return not now
    assert about.low is not None
    assert about.high is not None
    return type(now)(min((about.low + about.high) / 2, 400))


@pytest.mark.extended
@pytest.mark.parametrize("name", OF_JOBS)
def test_a_setting_changes_the_plan(name: str) -> None:
    about = describe(JobSettings)[name]
    model = next((MODELS[family] for family in about.families if family in MODELS), "lite")
    changed = {"model": model, **(VALUES.get(name) or {name: another(name, about)})}
    usual = {key: value for key, value in changed.items() if key != name}
    assert planned(**changed) != planned(**{"model": model, **usual})


@pytest.mark.extended
def test_settings_of_the_program_change_the_plan(tmp_path: Path) -> None:
    source, results = make_clip(tmp_path / "in.mp4", frames=6), tmp_path / "results"
    results.mkdir()
    values: dict[str, Any] = {
        "output_folder": str(results),
        "name_pattern": "{size} of {name}",
        "memory_share": 0.3,
        "vram_limit": 0.3,
        "threads": 1,
    }
    assert set(values) == set(OF_PROGRAM)
    of_gpu = {"model": "seedvr2-3b", "height": 1080, "pretend_gpu": "RTX 5090"}
    for name, value in values.items():
        others: dict[str, Any] = {"model": "lite"} if name == "threads" else of_gpu
        before = _decided(engine.plan(source, **others))
        assert _decided(engine.plan(source, **others, **{name: value})) != before, name


def test_the_tests_of_other_settings_exist() -> None:
    assert set(ELSEWHERE) <= {*describe(JobSettings), *describe(EngineSettings)}
    for place in ELSEWHERE.values():
        path, _, name = place.partition("::")
        assert f"\ndef {name}(" in (TESTS / path).read_text("utf-8"), place
