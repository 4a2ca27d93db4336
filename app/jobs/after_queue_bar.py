"""One line across the window: what follows the queue, and how long it can still be cancelled."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QWidget

from app.bound import bind
from app.i18n import mark, tr
from app.widgets.layouts import MIDDLE, row
from app.widgets.notice_line import NoticeLine
from app.widgets.parts import button, named

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


class AfterQueueBar(QFrame):
    """Shows seconds or a failure; hidden while there is nothing to say."""

    cancelled = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "afterQueueBar", has_ground=True)
        self._what, self._command, self._seconds = "sleep", "", 0
        self._notice = NoticeLine()
        self._cancel = button(name="cancelAfterQueue", on=self.cancelled)
        row((self._notice, 1), self._cancel, spacing=16, margins=(16, 10), align=MIDDLE, on=self)
        bind(self, self._show)
        self.hide()

    def show_countdown(self, what: str, command: str, seconds: int) -> None:
        """Show what follows.

        Args:
            what: A value of the setting `after_queue`.
            command: Command as the user wrote it; "" for others.
            seconds: Until then; 0 when it was tried and has failed.
        """
        self._what, self._command, self._seconds = what, command, seconds
        self._show()
        self.show()

    def _show(self) -> None:
        counts = self._seconds > 0
        text = _COUNTS[self._what] if counts else _FAILED[self._what]
        shown = tr(text, seconds=self._seconds) if counts else tr(text)
        self._notice.show_message("info" if counts else "warning", shown, self._command)
        self._cancel.setText(tr("Cancel") if counts else tr("Close"))
        self.setAccessibleName(f"{shown} {self._command}".strip())
