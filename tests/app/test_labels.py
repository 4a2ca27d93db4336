from dataclasses import replace
from pathlib import Path

from app import labels
from app.engine_messages import button, error_title
from app.state.job_row import JobRow
from app.widgets.error_view import ACTION_OF
from engine.core import errors
from engine.core.errors import EngineError, ErrorInfo
from engine.core.geometry import Size
from engine.core.units import duration_text
from engine.farm import errors as farm_errors
from tests.helpers.plans import a_media, a_plan


def test_an_expected_time_is_a_range_unless_the_plan_is_of_an_earlier_version():
    for low, high, text in (
        (6, 9, "6–9 s"),
        (130, 830, "2–14 min"),
        (5400, 10_800, "1.5–3 h"),
        (0, 0, "8 s"),
        (0.1, 0.4, "8 s"),
    ):
        plan = a_plan(seconds=8, seconds_low=low, seconds_high=high)
        assert labels.expected(plan) == text


def test_durations_are_those_of_the_command_line():
    for seconds in (0, 0.3, 0.5, 59.4, 200, 599.7, 1800, 3569, 3590, 7500):
        assert labels.duration(seconds) == duration_text(seconds)
    assert [labels.about(seconds) for seconds in (0.3, 8)] == ["under 1 s", "about 8 s"]


def test_a_turned_film_is_named_by_the_sizes_that_are_seen():
    media = a_media(rotation=90)
    stored = Size(1280, 720)
    plan = a_plan(picture=replace(a_plan().picture, size=stored, rotation=90))
    row = JobRow(job_id="a", source=Path("a.mp4"), media=media, plan=plan)
    assert labels.from_to(row) == "360×640 → 720×1280"


def test_every_error_of_the_engine_has_a_button_and_an_unknown_one_a_title(qapp):
    codes = {
        kind.code
        for kind in (vars(errors) | vars(farm_errors)).values()
        if isinstance(kind, type) and issubclass(kind, EngineError)
    }
    assert codes == set(ACTION_OF)
    assert all(map(button, codes))
    assert error_title(ErrorInfo(code="brand-new")) == "An error occurred"
