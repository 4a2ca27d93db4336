from __future__ import annotations

from app.widgets.error_view import HELP, help_of
from engine.core import errors
from engine.core.errors import EngineError, ErrorInfo


def codes() -> set[str]:
    return {
        kind.code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, EngineError)
    }


def test_every_error_of_the_engine_has_a_title_and_a_button() -> None:
    assert codes() - set(HELP) == set()
    assert all(help_.title and help_.button for help_ in HELP.values())


def test_an_error_of_a_newer_engine_is_shown_all_the_same() -> None:
    assert help_of(ErrorInfo(code="brand-new", message="x")) is HELP["engine-error"]
