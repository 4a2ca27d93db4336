from types import SimpleNamespace

import pytest
from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication, QLabel

from app.theme import tokens
from app.theme.icons import program_icon
from tests.app.test_narrow_window import settle

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


class _CountedLabel(QLabel):
    """Counts how often it is given a style."""

    def __init__(self) -> None:
        super().__init__("text")
        self.styled = 0

    def changeEvent(self, event: QEvent) -> None:
        self.styled += event.type() is QEvent.Type.StyleChange
        super().changeEvent(event)


def test_a_change_of_theme_visits_a_control_once_or_twice_however_deep_it_lies(bench):
    bench.press("moreChoices")
    rows = bench.window.choices.more.rows
    label = _CountedLabel()
    rows.layout().addWidget(label)
    bench.hear()
    depth, at = 0, label.parentWidget()
    while at is not None:
        depth, at = depth + 1, at.parentWidget()
    assert depth > 5
    before = label.styled
    bench.program.use_theme("light")
    bench.hear()
    assert label.palette().windowText().color() == QColor(tokens.LIGHT.text_1)
    assert 1 <= label.styled - before <= 2
    bench.program.use_theme("dark")


def test_the_window_looks_the_same_after_two_changes_of_theme(bench):
    bench.add()
    bench.press("moreChoices")
    settle()
    before = bench.window.grab().toImage()
    for theme in ("light", "dark"):
        bench.program.use_theme(theme)
        settle()
    assert bench.window.grab().toImage() == before


def test_the_program_has_an_icon_in_each_size_that_was_drawn(qapp):
    sizes = program_icon().availableSizes()
    assert sorted({one.width() for one in sizes}) == [16, 20, 24, 32, 40, 48, 64, 128, 256, 512]
    assert program_icon().pixmap(QSize(20, 20)).size() == QSize(20, 20)
