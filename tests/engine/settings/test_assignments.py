from pathlib import Path

import pytest

from engine.core.errors import SettingsError
from engine.settings.assignments import with_named, with_text
from engine.settings.schema import EngineSettings, JobSettings


def test_text_sets_values_of_every_type() -> None:
    given = ["crf=20", "overwrite=yes", "segment-seconds=2.5", "codec=hevc"]
    wanted = JobSettings(crf=20, overwrite=True, segment_seconds=2.5, codec="hevc")
    assert with_text(JobSettings(), given) == wanted


def test_an_impossible_assignment_is_refused_with_a_hint() -> None:
    for text, hint in (
        ("crff=20", "Did you mean crf?"),
        ("beauty=20", "Known settings: model"),
        ("crf=99", "from 0 to 51"),
        ("crf=good", "must be a whole number"),
        ("codec=vp6", "h264"),
        ("overwrite=perhaps", "yes or no"),
        ("crf", "crf=18"),
    ):
        with pytest.raises(SettingsError) as caught:
            with_text(JobSettings(), [text])
        assert hint in caught.value.hint, text


def test_a_place_is_taken_from_the_current_folder() -> None:
    """A job may go on from another one."""
    folder, file = str(Path("out").absolute()), str(Path("own.pth").absolute())
    texts = ["output_folder=out", "job_folder="]
    assert with_text(EngineSettings(), texts) == EngineSettings(output_folder=folder)
    assert with_named(EngineSettings(), {"job_folder": "out"}).job_folder == folder
    assert with_text(JobSettings(), ["model_file=own.pth"]).model_file == file
    assert with_named(JobSettings(), {"model_file": Path("own.pth")}).model_file == file


def test_old_names_are_understood() -> None:
    given = ["form=restore", "products=int8"]
    assert with_text(JobSettings(), given) == JobSettings(treatment="restore", matmul="int8")
