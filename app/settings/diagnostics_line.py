"""The line among the settings that writes the archive for a report of a fault."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QWidget

from app.bound import bind
from app.i18n import tr
from app.installs.installable import problem
from app.state.listings import DiagnosticsModel
from app.widgets.notice_line import PageLine


class DiagnosticsLine(PageLine):
    """Description of the archive, and how it went."""

    def __init__(self, model: DiagnosticsModel, parent: QWidget | None = None) -> None:
        self._model = model
        super().__init__("diagnostic", parent, title="Report a problem", text="Create archive …")
        model.changed.connect(self._show)
        bind(self, self._show)

    def _show(self) -> None:
        self.button.setEnabled(not self._model.is_running)
        self.explanation.setText(self._text())

    def _text(self) -> str:
        model = self._model
        if model.is_running:
            return tr("Checking your hardware …")
        if model.error is not None:
            return " ".join(problem(model.error))
        if model.written:
            return tr("Saved: {name}", name=Path(model.written).name)
        return tr(
            "Logs, self-test, settings and plans in one file, without names of videos and "
            "folders. Nothing is sent."
        )
