"""Try this frame, try some seconds: the bar over the picture and the engine."""

from __future__ import annotations

from PySide6.QtCore import QObject

from app import engine_messages
from app.bridge.engine_bridge import EventHub
from app.controllers.queue import QueueController
from app.i18n import tr
from app.main_window import MainWindow
from app.preview.scene import Mode
from app.preview.try_bar import SECONDS, TryBar
from app.state.excerpts_model import ExcerptsModel
from app.state.job_row import JobRow, JobState
from app.state.queue_model import QueueModel
from app.state.tasks_model import TasksModel
from engine.protocol import commands

_CAN_BE_TRIED = (JobState.WAITING, JobState.FAILED, JobState.CANCELLED)


class ExcerptsController(QObject):
    """Shows for the selected film what can be tried, and what was."""

    def __init__(
        self,
        window: MainWindow,
        controller: QueueController,
        queue: QueueModel,
        hub: EventHub,
        tasks: TasksModel,
    ) -> None:
        super().__init__(window)
        self.window, self.controller = window, controller
        self._queue = queue
        model = self.model = ExcerptsModel(hub, tasks, self)
        self._view = window.preview
        self.bar = TryBar(self._view.canvas)
        self._view.bar.hold(self.bar.line)
        self.bar.line_changed.connect(self._view.bar.make_room)
        self.bar.wanted.connect(self._make)
        window.actions_["try_frame"].triggered.connect(lambda: self.bar.press(0.0))
        window.actions_["try_seconds"].triggered.connect(lambda: self.bar.press(SECONDS))
        self.bar.stop_clicked.connect(self.stop)
        self.bar.problem_closed.connect(self._forget_problem)
        model.added.connect(self._show_made)
        model.progressed.connect(self.refresh)
        model.changed.connect(self.refresh)
        queue.job_changed.connect(self.refresh)
        self._view.timeline.strip.valueChanged.connect(self.refresh)

    def refresh(self, *_: object) -> None:
        """Look at film and task again."""
        row, task = self.window.selected, self.model.task
        if row is None or not _can_be_tried(row):
            self.bar.withdraw()
            self._view.pair.set_remedy("")
            return
        excerpt = self.model.at(row, self._view.timeline.seconds_to_ask)
        self._view.playback.set_excerpt(excerpt.plan if excerpt is not None else None)
        is_own = task is not None and task.subject == row.job_id
        if task is not None and task.runs and is_own:
            self.bar.show_progress(int(task.done), int(task.total))
            self._view.pair.set_remedy("")
            return
        why_not = self.why_not(row)
        self.bar.offer(has_result=excerpt is not None, why_not=why_not, problem=self.problem(row))
        self._view.pair.set_remedy(why_not or tr('"Try this frame" renders it now.'))

    def problem(self, row: JobRow) -> str:
        """Why the last try of a film has failed; "" where it has not."""
        task = self.model.task
        if task is None or task.error is None or task.subject != row.job_id:
            return ""
        sentences = engine_messages.text(task.error), engine_messages.hint(task.error)
        return " ".join(filter(None, sentences))

    def why_not(self, row: JobRow) -> str:
        """What keeps a film from being tried now; "" for nothing."""
        if self._queue.active is not None:
            return tr("A video is being processed. Try this one when it is finished.")
        task = self.model.task
        if task is not None and task.runs and task.subject != row.job_id:
            return tr("A part of another video is being processed.")
        if row.is_refused or (row.plan is not None and not row.plan.fits):
            return tr("This video cannot be processed as planned.")
        return ""

    def _make(self, seconds: float) -> None:
        row = self.window.selected
        if row is None:
            return
        if self._view.canvas.mode is Mode.FIRST:
            self._view.set_mode(Mode.SPLIT)
        self.model.begin(row.job_id)
        start = self._view.timeline.seconds_to_ask
        self.controller.send(commands.MakeExcerpt(job_id=row.job_id, start=start, seconds=seconds))

    def stop(self) -> None:
        """Stop what is being made."""
        self.controller.send(commands.StopTask(kind=self.model.kind))

    def _forget_problem(self) -> None:
        if self.model.task is not None:
            self.model.tasks.dismiss(self.model.kind, self.model.task.subject)

    def _show_made(self, job_id: str) -> None:
        if job_id == self._view.job_id:
            self.refresh()
            self._view.pair.ask_now()


def _can_be_tried(row: JobRow) -> bool:
    has_pictures = row.media is not None and not row.media.holds_latents
    return has_pictures and row.plan is not None and row.state in _CAN_BE_TRIED
