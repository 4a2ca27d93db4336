"""How files come into the window: dialogs and drops."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QMimeData, QObject
from PySide6.QtWidgets import QFileDialog, QWidget

from app.controllers.queue import QueueController
from app.i18n import tr
from app.jobs.file_suffixes import LATENT_ENDINGS, PICTURE_ENDINGS, VIDEO_ENDINGS
from app.ui_state import UiState


class Intake(QObject):
    """Asks for files and folders, remembers where they were, and hands them on."""

    def __init__(self, window: QWidget, controller: QueueController, ui_state: UiState) -> None:
        super().__init__(window)
        self._window, self._controller, self._ui_state = window, controller, ui_state

    def ask_files(self) -> None:
        """Let the user choose files."""
        known = VIDEO_ENDINGS | PICTURE_ENDINGS | LATENT_ENDINGS
        endings = " ".join(f"*{ending}" for ending in sorted(known))
        chosen, _ = QFileDialog.getOpenFileNames(
            self._window,
            tr("Add films or pictures"),
            str(self._ui_state.source_folder),
            f"{tr('Films and pictures')} ({endings});;{tr('All files')} (*)",
        )
        self.take([Path(name) for name in chosen])

    def ask_folder(self) -> None:
        """Let the user choose a folder."""
        folder = str(self._ui_state.source_folder)
        chosen = QFileDialog.getExistingDirectory(self._window, tr("Add a folder"), folder)
        self.take([Path(chosen)] if chosen else [])

    def take_drop(self, mime: QMimeData) -> None:
        """Add what was dropped; what lies on other machines is left alone."""
        self.take([Path(url.toLocalFile()) for url in mime.urls() if url.isLocalFile()])

    def take(self, found: Sequence[Path]) -> None:
        """Add files and folders."""
        if found:
            self._ui_state.source_folder = found[0].parent
            self._controller.add_paths(found)
