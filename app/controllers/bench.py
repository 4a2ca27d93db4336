"""The benchmark and the rest of the window: one of benchmark and videos at a time."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from PySide6.QtCore import QObject, QStandardPaths
from PySide6.QtWidgets import QFileDialog

from app.bench.view import BenchView
from app.bridge.engine_bridge import EventHub
from app.controllers.queue import QueueController
from app.i18n import tr
from app.main_window import MainWindow
from app.state.listings import BenchmarkModel
from app.state.queue_model import QueueModel
from engine.protocol import commands, events


class BenchmarkController(QObject):
    """Joins page, model, queue and engine."""

    def __init__(
        self,
        window: MainWindow,
        controller: QueueController,
        queue: QueueModel,
        model: BenchmarkModel,
        hub: EventHub,
    ) -> None:
        super().__init__(window)
        self._window, self._controller = window, controller
        self._queue, self._model = queue, model
        self._view: BenchView | None = None
        window.actions_["bench"].triggered.connect(self.open_view)
        queue.queue_changed.connect(self._show_busy)
        model.changed.connect(self._hold)
        hub.subscribe(events.TaskDone, self._plan_again)

    @property
    def view(self) -> BenchView:
        """The page; made when the user first opens it."""
        if self._view is None:
            view = self._view = BenchView(self._model, self._window)
            view.run_requested.connect(self._run)
            view.archive_requested.connect(self._measure)
            view.stop_requested.connect(self._stop)
            self._show_busy()
        return self._view

    def open_view(self) -> None:
        """Show the page."""
        self._show_busy()
        self.view.bring_up()

    def _run(self, is_quick: bool) -> None:
        if self._queue.active is None and not self._model.is_running:
            self._model.begin()
            self._controller.send(commands.RunBenchmark(quick=is_quick))

    def ask_file(self) -> Path | None:
        """The archive to write."""
        place = QStandardPaths.StandardLocation.DesktopLocation
        name = f"upreel-measured-{date.today().isoformat()}.zip"
        suggested = Path(QStandardPaths.writableLocation(place)) / name
        chosen, _ = QFileDialog.getSaveFileName(
            self.view, tr("Measure this PC"), str(suggested), "ZIP (*.zip)"
        )
        return Path(chosen) if chosen else None

    def _measure(self) -> None:
        path = self.ask_file()
        if path is not None and self._queue.active is None and not self._model.is_running:
            self._model.begin(str(path))
            self._controller.send(commands.RunBenchmark(archive=path))

    def _stop(self) -> None:
        self._model.end()
        self._controller.send(commands.StopTask(kind=self._model.kind))

    def _show_busy(self) -> None:
        """The times of a benchmark and of a video that run together would be wrong."""
        if self._view is not None:
            is_busy = self._queue.active is not None
            words = tr("A video is being processed. Measure when it is finished.")
            self._view.show_busy(words if is_busy else "")

    def _plan_again(self, event: events.TaskDone) -> None:
        """Plans use what was measured."""
        if event.kind is self._model.kind:
            self._controller.plan_all_again()

    def _hold(self) -> None:
        """No video starts while it is measured."""
        words = tr("A benchmark is running. Stop it, or start when it is finished.")
        self._window.hold_start(words if self._model.is_running else "")
