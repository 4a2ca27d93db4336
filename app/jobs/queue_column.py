"""The left column: how many jobs, cards, drop zone, and jobs left over from the last time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.actions import Actions
from app.engine_messages import text
from app.i18n import tr
from app.jobs.added_line import AddedLine
from app.jobs.found_files import FoundFiles
from app.jobs.queue_foot import QueueFoot
from app.jobs.queue_view import QueueView
from app.jobs.undo_line import UndoLine
from app.jobs.watch_line import WatchLine
from app.state.queue_model import QueueModel
from app.state.removals import Removals
from app.theme import tokens
from app.theme.icons import icon
from app.widgets.compact_scroll import CompactScroll
from app.widgets.controls import ElidedLabel, Themed
from app.widgets.drop import DropZone
from app.widgets.plain import Label, set_tip
from engine.core.plain_text import one_line

if TYPE_CHECKING:
    from engine.api import UnfinishedJob

_MIDDLE = Qt.TextElideMode.ElideMiddle


class QueueColumn(Themed, QWidget):
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
        self.setObjectName("queueColumn")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFixedWidth(tokens.QUEUE_WIDTH)
        self._model = model
        self._left_over: Sequence[UnfinishedJob] = ()
        self.view = QueueView(model, self)
        self._heading = Label()
        self._heading.setProperty("kind", "section")
        self._add = QPushButton()
        self._add.setObjectName("addFiles")
        self._folder = QToolButton()
        self._folder.setObjectName("addFolder")
        self._drop = DropZone(self)
        self._drop.setObjectName("dropZone")
        self._banner = _Banner(self)
        self._undo = UndoLine(removals, self)
        self._foot = QueueFoot(model, actions, self)
        self.added = AddedLine(self)
        self.watch = WatchLine(self)
        self._nothing = Label()
        self._nothing.setProperty("kind", "secondary")
        self._nothing.setWordWrap(True)
        self._lay_out()
        self._add.clicked.connect(actions["add_files"].trigger)
        self._folder.clicked.connect(actions["add_folder"].trigger)
        self._drop.clicked.connect(actions["add_files"].trigger)
        self._banner.accepted.connect(self.continue_requested)
        self._banner.declined.connect(self.discard_requested)
        model.queue_changed.connect(self._show_count)
        self.retranslate_ui()
        self.view.setVisible(False)

    def offer_unfinished(self, jobs: Sequence[UnfinishedJob]) -> None:
        """Ask what shall become of films of an earlier run; none takes the question away.

        Args:
            jobs: All of them can go on, or none can.
        """
        self._left_over = jobs
        self._banner.setVisible(bool(jobs))
        self.retranslate_ui()
        if jobs:
            self.answer_requested.emit()

    def show_found(self, found: FoundFiles) -> None:
        """Say what became of the files of a folder."""
        self.added.show_found(found)
        if found.skipped:
            self.answer_requested.emit()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self._add.setText(tr("Add files"))
        self._add.setIcon(icon("add", size=16))
        set_tip(self._add, tr("Add videos or images (Ctrl+O)"))
        self._folder.setIcon(icon("folder"))
        set_tip(self._folder, tr("Add all videos in a folder (Ctrl+Shift+O)"))
        self._folder.setAccessibleName(tr("Add folder"))
        self._drop.set_texts(
            tr("Drop videos, images or folders"), "MKV, MP4, MOV, AVI, PNG, TIFF …"
        )
        self.view.setAccessibleName(tr("Queue"))
        self._banner.show_films(self._left_over)
        self._nothing.setText(tr("Your videos will appear here."))
        self._show_count()

    def _show_count(self) -> None:
        count = self._model.rowCount()
        self._drop.setVisible(count > 0)  # the preview shows a large one meanwhile
        self._nothing.setVisible(count == 0)
        self._heading.setText(f"{tr('Queue')} · {count}" if count else tr("Queue"))

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(6)
        head.addWidget(self._heading)
        head.addStretch()
        head.addWidget(self._add)
        head.addWidget(self._folder)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 12, 12, 12)
        column.setSpacing(12)
        column.addLayout(head)
        column.addWidget(CompactScroll(self._body()))
        column.addStretch(1)
        column.addWidget(self.watch)
        column.addWidget(self._undo)

    def _body(self) -> QWidget:
        """What scrolls where the window is low: all but the head and the lines at the foot."""
        body = QWidget()
        within = QVBoxLayout(body)
        within.setContentsMargins(0, 0, 0, 0)
        within.setSpacing(12)
        for part in (
            self._banner,
            self.added,
            self.view,
            self._foot,
            self._nothing,
            self._drop,
        ):
            within.addWidget(part)
        self._banner.setVisible(False)
        return body


class _Banner(QFrame):
    """A question with two answers that blocks nothing."""

    accepted = Signal()
    declined = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card")
        self.setObjectName("unfinishedBanner")
        self._title, self._films, self._text = Label(), ElidedLabel(_MIDDLE), Label()
        self._title.setProperty("kind", "title")
        self._text.setProperty("kind", "secondary")
        self._text.setWordWrap(True)
        self._yes, self._no = QPushButton(), QPushButton()
        self._yes.setObjectName("continueUnfinished")
        self._no.setObjectName("discardUnfinished")
        self._no.setProperty("kind", "quiet")
        row = QHBoxLayout()
        row.addWidget(self._yes)
        row.addWidget(self._no)
        row.addStretch()
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 10, 12, 10)
        column.setSpacing(6)
        for part in (self._title, self._films, self._text):
            column.addWidget(part)
        column.addLayout(row)
        self._yes.clicked.connect(self.accepted)
        self._no.clicked.connect(self.declined)

    def show_films(self, jobs: Sequence[UnfinishedJob]) -> None:
        names = [one_line(job.source.name) for job in jobs]
        problems = dict.fromkeys(text(job.problem) for job in jobs if job.problem is not None)
        self._title.setText(tr("Unfinished from last time"))
        more = len(names) - 1
        first = names[0] if names else ""
        several = tr("{name} and {count} more", name=first, count=more)
        self._films.setText(several if more > 0 else first)
        set_tip(self._films, "\n".join(names))
        goes_on = (
            tr("They resume where they stopped.")
            if more > 0
            else tr("It resumes where it stopped.")
        )
        self._text.setText("\n".join(problems) or goes_on)
        self._yes.setVisible(not problems)
        self._yes.setText(tr("Continue"))
        self._no.setText(tr("Discard"))
        for button in (self._yes, self._no):
            button.setAccessibleDescription(self._films.whole)
