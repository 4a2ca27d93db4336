from types import SimpleNamespace

import pytest
from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QApplication

from app.theme import tokens

LIGHT, DARK = Qt.ColorScheme.Light, Qt.ColorScheme.Dark
HIGH, NO = Qt.ContrastPreference.HighContrast, Qt.ContrastPreference.NoPreference


class Hints(QObject):
    """The part of QStyleHints that is asked."""

    colorSchemeChanged = Signal(object)  # noqa: N815 - Qt's name
    contrastPreferenceChanged = Signal(object)  # noqa: N815 - Qt's name

    def __init__(self) -> None:
        super().__init__()
        self.scheme, self.contrast = Qt.ColorScheme.Unknown, NO

    def colorScheme(self):
        return self.scheme

    def accessibility(self):
        changed = self.contrastPreferenceChanged
        return SimpleNamespace(
            contrastPreference=lambda: self.contrast, contrastPreferenceChanged=changed
        )

    def ask_for(self, scheme, contrast) -> None:
        """The user changes the system's settings."""
        self.scheme, self.contrast = scheme, contrast
        self.colorSchemeChanged.emit(scheme)
        self.contrastPreferenceChanged.emit(contrast)


@pytest.fixture
def hints(bench):
    """A system whose preferences the open window follows."""
    made = Hints()
    bench.program.look.follow(made)
    yield made
    made.ask_for(Qt.ColorScheme.Unknown, NO)
    bench.program.use_theme("dark")


def test_the_window_follows_the_system_until_a_theme_is_chosen(bench, hints):
    assert tokens.current() is tokens.DARK
    hints.ask_for(LIGHT, NO)
    assert tokens.current() is tokens.LIGHT
    bench.press("themeSwitch")
    assert tokens.current() is tokens.DARK
    hints.ask_for(LIGHT, NO)
    assert tokens.current() is tokens.DARK


def test_high_contrast_comes_and_goes_with_the_system_whatever_was_chosen(bench, hints):
    bench.press("themeSwitch")
    hints.ask_for(DARK, HIGH)
    assert tokens.current() is tokens.WHITE
    assert tokens.WHITE.surface_1 in QApplication.instance().styleSheet()
    bench.press("themeSwitch")
    assert tokens.current() is tokens.BLACK
    hints.ask_for(DARK, NO)
    assert tokens.current() is tokens.DARK
