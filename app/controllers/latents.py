"""Files of latents and the rest of the window: each is shown first, then put into the queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from PySide6.QtCore import QObject

from app.bridge.engine_bridge import EventHub
from app.controllers.models import ModelsController
from app.controllers.queue import QueueController
from app.latents.latent_sheet import Decision, LatentSheet, is_missing
from app.main_window import MainWindow
from app.state.model_files_model import Package
from app.state.queue_model import QueueModel
from engine.protocol import commands, events
from engine.protocol.tasks import TaskKind


class LatentsController(QObject):
    """Asks about one file after the other; Cancel forgets those that are left."""

    def __init__(
        self,
        window: MainWindow,
        controller: QueueController,
        queue: QueueModel,
        models: ModelsController,
        hub: EventHub,
    ) -> None:
        super().__init__(window)
        self._window, self._controller, self._queue = window, controller, queue
        self._models = models
        self._files: list[Path] = []  # that came together
        self._at = 0
        self._awaits_vae = False  # the file is looked at again once its model is here
        controller.latents_found.connect(self.take)
        hub.subscribe(events.LatentRead, self._read)
        hub.subscribe(events.LatentShown, self._shown)
        hub.subscribe(events.TaskFailed, self._failed)
        models.model.changed.connect(self._files_changed)
        models.model.progressed.connect(self._files_changed)

    @cached_property
    def sheet(self) -> LatentSheet:
        """The sheet; made when the first file of latents comes."""
        sheet = LatentSheet(self._window)
        sheet.decided.connect(self._decide)
        sheet.next_requested.connect(self._go_on)
        sheet.vae_chosen.connect(lambda _vae: self._ask())
        sheet.get_requested.connect(self._get)
        sheet.rejected.connect(self._forget)
        return sheet

    def take(self, files: Sequence[Path]) -> None:
        """Ask about files, after those that wait already."""
        is_idle = not self._files
        self._files += files
        if is_idle:
            self._at = 0
            self._show()
            self.sheet.open()

    # Asking

    def _show(self) -> None:
        self.sheet.show_file(self._files[self._at], place=(self._at + 1, len(self._files)))
        self._ask()

    def _ask(self) -> None:
        sheet, self._awaits_vae = self.sheet, False
        self._controller.send(commands.ShowLatent(path=sheet.path, vae=sheet.vae))

    def _is_shown(self, path: Path) -> bool:
        """False for late answers about a file that is no longer asked about."""
        return bool(self._files) and path == self.sheet.path

    def _read(self, event: events.LatentRead) -> None:
        if self._is_shown(event.path):
            self.sheet.show_read(event)

    def _shown(self, event: events.LatentShown) -> None:
        if self._is_shown(event.path):
            self.sheet.show_pictures(event)

    def _failed(self, event: events.TaskFailed) -> None:
        if event.kind is not TaskKind.LATENT or not self._is_shown(Path(event.subject)):
            return
        package = self._needed if is_missing(event.error) else None
        self._awaits_vae = package is not None and not package.is_complete
        self.sheet.show_refusal(event.error, package)
        self._files_changed()

    # Deciding

    def _decide(self, decision: Decision) -> None:
        picture, usual = self.sheet.picture(), self._controller.settings
        upscaler = usual.model if usual.model != "none" else "auto"
        settings = replace(
            usual,
            model=upscaler if decision.upscales else "none",
            latents=decision.reading,
            latent_rate=decision.rate,
            latent_vae=decision.vae,
        )
        rest = len(self._files) if decision.is_for_all else self._at + 1
        with self._queue.together():
            for at, file in enumerate(self._files[self._at : rest]):
                job_id = self._controller.add_file(file, settings=settings)
                if at == 0 and picture is not None:
                    self._queue.set_thumbnail(job_id, picture)
        self._controller.files_added.emit()
        self._at = rest - 1
        self._go_on()

    def _go_on(self) -> None:
        self._at += 1
        if self._at < len(self._files):
            self._show()
            return
        self._forget()
        self.sheet.accept()

    def _forget(self) -> None:
        self._files.clear()
        self._awaits_vae = False

    # The missing VAE

    @property
    def _needed(self) -> Package | None:
        """The published VAE of the shown file."""
        read = self.sheet.read
        return self._models.model.best_package(read.model) if read is not None else None

    def _get(self) -> None:
        package = self._needed
        if package is not None:
            self._models.get(package.main.id)

    def _files_changed(self, _file: str = "") -> None:
        """Show how far the missing file is; once it is here, look again."""
        package = self._needed if self._awaits_vae else None
        if package is None:
            return
        if package.is_complete:
            self.sheet.look_again()
            self._ask()
        else:
            self.sheet.show_task(self._models.model.task_of(package))
