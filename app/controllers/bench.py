"""The benchmark and the rest of the window: one of benchmark and films at a time."""

from __future__ import annotations

from PySide6.QtCore import QObject

from app.bench.view import BenchView
from app.bridge.engine_bridge import EngineBridge
from app.controllers.queue import Controller
from app.i18n import tr
from app.main_window import MainWindow
from app.state.bench_model import BenchModel
from app.state.queue_model import QueueModel
from engine.protocol import commands


class BenchLink(QObject):
    """Joins page, model, queue and engine."""

    def __init__(
        self,
        window: MainWindow,
        controller: Controller,
        queue: QueueModel,
        model: BenchModel,
        bridge: EngineBridge,
    ) -> None:
        super().__init__(window)
        self._window, self._controller = window, controller
        self._queue, self._model = queue, model
        self._view: BenchView | None = None
        window.page_wanted.connect(self._open)
        queue.queue_changed.connect(self._say_busy)
        model.changed.connect(self._hold)
        bridge.bench_done.connect(lambda _: controller.plan_all_again())

    @property
    def view(self) -> BenchView:
        """The page; made when somebody first wants to see it."""
        if self._view is None:
            view = self._view = BenchView(self._model, self._window)
            view.run_wanted.connect(self._run)
            view.stop_wanted.connect(self._stop)
            self._say_busy()
        return self._view

    def _open(self, page: str) -> None:
        if page == "bench":
            self._say_busy()
            self.view.show()
            self.view.raise_()
            self.view.activateWindow()

    def _run(self, is_quick: bool) -> None:
        if self._queue.active is None and not self._model.is_running:
            self._model.begin()
            self._controller.send(commands.RunBench(quick=is_quick))

    def _stop(self) -> None:
        self._model.end()
        self._controller.send(commands.StopBench())

    def _say_busy(self) -> None:
        """Measured beside a film, both would be wrong."""
        if self._view is not None:
            is_busy = self._queue.active is not None
            words = tr("A film is being worked on: measure when it is done.")
            self._view.say_busy(words if is_busy else "")

    def _hold(self) -> None:
        """No film starts while it is measured."""
        words = tr("The benchmark runs: stop it, or start when it is done.")
        self._window.hold_start(words if self._model.is_running else "")
