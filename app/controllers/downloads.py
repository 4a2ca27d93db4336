"""Downloads missing files of a video, restarts the program for a runtime, starts the video."""

from __future__ import annotations

from PySide6.QtCore import QObject

from app.bridge.engine_bridge import EventHub
from app.controllers.models import ModelsController
from app.controllers.queue import QueueController
from app.controllers.restart import RestartController
from app.controllers.runtimes import RuntimesController
from app.main_window import MainWindow
from app.state.downloads_model import (
    DownloadsModel,
    FailedDownload,
    RequiredDownload,
    required_download,
)
from app.state.job_row import JobRow, JobState
from app.state.queue_model import QueueModel
from engine.core.errors import ErrorInfo
from engine.protocol import commands, events
from engine.protocol.tasks import TaskKind

_WAITS = (JobState.READING, JobState.WAITING, JobState.FAILED)


class DownloadsController(QObject):
    """Joins the window's "Download and start" with the tasks of model files and runtimes.

    Whatever ends a download ends the intention, too; partial downloads resume next time.
    """

    def __init__(
        self,
        window: MainWindow,
        queue: tuple[QueueController, QueueModel],
        model: DownloadsModel,
        models: ModelsController,
        runtimes: RuntimesController,
        restart: RestartController,
        hub: EventHub,
    ) -> None:
        super().__init__(window)
        self._window, self._model = window, model
        self._controller, self._queue = queue
        self._models, self._runtimes, self._restart = models, runtimes, restart
        self._expected: set[str] = set()  # jobs that waited for a restart of the program
        window.actions_["download_start"].triggered.connect(self._begin_selected)
        window.actions_["download_stop"].triggered.connect(self._stop_selected)
        restart.changed.connect(self._follow_restart)
        model.changed.connect(lambda: self._queue.mark_downloading(self._model.films))
        for changed in (model.changed, self._queue.queue_changed, self._queue.job_changed):
            changed.connect(self._look)
        hub.subscribe(events.TaskFailed, self._fail)
        hub.subscribe(events.TaskStopped, self._stop_with)

    def begin(self, row: JobRow) -> None:
        """Download the missing files of a video; it starts afterwards."""
        needs = required_download(row)
        if not needs:
            return
        left = self._model.left(needs)
        for file in left.files:
            self._models.get(file)
        if left.runtime:
            self._runtimes.act("download", left.runtime)
        self._model.begin(row.job_id, needs)

    def expect(self, job_id: str) -> None:
        """Go on with a video that was waiting when the program restarted."""
        self._expected.add(job_id)
        self._look()

    def stop(self, job_id: str) -> None:
        """Stop the downloads of a video that no other one waits for."""
        needs = self._model.films[job_id]
        self._model.end(job_id)
        others = self._model.films.values()
        for file in needs.files:
            if not any(file in other.files for other in others):
                self._models.stop(file)
        if needs.runtime and not any(other.runtime for other in others):
            self._controller.send(commands.StopTask(kind=TaskKind.RUNTIME))

    def _begin_selected(self) -> None:
        if (row := self._window.selected) is not None:
            self._window.choices.flush()
            self.begin(row)

    def _stop_selected(self) -> None:
        if (row := self._window.selected) is not None and row.job_id in self._model.films:
            self.stop(row.job_id)

    # Ends of a download

    def _fail(self, event: events.TaskFailed) -> None:
        if event.kind is TaskKind.RUNTIME and any(n.runtime for n in self._model.films.values()):
            self._runtimes.act("dismiss")  # the plan shows it
        self._give_up(event, event.error)

    def _stop_with(self, event: events.TaskStopped) -> None:
        self._give_up(event, None)

    def _give_up(self, event: events.TaskEvent, error: ErrorInfo | None) -> None:
        for job_id, needs in tuple(self._model.films.items()):
            if needs.includes(event.kind, event.subject):
                self.stop(job_id)
                if error is not None:
                    failure = FailedDownload(needs=needs, kind=event.kind, error=error)
                    self._model.fail(job_id, failure)

    def _follow_restart(self) -> None:
        """End what waits for a restart that the user does not want."""
        if not (self._restart.waits_for or self._restart.is_due):
            for job_id, needs in tuple(self._model.films.items()):
                if needs.runtime and not self._model.left(needs):
                    self._model.end(job_id)

    # After a download

    def _look(self, _job_id: str = "") -> None:
        for job_id in tuple(self._expected):
            self._go_on(job_id)
        for job_id, needs in tuple(self._model.films.items()):
            row = self._queue.find(job_id)
            if self._model.films.get(job_id) is not needs:
                continue  # ended meanwhile, for another video
            if row is None:
                self.stop(job_id)
            elif row.state not in _WAITS or not needs.covers(required_download(row)):
                self._model.end(job_id)
            elif not needs.runtime:
                self._start(row, needs)
        for job_id, failure in tuple(self._model.failures.items()):
            row = self._queue.find(job_id)
            lacks = required_download(row) if row is not None else None
            if not lacks or not failure.needs.covers(lacks):
                self._model.forget_failure(job_id)
        self._start_again()

    def _start(self, row: JobRow, needs: RequiredDownload) -> None:
        """Start a video that was planned again, or had its turn too early."""
        if row.state is JobState.FAILED:
            if not self._model.left(needs):
                self._model.end(row.job_id)
                self._controller.retry(row.job_id)
        elif not required_download(row):
            self._model.end(row.job_id)
            if not row.refusals:
                self._controller.start()

    def _start_again(self) -> None:
        """Restart the program when nothing is left to download for any video."""
        films = self._model.films.values()
        is_needed = any(needs.runtime for needs in films)
        is_asked = self._restart.waits_for or self._restart.is_due
        if is_needed and not is_asked and not any(map(self._model.left, films)):
            self._restart.request()

    def _go_on(self, job_id: str) -> None:
        """Go on after the restart; a runtime that does not work is not installed a second time."""
        row = self._queue.find(job_id)
        if row is None or row.error is not None:
            self._expected.discard(job_id)
        elif row.plan is not None and self._models.model.is_known:
            self._expected.discard(job_id)
            needs = required_download(row)
            if needs and not needs.runtime:
                self.begin(row)
            elif not row.refusals:
                self._controller.start()
