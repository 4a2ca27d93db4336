from pathlib import Path

import pytest

from engine.settings.schema import JobSettings
from tests.helpers.command_line import CommandLine


@pytest.fixture(autouse=True)
def own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPREEL_PRETEND_GPU", "RTX 5070 Ti")


def asked(command_line: CommandLine, *words: str) -> JobSettings:
    assert command_line("plan", "a.mp4", *words).status == 0
    return command_line.services.asked[-1][0]


def test_presets_are_listed_for_the_gpu(command_line: CommandLine) -> None:
    ended = command_line("presets", "list")
    assert ended.status == 0
    assert "best      RTX 5070 Ti, 16 GB: Best. SeedVR2 7B sharp" in ended.out
    (answer,) = command_line("presets", "list", "--json").objects
    assert answer["card"] == "RTX 5070 Ti, 16 GB"
    assert [preset["name"] for preset in answer["presets"]] == ["fast", "balanced", "best"]
    ended = command_line("plan", "a.mp4", "--preset", "balance")
    assert ended.status == 1
    assert "Unknown preset 'balance'" in ended.err
    assert "Did you mean balanced?" in ended.err
    ended = command_line("presets", "remove", "best")
    assert ended.status == 1
    assert "best is not one of your own presets" in ended.err


def test_a_preset_is_the_beginning_and_options_change_it(command_line: CommandLine) -> None:
    plain = asked(command_line, "--preset", "fast")
    assert (plain.model, plain.precision, plain.working_size) == ("auto", "auto", 70)
    other = asked(
        command_line,
        *("--preset", "Fast", "--model", "seedvr2-3b", "--set", "speed=fast", "--height", "1080"),
    )
    assert (other.model, other.working_size) == ("seedvr2-3b", 70)
    assert (other.speed, other.height) == ("fast", 1080)


def test_the_gpu_of_the_options_precedes_that_of_the_environment(command_line: CommandLine) -> None:
    words = ("--preset", "balanced", "--pretend-gpu", "RTX 3050", "--pretend-vram", "4GiB")
    assert asked(command_line, *words).working_size == 100
    assert command_line("upscale", "a.mp4", "--preset", "balanced").status == 0
    assert command_line.added[0].settings.working_size == 84


def test_a_target_of_the_options_replaces_that_of_the_preset(command_line: CommandLine) -> None:
    words = ("--set", "height=2160", "--set", "width=3840")
    assert command_line("presets", "save", "Mine", *words).status == 0
    kept = asked(command_line, "--preset", "mine")
    assert (kept.width, kept.height) == (3840, 2160)
    assert asked(command_line, "--preset", "mine", "--scale", "3").target is None
    low = asked(command_line, "--preset", "mine", "--height", "720")
    assert (low.width, low.height) == (0, 720)


def test_presets_are_saved_exported_and_removed(command_line: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "tapes.toml"
    made = command_line("presets", "save", "Old tapes", "--preset", "fast", "--set", "strength=80")
    assert made.out == "Old tapes: saved as old-tapes\n"
    assert asked(command_line, "--preset", "Old tapes").strength == 80
    assert command_line("presets", "export", "old-tapes", str(file)).status == 0
    again = command_line("presets", "export", "old-tapes", str(file))
    assert again.status == 1
    assert "--overwrite" in again.err
    assert command_line("presets", "export", "old-tapes", str(file), "--overwrite").status == 0
    assert command_line("presets", "remove", "old-tapes").status == 0
    assert command_line("plan", "a.mp4", "--preset", "old-tapes").status == 1
    (taken,) = command_line("presets", "import", str(file), "--json").objects
    assert (taken["name"], taken["changes"]["working_size"]) == ("old-tapes", 70)
