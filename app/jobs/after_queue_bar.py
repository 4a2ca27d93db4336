"""One line across the window: what follows the queue, and how long it can still be cancelled."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QWidget

from app.i18n import mark, tr
from app.widgets.controls import Themed
from app.widgets.notice_line import NoticeLine

_COUNTS = {
    "sleep": mark("Queue finished: this computer goes to sleep in {seconds} s"),
    "shut-down": mark("Queue finished: this computer shuts down in {seconds} s"),
    "command": mark("Queue finished: your command runs in {seconds} s"),
}
_FAILED = {
    "sleep": mark("This computer could not be put to sleep."),
    "shut-down": mark("This computer could not be shut down."),
    "command": mark("The command after the queue could not be started."),
}


class AfterQueueBar(Themed, QFrame):
    """Shows seconds or a failure; hidden while there is nothing to say."""

    cancelled = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("afterQueueBar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._what, self._command, self._seconds = "sleep", "", 0
        self._notice, self._cancel = NoticeLine(), QPushButton()
        self._cancel.setObjectName("cancelAfterQueue")
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 10, 16, 10)
        row.setSpacing(16)
        row.addWidget(self._notice, 1, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self._cancel, 0, Qt.AlignmentFlag.AlignVCenter)
        self._cancel.clicked.connect(self.cancelled)
        self.retranslate_ui()
        self.hide()

    def show_countdown(self, what: str, command: str, seconds: int) -> None:
        """Show what follows.

        Args:
            what: A value of the setting `after_queue`.
            command: As the user has written it; "" for others.
            seconds: Until then; 0 when it was tried and has failed.
        """
        self._what, self._command, self._seconds = what, command, seconds
        self.retranslate_ui()
        self.show()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        counts = self._seconds > 0
        text = _COUNTS[self._what] if counts else _FAILED[self._what]
        shown = tr(text, seconds=self._seconds) if counts else tr(text)
        self._notice.show_message("info" if counts else "warning", shown, self._command)
        self._cancel.setText(tr("Cancel") if counts else tr("Close"))
        self.setAccessibleName(f"{shown} {self._command}".strip())
