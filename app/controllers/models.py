"""Model files and the window: requests become commands, waiting videos are planned again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QFileDialog, QMessageBox

from app import desktop
from app.bound import bind
from app.controllers.queue import QueueController
from app.i18n import tr
from app.installs import model_labels
from app.installs.models_page import ModelsPage
from app.main_window import MainWindow
from app.state.downloads_model import MISSING
from app.state.listings import PresetsModel
from app.state.model_files_model import MB, ModelFilesModel
from app.state.runtimes_model import RuntimesModel
from app.state.telemetry_model import TelemetryModel
from app.ui_state import UiState
from app.widgets.controls import is_confirmed
from app.widgets.plain import message_box
from engine.core.errors import LibraryMissing
from engine.core.units import bytes_text
from engine.protocol import commands
from engine.protocol.model_file_state import LIBRARIES, ImportMode, PublishedState, is_library
from engine.settings import schema
from engine.settings.schema import JobSettings, with_values

_ENDINGS = "*.safetensors *.gguf *.pt *.pth *.ckpt *.whl"


class ModelsController(QObject):
    """Joins the page of models, the window and the engine; the model knows each request at once."""

    runtime_requested = Signal(str, str)  # action, id of a runtime

    def __init__(
        self,
        window: MainWindow,
        controller: QueueController,
        telemetry: TelemetryModel,
        model: ModelFilesModel,
        recommends: tuple[PresetsModel, RuntimesModel],
        ui_state: UiState,
    ) -> None:
        super().__init__(window)
        self._window, self._controller = window, controller
        self._telemetry, self.model = telemetry, model
        self._recommends, self._ui_state = recommends, ui_state
        self._here: frozenset[str] | None = None
        self._modes: dict[str, ImportMode] = {}  # of imports, by path
        self._view: ModelsPage | None = None
        window.actions_["models"].triggered.connect(self.open_view)
        controller.models_found.connect(self.take_dropped)
        model.changed.connect(self._plan_again)
        model.changed.connect(self._show)
        model.progressed.connect(self._show)
        bind(window.choices, self._show)

    @property
    def view(self) -> ModelsPage:
        """The page; made when the user first opens it."""
        if self._view is None:
            view = ModelsPage(self.model, self._telemetry, self._recommends, self._window)
            self._view = view
            view.requested.connect(self.act)
            if self._ui_state.shows_all_models:
                view.unfold()
            view.unfolded.connect(self._keep_fold)
        return self._view

    def open_view(self) -> None:
        """Show the page, with the present state of the disk."""
        self.look()
        self.view.bring_up()

    # Requests

    def look(self) -> None:
        """Request the states of all files."""
        self._controller.send(commands.ListModelFiles())

    def act(self, name: str, subject: str) -> None:
        """A request of the page.

        Args:
            name: An action of a row or of the page.
            subject: Id of a file, or path of an import.
        """
        file = self.model.find(subject)
        match name:
            case "refresh":
                self.look()
            case "file":
                self._ask_file()
            case "add":
                self._ask_library()
            case "dismiss":
                self.model.dismiss(subject)
            case "runtime":
                self.runtime_requested.emit("download", subject)
            case "stop":
                self.stop(subject)
            case "download" | "continue" | "again":
                self.get(subject)
            case "retry" if file is not None:
                task = self.model.task_of(self.model.package(file))
                phase = task.phase if task is not None else ""
                known = ("verify", "convert", "remove")
                self.act(phase if phase in known else "download", subject)
            case "verify":
                self.model.request("verify", [subject])
                self._controller.send(commands.VerifyModelFile(file=subject))
            case "convert" if file is not None and self.confirm_convert(file):
                self.model.request("convert", [subject])
                self._controller.send(commands.ConvertModelFile(file=subject))
            case "use" if file is not None:
                self.use(file)
            case "folder" if file is not None and file.path is not None:
                desktop.show_in_folder(file.path)
            case "remove" if file is not None and self.confirm_remove(file):
                self.model.dismiss(subject)
                self._controller.send(commands.RemoveModelFile(file=subject))

    def get(self, file: str) -> None:
        """Download a file and its companions, as far as they are not installed."""
        known = self.model.find(file)  # None before the engine has listed it
        parts = self.model.package(known).lacking if known is not None else ()
        lacking = [part.id for part in parts] if known is not None else [file]
        running = self.model.running
        self.model.dismiss(file)
        if lacking:
            self.model.request("download", lacking, main=file)
        for name in lacking:
            if name not in running:
                self._controller.send(commands.DownloadModelFile(file=name))

    def stop(self, file: str) -> None:
        """Stop the tasks of a file; partial downloads resume next time."""
        for name in self.model.stoppable(file):
            self._controller.send(commands.StopTask(kind=self.model.kind, subject=name))

    def use(self, file: PublishedState) -> None:
        """Choose a file for the selected video; for the next ones where its choices are fixed."""
        values = _choices(file, self._window.choices.settings.model)
        self.view.close()
        if not self._window.choices.choose(values):
            settings = with_values(self._controller.settings, values)
            self._controller.choose("", settings, None)

    def confirm_convert(self, file: PublishedState) -> bool:
        """Ask before a conversion, which takes space on the disk for a while."""
        wanted, free = file.converts_to[0], bytes_text(self.model.free_mb * MB)
        details = tr(
            "The converted file takes {size} more; {free} are free. It loads faster, and the "
            "published file can be removed afterwards.",
            size=bytes_text(wanted.bytes),
            free=free,
        )
        question = tr("Convert {name}?", name=model_labels.full_title(file))
        return is_confirmed(self.view, question, details, yes=tr("Convert"), no=tr("Cancel"))

    def confirm_remove(self, file: PublishedState) -> bool:
        """Ask before a removal; an external file only leaves the list."""
        freed = bytes_text(file.bytes if file.is_here else file.done_bytes)
        if file.borrowed:
            details = tr("The file stays in its folder; Upreel only stops using it.")
        elif file.is_own or file.kind == "library":
            details = tr("This frees {size}. Upreel cannot download it again.", size=freed)
        else:
            details = tr("This frees {size}. It can be downloaded again.", size=freed)
        question = tr("Remove {name}?", name=model_labels.full_title(file))
        return is_confirmed(self.view, question, details, yes=tr("Remove"), no=tr("Keep"))

    # Imports

    def take_file(self, path: Path, mode: ImportMode) -> None:
        """Import a file of the user: copy it, or use it in place."""
        self._modes[str(path)] = mode
        self.model.request("import", [str(path)])
        self._controller.send(commands.ImportModelFile(path=path, mode=mode))

    def take_dropped(self, files: Sequence[Path]) -> None:
        """Import files that were dropped on the window, and show the page, which describes them."""
        self.open_view()
        self.view.unfold()
        for path in files:
            self.take_file(path, "copy")

    def ask_mode(self, file: Path) -> ImportMode | None:
        """Ask whether to copy a file or to use it in place; None for neither."""
        box = message_box(
            QMessageBox.Icon.Question,
            tr("Copy {name} to Upreel's folder?", name=file.name),
            tr("Used in place, it takes no extra space, but must stay there unchanged."),
            parent=self.view,
        )
        copy = box.addButton(tr("Copy"), QMessageBox.ButtonRole.AcceptRole)
        link = box.addButton(tr("Use in place"), QMessageBox.ButtonRole.AcceptRole)
        box.addButton(tr("Cancel"), QMessageBox.ButtonRole.RejectRole)
        box.setDefaultButton(copy)
        box.exec()
        clicked = box.clickedButton()
        return "copy" if clicked is copy else "link" if clicked is link else None

    def _ask_file(self) -> None:
        endings = f"{tr('Models')} ({_ENDINGS});;{tr('All files')} (*)"
        chosen, _ = QFileDialog.getOpenFileName(self.view, tr("Import model file"), "", endings)
        path = Path(chosen)
        mode = "copy" if is_library(path) else self.ask_mode(path) if chosen else None
        if mode is not None:
            self.take_file(path, mode)

    def _ask_library(self) -> None:
        """Let the user choose the wheel of a library that is not installed."""
        lacking = [f for f in self.model.files if f.kind == "library" and not f.is_here]
        names = " ".join(file.filename for file in lacking)
        chosen, _ = QFileDialog.getOpenFileName(
            self.view, tr("Library for community models"), "", f"{names} (*.whl)"
        )
        if chosen:
            self.take_file(Path(chosen), "copy")

    # Showing

    def _keep_fold(self, is_open: bool) -> None:
        self._ui_state.shows_all_models = is_open

    def _show(self, _file: str = "") -> None:
        model = self.model
        published = (*schema.SEEDVR2, *schema.SWIFTVR, *schema.WAN_UPSCALERS)
        packages = ((name, model.best_package(name)) for name in published if model.is_known)
        known = {
            name: model_labels.availability(package, model.task_of(package))
            for name, package in packages
            if package is not None
        }
        self._window.choices.show_availability(known)
        self._window.choices.show_first_models(model.cleaners)
        overall = model.overall
        self._window.top.show_models(model_labels.short_progress(overall) if overall else "")

    def _plan_again(self) -> None:
        """Plan again what was refused for a file or a library that has been installed."""
        if not self.model.is_known:
            return
        here = self.model.installed
        before, self._here = self._here, here
        if before is not None and here - before:
            self._controller.plan_again(MISSING, self._is_ready)
        if before is not None and (here - before).intersection(LIBRARIES):
            self._take_again()

    def _take_again(self) -> None:
        """Plan videos and repeat imports that were refused without a library."""
        self._controller.plan_again(LibraryMissing.code, lambda _settings: True)
        refused = {path: task.error for path, task in self.model.imports.items() if task.error}
        for path, error in refused.items():
            if error.code == LibraryMissing.code:
                self.take_file(Path(path), self._modes[path])

    def _is_ready(self, settings: JobSettings) -> bool:
        package = self.model.best_package(settings.model, settings.precision)
        return package is None or package.is_complete


def _choices(file: PublishedState, model: str) -> dict[str, object]:
    """Settings that make a video with a file; `model` stays where the file serves it."""
    values: dict[str, object] = {"model": model if model in file.models else file.models[0]}
    own = str(file.path) if file.is_own and file.path is not None else ""
    if file.kind == "dit":
        is_choice = file.precision in schema.about("precision").choices
        precision = file.precision if is_choice and not own else "auto"
        return {**values, "dit": own, "precision": precision}
    if file.kind == "upscaler":
        return {**values, "model_file": own}
    return {**values, "vae": own}
