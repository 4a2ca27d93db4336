"""The queue as an item model: rows change by events of the engine, views read nothing else."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from app import labels
from app.bridge.engine_bridge import EventHub
from app.state.job_row import WAITS_FOR_ROOM, Downgrade, JobRow, JobState, image_of
from app.widgets.plain import tip
from engine.core.plain_text import one_line
from engine.protocol import events
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings

JOB_ROLE = Qt.ItemDataRole.UserRole + 1
Index = QModelIndex | QPersistentModelIndex
_TOP = QModelIndex()  # no row: asks for the list itself
_MB = 2**20
_STAGES_WITH_FRAMES = ("upscale", "write")


class QueueModel(QAbstractListModel):
    """Jobs in the order in which they run; each row is a JobRow."""

    job_changed = Signal(str)  # job_id
    queue_changed = Signal()  # a job came, went, moved or reached another state
    user_changed = Signal()  # the user took a job away, put it back, moved it or chose for it

    def __init__(self, hub: EventHub, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: list[JobRow] = []
        self._leaving: dict[str, tuple[int, JobRow]] = {}  # with their places, until JobRemoved
        self._reports_later = self._has_to_report = self._user_has_changed = False
        hub.subscribe(events.JobEvent, self._update)
        hub.subscribe(events.Telemetry, self._measure)

    # Qt's side

    def rowCount(self, parent: Index = _TOP) -> int:
        """Number of jobs."""
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The row itself, or text for users and screen readers."""
        if not index.isValid():
            return None
        row = self._rows[index.row()]
        if role == JOB_ROLE:
            return row
        if role == Qt.ItemDataRole.DisplayRole:
            return row.name
        if role == Qt.ItemDataRole.ToolTipRole:
            return tip(one_line(str(row.source)))
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{row.name}, {labels.from_to(row)}, {labels.state(row)}"
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Cards can be dragged, to places between cards."""
        if not index.isValid():
            return Qt.ItemFlag.ItemIsDropEnabled
        return super().flags(index) | Qt.ItemFlag.ItemIsDragEnabled

    def supportedDropActions(self) -> Qt.DropAction:
        """Actions of dragging a card."""
        return Qt.DropAction.MoveAction

    # The window's side

    @property
    def rows(self) -> tuple[JobRow, ...]:
        """All jobs in their order."""
        return tuple(self._rows)

    @property
    def active(self) -> JobRow | None:
        """The job that runs or is paused."""
        return next((row for row in self._rows if row.state.is_active), None)

    @property
    def can_start(self) -> bool:
        """True while a job waits that can start."""
        return any(row.can_start for row in self._rows)

    @property
    def startable(self) -> tuple[JobRow, ...]:
        """Waiting jobs, without those that are refused."""
        waiting = (row for row in self._rows if row.state is JobState.WAITING)
        return tuple(row for row in waiting if not row.is_refused)

    def find(self, job_id: str) -> JobRow | None:
        """The row of a job; None once it has left the queue."""
        return next((row for row in self._rows if row.job_id == job_id), None)

    def count(self, *states: JobState) -> int:
        """Number of jobs in one of these states."""
        return sum(row.state in states for row in self._rows)

    @property
    def to_do(self) -> list[JobRow]:
        """Videos that are read, wait or run, without those that cannot start."""
        rows = (row for row in self._rows if row.state.is_active or row.state.can_change)
        return [row for row in rows if not row.is_refused and row.error is None]

    def position(self, job_id: str) -> int:
        """Row number of a job; -1 when it is not there."""
        return next((i for i, row in enumerate(self._rows) if row.job_id == job_id), -1)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Reports all changes of the queue within the block as one, at its end.

        Each report lets every view look at all rows, so adding n videos one by one would cost
        n * n looks, in which the window does not answer.
        """
        is_outermost = not self._reports_later
        self._reports_later = True
        try:
            yield
        finally:
            if is_outermost:
                self._reports_later = False
                if self._user_has_changed:
                    self._report_user()
                if self._has_to_report:
                    self._report()

    def add(
        self, job_id: str, source: Path, settings: JobSettings, output: Path | None = None
    ) -> None:
        """Add a row for a file that the engine is about to read."""
        row = JobRow(job_id=job_id, source=source, settings=settings, output=output)
        self._insert(row, len(self._rows))

    def insert(self, row: JobRow, at: int) -> None:
        """Show a row at a place: one that was taken away, or that an earlier run has begun."""
        self._insert(row, min(at, len(self._rows)))
        self._report_user()

    def _insert(self, row: JobRow, at: int) -> None:
        self.beginInsertRows(QModelIndex(), at, at)
        self._rows.insert(at, row)
        self.endInsertRows()
        self._report()

    def expect_plan(self, job_id: str) -> None:
        """The choices of a job are being changed: what is known of its plan no longer holds."""
        row = self.find(job_id)
        if row is not None and row.state.can_change and not row.awaits_plan:
            row.awaits_plan, row.error = True, None
            self._emit_changed(row)

    def choose(self, job_id: str, settings: JobSettings, output: Path | None) -> None:
        """Remember other choices for a job; the engine's new plan follows."""
        row = self.find(job_id)
        if row is not None:
            row.settings, row.output = settings, output
            row.awaits_plan, row.error = True, None
            self._emit_changed(row)
            self._report_user()

    def ask(self, job_id: str, what: str) -> None:
        """Remember what the engine was asked to do with a job, until it is done."""
        row = self.find(job_id)
        if row is not None:
            row.asked = what
            self._emit_changed(row)
            self._report()

    def accept(self, job_id: str) -> None:
        """Remember that the user keeps the result of a job as it is."""
        row = self.find(job_id)
        if row is not None:
            row.is_accepted = True
            self._emit_changed(row)

    def mark_downloading(self, job_ids: Collection[str]) -> None:
        """Remember which videos wait for downloads that run."""
        for row in self._rows:
            if row.is_downloading != (row.job_id in job_ids):
                row.is_downloading = not row.is_downloading
                self._emit_changed(row)

    def mark_watched(self, job_id: str) -> None:
        """Remember that a video came from the watched folder."""
        row = self.find(job_id)
        if row is not None:
            row.is_watched = True
            self._emit_changed(row)

    def forget(self, job_id: str) -> None:
        """Take a row away."""
        at = self.position(job_id)
        if at < 0:
            return
        self.beginRemoveRows(QModelIndex(), at, at)
        self._leaving[job_id] = at, self._rows.pop(at)
        self.endRemoveRows()
        self._report_user()
        self._report()

    def move(self, job_id: str, to: int) -> bool:
        """Move a row; False when it is there already."""
        at = self.position(job_id)
        to = max(0, min(to, len(self._rows) - 1))
        if at < 0 or at == to:
            return False
        below = to + 1 if to > at else to
        self.beginMoveRows(QModelIndex(), at, at, QModelIndex(), below)
        self._rows.insert(to, self._rows.pop(at))
        self.endMoveRows()
        self._report_user()
        self._report()
        return True

    def set_thumbnail(self, job_id: str, picture: events.Picture) -> None:
        """Keep a small picture for a row that has none yet."""
        row = self.find(job_id)
        if row is not None and row.thumbnail is None:
            row.picture, row.thumbnail = picture, image_of(picture)
            self._emit_changed(row)

    # The engine's side

    def _update(self, event: events.JobEvent) -> None:
        """Bring a row up to date; events of unknown jobs are ignored."""
        if isinstance(event, events.JobRemoved):
            if self._leaving.pop(event.job_id, None) is None:  # else it may be back meanwhile
                self.forget(event.job_id)
                self._leaving.pop(event.job_id, None)
            return
        row = self.find(event.job_id)
        if row is None and isinstance(event, events.JobStarted) and event.job_id in self._leaving:
            at, row = self._leaving.pop(event.job_id)  # it was started before it was removed
            self._insert(row, min(at, len(self._rows)))
        if row is None:
            return
        before = row.state
        _apply(row, event)
        if row.state is not before:
            row.asked = ""
        self._emit_changed(row)
        if row.state is not before:
            self._report()

    def _measure(self, event: events.Telemetry) -> None:
        """Keep the peak of the running job, whichever one is looked at."""
        row = self.active
        if row is not None and row.plan is not None and row.stage != "prepare":
            row.peak_bytes = max(row.peak_bytes, _used_bytes(row.plan, event))

    def _report(self) -> None:
        """Say that the queue has changed, now or at the end of the block that changes it."""
        self._has_to_report = self._reports_later
        if not self._reports_later:
            self.queue_changed.emit()

    def _report_user(self) -> None:
        """Say, before all else is said, that the user has changed the queue."""
        self._user_has_changed = self._reports_later
        if not self._reports_later:
            self.user_changed.emit()

    def _emit_changed(self, row: JobRow) -> None:
        index = self.index(self.position(row.job_id))
        self.dataChanged.emit(index, index)
        self.job_changed.emit(row.job_id)


def _used_bytes(plan: Plan, event: events.Telemetry) -> int:
    """Memory of this program where its plan is the tightest; 0 where it is not known."""
    if not plan.device_bytes:
        return event.ram_ours_mb * _MB
    return (event.gpu.ours_mb + event.gpu.spilled_mb) * _MB if event.gpu is not None else 0


def _apply(row: JobRow, event: events.JobEvent) -> None:
    match event:
        case events.JobQueued():
            row.media, row.state, row.error = event.media, JobState.WAITING, None
            if event.picture is not None:
                row.picture, row.thumbnail = event.picture, image_of(event.picture)
        case events.JobRejected():
            row.state, row.error = JobState.REJECTED, event.error
            row.awaits_plan = False
        case events.PlanChosen():
            row.plan, row.error, row.downgrades = event.plan, None, ()
            row.awaits_plan, row.media = False, event.media or row.media
        case events.PlanFailed() if row.state.can_change:
            row.error, row.awaits_plan = event.error, False
        case events.PlanDowngraded():
            row.plan = event.plan
            row.downgrades = (*row.downgrades, Downgrade(event.why, event.notice))
        case events.JobStarted():
            row.state, row.done, row.total = JobState.RUNNING, event.done, event.total
            row.kept = event.done
            row.error, row.report, row.stage, row.seconds_left = None, None, "prepare", 0.0
            row.awaits_plan, row.lost, row.peak_bytes = False, None, 0
        case events.StageStarted():
            row.stage, row.stage_share = event.stage, 0.0
        case events.StageProgress():
            _apply_progress(row, event)
        case events.SegmentDone():
            row.kept = max(row.kept, event.frames_done)
        case events.Warned():
            others = (one for one in row.warnings if one != event.notice)
            row.warnings = (*others, event.notice)
        case events.JobPaused():
            row.state = JobState.PAUSED
        case events.JobResumed():
            row.state = JobState.RUNNING
            _wait_no_more(row)
        case events.JobFinished():
            row.state, row.report, row.seconds_left = JobState.DONE, event.report, 0.0
        case events.ResultLost():
            row.lost = event.error
        case events.PreviewReady() if event.result is not None:
            row.lost = None  # its drive is back
        case events.JobFailed():
            row.error = event.error
            _stop(row, JobState.FAILED)
        case events.JobCancelled():
            _stop(row, JobState.CANCELLED)


def _stop(row: JobRow, state: JobState) -> None:
    """Ends a job without a result: only finished segments count, as another start goes on there."""
    row.state, row.done, row.seconds_left = state, row.kept, 0.0
    _wait_no_more(row)


def _wait_no_more(row: JobRow) -> None:
    row.warnings = tuple(one for one in row.warnings if one.code != WAITS_FOR_ROOM)


def _apply_progress(row: JobRow, event: events.StageProgress) -> None:
    """Frames count for the bar; joining and checking are shown as text instead."""
    if event.stage not in _STAGES_WITH_FRAMES:
        if event.stage == row.stage and event.total:
            row.stage_share = event.done / event.total
        return
    if event.stage == "write" or row.stage == "prepare":
        row.stage = "run"
    row.done = max(row.done, event.done)
    row.total = event.total or row.total
    row.frames_per_second = event.frames_per_second or row.frames_per_second
    row.seconds_left = event.seconds_left or row.seconds_left
