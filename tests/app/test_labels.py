from app import labels
from app.engine_messages import button
from app.widgets.error_view import ACTION_OF, error_title
from engine.core import errors
from engine.core.errors import EngineError, ErrorInfo


def test_an_expected_time_has_as_many_digits_as_its_error_allows():
    for seconds, error, text in (
        (8, 0.2, "8 ± 1 s"),
        (45 * 60, 4 * 60, "45 ± 4 min"),
        (5400, 2900, "1.5 ± 0.8 h"),
        (911_880, 547_000, "253 ± 152 h"),
        (36_000, 3_000, "10 ± 1 h"),
        (8, 0, "8 s"),
    ):
        assert labels.about(seconds, error) == text


def test_every_error_of_the_engine_has_a_button_and_an_unknown_one_a_title():
    codes = {
        kind.code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, EngineError)
    }
    assert codes == set(ACTION_OF)
    assert all(map(button, codes))
    assert error_title(ErrorInfo(code="brand-new")) == "Something went wrong"
