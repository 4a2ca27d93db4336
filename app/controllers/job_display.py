"""Jobs shown outside the queue: in the preview, against each other, on the desktop, in the tray."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, combinations

from PySide6.QtCore import QEvent, QObject, QTimer, Signal
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from app import desktop, labels
from app.bound import bind
from app.bridge.engine_bridge import EventHub
from app.controllers.queue import QueueController
from app.desktop.windows_rules import Progress
from app.i18n import tr
from app.jobs.preset_form import title_of
from app.main_window import MainWindow
from app.preview.film import Film
from app.preview.film_strip import Overview
from app.preview.preview_view import PreviewView
from app.state.job_row import JobRow, JobState, image_of
from app.state.listings import PresetsModel
from app.state.queue_model import QueueModel
from app.widgets.plain import set_tip
from engine.core.plain_text import one_line
from engine.protocol import commands, events
from engine.protocol.tasks import TaskKind
from engine.settings.presets import matching

_REST_MS = 400  # after a picture was shown, before a timeline is read
_OVERVIEWS = 4
_NOTHING = (Progress.NONE, 0)
_STEPS = 200  # a button is no wider; not every frame has to be shown


class PreviewController(QObject):
    """Hands the preview what concerns the job it shows."""

    def __init__(self, view: PreviewView, hub: EventHub, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._view = view
        self._row: JobRow | None = None
        hub.subscribe(events.TileDone, view.tile_done)
        hub.subscribe(events.PreviewReady, view.preview_ready)
        hub.subscribe(events.StageProgress, view.progress)
        hub.subscribe(events.WorkerProgress, view.worker_progress)
        hub.subscribe(events.Telemetry, self._measured)
        hub.subscribe(events.PlanChosen, self._planned)
        hub.subscribe(events.PlanDowngraded, self._planned)
        hub.subscribe(events.JobFinished, self._finished)
        for ended in (events.JobFailed, events.JobCancelled):  # the card at the buttons says why
            hub.subscribe(ended, self._stopped)

    def show_row(self, row: JobRow | None) -> None:
        """Another job was selected, or the shown one was read or has begun."""
        self._row = row
        self._view.pair.set_can_trim(row is not None and row.state.can_change)
        if row is None or row.media is None:
            self._view.show_empty(None if row is None else partial(_why_no_picture, row))
            return
        if row.job_id == self._view.job_id:
            self._view.set_active(row.state.is_active)
            return
        self._view.show_job(row.job_id, row.media, row.picture)
        self._view.set_active(row.state.is_active)
        if row.plan is not None:
            self._view.show_plan(row.job_id, row.plan)
        self._view.figures.show_memory(row.peak_bytes)
        if row.report is None and row.done:  # its finished pieces can be played
            self._view.timeline.set_finished(row.done, is_running=row.state.is_active)
            self._view.playback.set_result(is_published=False)
        if row.report is not None:
            self._view.finished(row.report, row.lost)

    def _measured(self, _event: events.Telemetry) -> None:
        if self._row is not None and self._row.job_id == self._view.job_id:
            self._view.figures.show_memory(self._row.peak_bytes)

    def _planned(self, event: events.PlanChosen | events.PlanDowngraded) -> None:
        self._view.show_plan(event.job_id, event.plan)

    def _finished(self, event: events.JobFinished) -> None:
        if event.job_id == self._view.job_id:
            self._view.finished(event.report)

    def _stopped(self, event: events.JobEvent) -> None:
        if event.job_id == self._view.job_id:
            self._view.stopped()


def _why_no_picture(row: JobRow) -> str:
    """The card of the error has the reason itself."""
    if row.error is not None:
        return tr("{name} cannot be used.", name=row.name)
    return tr("Reading {name} …", name=row.name)


class OverviewController(QObject):
    """Has the timeline of the selected video read, after its picture and its first look.

    Memory: overviews of the last `_OVERVIEWS` videos, 1 MB each.
    """

    def __init__(
        self,
        window: MainWindow,
        controller: QueueController,
        hub: EventHub,
        is_looking: Callable[[], bool],
    ) -> None:
        super().__init__(window)
        self._window, self._controller, self._is_looking = window, controller, is_looking
        self._known: dict[tuple[str, int], Overview] = {}  # by job and video track, oldest first
        self._read: set[tuple[str, int]] = set()  # of those, the complete ones
        self._reading = ""  # job_id
        self.rest = QTimer(self, interval=_REST_MS, singleShot=True)
        self.rest.timeout.connect(self._begin)
        hub.subscribe(events.PreviewReady, self._after_picture)
        hub.subscribe(events.OverviewRead, self._take)
        for ended in (events.TaskDone, events.TaskFailed, events.TaskStopped):
            hub.subscribe(ended, self._ended)

    def refresh(self) -> None:
        """Another video may be selected: show what is known of it, and stop reading another one."""
        row = self._window.selected
        if self._reading and (row is None or row.job_id != self._reading):
            stop = commands.StopTask(kind=TaskKind.OVERVIEW, subject=self._reading)
            self._reading = ""
            self._controller.send(stop)
        if row is not None and row.job_id == self._window.preview.job_id:
            self._window.preview.timeline.show_overview(self._known.get(_track(row)))

    def _after_picture(self, event: events.PreviewReady) -> None:
        row = self._window.selected
        if row is not None and row.job_id == event.job_id and self._is_wanted(row):
            self.rest.start()

    def _is_wanted(self, row: JobRow) -> bool:
        is_film = row.media is not None and row.media.kind != "image"
        return is_film and _track(row) not in self._read and not self._reading

    def _begin(self) -> None:
        row = self._window.selected
        if row is None or not self._is_wanted(row):
            return
        if self._is_looking():
            self.rest.start()
            return
        self._reading = row.job_id
        self._controller.send(commands.ReadOverview(job_id=row.job_id))

    def _take(self, event: events.OverviewRead) -> None:
        row = self._window.selected
        if row is None or row.job_id != event.job_id or row.media is None:
            return
        overview = Overview(
            seconds=float(row.media.video.duration or 0),
            thumbnails=tuple((seconds, image_of(one)) for seconds, one in event.thumbnails),
            loudness=event.loudness,
            cuts=event.cuts,
        )
        self._known.pop(_track(row), None)
        self._known[_track(row)] = overview
        while len(self._known) > _OVERVIEWS:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._read.discard(oldest)
        self.refresh()

    def _ended(self, event: events.TaskEvent) -> None:
        row = self._window.selected
        if event.kind is not TaskKind.OVERVIEW or event.subject != self._reading:
            return
        self._reading = ""
        if row is not None and not isinstance(event, events.TaskStopped):
            self._read.add(_track(row))


def _track(row: JobRow) -> tuple[str, int]:
    return row.job_id, row.media.video.index if row.media is not None else 0


class DesktopController(QObject):
    """Follows the queue; a failure stays on the button until the next job runs or is looked at.

    Shown is how much of all videos is done that run from Start until nothing starts by itself.
    """

    def __init__(self, window: QWidget, controller: QueueController, queue: QueueModel) -> None:
        super().__init__(window)
        self._window, self._controller, self._queue = window, controller, queue
        self._running = ""  # job_id
        self._ended: dict[str, float] = {}  # job_id -> its weight
        self._shown = _NOTHING
        queue.job_changed.connect(self.refresh)
        queue.queue_changed.connect(self.refresh)
        controller.queue_stops.connect(lambda _stops: self.refresh())
        window.installEventFilter(self)

    def refresh(self, _job_id: str = "") -> None:
        """Look at the queue again."""
        active = self._queue.active
        if self._running and (active is None or active.job_id != self._running):
            self._end()
        if active is not None:
            self._running = active.job_id
            self._show(*self._progress_of(active))
        elif not self._controller.goes_on:
            self._ended.clear()
            if self._shown[0] is not Progress.FAILED:
                self._show(*_NOTHING)

    def _end(self) -> None:
        """The video that ran runs no more."""
        ended, self._running = self._queue.find(self._running), ""
        if ended is not None:
            self._ended[ended.job_id] = _weight(ended)
        has_failed = ended is not None and ended.state is JobState.FAILED
        if QApplication.activeWindow() is not None:
            return
        if has_failed:
            self._show(Progress.FAILED, _STEPS)
        if has_failed or not self._queue.startable:
            QApplication.alert(self._window)

    def _progress_of(self, active: JobRow) -> tuple[Progress, int]:
        waiting = self._queue.rows if self._controller.goes_on else ()
        coming = [row for row in waiting if row.can_start]
        to_do = {row.job_id: _weight(row) for row in (active, *coming)}
        ended = sum(weight for name, weight in self._ended.items() if name not in to_do)
        done = ended + active.share * _weight(active)
        steps = round(_STEPS * done / (ended + sum(to_do.values())))
        if active.state is JobState.PAUSED:
            return Progress.PAUSED, steps
        return (Progress.RUNNING, steps) if active.total or ended else (Progress.UNKNOWN, 0)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Forgets a failure, which is seen once the user comes back to the window.

        Plans again where no video can start: a disk may have room now, a model may be installed.
        """
        if event.type() is QEvent.Type.WindowActivate:
            if self._shown[0] is Progress.FAILED:
                self._show(*_NOTHING)
            if self._queue.active is None and not self._queue.can_start:
                self._controller.plan_refused_again()
        return super().eventFilter(watched, event)

    def _show(self, progress: Progress, steps: int) -> None:
        if (progress, steps) != self._shown:
            self._shown = (progress, steps)
            desktop.show_progress(int(self._window.winId()), progress, steps / _STEPS)


def _weight(row: JobRow) -> float:
    """Weight of a video among others: seconds that it should take, at least one."""
    return max(1.0, row.plan.seconds if row.plan is not None else 0.0)


class ComparisonController(QObject):
    """Offers the finished results of the selected video, while that is not in work."""

    def __init__(
        self, window: MainWindow, queue: QueueModel, presets: PresetsModel, hub: EventHub
    ) -> None:
        super().__init__(window)
        self._window, self._queue, self._presets = window, queue, presets
        hub.subscribe(events.PlanChosen, self.refresh)
        hub.subscribe(events.ResultLost, self._lose)
        bind(window.preview.pair_bar, self.refresh)

    def refresh(self, *_: object) -> None:
        """Look at the queue again."""
        view, row = self._window.preview, self._window.selected
        if row is None or row.media is None or row.job_id != view.job_id:
            return
        others = [one for one in self._queue.rows if one is not row and _can_compare(one, row)]
        rows = [row, *others] if others and not row.state.is_active else []
        finished = [one for one in rows if one.state is JobState.DONE]
        named = zip(finished, result_names(finished, self._presets), strict=True)
        names = {one.job_id: name for one, name in named}
        films = [_film(one, names.get(one.job_id) or labels.preview_name(one.plan)) for one in rows]
        view.pair.offer(films)

    def _lose(self, event: events.ResultLost) -> None:
        self._window.preview.result_lost(event)
        self.refresh()


def result_names(rows: Sequence[JobRow], presets: PresetsModel) -> list[str]:
    """The shortest names that tell results of one source apart, next to their sizes.

    Their models, their presets, both, or the names of their files.
    """
    choices: tuple[Callable[[JobRow], str], ...] = (
        lambda row: labels.result_name(row.plan),
        lambda row: _preset_title(row, presets),
    )
    for wanted in chain(combinations(choices, 1), combinations(choices, 2)):
        names = [" · ".join(filter(None, (one(row) for one in wanted))) for row in rows]
        seen = {(name, labels.target(row)) for name, row in zip(names, rows, strict=True)}
        if len(seen) == len(rows) and all(names):
            return names
    return [one_line(row.plan.output.name) if row.plan is not None else row.name for row in rows]


def _preset_title(row: JobRow, presets: PresetsModel) -> str:
    found = matching(presets.presets, row.settings)
    return title_of(found) if found is not None else ""


def _can_compare(one: JobRow, row: JobRow) -> bool:
    """Whether a job has a result of the same source as another one."""
    has_result = one.state is JobState.DONE and one.plan is not None and one.lost is None
    return has_result and one.media is not None and _source_of(one) == _source_of(row)


def _source_of(row: JobRow) -> tuple[object, ...]:
    assert row.media is not None
    return row.media.path, row.media.bytes, row.media.video.frame_count


def _film(row: JobRow, name: str) -> Film:
    assert row.media is not None
    return Film(job_id=row.job_id, media=row.media, plan=row.plan, side="result", name=name)


_ENDS = (JobState.DONE, JobState.FAILED)


class TrayController(QObject):
    """Has an icon only where the system has a tray.

    A video counts once, with its last outcome, from one notification to the next.
    """

    opened = Signal()  # the user wants the window

    def __init__(self, window: MainWindow, controller: QueueController, queue: QueueModel) -> None:
        super().__init__(window)
        self._queue = queue
        self._states: dict[str, JobState] = {}  # by job_id
        self._ended: dict[str, JobState] = {}
        self.icon: QSystemTrayIcon | None = None
        if not QSystemTrayIcon.isSystemTrayAvailable():
            return
        self.icon = QSystemTrayIcon(window.windowIcon(), self)
        self.icon.activated.connect(self._activated)
        self.icon.messageClicked.connect(self.opened)
        queue.job_changed.connect(self._job_changed)
        queue.queue_changed.connect(self._show)
        controller.queue_ended.connect(self._notify)
        app = QApplication.instance()
        assert app is not None
        app.aboutToQuit.connect(self.icon.hide)  # Windows keeps it otherwise
        self._show()
        self.icon.show()

    def _activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason is not QSystemTrayIcon.ActivationReason.Context:
            self.opened.emit()

    def _job_changed(self, job_id: str) -> None:
        row = self._queue.find(job_id)
        if row is not None:
            before = self._states.get(job_id)
            self._states[job_id] = row.state
            if row.state in _ENDS and before not in (None, row.state):
                self._ended[job_id] = row.state
        self._show()

    def _show(self) -> None:
        assert self.icon is not None
        active = self._queue.active
        lines = ["Upreel"]
        if active is not None:
            lines.append(f"{active.name} · {active.share:.0%}")
        waiting = self._queue.count(JobState.WAITING)
        if waiting:
            lines.append(tr("{count} queued", count=waiting))
        set_tip(self.icon, "\n".join(lines))

    def _notify(self) -> None:
        """Say how the queue ended, to a user who does not look at the window."""
        outcomes = list(self._ended.values())
        self._ended.clear()
        if not outcomes or QApplication.activeWindow() is not None:
            return
        assert self.icon is not None
        failed = outcomes.count(JobState.FAILED)
        kinds = QSystemTrayIcon.MessageIcon
        self.icon.showMessage(
            tr("Queue finished"),
            tr("Finished: {done} · failed: {failed}", done=len(outcomes) - failed, failed=failed),
            kinds.Warning if failed else kinds.Information,
        )
