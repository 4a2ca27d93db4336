"""The line below the cards: how long the queue takes, and a button that clears what is finished."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from app import labels
from app.actions import Actions
from app.i18n import tr
from app.state.job_row import JobState
from app.state.queue_model import QueueModel
from app.widgets.controls import Translated
from app.widgets.plain import Label


class QueueFoot(Translated, QWidget):
    """Hidden while it has nothing to say: one film that waits says all on its card."""

    def __init__(self, model: QueueModel, actions: Actions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._time, self._clear = Label(), QPushButton()
        self._time.setObjectName("queueTime")
        self._time.setProperty("kind", "secondary")
        self._clear.setObjectName("clearFinished")
        self._clear.setProperty("kind", "quiet")
        row = QHBoxLayout(self)
        row.setContentsMargins(2, 0, 0, 0)
        row.addWidget(self._time, 1)
        row.addWidget(self._clear)
        self._clear.clicked.connect(actions["clear_finished"].trigger)
        model.queue_changed.connect(self.retranslate_ui)
        model.job_changed.connect(lambda _job_id: self.retranslate_ui())
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """All texts in the current language, as the queue is now."""
        model = self._model
        states = (JobState.READING, JobState.WAITING, JobState.RUNNING, JobState.PAUSED)
        left = model.count(*states)
        seconds = model.seconds_left if left > 1 else 0.0
        is_finished = any(row.can_clear for row in model.rows)
        known = tr("at least {time}") if model.awaits_plans else tr("about {time}")
        time = known.format(time=labels.duration(seconds)) if seconds else ""
        self._time.setText(tr("{count} videos", count=left) + f" · {time}" if time else "")
        self._clear.setText(tr("Clear finished"))
        self._clear.setVisible(is_finished)
        self.setVisible(bool(time) or is_finished)
