"""Look of the program: the theme chosen here, else what this user asked the system for."""

from __future__ import annotations

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QStyleHints
from PySide6.QtWidgets import QApplication

from app.bound import show_theme
from app.theme import tokens
from app.theme.qss import palette_of, style_sheet
from app.theme.tokens import Theme


class Look(QObject):
    """Dresses the program, again when the system's light, dark or high contrast changes."""

    changed = Signal()

    def __init__(self, app: QApplication, chosen: str, parent: QObject) -> None:
        super().__init__(parent)
        self._app, self._chosen = app, chosen
        self.follow(app.styleHints())
        self._use()

    def follow(self, hints: QStyleHints) -> None:
        """Read the system's preferences from these."""
        self._hints = hints
        hints.colorSchemeChanged.connect(self.dress)
        hints.accessibility().contrastPreferenceChanged.connect(self.dress)

    def choose(self, theme: str) -> None:
        """Dress in a theme of this name, in high contrast where the system shows that."""
        self._chosen = theme
        self.dress()

    def dress(self) -> None:
        """Set palette and style sheet of the program."""
        theme = self._use()
        sheet = style_sheet(theme)
        if sheet != self._app.styleSheet():  # setting it again would polish every widget again
            self._app.setPalette(palette_of(theme))
            # Replaced, a sheet polishes each widget once for every parent it has; taken away and
            # set, twice.
            self._app.setStyleSheet("")
            self._app.setStyleSheet(sheet)
            show_theme()
            self.changed.emit()

    def _use(self) -> Theme:
        is_light = self._hints.colorScheme() is Qt.ColorScheme.Light
        contrast = self._hints.accessibility().contrastPreference()
        return tokens.use(
            self._chosen or ("light" if is_light else "dark"),
            is_high_contrast=contrast is Qt.ContrastPreference.HighContrast,
        )
