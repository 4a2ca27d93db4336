"""What this machine was measured at, and how far the benchmark is."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from engine.core.errors import ErrorInfo
from engine.core.messages import Message
from engine.protocol import events
from engine.protocol.report import BenchReport


class BenchModel(QObject):
    """The last report, and the benchmark that runs; `changed` says that there is news."""

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.report: BenchReport | None = None
        self.error: ErrorInfo | None = None
        self.is_running = self.was_stopped = False
        self.done, self.total = 0, 0  # steps; 0 while unknown
        self.doing: Message | str = ""

    @property
    def share(self) -> float:
        """Finished part, 0 to 1."""
        return min(1.0, self.done / self.total) if self.total else 0.0

    def begin(self) -> None:
        """Somebody asked for it; the engine's first word follows."""
        self.is_running, self.was_stopped, self.error = True, False, None
        self.done, self.total, self.doing = 0, 0, ""
        self.changed.emit()

    def end(self) -> None:
        """Somebody asked to stop it; it ends at the next step."""
        self.was_stopped = True
        self.changed.emit()

    def on_event(self, event: events.Event) -> None:
        """Take what concerns the benchmark."""
        match event:
            case events.BenchProgress():
                self.is_running = True
                self.done, self.total, self.doing = event.done, event.total, event.doing
            case events.BenchDone():
                self.is_running, self.report, self.error = False, event.report, None
            case events.BenchFailed():
                self.is_running, self.error = False, event.error
            case _:
                return
        self.changed.emit()
