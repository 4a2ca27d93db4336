import pytest

from engine.core.errors import SettingsError
from engine.settings.assignments import with_text
from engine.settings.schema import JobSettings


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


def test_old_names_are_understood() -> None:
    given = ["form=restore", "products=int8"]
    assert with_text(JobSettings(), given) == JobSettings(treatment="restore", matmul="int8")
