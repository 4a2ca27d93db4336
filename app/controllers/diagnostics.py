"""The archive for a report of a fault: the user names its file, the engine writes it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from PySide6.QtCore import QObject, QStandardPaths
from PySide6.QtWidgets import QFileDialog

from app.controllers.queue import QueueController
from app.i18n import tr
from app.main_window import MainWindow
from app.settings.diagnostics_line import DiagnosticsLine
from app.state.listings import DiagnosticsModel
from engine.protocol import commands

_ENDING = ".zip"


class DiagnosticsController(QObject):
    """Joins the line among the settings and the engine."""

    def __init__(
        self, window: MainWindow, controller: QueueController, model: DiagnosticsModel
    ) -> None:
        super().__init__(window)
        self._window, self._controller, self._model = window, controller, model

    def settings_part(self) -> DiagnosticsLine:
        """The line among the settings."""
        part = DiagnosticsLine(self._model)
        part.page_requested.connect(self._write)
        return part

    def ask_file(self) -> Path | None:
        """The file to write."""
        place = QStandardPaths.StandardLocation.DesktopLocation
        name = f"upreel-{date.today().isoformat()}{_ENDING}"
        suggested = Path(QStandardPaths.writableLocation(place)) / name
        chosen, _ = QFileDialog.getSaveFileName(
            self._window, tr("Report a problem"), str(suggested), f"ZIP (*{_ENDING})"
        )
        return Path(chosen) if chosen else None

    def _write(self) -> None:
        path = self.ask_file()
        if path is not None and not self._model.is_running:
            self._model.tasks.request(self._model.kind, "", str(path))
            self._controller.send(commands.WriteDiagnostics(path=path))
