import pytest

from engine.core.errors import SettingsError
from engine.core.messages import LANGUAGES, read_entries
from engine.settings.optimisations import GROUPS, choices, optimisations
from engine.settings.schema import (
    ATTENTION,
    EngineSettings,
    JobSettings,
    describe,
    known,
    renamed,
)


def test_every_setting_choice_and_switch_has_a_name_in_every_language() -> None:
    for language in LANGUAGES:
        entries = read_entries(language)
        for kind in (JobSettings, EngineSettings):
            for name, about in describe(kind).items():
                assert entries[f"setting.{name}"].keys() >= {"title", "text"}, name
                assert about.group == "main" or entries[f"setting-group.{about.group}"]["title"]
                for value in about.choices:
                    assert entries[f"choice.{name}.{value}"]["text"], (name, value)
        assert all(f"switch.{group}" in entries for group in GROUPS)
        for entry in (*optimisations(), *choices()):
            assert entries[f"switch.{entry.key}"].keys() >= {"title", "text", "hint"}, entry.key


def test_the_catalogue_has_no_setting_choice_or_switch_that_is_gone() -> None:
    fields = {**describe(JobSettings), **describe(EngineSettings)}
    values = {f"{name}.{value}" for name, about in fields.items() for value in about.choices}
    for code in read_entries("en"):
        kind, _, name = code.partition(".")
        assert kind != "setting" or name in fields, code
        assert kind != "choice" or name in values, code


def test_wrong_types_in_code_are_refused() -> None:
    with pytest.raises(SettingsError, match="crf must be a whole number, not True"):
        JobSettings(crf=True)
    with pytest.raises(SettingsError):
        JobSettings(scale="2")


def test_numbers_are_taken_up_to_their_limits() -> None:
    limits = {"scale": (1, 4), "crf": (0, 51), "working_size": (70, 100), "workers": (1, 64)}
    limits |= {"strength": (0, 100), "join_frames": (1, 32), "clip_frames": (0, 241)}
    for name, (least, most) in limits.items():
        assert JobSettings(**{name: least}) != JobSettings(**{name: most})
        for value in (least - 1, most + 1):
            with pytest.raises(SettingsError, match=name):
                JobSettings(**{name: value})


def test_attention_can_be_any_backend_there_is() -> None:
    from engine.ops.attention.backends import BACKENDS

    assert ("auto", *BACKENDS) == tuple(ATTENTION)


def test_old_names_are_understood_and_new_ones_count_more() -> None:
    table = {"treatment": "faithful", "form": "restore", "beauty": 1}
    assert renamed(JobSettings, table) == {"treatment": "faithful", "beauty": 1}
    assert known(JobSettings, table) == {"treatment": "faithful"}


def test_no_name_has_two_meanings() -> None:
    for kind in (JobSettings, EngineSettings):
        fields = kind.__dataclass_fields__
        names = [*fields, *(old for f in fields.values() for old in f.metadata["old_names"])]
        assert len(set(names)) == len(names)
