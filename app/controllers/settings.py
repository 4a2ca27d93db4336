"""Settings of the program, presets, and the archive for a report of a fault."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import date
from pathlib import Path

from PySide6.QtCore import QObject, QStandardPaths, QTimer, Signal
from PySide6.QtWidgets import QFileDialog, QInputDialog, QWidget

from app.bridge.engine_bridge import EventHub
from app.controllers.queue import QueueController
from app.i18n import tr
from app.jobs.preset_form import chosen_by, title_of
from app.main_window import MainWindow
from app.settings.dialog import DiagnosticsLine, SettingsDialog
from app.state.listings import DiagnosticsModel, PresetsModel
from app.state.queue_model import QueueModel
from app.ui_state import UiState
from app.widgets.controls import is_confirmed
from engine.core.errors import SettingsError
from engine.protocol import commands, events
from engine.protocol.plan import Plan
from engine.settings.presets import Preset
from engine.settings.schema import EngineSettings, JobSettings, with_values

_WAIT_MS = 250  # after a plan, before those of the presets are made
_PRESET_ENDING, _ARCHIVE_ENDING = ".toml", ".zip"


class SettingsController(QObject):
    """Opens the dialog; waiting videos are planned again after each change."""

    changed = Signal(EngineSettings)

    def __init__(self, window: MainWindow, controller: QueueController, ui_state: UiState) -> None:
        super().__init__(window)
        self._window, self._controller, self._ui_state = window, controller, ui_state
        self._dialog: SettingsDialog | None = None
        self._parts: list[Callable[[], QWidget]] = []
        window.actions_["settings"].triggered.connect(lambda: self.dialog.bring_up())

    @property
    def dialog(self) -> SettingsDialog:
        """The dialog; made when the user first opens it."""
        if self._dialog is None:
            self._dialog = SettingsDialog(self._ui_state.engine_settings, self._window)
            self._dialog.changed.connect(self._take)
            for make in self._parts:
                self._dialog.add_part(make())
        return self._dialog

    def add_part(self, make: Callable[[], QWidget]) -> None:
        """One more row of the dialog; made along with it."""
        self._parts.append(make)

    def change(self, **values: object) -> None:
        """Change settings from elsewhere in the window; the dialog shows them, too."""
        settings = with_values(self._ui_state.engine_settings, values)
        if self._dialog is not None:
            self._dialog.take(settings)
        else:
            self._take(settings)

    def _take(self, settings: EngineSettings) -> None:
        self._ui_state.engine_settings = settings
        self._controller.send(commands.ChangeEngine(settings=settings))
        self._controller.plan_all_again()
        self.changed.emit(settings)


class PresetsController(QObject):
    """Joins the form, the model and the engine.

    A moment after the selected video got a plan, the engine is asked for its plan with each preset,
    so that the list has their times.
    """

    def __init__(
        self,
        window: MainWindow,
        controller: QueueController,
        queue: QueueModel,
        model: PresetsModel,
        ui_state: UiState,
        hub: EventHub,
    ) -> None:
        super().__init__(window)
        self._window, self._controller = window, controller
        self._model, self._ui_state = model, ui_state
        self._plan: Plan | None = None  # of the selected video
        self._plans: dict[JobSettings, Plan | None] = {}
        self._asks_soon = QTimer(self)
        self._asks_soon.setSingleShot(True)
        self._asks_soon.setInterval(_WAIT_MS)
        self._asks_soon.timeout.connect(self._ask)
        form = self._form = window.choices.presets
        form.ordered.connect(self._order)
        model.changed.connect(lambda: window.choices.show_presets(model.presets, model.card))
        model.failed.connect(form.show_problem)
        model.changed.connect(self._asks_soon.start)
        window.queue_column.view.selected.connect(self._follow)
        queue.queue_changed.connect(self._follow)
        queue.job_changed.connect(self._follow)
        hub.subscribe(events.PlanShown, self._take)

    def look(self) -> None:
        """Ask which presets there are."""
        self._controller.send(commands.ListPresets())

    def _follow(self) -> None:
        """Forget the times of another plan, and ask for those of this one soon."""
        row = self._window.selected
        is_known = row is not None and row.state.can_change and not row.awaits_plan
        plan = row.current_plan if row is not None and is_known else None
        if plan is self._plan:
            return
        self._plan, self._plans = plan, {}
        if row is not None and plan is not None:
            self._plans[row.settings] = plan
            self._asks_soon.start()
        self._form.show_plans(self._plans)

    def _ask(self) -> None:
        row = self._window.selected
        if row is None or self._plan is None or row.plan is not self._plan:
            return
        for preset in self._model.presets:
            with suppress(SettingsError):  # choosing it says why
                settings = chosen_by(preset, row.settings)
                if settings not in self._plans:
                    show = commands.ShowPlan(job_id=row.job_id, settings=settings)
                    self._controller.send(show)

    def _take(self, event: events.PlanShown) -> None:
        row = self._window.selected
        if self._plan is not None and row is not None and event.job_id == row.job_id:
            self._plans[event.settings] = event.plan
            self._form.show_plans(self._plans)

    def ask_title(self, suggestion: str) -> str:
        """The title under which choices are kept; "" for none."""
        title, is_requested = QInputDialog.getText(
            self._window, tr("Save as preset"), tr("Preset name"), text=suggestion
        )
        return title.strip() if is_requested else ""

    def confirm(self, question: str, yes: str) -> bool:
        """Ask before a preset is lost."""
        return is_confirmed(self._window, question, yes=yes, no=tr("Keep"))

    def ask_file(self, to_write: str = "") -> Path | None:
        """A file to read, or one to write under a suggested name."""
        files = f"{tr('Presets')} (*{_PRESET_ENDING})"
        folder = self._ui_state.source_folder
        if to_write:
            place = str(folder / f"{to_write}{_PRESET_ENDING}")
            name, _ = QFileDialog.getSaveFileName(self._window, tr("Export preset"), place, files)
        else:
            name, _ = QFileDialog.getOpenFileName(
                self._window, tr("Import preset"), str(folder), files
            )
        return Path(name) if name else None

    def _order(self, what: str, shown: Preset | None) -> None:
        match what:
            case "save":
                self._save(shown)
            case "import":
                path = self.ask_file()
                if path is not None:
                    self._controller.send(commands.ImportPreset(path=path))
            case "export" if shown is not None:
                path = self.ask_file(file_name(shown))
                if path is not None:
                    self._controller.send(commands.ExportPreset(name=shown.name, path=path))
            case "remove" if shown is not None:
                question = tr("Delete the preset {name}?", name=shown.title)
                if self.confirm(question, tr("Delete")):
                    self._controller.send(commands.RemovePreset(name=shown.name))

    def _save(self, shown: Preset | None) -> None:
        title = self.ask_title(shown.title if shown is not None and shown.is_own else "")
        if not title:
            return
        before = self._model.own(title)
        if before is not None:
            if not self.confirm(tr("Replace the preset {name}?", name=title), tr("Replace")):
                return
            self._controller.send(commands.RemovePreset(name=before.name))
        settings = self._window.choices.settings
        self._controller.send(commands.SavePreset(title=title, settings=settings))


def file_name(preset: Preset) -> str:
    """Name suggested for the file of a preset: letters that every disk takes."""
    title = preset.title if preset.is_own else f"{preset.tier} {title_of(preset)}".strip()
    return "".join(c if c.isalnum() or c in " -_" else "-" for c in title).strip() or "preset"


class DiagnosticsController(QObject):
    """Joins the line among the settings and the engine."""

    def __init__(
        self, window: MainWindow, controller: QueueController, model: DiagnosticsModel
    ) -> None:
        super().__init__(window)
        self._window, self._controller, self._model = window, controller, model

    def settings_part(self) -> DiagnosticsLine:
        """The line among the settings."""
        part = DiagnosticsLine(self._model)
        part.page_requested.connect(self._write)
        return part

    def ask_file(self) -> Path | None:
        """The file to write."""
        place = QStandardPaths.StandardLocation.DesktopLocation
        name = f"upreel-{date.today().isoformat()}{_ARCHIVE_ENDING}"
        suggested = Path(QStandardPaths.writableLocation(place)) / name
        chosen, _ = QFileDialog.getSaveFileName(
            self._window, tr("Report a problem"), str(suggested), f"ZIP (*{_ARCHIVE_ENDING})"
        )
        return Path(chosen) if chosen else None

    def _write(self) -> None:
        path = self.ask_file()
        if path is not None and not self._model.is_running:
            self._model.tasks.request(self._model.kind, "", str(path))
            self._controller.send(commands.WriteDiagnostics(path=path))
