"""The left column: number of jobs, their cards, the drop zone, and the lines around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.actions import Actions
from app.bound import bind
from app.i18n import tr
from app.jobs.found_files import FoundFiles
from app.jobs.queue_lines import AddedLine, QueueFoot, UndoLine, UnfinishedBanner, WatchLine
from app.jobs.queue_view import QueueView
from app.state.queue_model import QueueModel
from app.state.removals import Removals
from app.theme import tokens
from app.widgets.compact_scroll import CompactScroll
from app.widgets.drop import DropZone
from app.widgets.layouts import STRETCH, Stretch, column, row
from app.widgets.parts import bind_text, button, icon_button, label, named

if TYPE_CHECKING:
    from engine.api import UnfinishedJob


class QueueColumn(QWidget):
    """Shows the queue and asks for more files."""

    answer_requested = Signal()  # a question or a message is there, which is to be seen
    continue_requested = Signal()  # unfinished jobs of an earlier run
    discard_requested = Signal()

    def __init__(
        self,
        model: QueueModel,
        removals: Removals,
        actions: Actions,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        named(self, "queueColumn", has_ground=True)
        self.setFixedWidth(tokens.QUEUE_WIDTH)
        self._model = model
        self.view = QueueView(model, self)
        bind_text(self.view, self.view.setAccessibleName, "Queue")
        self._heading = label(kind="section")
        self._drop = named(DropZone(self), "dropZone")
        self._banner = UnfinishedBanner(self)
        self._undo = UndoLine(removals, self)
        self._foot = QueueFoot(model, actions, self)
        self.added = AddedLine(self)
        self.watch = WatchLine(self)
        self._nothing = label("Your videos will appear here.", "secondary", wraps=True)
        self._lay_out(actions)
        self._drop.clicked.connect(actions["add_files"].trigger)
        self._banner.accepted.connect(self.continue_requested)
        self._banner.declined.connect(self.discard_requested)
        model.queue_changed.connect(self._show_count)
        bind(self, self._show_count)
        self.view.setVisible(False)

    def offer_unfinished(self, jobs: Sequence[UnfinishedJob]) -> None:
        """Ask what shall become of films of an earlier run; none takes the question away.

        Args:
            jobs: All of them can go on, or none can.
        """
        self._banner.show_films(jobs)
        self._banner.setVisible(bool(jobs))
        if jobs:
            self.answer_requested.emit()

    def show_found(self, found: FoundFiles) -> None:
        """Say what became of the files of a folder."""
        self.added.show_found(found)
        if found.skipped:
            self.answer_requested.emit()

    def _show_count(self) -> None:
        count = self._model.rowCount()
        self._drop.setVisible(count > 0)  # the preview shows a large one meanwhile
        self._nothing.setVisible(count == 0)
        self._heading.setText(f"{tr('Queue')} · {count}" if count else tr("Queue"))

    def _lay_out(self, actions: Actions) -> None:
        add = button(
            "Add files",
            "addFiles",
            icon="add",
            tip="Add videos or images (Ctrl+O)",
            on=actions["add_files"].trigger,
        )
        folder = icon_button(
            "folder",
            "Add folder",
            "addFolder",
            tip="Add all videos in a folder (Ctrl+Shift+O)",
            on=actions["add_folder"].trigger,
        )
        bind(
            self._drop,
            lambda: self._drop.set_texts(
                tr("Drop videos, images or folders"), "MKV, MP4, MOV, AVI, PNG, TIFF …"
            ),
        )
        body = QWidget()  # scrolls where the window is low
        scrolled = self._banner, self.added, self.view, self._foot, self._nothing, self._drop
        column(*scrolled, spacing=12, on=body)
        self._banner.setVisible(False)
        column(
            row(self._heading, STRETCH, add, folder, spacing=6),
            CompactScroll(body),
            Stretch(1),
            self.watch,
            self._undo,
            spacing=12,
            margins=12,
            on=self,
        )
