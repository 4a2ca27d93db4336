"""The program with a window: the only place where all objects meet."""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QStandardPaths
from PySide6.QtWidgets import QApplication, QMessageBox

from app import desktop, start_options
from app.bridge.engine_bridge import EngineBridge, EngineImport
from app.controllers import restart
from app.controllers.bench import BenchmarkController
from app.controllers.downloads import DownloadsController
from app.controllers.excerpts import ExcerptsController, TasteController
from app.controllers.job_display import (
    ComparisonController,
    DesktopController,
    OverviewController,
    PreviewController,
    TrayController,
)
from app.controllers.latents import LatentsController
from app.controllers.left_over import LeftOverController
from app.controllers.machines import MachinesController
from app.controllers.models import ModelsController
from app.controllers.queue import QueueController
from app.controllers.restart import RestartController
from app.controllers.runtimes import RuntimesController
from app.controllers.settings import DiagnosticsController, PresetsController, SettingsController
from app.controllers.unattended import (
    AfterQueueController,
    SessionController,
    WatchController,
)
from app.controllers.updates import UpdatesController
from app.desktop.single_instance import SingleInstance
from app.i18n import Languages, system_language, tr
from app.main_window import MainWindow
from app.state.downloads_model import DownloadsModel
from app.state.listings import BenchmarkModel, DiagnosticsModel, PresetsModel, UpdateModel
from app.state.log_model import LogModel
from app.state.machines_model import MachinesModel
from app.state.model_files_model import ModelFilesModel
from app.state.queue_model import QueueModel
from app.state.runtimes_model import RuntimesModel
from app.state.tasks_model import TasksModel
from app.state.telemetry_model import TelemetryModel
from app.theme import tokens
from app.theme.fonts import interface_font
from app.theme.look import Look
from app.ui_state import UiState
from app.widgets.plain import message_box
from app.widgets.reveal import follow_focus
from engine.core import paths
from engine.protocol import events
from engine.protocol.commands import Prepare
from engine.settings.schema import JobSettings

if TYPE_CHECKING:
    from engine.api import Engine, UnfinishedJob

_log = logging.getLogger(__name__)
_CLOSE_S = 20.0  # the running segment may end first
# What a window has in memory when its job begins, more than a command: measured under Linux.
_WINDOW_BYTES = 90 * 2**20


class Program(QObject):
    """Everything that belongs to one window and its engine."""

    def __init__(self, app: QApplication, *, ui_state: UiState | None = None) -> None:
        super().__init__()
        self._app = app
        self.ui_state = ui_state or UiState()
        self.languages = Languages(app)
        self.languages.use(self.ui_state.language or system_language())
        self.bridge, self.engine_import = EngineBridge(self), EngineImport(self)
        self.engine: Engine | None = None
        hub = self.bridge  # models subscribe first: they know an event before the controllers
        self.queue, self.telemetry = QueueModel(hub, self), TelemetryModel(hub, self)
        tasks = TasksModel(hub, self)
        self.model_files = ModelFilesModel(hub, tasks, self)
        self.runtime_model = RuntimesModel(hub, tasks, self)
        self.update_model = UpdateModel(hub, tasks, self)
        self.bench_model = BenchmarkModel(hub, tasks, self)
        diagnostics = DiagnosticsModel(hub, tasks, self)
        machines = MachinesModel(hub, tasks, self)
        self.download_model = DownloadsModel(self.model_files, self.runtime_model, self)
        self.presets, self.log = PresetsModel(hub, self), LogModel(hub, self)
        self.controller = QueueController(hub, self.queue, self)
        self.controller.settings = self.ui_state.choices
        self.controller.command_failed.connect(self.log.add)
        self.look = Look(app, self.ui_state.theme, self)
        follow_focus(app)
        self.window = MainWindow(
            self.controller,
            self.queue,
            self.download_model,
            self.telemetry,
            self.log,
            self.ui_state,
        )
        self.look.dress()  # here: set before, it is applied with each addWidget
        self._preview = PreviewController(self.window.preview, hub, self)
        self._comparison = ComparisonController(self.window, self.queue, self.presets, hub)
        self._desktop = DesktopController(self.window, self.controller, self.queue)
        self.models = ModelsController(
            self.window,
            self.controller,
            self.telemetry,
            self.model_files,
            (self.presets, self.runtime_model),
            self.ui_state,
        )
        self.latents = LatentsController(self.window, self.controller, self.queue, self.models, hub)
        self._presets = PresetsController(
            self.window, self.controller, self.queue, self.presets, self.ui_state, hub
        )
        self.model_files.installed_changed.connect(self._presets.look)  # Fast depends on them
        self.bench = BenchmarkController(
            self.window, self.controller, self.queue, self.bench_model, hub
        )
        self.settings = SettingsController(self.window, self.controller, self.ui_state)
        self.machines = MachinesController(
            self.window, self.controller, machines, self.settings, self.ui_state
        )
        self.restart = RestartController(
            self.window, self.controller, self.queue, self.download_model
        )
        self.runtime = RuntimesController(
            self.window, self.controller, self.runtime_model, self.restart, self.ui_state, hub
        )
        self.models.runtime_requested.connect(self.runtime.act)
        self.downloads = DownloadsController(
            self.window,
            (self.controller, self.queue),
            self.download_model,
            self.models,
            self.runtime,
            self.restart,
            hub,
        )
        self.runtime_model.changed.connect(
            lambda: self.window.top.show_gpu_idle(self.runtime_model.leaves_gpu_idle)
        )
        self.excerpts = ExcerptsController(self.window, self.controller, self.queue, hub, tasks)
        self.overviews = OverviewController(
            self.window, self.controller, hub, lambda: self.excerpts.is_looking
        )
        self.taste = TasteController(self.excerpts, self.presets, hub)
        self.after_queue = AfterQueueController(
            self.window, self.controller, self.queue, self.download_model, self.ui_state
        )
        self.tray = TrayController(self.window, self.controller, self.queue)
        self.tray.opened.connect(lambda: self.come_forward(()))
        self.updates = UpdatesController(
            self.window, self.controller, self.queue, self.update_model, self.restart
        )
        self.diagnostics = DiagnosticsController(self.window, self.controller, diagnostics)
        for service in (self.machines, self.runtime, self.updates, self.diagnostics):
            self.settings.add_part(service.settings_part)
        self.watch = WatchController(
            self.window, self.controller, self.queue, self.settings, self.ui_state
        )
        self.session = SessionController(
            self.window, self.controller, self.queue, self.settings, self.ui_state
        )
        self.left_over = LeftOverController(self.window, self.controller, self.queue)
        self._connect()
        self.window.top.show_language(self.languages.current)

    def attach(self, engine: Engine) -> None:
        """Start an engine whose events reach the bridge, and let it load its libraries."""
        self.engine = engine
        engine.start()
        self.controller.attach(engine)
        engine.send(Prepare())
        self.models.look()
        self._presets.look()
        self.machines.look()
        self.runtime.look()  # after Prepare: it shows whether an installed one could be loaded

    def keep_queue(self) -> None:
        """Write down the queue for the next start: the program ends."""
        if self.restart.keeps:
            self.restart.keep(ends=True)

    def close(self) -> None:
        """End the engine; a running job is left for the next start."""
        self.engine_import.wait()
        self.keep_queue()
        self.controller.removals.drop()
        if self.engine is not None:
            self.engine.close(_CLOSE_S)

    def use_language(self, language: str) -> None:
        """Switch while the window is open."""
        self.ui_state.language = language
        self.languages.use(language)
        self.window.top.show_language(self.languages.current)

    def use_theme(self, name: str) -> None:
        """Switch while the window is open."""
        self.ui_state.theme = name
        self.look.choose(name)

    def colour_title_bar(self) -> None:
        """Let the system's frame of the window match its theme."""
        desktop.colour_title_bar(int(self.window.winId()), is_dark=tokens.current().is_dark)

    def come_forward(self, files: Sequence[Path]) -> None:
        """Show the window and add the files that a second start of the program was given."""
        if self.window.isMinimized():
            self.window.showNormal()
        self.window.raise_()
        self.window.activateWindow()
        if files:
            self.controller.add_paths(files)

    def take_up(
        self, begun: tuple[UnfinishedJob, ...], *, is_kept: bool, resumes: bool = False
    ) -> None:
        """Bring back what the last run has left: videos that wait, and those that were begun.

        Args:
            begun: Jobs that were begun.
            is_kept: Whether the queue of this run is kept too, and the folder watched.
            resumes: Windows has restarted for an update while the queue ran: it goes on, unless
                the user has turned that off since.
        """
        names = [job.job_id for job in begun]
        watched = restart.take_over(self.controller, self.queue, names, self.downloads.expect)
        if is_kept:
            self.restart.keep_from_now()
            begun = self.watch.go_on(begun, watched)
            self.watch.begin()
        if resumes and self.ui_state.engine_settings.resume_after_update:
            if able := [job for job in begun if job.problem is None]:
                self.controller.continue_left_over(able)  # the queue starts with them
            else:
                self.controller.start()
            begun = tuple(job for job in begun if job not in able)
        self.left_over.offer(begun)

    def add_sample(self) -> None:
        """Queue the sample clip and start it: a demonstration, with Lite, which is always there."""
        self.controller.add_file(
            paths.resource("samples", "upreel_sample.mp4"),
            settings=JobSettings(model="lite"),
            output=writable_folder(),
            starts_at_once=True,
        )

    def _connect(self) -> None:
        window = self.window
        window.top.language_requested.connect(self.use_language)
        window.top.theme_requested.connect(self.use_theme)
        window.sample_requested.connect(self.add_sample)
        window.preview.playback.trim_chosen.connect(window.choices.choose)
        window.queue_column.view.selected.connect(self._show_stage)
        self.queue.queue_changed.connect(self._show_stage)
        self.bridge.subscribe(events.DevicesListed, window.choices.show_devices)
        for planned in (events.PlanChosen, events.PlanDowngraded):
            self.bridge.subscribe(planned, self._remember_plan)

    def _show_stage(self) -> None:
        self._remember_plan()
        self._preview.show_row(self.window.selected)
        self._comparison.refresh()
        self.excerpts.refresh()
        self.overviews.refresh()

    def _remember_plan(self, _event: events.JobEvent | None = None) -> None:
        """The gauges mark the peak of the video that runs, else of the selected one."""
        row = self.queue.active or self.window.selected
        is_ahead = row is not None and (row.state.is_active or row.state.can_change)
        self.telemetry.show_plan(row.current_plan if row is not None and is_ahead else None)


def run(argv: Sequence[str]) -> int:
    """Open the window and stay until it is closed; the exit status."""
    options = start_options.parse(argv)
    from engine.core import log

    log.setup()
    app = make_application(list(argv[:1]))
    instance = SingleInstance(paths.data_folder())
    is_alone = bool(options.pretend_gpu or options.pretend_vram or options.demo)
    if not is_alone and not instance.begin(options.files):
        return 0
    program = Program(app)
    instance.called.connect(program.come_forward)
    sys.excepthook = _show_crash
    program.window.painted.connect(lambda: begin_work(program, options))
    program.window.closed.connect(program.window.hide)
    app.lastWindowClosed.connect(app.quit)
    app.aboutToQuit.connect(program.keep_queue)  # when a session ends, nothing else is called
    program.colour_title_bar()
    program.look.changed.connect(program.colour_title_bar)
    program.window.show()
    status = app.exec()
    instance.stop_listening()
    program.close()
    instance.end()
    start_next(program)
    return status


def start_next(program: Program) -> None:
    """Process to start at exit: a setup (it starts the new version), this program, or none."""
    is_updated = program.updates.starts_setup and program.updates.start_setup()
    if program.restart.is_due and not is_updated:
        desktop.start_program(restart.command())


def make_application(arguments: list[str]) -> QApplication:
    """The QApplication with our font and Qt's Fusion controls."""
    desktop.prepare_process()
    app = QApplication(arguments or ["upreel"])
    app.setApplicationName("Upreel")
    app.setApplicationDisplayName("Upreel")
    app.setStyle("Fusion")
    app.setFont(interface_font())
    return app


def writable_folder() -> Path:
    """Folder for the result of the sample: the user's videos, else the program's data folder."""
    place = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.MoviesLocation)
    for folder in (Path(place) if place else None, paths.data_folder() / "results"):
        if folder is None:
            continue
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        return folder
    return Path.home()


def begin_work(program: Program, options: argparse.Namespace) -> None:
    """Begin what follows the first paint: only now may heavy libraries be loaded."""
    gc.freeze()  # the window lives as long as the process
    gc.enable()
    program.engine_import.start(lambda: _attach_engine(program, options))


def _attach_engine(program: Program, options: argparse.Namespace) -> None:
    from engine.api import Engine, pretended, unfinished

    gpus = pretended(*options.pretend_gpu, memory=options.pretend_vram)
    settings = program.ui_state.engine_settings
    paths.choose_jobs_folder(settings.job_folder)
    program.attach(
        Engine(
            program.bridge,
            settings=settings,
            pretend=gpus,
            numbers_results=True,
            window_bytes=_WINDOW_BYTES,
        )
    )
    is_usual = not options.pretend_gpu and not options.pretend_vram and not options.demo
    program.take_up(unfinished(), is_kept=is_usual, resumes=options.resume)
    if options.files:
        program.controller.add_paths(options.files)
    if options.demo:
        program.add_sample()


def _show_crash(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Log an internal error and show it; the window stays open."""
    if issubclass(kind, KeyboardInterrupt):
        QApplication.quit()
        return
    _log.critical("uncaught", exc_info=(kind, error, trace))
    message_box(
        QMessageBox.Icon.Critical,
        tr("Something went wrong in Upreel."),
        tr("Your videos are safe. Please report this with the details, then restart Upreel."),
        details="".join(traceback.format_exception(kind, error, trace)),
    ).exec()
