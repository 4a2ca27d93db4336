from app import labels
from app.engine_messages import button
from app.widgets.error_view import ACTION_OF, error_title
from engine.core import errors
from engine.core.errors import EngineError, ErrorInfo
from tests.helpers.plans import a_plan


def test_an_expected_time_is_a_range_unless_the_plan_is_of_an_earlier_version():
    for low, high, text in (
        (6, 9, "6–9 s"),
        (130, 830, "2–14 min"),
        (5400, 10_800, "1.5–3 h"),
        (0, 0, "8 s"),
    ):
        plan = a_plan(seconds=8, seconds_low=low, seconds_high=high)
        assert labels.expected(plan) == text


def test_every_error_of_the_engine_has_a_button_and_an_unknown_one_a_title(qapp):
    codes = {
        kind.code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, EngineError)
    }
    assert codes == set(ACTION_OF)
    assert all(map(button, codes))
    assert error_title(ErrorInfo(code="brand-new")) == "Something went wrong"
