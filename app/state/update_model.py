"""Where an update stands, and what is being done about it."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from engine.core.errors import ErrorInfo
from engine.protocol import events
from engine.protocol import update_messages as m


class UpdateModel(QObject):
    """What the engine last said; `changed` says that there is news."""

    changed = Signal()
    progressed = Signal()  # only figures: they come several times a second
    installable = Signal()  # the setup may be started: the program has to end

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.state = m.UpdateState(version="", is_in_build=True)
        self.phase: m.Phase | None = None  # what runs
        self.progress: m.UpdateProgress | None = None
        self.error: ErrorInfo | None = None  # of what ran last

    @property
    def is_running(self) -> bool:
        """Whether something is being done."""
        return self.phase is not None

    @property
    def share(self) -> float:
        """Loaded part of the setup, 0 to 1."""
        if self.progress is not None and self.progress.total_mb:
            return min(1.0, self.progress.done_mb / self.progress.total_mb)
        return min(1.0, self.state.done_bytes / self.state.bytes) if self.state.bytes else 0.0

    def begin(self, phase: m.Phase) -> None:
        """Somebody asked for it; the engine's first word follows."""
        self.phase, self.progress, self.error = phase, None, None
        self.changed.emit()

    def on_event(self, event: events.Event) -> None:
        """Take what concerns updates."""
        match event:
            case m.UpdateKnown(state=state):
                self.state = state
            case m.UpdateProgress():
                self.progress = event
                self.progressed.emit()
                return
            case m.UpdateFailed(error=error) if error.code != "update-busy":
                self.phase, self.progress, self.error = None, None, error
            case m.UpdateDone() | m.UpdateStopped():
                self.phase, self.progress, self.error = None, None, None
            case _:
                return
        self.changed.emit()
        if isinstance(event, m.UpdateDone) and event.phase == "install":
            self.installable.emit()
