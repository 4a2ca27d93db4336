"""NVIDIA runtimes and the rest of the window: requests of the user become commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QFileDialog, QWidget

from app import desktop
from app.bridge.engine_bridge import EventHub
from app.controllers.queue import QueueController
from app.controllers.restart import RestartController
from app.i18n import tr
from app.installs import runtime_labels
from app.installs.runtimes_page import OfferCard, RuntimeLine, RuntimesPage
from app.main_window import MainWindow
from app.state.runtimes_model import RuntimesModel, find
from app.ui_state import UiState
from app.widgets.controls import is_confirmed
from engine.core.units import bytes_text
from engine.protocol import commands, events
from engine.protocol.delivery import RuntimeState
from engine.protocol.tasks import Phase

_DRIVERS = "https://www.nvidia.com/drivers"
_Request = (
    commands.InstallRuntime | commands.ImportRuntime | commands.UseRuntime | commands.RemoveRuntime
)


class RuntimesController(QObject):
    """Joins card, page, model and engine. One request at a time: the engine refuses a second."""

    def __init__(
        self,
        window: MainWindow,
        controller: QueueController,
        model: RuntimesModel,
        restart: RestartController,
        ui_state: UiState,
        hub: EventHub,
    ) -> None:
        super().__init__(window)
        self._window, self._controller, self._model = window, controller, model
        self._restart, self._ui_state = restart, ui_state
        self._view: RuntimesPage | None = None
        self._last: tuple[_Request, Phase, str] | None = None
        self._discards = ""  # id of a runtime whose download was cancelled
        self.card = OfferCard(model)
        window.queue_column.add_notice(self.card)
        self.card.requested.connect(self.act)
        restart.changed.connect(self._show_waiting)
        window.actions_["runtime"].triggered.connect(self.open_view)
        controller.wheels_found.connect(self.offer_import)
        model.restore_hidden(ui_state.runtime_hidden)
        for ended in (events.TaskDone, events.TaskFailed, events.TaskStopped):
            hub.subscribe(ended, self._delete_cancelled)

    def _show_waiting(self) -> None:
        """Answer the user's request for a restart, which may wait for a video."""
        self.card.show_waiting(self._restart.waits_for)
        self._window.queue_column.put_first(self.card)

    @property
    def view(self) -> RuntimesPage:
        """The page; made when the user first opens it."""
        if self._view is None:
            self._view = RuntimesPage(self._model, self._window)
            self._view.requested.connect(self.act)
        return self._view

    def settings_part(self) -> QWidget:
        """The line among the settings."""
        part = RuntimeLine(self._model)
        part.page_requested.connect(self.open_view)
        return part

    def look(self) -> None:
        """Request the states of all runtimes."""
        self._controller.send(commands.ListRuntimes())

    def open_view(self) -> None:
        """Show the page, with the present state of the disk."""
        self.look()
        self.view.bring_up()

    def act(self, name: str, runtime: str | None = None) -> None:
        """A request of the page or the card.

        Args:
            name: An action of a row, of the page or of the card.
            runtime: Id of the runtime, "" for the program's own; None for the one of the card.
        """
        model = self._model
        if runtime is None:
            about = model.status.runtime
            runtime = about.id if about is not None else model.task.subject if model.task else ""
        state = find(model.listed, runtime)
        match name:
            case "refresh":
                self.look()
            case "file":
                self.ask_file()
            case "details":
                self.open_view()
            case "driver":
                desktop.open_page(_DRIVERS)
            case "restart":
                self._restart.request()
            case "restart_now":
                self._restart.now()
            case "stay":
                self._restart.cancel()
            case "hide":
                model.hide(for_good=True)
                self._ui_state.runtime_hidden = model.hidden
            case "later":
                model.hide(for_good=False)
            case "dismiss":
                model.dismiss()
            case "retry" if self._last is not None:
                self._order(*self._last)  # a download resumes
            case "retry":  # the list itself could not be read
                model.dismiss()
                self.look()
            case "download" | "continue" | "repair":
                self._order(commands.InstallRuntime(runtime=runtime), "download", runtime)
            case "use":
                self._order(commands.UseRuntime(runtime=runtime), "use", runtime)
            case "pause":
                self._controller.send(commands.StopTask(kind=model.kind))
            case "cancel":
                self._cancel(runtime)
            case "folder" if state is not None and state.path is not None:
                desktop.show_in_folder(state.path)
            case "remove" | "discard" if state is not None and self.confirm_remove(state):
                self._order(commands.RemoveRuntime(runtime=runtime), "remove", runtime)

    def confirm_remove(self, state: RuntimeState) -> bool:
        """Ask before gigabytes have to be downloaded again."""
        question = tr("Remove the NVIDIA runtime {name}?", name=runtime_labels.title_of(state))
        freed = bytes_text(state.done_bytes)
        details = tr("This frees {size}. It can be downloaded again.", size=freed)
        return is_confirmed(self._asker, question, details, yes=tr("Remove"), no=tr("Keep"))

    def ask_file(self) -> None:
        """Let the user choose a wheel, or several of one runtime."""
        chosen, _ = QFileDialog.getOpenFileNames(
            self._asker,
            tr("Choose an NVIDIA runtime file"),
            "",
            f"{tr('NVIDIA runtime')} (*.whl);;{tr('All files')} (*)",
        )
        self.take_files([Path(name) for name in chosen])

    def offer_import(self, files: Sequence[Path]) -> None:
        """Ask whether to import wheels that were dropped on the window."""
        names = ", ".join(file.name for file in files)
        if not self._model.is_running and is_confirmed(
            self._window,
            tr("Use {name} as the NVIDIA runtime?", name=names),
            tr(
                "It is verified against the published file, unpacked and tested. Running videos "
                "continue."
            ),
            yes=tr("Use"),
            no=tr("Cancel"),
        ):
            self.take_files(files)

    def take_files(self, files: Sequence[Path]) -> None:
        """Import wheels."""
        if files:
            names = ", ".join(file.name for file in files)
            self._order(commands.ImportRuntime(paths=tuple(files)), "import", names)

    @property
    def _asker(self) -> QWidget:
        """The window that a question belongs to."""
        if self._view is not None and self._view.isVisible():
            return self._view
        return self._window

    def _order(self, command: _Request, phase: Phase, runtime: str) -> None:
        if not self._model.is_running:
            self._last = (command, phase, runtime)
            self._discards = ""
            self._model.request(phase, runtime)
            self._controller.send(command)

    def _cancel(self, runtime: str) -> None:
        """Stop; delete the downloaded part too, after a question."""
        task = self._model.task
        if task is None or not task.runs:
            return
        if task.phase == "download":
            size = bytes_text(task.done * 1e6)
            if task.done and not is_confirmed(
                self._asker,
                tr("Stop the download and delete the partial file?"),
                tr("{size} downloaded. Pause keeps the partial download.", size=size),
                yes=tr("Delete"),
                no=tr("Keep downloading"),
            ):
                return
            self._discards = runtime
        self._controller.send(commands.StopTask(kind=self._model.kind))

    def _delete_cancelled(self, event: events.TaskEvent) -> None:
        """Delete the rest of a cancelled download, by the list from before its end."""
        state = find(self._model.listed, self._discards)
        if event.kind is not self._model.kind or state is None:
            return
        self._discards = ""
        if state.state == "partial":
            self._order(commands.RemoveRuntime(runtime=state.id), "remove", state.id)
