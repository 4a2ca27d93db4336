import pytest

from engine.core.errors import SettingsError
from engine.settings.schema import ATTENTION, EngineSettings, JobSettings, describe, with_text


def test_every_setting_is_described():
    for kind in (JobSettings, EngineSettings):
        assert all(about.description.endswith(".") for about in describe(kind).values())


def test_text_sets_values_of_every_type():
    settings = with_text(
        JobSettings(), ["crf=20", "overwrite=yes", "segment-seconds=2.5", "codec=hevc"]
    )
    assert (settings.crf, settings.overwrite, settings.segment_seconds, settings.codec) == (
        20,
        True,
        2.5,
        "hevc",
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("crff=20", "Did you mean crf?"),
        ("crf=99", "from 0 to 51"),
        ("crf=good", "must be a int"),
        ("codec=vp6", "h264"),
        ("overwrite=perhaps", "yes or no"),
        ("crf", "crf=18"),
    ],
)
def test_what_cannot_be_is_refused_with_a_hint(text, hint):
    with pytest.raises(SettingsError) as caught:
        with_text(JobSettings(), [text])
    assert hint in caught.value.hint


def test_wrong_types_in_code_are_refused():
    with pytest.raises(SettingsError):
        JobSettings(crf=True)
    with pytest.raises(SettingsError):
        JobSettings(scale="2")


def test_attention_can_be_any_backend_there_is() -> None:
    from engine.ops.attention.backends import BACKENDS

    assert ("auto", *BACKENDS) == ATTENTION
