"""The window: three columns between two strips, drop target, actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import (
    QCloseEvent,
    QKeyEvent,
    QPaintEvent,
)
from PySide6.QtWidgets import QMainWindow, QStatusBar

from app import desktop
from app.actions import Actions
from app.bound import bind
from app.columns import Columns
from app.controllers.queue import QueueController
from app.help.view import HelpView
from app.i18n import tr
from app.jobs.choices_form import ChoicesForm
from app.jobs.decision_panel import DecisionPanel
from app.jobs.found_files import Intake, drop_texts
from app.jobs.queue_column import QueueColumn
from app.jobs.report_dialog import ReportDialog
from app.preview.preview_view import PreviewView
from app.state.downloads_model import DownloadsModel
from app.state.job_row import JobRow, JobState
from app.state.log_model import LogModel
from app.state.queue_model import QueueModel
from app.state.telemetry_model import TelemetryModel
from app.status_bar import LogDock, StatusBar
from app.theme.icons import program_icon
from app.tool_bar import ToolBar
from app.ui_state import UiState
from app.widgets.controls import is_confirmed
from app.widgets.drop import DropOverlay, DropTarget
from app.widgets.reveal import bring_into_view
from app.window_place import SMALLEST, keep_place, place_window
from engine.protocol.report import Report
from engine.settings.schema import JobSettings

_LOG_HEIGHT = 160
_MENU = (
    "open_result",
    "show_in_folder",
    "report",
    "",
    "retry",
    "run_again",
    "move_up",
    "move_down",
    "",
    "remove",
    "clear_finished",
)


class MainWindow(QMainWindow):
    """Shows the models; its actions call the controller. Pages are opened by their controllers."""

    painted = Signal()  # once: the first paint is on the screen
    closed = Signal()
    sample_requested = Signal()

    def __init__(
        self,
        controller: QueueController,
        queue: QueueModel,
        downloads: DownloadsModel,
        telemetry: TelemetryModel,
        log: LogModel,
        ui_state: UiState,
    ) -> None:
        super().__init__()
        self._controller, self._queue, self._ui_state = controller, queue, ui_state
        self._is_painted = self._follows = self._is_leaving = False
        self._shown: object = None
        self._change_later: tuple[str, Callable[[], None]] | None = None  # job_id, what to change
        self.setWindowTitle("Upreel")
        self.setWindowIcon(program_icon())
        self.setMinimumSize(SMALLEST)
        self._drops = DropTarget(self)
        self.actions_ = Actions(self)
        bind(self, self.actions_.retranslate_ui, theme=True)  # before what shows them
        self.intake = Intake(self, controller.add_paths, ui_state)
        self.top = ToolBar(telemetry, self.actions_)
        self.queue_column = QueueColumn(queue, controller.removals, self.actions_)
        self.preview = PreviewView(self.actions_)
        self.choices = ChoicesForm()
        self.decision = DecisionPanel(queue, downloads, self.actions_)
        self.columns = Columns(
            queue,
            self.queue_column,
            self.preview,
            self.choices,
            self.decision,
            self.actions_,
            ui_state,
        )
        self.foot = StatusBar(self.actions_["log"], self.actions_["help"])
        self.log_dock = LogDock(log, self)
        self._lay_out()
        self._overlay = DropOverlay(self)
        self._bind_actions()
        self._connect()
        self._show_selected()
        self.setFocus(Qt.FocusReason.OtherFocusReason)  # no ring before Tab is pressed

    @property
    def selected(self) -> JobRow | None:
        """The selected job."""
        return self.queue_column.view.selected_row

    @property
    def _selected_rows(self) -> list[JobRow]:
        """All selected jobs."""
        ids = set(self.queue_column.view.selected_ids)
        return [row for row in self._queue.rows if row.job_id in ids]

    @cached_property
    def help(self) -> HelpView:
        """The page of help; made when the user first asks for it."""
        return HelpView(self)

    def leave(self) -> None:
        """Close without a question: it was answered already."""
        self._is_leaving = True
        self.close()

    def hold_start(self, reason: str) -> None:
        """Let no video start, and show why; "" lets it."""
        if reason != self.decision.held:
            self.decision.hold(reason)
            self._enable()

    # Selection

    def _show_selected(self) -> None:
        row = self.selected
        if row is None and self._queue.rows:
            self.queue_column.view.select(self._queue.rows[-1].job_id)
            return
        self._show_selection()
        self.choices.show_job(row, self._controller.settings)
        self.decision.show_job(row)
        self.columns.why.show_job(row)
        self.foot.show_plan(row.current_plan if row is not None else None)

    def _show_selection(self) -> None:
        """Several may be selected: what is done to all of them is done to those that allow it."""
        self._enable()
        changing = sum(row.state.can_change for row in self._selected_rows)
        self.choices.show_selected(self.queue_column.view.selected_ids, changing)

    def _job_changed(self, job_id: str) -> None:
        self._enable()
        row = self.selected
        if row is None or row.job_id != job_id:
            return
        seen = (row.state, row.settings, row.output, row.media)
        ids = id(row.plan), id(row.report), id(row.error), id(row.lost), row.awaits_plan
        shown = (*ids, len(row.warnings), len(row.downgrades))
        if (job_id, seen, shown) != self._shown:  # progress alone changes nothing here
            self._shown = (job_id, seen, shown)
            self._show_selected()
        later = self._change_later
        if later is not None and later[0] == job_id and row.state.can_change and row.plan:
            self._change_later = None
            later[1]()

    def _queue_changed(self) -> None:
        active = self._queue.active
        if active is not None and self._follows and active is not self.selected:
            self.queue_column.view.select(active.job_id)
        self._show_selected()

    def _show_added(self) -> None:
        """Films were added: show the first that waits where the selected one is over with."""
        row = self.selected
        if self._queue.active is None and (row is None or not row.state.can_change):
            waiting = (row.job_id for row in self._queue.rows if row.state.can_change)
            self.queue_column.view.select(next(waiting, ""))

    def _user_selected(self, job_id: str) -> None:
        active = self._queue.active
        if active is not None:
            self._follows = active.job_id == job_id
        self._show_selected()

    # Actions

    def _enable(self) -> None:
        """Enable the actions that are possible now."""
        row, active = self.selected, self._queue.active
        selected = self._selected_rows
        has_result = row is not None and row.result is not None
        able = {
            "start": self._queue.can_start and active is None and not self.decision.held,
            "pause": active is not None and not active.asked,
            "cancel": active is not None and active.asked != "cancel",
            "open_result": has_result,
            "show_in_folder": has_result,
            "report": has_result,
            "play": has_result,
            "retry": any(one.can_retry or one.state is JobState.REJECTED for one in selected),
            "run_again": row is not None and row.state is JobState.DONE,
            "remove": any(not one.state.is_active for one in selected),
            "clear_finished": any(one.can_clear for one in self._queue.rows),
            "move_up": row is not None and self._queue.position(row.job_id) > 0,
            "move_down": row is not None
            and self._queue.position(row.job_id) < self._queue.rowCount() - 1,
        }
        for name, is_able in able.items():
            self.actions_[name].setEnabled(is_able)

    def _place_focus(self) -> None:
        """Give the keyboard to what the user most likely wants next, once a state has changed.

        The image of a finished video, where the space bar plays the result; else the main button.
        """
        row = self.selected
        is_done = row is not None and row.state is JobState.DONE and not row.is_doubtful
        if is_done and self._queue.active is None:
            self.preview.canvas.setFocus()
        elif not self.decision.take_focus():
            self.setFocus()

    def _bind_actions(self) -> None:
        """Give each action its work; those of pages, downloads and excerpts have controllers."""
        controller, view = self._controller, self.queue_column.view
        name, folder = self.choices.result.edit_name, self.choices.result.choose_folder
        for action, work in {
            "add_files": self.intake.ask_files,
            "add_folder": self.intake.ask_folder,
            "start": self._start,
            "pause": controller.pause_or_resume,
            "cancel": controller.cancel,
            "undo": controller.removals.undo,
            "remove": lambda: controller.remove(view.selected_ids),
            "clear_finished": controller.clear_finished,
            "retry": self._retry,
            "accept": self._on_row(lambda row: controller.retry(row.job_id, accept=True)),
            "run_again": self._on_row(self._run_again),
            "move_up": self._on_row(lambda row: controller.move(row.job_id, -1)),
            "move_down": self._on_row(lambda row: controller.move(row.job_id, 1)),
            "open_result": self._on_row(self._open_result),
            "show_in_folder": self._on_report(lambda one: desktop.show_in_folder(one.output)),
            "report": self._on_report(lambda report: ReportDialog(report, self).exec()),
            "source": self._on_row(lambda row: desktop.show_in_folder(row.source)),
            "result": self._on_row(
                lambda row: desktop.show_in_folder(row.plan.output if row.plan else row.source)
            ),
            "rename": self._on_row(lambda row: self._change(row, name)),
            "folder": self._on_row(lambda row: self._change(row, folder)),
            "choices": self._on_row(lambda row: self._change(row, self._show_choices)),
            "play": self.preview.play,
            "help": self._toggle_help,
            "show_log": lambda: self.actions_["log"].setChecked(True),
        }.items():
            self.actions_[action].triggered.connect(work)
        self.actions_["log"].toggled.connect(self._show_log)
        self.addActions(list(self.actions_.values()))
        view.addAction(self.actions_["remove"])
        view.set_menu([self.actions_[name] if name else None for name in _MENU])

    def _on_row(self, work: Callable[[JobRow], object]) -> Callable[[], None]:
        """Work on the selected job, if there is one."""

        def work_on_selected() -> None:
            if (row := self.selected) is not None:
                work(row)

        return work_on_selected

    def _on_report(self, work: Callable[[Report], object]) -> Callable[[], None]:
        """Work on the report of the selected job, if it has one."""
        return self._on_row(lambda row: work(row.report) if row.report is not None else None)

    def _open_result(self, row: JobRow) -> None:
        """Open the result; the engine says what became of one that is gone, or back."""
        is_open = row.result is not None and desktop.open_file(row.result)
        if row.lost is not None or not is_open:
            self.preview.ask_again()

    def _start(self) -> None:
        self._follows = True
        self.choices.flush()
        self._controller.start()

    def _follow(self) -> None:
        """Show the video that is about to run, unless another one runs already."""
        self._follows = self._follows or self._queue.active is None

    def _retry(self) -> None:
        self._follow()
        for job_id in self.queue_column.view.selected_ids:
            self._controller.retry(job_id)

    def _run_again(self, row: JobRow) -> None:
        folder = row.chosen_folder
        again = self._controller.add_file(row.source, settings=row.settings, output=folder)
        self.queue_column.view.select(again)

    def _change(self, row: JobRow, change: Callable[[], None]) -> None:
        """Let the user change choices of a job, as soon as they can be changed."""
        if row.state.can_retry:
            self._change_later = row.job_id, change
            self._controller.reopen(row.job_id)
        else:
            change()

    def _show_choices(self) -> None:
        bring_into_view(self.choices.first_control, takes_focus=True)

    def _toggle_help(self) -> None:
        if self.help.isVisible():
            self.help.close()
        else:
            self.help.bring_up()

    # Files

    def show_drop_hover(self, paths: Sequence[Path]) -> None:
        """Files are being dragged over the window: say what a drop does; none are any longer."""
        if paths:
            self._overlay.open_up(*drop_texts(paths))
        else:
            self._overlay.hide()
        self.preview.set_drop_hovered(bool(paths))

    # Qt's side

    def paintEvent(self, event: QPaintEvent) -> None:
        """Emit once that the window is on the screen: only then may the engine load."""
        super().paintEvent(event)
        if not self._is_painted:
            self._is_painted = True
            QTimer.singleShot(0, self.painted.emit)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Playback's keys work wherever no control uses them."""
        if not self.preview.playback.take_key(event):
            super().keyPressEvent(event)

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        """See keyPressEvent."""
        self.preview.playback.release_key(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Ask while a job runs: it can go on at the next start."""
        is_asked = self._queue.active is not None and not self._is_leaving
        if is_asked and not self.confirm_close():
            event.ignore()
            return
        keep_place(self, self._ui_state)
        self._ui_state.save()
        event.accept()
        self.closed.emit()

    def confirm_close(self) -> bool:
        """Ask whether to leave a running job for later."""
        return is_confirmed(
            self,
            tr("A video is still running."),
            tr("Finished parts are kept; you can continue next time."),
            yes=tr("Close and continue later"),
            no=tr("Keep running"),
        )

    def _lay_out(self) -> None:
        bar = QStatusBar()
        bar.setSizeGripEnabled(False)
        bar.setContentsMargins(0, 0, 0, 0)
        bar.addWidget(self.foot, 1)
        self.setMenuWidget(self.top)
        self.setCentralWidget(self.columns)
        self.setStatusBar(bar)
        self.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, self.log_dock)
        self.log_dock.setVisible(False)
        place_window(self, self._ui_state)

    def _connect(self) -> None:
        self.log_dock.visibilityChanged.connect(self._log_shown)
        view = self.queue_column.view
        view.selected.connect(self._user_selected)
        view.open_requested.connect(self.actions_["open_result"].trigger)
        view.selection_changed.connect(self._show_selection)
        view.reordered.connect(self._controller.reorder)
        self._controller.looked_through.connect(self.queue_column.show_found)
        self.queue_column.continue_requested.connect(self._follow)
        self.decision.choices_requested.connect(self.choices.choose)
        self.decision.focus_freed.connect(self._place_focus)
        self._drops.hovered.connect(self.show_drop_hover)
        self._drops.dropped.connect(self.intake.take_drop)
        self.choices.edited.connect(self._queue.expect_plan)
        self.choices.changed.connect(self._choose)
        self.preview.timeline.volume.keep_in(self._ui_state)
        self.preview.frame_requested.connect(self._controller.show_frame)
        self.preview.sample_requested.connect(self.sample_requested)
        self._queue.job_changed.connect(self._job_changed)
        once_a_turn = QTimer(self, interval=0, singleShot=True)  # however often the queue changes
        once_a_turn.timeout.connect(self._queue_changed)
        self._queue.queue_changed.connect(once_a_turn.start)
        self._controller.files_added.connect(self._show_added)

    def _choose(
        self, job_id: str, settings: JobSettings, output: Path | None, selected: Sequence[str]
    ) -> None:
        others = selected if job_id in selected else ()
        self._controller.choose(job_id, settings, output, others)
        self._ui_state.choices = self._controller.settings

    def _show_log(self, is_requested: bool) -> None:
        self.log_dock.setVisible(is_requested)
        if is_requested:
            self.resizeDocks([self.log_dock], [_LOG_HEIGHT], Qt.Orientation.Vertical)

    def _log_shown(self, is_visible: bool) -> None:
        self.actions_["log"].setChecked(is_visible and not self.log_dock.isHidden())
