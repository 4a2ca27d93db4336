"""Editor of a setting that names some of this machine's GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu

from app.bound import bind
from app.i18n import tr
from app.settings.editors import Editor
from app.widgets.controls import ChoiceBox
from app.widgets.plain import caption, set_tip
from engine.core.plain_text import one_line
from engine.settings.schema import names_in


class NamesBox(ChoiceBox):
    """Looks like a drop-down list with one text, and opens a menu."""

    def __init__(self) -> None:
        super().__init__()
        self.offer("")
        self.menu = QMenu(self)

    def showPopup(self) -> None:
        """Open the menu below, at least as wide."""
        self.menu.setMinimumWidth(self.width())
        self.menu.popup(self.mapToGlobal(self.rect().bottomLeft()))


class GpusEditor(Editor):
    """Selection of GPUs in a menu with a check mark for each; at least one stays unselected."""

    def __init__(self, name: str) -> None:
        self._box = NamesBox()
        super().__init__(name, self._box)
        self._titles: Mapping[str, str] = {}
        self._value = ""
        bind(self, self._show)

    def set_value(self, value: Any) -> None:
        """Show a value without emitting `changed`."""
        self._value = str(value)
        self._show()

    def show_gpus(self, titles: Mapping[str, str]) -> None:
        """Offer these GPUs: a title for each as the setting names it."""
        if titles == self._titles:
            return
        self._titles = titles
        self._box.menu.clear()
        for value, title in titles.items():
            action = self._box.menu.addAction(caption(title))
            set_tip(action, one_line(title))
            action.setCheckable(True)
            action.setData(value)
            action.triggered.connect(self._choose)
        self._show()

    @property
    def chosen(self) -> tuple[str, ...]:
        """Names in the setting, also those of GPUs that are not here."""
        return names_in(self._value)

    def _actions(self) -> list[QAction]:
        return self._box.menu.actions()

    def _show(self) -> None:
        chosen = self.chosen
        names = [self._titles.get(value, value) for value in chosen]
        self._box.setItemText(0, one_line(", ".join(names)) or tr("None"))
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
