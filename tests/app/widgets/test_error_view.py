from __future__ import annotations

from app.engine_messages import button
from app.widgets.error_view import ACTION_OF, error_title
from engine.core import errors
from engine.core.errors import EngineError, ErrorInfo


def test_every_error_of_the_engine_has_a_button_and_its_action() -> None:
    codes = {
        kind.code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, EngineError)
    }
    assert codes == set(ACTION_OF)
    assert all(map(button, codes))


def test_an_error_of_a_newer_engine_is_shown_all_the_same() -> None:
    assert error_title(ErrorInfo(code="brand-new")) == "Something went wrong"
