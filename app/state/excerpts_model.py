"""Excerpts of the videos of the queue: those that were made, and the one that is being made."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.bridge.engine_bridge import EventHub
from app.state.job_row import JobRow
from app.state.tasks_model import KindModel, TasksModel
from engine.protocol import events
from engine.protocol.excerpt import Excerpt, for_look
from engine.protocol.tasks import TaskKind
from engine.settings.schema import JobSettings


class ExcerptsModel(KindModel):
    """Excerpts of each video, as the engine keeps them."""

    kind = TaskKind.EXCERPT
    added = Signal(str)  # job_id

    def __init__(self, hub: EventHub, tasks: TasksModel, parent: QObject | None = None) -> None:
        super().__init__(tasks, parent)
        self._found: dict[str, list[Excerpt]] = {}
        hub.subscribe(events.ExcerptReady, self._add)

    def at(self, row: JobRow, seconds: float) -> Excerpt | None:
        """The newest one of a video's present choices that shows a time, in s."""
        if row.plan is None:
            return None
        for one in reversed(self._found.get(row.job_id, [])):
            if one.shows(row.settings, row.plan) and one.holds(seconds):
                return one
        return None

    def look_at(self, row: JobRow, seconds: float) -> Excerpt | None:
        """The newest look at a video with its present choices that shows a time, in s."""
        settings = for_look(row.settings)
        for one in reversed(self._found.get(row.job_id, [])):
            if one.has(settings) and one.holds(seconds):
                return one
        return None

    def of(self, job_id: str, settings: JobSettings, seconds: float) -> Excerpt | None:
        """The newest one of a video with these settings that shows a time, in s."""
        for one in reversed(self._found.get(job_id, [])):
            if one.has(settings) and one.holds(seconds) and one.frames > 1:
                return one
        return None

    def begin(self, job_id: str) -> None:
        """One was requested; the engine's first event follows."""
        self.tasks.request(self.kind, "", job_id)

    def _add(self, event: events.ExcerptReady) -> None:
        self._found.setdefault(event.job_id, []).append(event.excerpt)
        self.added.emit(event.job_id)
