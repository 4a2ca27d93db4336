"""What the user wants of the files of models becomes commands; films that waited plan anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import QObject

from app.bridge.engine_bridge import EngineBridge
from app.controllers.queue import Controller
from app.state.model_file_row import Package
from app.state.model_files_model import WeightsModel
from engine.core.errors import WeightsMissing
from engine.protocol import commands, events
from engine.protocol.model_file_state import ImportMode, PublishedState
from engine.settings import schema
from engine.settings.schema import JobSettings

MISSING = WeightsMissing.code  # of a refusal that a download answers
_OWN_FILES = ("dit", "vae", "text_embedding")


class WeightsOrders(QObject):
    """Asks the engine, and tells the model at once what was asked."""

    def __init__(
        self,
        bridge: EngineBridge,
        controller: Controller,
        model: WeightsModel,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._controller, self.model = controller, model
        self._here: frozenset[str] | None = None
        bridge.weights_listed.connect(self._plan_again)

    def look(self) -> None:
        """Ask what is here."""
        self._controller.send(commands.ListWeights())

    def get(self, file: str) -> None:
        """Fetch a file and what it cannot work without, as far as it is not here."""
        known = self.model.find(file)
        if known is None:
            return
        lacking = [part.id for part in self.model.package(known).lacking]
        running = self.model.running
        self.model.dismiss(file)
        if lacking:
            self.model.ask("download", lacking, main=file)
        for name in lacking:
            if name not in running:
                self._controller.send(commands.GetWeights(file=name))

    def get_for(self, settings: JobSettings, params: Mapping[str, str]) -> str:
        """Fetch what a refused job lacks.

        Args:
            settings: Of the job.
            params: Of the refusal; they name files where the settings do not tell a model.

        Returns:
            Id of the file whose row shows the progress; "" when only the user can tell.
        """
        named = {name.strip() for text in params.values() for name in text.split(",")}
        files = [file for file in self.model.files if file.id in named]
        package = self._wanted(settings, files)
        if package is None or _has_own_files(settings):
            wanted = [file.id for file in files]
        else:  # of its own model the best; a source of latents may need another one beside it
            wanted = [] if package.is_complete else [package.main.id]
            wanted += [file.id for file in files if settings.model not in file.models]
        for file in wanted:
            self.get(file)
        return wanted[0] if wanted else ""

    def _wanted(self, settings: JobSettings, named: Sequence[PublishedState]) -> Package | None:
        """What was begun of the job's own model, else what its refusal names, else the best."""
        best = self.model.best_package(settings.model, settings.precision)
        if best is not None and best.main.done_bytes:
            return best
        mine = [f for f in named if settings.model in f.models and self.model.is_main(f)]
        return self.model.package(mine[0]) if mine else best

    def stop(self, file: str) -> None:
        """Stop what runs for a file; parts stay for the next time."""
        for name in self.model.stoppable(file):
            self._controller.send(commands.StopWeights(file=name))

    def verify(self, file: str) -> None:
        """Compare a file with the published SHA-256."""
        self.model.ask("verify", [file])
        self._controller.send(commands.VerifyWeights(file=file))

    def remove(self, file: str) -> None:
        """Delete our copy of a file, or forget a borrowed one."""
        self.model.dismiss(file)
        self._controller.send(commands.RemoveWeights(file=file))

    def take_file(self, path: Path, mode: ImportMode) -> None:
        """Import a file of the user's: copy it, or remember where it lies."""
        self.model.ask("import", [str(path)])
        self._controller.send(commands.ImportWeights(path=path, mode=mode))

    def _plan_again(self, event: events.WeightsListed) -> None:
        """Films that were refused for want of a file are planned again when one has come."""
        here = frozenset(file.id for file in event.files if file.is_here)
        if self._here is not None and here - self._here:
            self._controller.plan_again(MISSING, self._is_ready)
        self._here = here

    def _is_ready(self, settings: JobSettings) -> bool:
        package = self.model.best_package(settings.model, settings.precision)
        return package is None or package.is_complete


def _has_own_files(settings: JobSettings) -> bool:
    """Whether the model shall be read from a file of the user's."""
    about, family = schema.describe(JobSettings), schema.model_family(settings.model)
    return any(getattr(settings, name) for name in _OWN_FILES if family in about[name].families)
