"""The log as a dock that F1 or the button in the foot opens."""

from __future__ import annotations

from PySide6.QtWidgets import QDockWidget, QPlainTextEdit, QWidget

from app.i18n import tr
from app.state.log_model import KEPT_LINES, LogModel
from app.widgets.translation import Translated


class LogDock(Translated, QDockWidget):
    """Shows the lines of the log model; new ones come at the end."""

    def __init__(self, model: LogModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("logDock")
        self._text = QPlainTextEdit()
        self._text.setReadOnly(True)
        self._text.setMaximumBlockCount(KEPT_LINES)
        self._text.setMinimumHeight(96)
        self._text.setPlainText("\n".join(model.lines))
        self.setWidget(self._text)
        model.line_added.connect(self._text.appendPlainText)
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """Title in the current language."""
        self.setWindowTitle(tr("Log"))
        self._text.setAccessibleName(tr("Log"))
