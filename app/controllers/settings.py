"""Settings of the program and the rest of the window: kept, told to the engine, planned with."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.controllers.queue import Controller
from app.main_window import MainWindow
from app.settings.dialog import SettingsDialog
from app.ui_state import UiState
from engine.protocol import commands
from engine.settings.schema import EngineSettings


class SettingsLink(QObject):
    """Opens the dialog; waiting films are planned anew after each change."""

    def __init__(self, window: MainWindow, controller: Controller, ui_state: UiState) -> None:
        super().__init__(window)
        self._window, self._controller, self._ui_state = window, controller, ui_state
        self._dialog: SettingsDialog | None = None
        self._parts: list[Callable[[], QWidget]] = []
        window.page_wanted.connect(self._open)

    @property
    def dialog(self) -> SettingsDialog:
        """The dialog; made when somebody first wants to see it."""
        if self._dialog is None:
            self._dialog = SettingsDialog(self._ui_state.engine_settings, self._window)
            self._dialog.changed.connect(self._take)
            for make in self._parts:
                self._dialog.add_part(make())
        return self._dialog

    def add_part(self, make: Callable[[], QWidget]) -> None:
        """One more row of the dialog; made along with it."""
        self._parts.append(make)

    def _open(self, page: str) -> None:
        if page == "settings":
            self.dialog.show()
            self.dialog.raise_()
            self.dialog.activateWindow()

    def _take(self, settings: EngineSettings) -> None:
        self._ui_state.engine_settings = settings
        self._controller.send(commands.ChangeEngine(settings=settings))
        self._controller.plan_all_again()
