"""Editor of a setting that names some of this machine's GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import QMenu, QToolButton

from app.i18n import tr
from app.settings.editors import Editor
from engine.settings.schema import names_in


class GpusEditor(Editor):
    """A button with the names, which opens a list of all GPUs with a check mark each.

    One GPU at least stays out of it.
    """

    def __init__(self, name: str) -> None:
        self._button = QToolButton()
        self._menu = QMenu(self._button)
        super().__init__(name, self._button)
        self._button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._button.setMenu(self._menu)
        self._button.setSizePolicy(self.sizePolicy().Policy.Ignored, self.sizePolicy().Policy.Fixed)
        self._titles: Mapping[str, str] = {}
        self._value = ""

    def set_value(self, value: Any) -> None:
        """Show a value without emitting `changed`."""
        self._value = str(value)
        self._show()

    def show_gpus(self, titles: Mapping[str, str]) -> None:
        """Offer these GPUs: a title for each as the setting names it."""
        if titles == self._titles:
            return
        self._titles = titles
        self._menu.clear()
        for value, title in titles.items():
            action = self._menu.addAction(title)
            action.setCheckable(True)
            action.setData(value)
            action.triggered.connect(self._choose)
        self._show()

    def retranslate_ui(self) -> None:
        """What no GPU is called, too."""
        super().retranslate_ui()
        self._show()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The names lose their middle where there is no room."""
        super().resizeEvent(event)
        self._show()

    @property
    def chosen(self) -> tuple[str, ...]:
        """Names in the setting, also those of GPUs that are not here."""
        return names_in(self._value)

    def _actions(self) -> list[QAction]:
        return self._menu.actions()

    def _show(self) -> None:
        chosen = self.chosen
        names = [self._titles.get(value, value) for value in chosen]
        text = ", ".join(names) or tr("None")
        room = self.width() - 36  # without the edges and the arrow
        shown = self._button.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, room)
        self._button.setText(shown)
        left = [action for action in self._actions() if action.data() not in chosen]
        for action in self._actions():
            action.setChecked(action.data() in chosen)
            action.setEnabled(action.data() in chosen or len(left) > 1)

    def _choose(self) -> None:
        here = [str(action.data()) for action in self._actions() if action.isChecked()]
        gone = [value for value in self.chosen if value not in self._titles]
        self._value = ", ".join((*here, *gone))
        self._show()
        self.changed.emit(self.name, self._value)
