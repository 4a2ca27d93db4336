"""Updates and the rest of the window: only the user asks, and the setup starts at the exit."""

from __future__ import annotations

import logging
from typing import Literal

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QMessageBox

from app import desktop
from app.controllers.queue import QueueController
from app.controllers.restart import RestartController
from app.installs.installable import problem
from app.installs.updates_page import UpdatesPage, update_line
from app.main_window import MainWindow
from app.state.listings import UpdateModel
from app.state.queue_model import QueueModel
from app.widgets.notice_line import PageLine
from app.widgets.plain import message_box
from engine.core.errors import EngineError
from engine.protocol import commands
from engine.protocol.tasks import Phase

_COMMANDS: dict[Phase, type[commands.UpdateCommand]] = {
    "check": commands.CheckUpdate,
    "download": commands.DownloadUpdate,
    "install": commands.InstallUpdate,
}
_log = logging.getLogger(__name__)


class UpdatesController(QObject):
    """Joins page, model, window and engine."""

    def __init__(
        self,
        window: MainWindow,
        controller: QueueController,
        queue: QueueModel,
        model: UpdateModel,
        restart: RestartController,
    ) -> None:
        super().__init__(window)
        self._window, self._controller, self._queue = window, controller, queue
        self._model, self._restart = model, restart
        self._view: UpdatesPage | None = None
        self.starts_setup = False  # as soon as the engine has ended
        model.installable.connect(self._leave)

    @property
    def view(self) -> UpdatesPage:
        """The page; made when the user first opens it."""
        if self._view is None:
            self._view = UpdatesPage(self._model, self._window)
            self._view.requested.connect(self._do)
        return self._view

    def settings_part(self) -> PageLine:
        """The line among the settings."""
        part = update_line()
        part.page_requested.connect(self.open_view)
        return part

    def open_view(self) -> None:
        """Show the page and check for an update at once."""
        self.view.bring_up()
        self._do("check")

    def start_setup(self) -> bool:
        """Start the setup now that everything has ended; False after an error, which was shown.

        The window is closed by then, so an error is shown by itself.
        """
        from engine.api import start_update

        try:
            start_update()
        except EngineError as err:
            _log.warning("the update was not started: %s", err.message)
            title, text = problem(err.info())
            message_box(QMessageBox.Icon.Warning, title, text).exec()
            return False
        return True

    def _do(self, what: Phase | Literal["stop"]) -> None:
        if what == "stop":
            self._controller.send(commands.StopTask(kind=self._model.kind))
        elif not self._model.is_running:
            self._model.tasks.request(self._model.kind, what, "")
            self._controller.send(_COMMANDS[what]())

    def _leave(self) -> None:
        """End for the verified setup, unless the user prefers to finish the running video."""
        if self._queue.active is not None and not self._window.confirm_close():
            return
        desktop.let_come_forward()  # the setup, when this window has closed
        self.view.close()
        self._restart.now()
        self.starts_setup = self._restart.is_due  # False where the queue could not be saved
