"""Parts of the window whose texts follow the language while it is open."""

from __future__ import annotations

from PySide6.QtCore import QEvent


class Translated:
    """Calls `retranslate_ui` when the language changes; a base before the one of Qt."""

    _EVENTS: tuple[QEvent.Type, ...] = (QEvent.Type.LanguageChange,)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the language."""
        super().changeEvent(event)
        if event.type() in self._EVENTS:
            self.retranslate_ui()


class Themed(Translated):
    """The same, with icons, colours or widths of the theme that are set with the texts."""

    _EVENTS = (QEvent.Type.LanguageChange, QEvent.Type.StyleChange)
