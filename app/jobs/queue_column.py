"""The left column: number of jobs, their cards, notices, and the drop zone.

A notice is a question, an offer, or says what follows; one is shown at a time. It stands above the
drop zone, as do the lines about what is watched and what was removed. What comes later stands above
the others and takes its room from the end of the list: nothing moves when the program speaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QPushButton, QWidget

from app import labels
from app.actions import Actions
from app.bound import bind
from app.engine_messages import text
from app.i18n import mark, tr
from app.jobs.found_files import MOST_FILES, FoundFiles
from app.jobs.queue_view import SCROLL_BAR, QueueView
from app.plan.folded_notice import FoldedNotice
from app.state.queue_model import QueueModel
from app.state.removals import Removals
from app.theme import tokens
from app.widgets.compact_scroll import CompactScroll
from app.widgets.controls import Switch
from app.widgets.drop import DropZone
from app.widgets.layouts import STRETCH, TOP, Stretch, clear_layout, column, layout_of, row
from app.widgets.notice_line import NoticeLine
from app.widgets.parts import (
    bind_text,
    bind_tip,
    button,
    elided,
    follow_in_tab_order,
    icon_button,
    label,
    named,
)
from app.widgets.plain import set_tip
from app.widgets.tab_stop import TabStop
from engine.core.plain_text import one_line

if TYPE_CHECKING:
    from engine.api import UnfinishedJob


_LEAST = 72  # px for notices and drop zone


class QueueColumn(QWidget):
    """Shows the queue and asks for more files."""

    answer_requested = Signal()  # a question or a message is there, which is to be seen
    notices_changed = Signal()  # one has come or gone
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
        self._model = model
        self.view = QueueView(model, self)
        bind_text(self.view, self.view.setAccessibleName, "Queue")
        self._heading = label(kind="section")
        self._drop = named(DropZone(self), "dropZone")
        self._banner = UnfinishedBanner(self)
        self._notices: list[QWidget] = []  # the most important one first
        self._deck = QWidget()  # of notices
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

    @property
    def has_notice(self) -> bool:
        """Whether there is a notice, also where the column is folded."""
        return any(not notice.isHidden() for notice in self._notices)

    def add_notice(self, notice: QWidget) -> None:
        """Take a notice in; it shows and hides itself, and waits behind those that came before."""
        self._notices.append(notice)
        place = QWidget()  # hidden while it waits
        column(notice, on=place)
        layout_of(self._deck).addWidget(place)
        notice.installEventFilter(self)
        follow_in_tab_order(self._last_control, (notice, *notice.findChildren(QPushButton)))
        self._show_notice()

    def put_first(self, notice: QWidget) -> None:
        """Show a notice before all others: it cannot wait, or the user has asked for it."""
        self._notices.sort(key=lambda other: other is not notice)
        self._show_notice()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """A notice or a line shows or hides itself."""
        has_come = event.type() == QEvent.Type.ShowToParent
        if watched in self._notices:
            if has_come or event.type() == QEvent.Type.HideToParent:
                self._show_notice()
        elif has_come and isinstance(watched, QWidget):
            self._lines.insertWidget(0, watched)
            self._fit_below()
        return False

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A notice scrolls where it has no room."""
        super().resizeEvent(event)
        self._fit_below()

    def offer_unfinished(self, jobs: Sequence[UnfinishedJob], *, is_again: bool = False) -> None:
        """Ask what shall become of videos of an earlier run; none takes the question away.

        Args:
            jobs: All of them can go on, or none can.
            is_again: Whether the user has added them again.
        """
        self._banner.show_films(jobs, is_again=is_again)
        self._banner.setVisible(bool(jobs))
        if jobs:
            self.answer_requested.emit()

    def show_found(self, found: FoundFiles) -> None:
        """Say what became of the files of a folder."""
        self.added.show_found(found)
        if not found.is_whole:
            self.answer_requested.emit()

    def _show_count(self) -> None:
        count = self._model.rowCount()
        self._drop.setVisible(count > 0)  # the preview shows a large one meanwhile
        self._nothing.setVisible(count == 0)
        self._heading.setText(f"{tr('Queue')} · {count}" if count else tr("Queue"))
        self._fit_below()

    def _show_notice(self) -> None:
        """Show the most important one."""
        first = next((one for one in self._notices if not one.isHidden()), None)
        for notice in self._notices:
            place = notice.parentWidget()
            if place is not None:
                place.setVisible(notice is first)
        self._deck.setVisible(first is not None)
        self._fit_below()
        self.notices_changed.emit()

    def _fit_below(self) -> None:
        """Leave what stands above the notices its least height."""
        below = self._below
        here = min(below.minimumSizeHint().height(), below.maximumHeight())
        others = layout_of(self).minimumSize().height() - here
        below.setMaximumHeight(max(_LEAST, self.height() - others))

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
        body, below = QWidget(), QWidget()  # both scroll where the window is low
        above, beside = row(self.added, SCROLL_BAR, spacing=0), row(self._nothing, SCROLL_BAR)
        column(above, self.view, beside, spacing=12, on=body)
        self._lines = column(self._deck, self._undo, self.watch, spacing=12)
        column(on=self._deck)
        beside_bar = (0, 0, SCROLL_BAR, 0)
        column(self._lines, self._foot, self._drop, spacing=12, margins=beside_bar, on=below)
        self._below = CompactScroll(below, is_whole=True)
        head = row(self._heading, STRETCH, add, folder, spacing=6, margins=beside_bar)
        cards, margins = CompactScroll(body), (12, 12, 12 - SCROLL_BAR, 12)
        column(head, cards, Stretch(1), self._below, spacing=12, margins=margins, on=self)
        TabStop(self, (add, folder, self._drop))
        self._last_control = folder
        for line in (self._deck, self._undo, self.watch):
            line.installEventFilter(self)
        self.add_notice(self._banner)
        self._banner.setVisible(False)


# --- what stands around the cards

_MOST_NAMES = 12  # in the tool tip
_MARGINS = (12, 8, 8, 8)


class AddedLine(QFrame):
    """Number of files of a folder that were added and skipped; a click says why.

    Hidden where nothing was skipped and no folder was empty, and once it was closed.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "addedLine", "card")
        self._found = FoundFiles()
        self._counts = column()
        close = icon_button("cancel", "Close", "closeAdded", "quiet", size=14, on=self.hide)
        beside = column(self._counts, STRETCH, margins=(0, 6, 0, 0))  # in the line of the cross
        row((beside, 1), (close, 0, TOP), margins=_MARGINS, on=self)
        bind(self, self._show)
        self.hide()

    def show_found(self, found: FoundFiles) -> None:
        """Say what became of the files of a folder."""
        self._found = found
        self._show()
        self.setVisible(not found.is_whole)

    def _show(self) -> None:
        added, skipped = len(self._found.files), self._found.skipped
        left_out = sum(map(len, skipped.values()))
        counted = tr("{added} added, {skipped} skipped", added=added, skipped=left_out)
        reasons = [tr(why, count=len(f), most=MOST_FILES) for why, f in skipped.items()]
        if self._found.empty:
            nothing = _nothing_in(self._found.empty)
            counted, *reasons = [counted, *reasons, nothing] if added else [nothing, *reasons]
        line = FoldedNotice("info", counted, "\n".join(reasons), is_whole=not added)
        names = [one_line(path.name) for files in skipped.values() for path in files]
        shown = names[:_MOST_NAMES] + (["…"] if len(names) > _MOST_NAMES else [])
        set_tip(line, "\n".join(shown))
        clear_layout(self._counts)
        self._counts.addWidget(line)
        follow_in_tab_order(self, line.controls)


def _nothing_in(folders: Sequence[Path]) -> str:
    if len(folders) > 1:
        return tr("No videos found in {count} folders", count=len(folders))
    return tr("No videos found in {folder}", folder=labels.folder_name(folders[0]))


class QueueFoot(QWidget):
    """Time that the queue takes, and a button that clears finished videos.

    Hidden while the queue is empty; as high with both as with none.
    """

    def __init__(self, model: QueueModel, actions: Actions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._time = elided(kind="secondary", name="queueTime")
        clear = actions["clear_finished"].trigger
        self._clear = button("Clear finished", "clearFinished", "quiet", on=clear)
        row((self._time, 1), self._clear, margins=(2, 0, 0, 0), on=self)
        self.setFixedHeight(tokens.CONTROL_HEIGHT)
        model.queue_changed.connect(self._show)
        model.job_changed.connect(lambda _job_id: self._show())
        bind(self, self._show)

    def _show(self) -> None:
        model = self._model
        left = model.to_do
        times = [row.seconds_to_go for row in left]
        seconds = sum(filter(None, times)) if len(left) > 1 else 0.0
        is_finished = any(row.can_clear for row in model.rows)
        least = tr("at least {time}", time=labels.duration(max(1.0, seconds)))
        time = (least if None in times else labels.about(seconds)) if seconds else ""
        self._time.setText(f"{labels.counted(left, len(left))} · {time}" if time else "")
        self._clear.setVisible(is_finished)
        self.setVisible(model.rowCount() > 0)


class UndoLine(QFrame):
    """Videos that were removed last, and a button that brings them back; else hidden."""

    def __init__(self, removals: Removals, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "undoLine", "card")
        self._removals = removals
        self._text, self._held = elided(), label(kind="secondary")
        self._undo = button("Undo", "undoRemoval", tip=lambda: "Ctrl+Z", on=removals.undo)
        texts = column(self._text, self._held, spacing=2)
        row((texts, 1), self._undo, margins=_MARGINS, on=self)
        removals.changed.connect(self._show)
        bind(self, self._show)

    def _show(self) -> None:
        last = self._removals.last
        self.setVisible(last is not None)
        if last is None:
            return
        one = last.rows[0] if len(last.rows) == 1 else None
        name = one.name if one is not None else tr("{count} videos", count=len(last.rows))
        self._text.setText(tr("Removed: {name}", name=name))
        held = labels.held(one) if one is not None else ""
        self._held.setText(held)
        self._held.setVisible(bool(held))
        self._undo.setAccessibleDescription(f"{self._text.whole} {held}".strip())


class WatchLine(QFrame):
    """Folder that is watched, with a switch.

    Hidden until a folder is watched; stays when that is switched off, to switch it on again.
    """

    toggled = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "watchLine", "card")
        self._folder, self._is_away = Path(), False
        self._switch = named(Switch(), "watchSwitch")
        bind_text(
            self._switch, self._switch.setAccessibleName, "Add videos from the watched folder"
        )
        bind_tip(self._switch, "Add videos from the watched folder")
        self._text = elided()
        row((self._text, 1), self._switch, margins=_MARGINS, on=self)
        self._switch.clicked.connect(self.toggled)
        bind(self, self._show)
        self.hide()

    def show_folder(self, folder: str, *, is_on: bool, is_away: bool) -> None:
        """Show what is watched.

        Args:
            folder: Folder that is watched, or was until it was switched off; "" for none.
            is_on: Whether it is watched now.
            is_away: Whether it cannot be read at the moment.
        """
        self._folder, self._is_away = Path(folder), is_away
        self._switch.setChecked(is_on)
        self.setVisible(bool(folder))
        self._show()

    def _show(self) -> None:
        name = labels.folder_name(self._folder)
        state = tr("Watched: {folder}") if self._switch.isChecked() else tr("Not watched: {folder}")
        whole = labels.folder(self._folder)
        if self._is_away:
            state = tr("Not available: {folder}")
            whole += "\n" + tr("Continues when it is available again.")
        self._text.setText(state.format(folder=name))
        set_tip(self, whole)
        self._switch.setAccessibleDescription(whole)


class UnfinishedBanner(QFrame):
    """A question about videos of an earlier run, with two answers; blocks nothing."""

    accepted = Signal()
    declined = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        named(self, "unfinishedBanner", "notice")
        self._jobs: Sequence[UnfinishedJob] = ()
        self._is_again = False
        self._title = label(kind="title", wraps=True)
        self._films = elided(mode=Qt.TextElideMode.ElideMiddle)
        self._text = label(kind="secondary", wraps=True)
        self._yes = button("Continue", "continueUnfinished", on=self.accepted)
        self._no = button(name="discardUnfinished", kind="quiet", on=self.declined)
        column(
            self._title,
            self._films,
            self._text,
            row(self._yes, self._no, STRETCH),
            spacing=6,
            margins=(12, 10),
            on=self,
        )
        bind(self, lambda: self.show_films(self._jobs, is_again=self._is_again))

    def show_films(self, jobs: Sequence[UnfinishedJob], *, is_again: bool) -> None:
        """Ask about these videos, which the user may have added again."""
        self._jobs, self._is_again = jobs, is_again
        names = [one_line(job.source.name) for job in jobs]
        problems = dict.fromkeys(text(job.problem) for job in jobs if job.problem is not None)
        more = len(names) - 1
        first = names[0] if names else ""
        several = tr("{name} and {count} more", name=first, count=more)
        self._films.setText(several if more > 0 else first)
        set_tip(self._films, "\n".join(names))
        title, goes_on = self._again() if is_again else self._from_last_time()
        self._title.setText(title)
        self._text.setText("\n".join(problems) or goes_on)
        self._no.setText(tr("Begin again") if is_again else tr("Discard"))
        self._yes.setVisible(not problems)
        for answer in (self._yes, self._no):
            answer.setAccessibleDescription(self._films.whole)

    def _from_last_time(self) -> tuple[str, str]:
        """Title, and what Continue does."""
        title = tr("Unfinished from last time")
        if len(self._jobs) > 1:
            return title, tr("They continue after their last finished parts.")
        return title, tr("It continues after its last finished part.")

    def _again(self) -> tuple[str, str]:
        """Title and what Continue does, where the videos wait in the queue with other settings."""
        done = sum(job.frames_done for job in self._jobs)
        percent = 100 * done // sum(job.frames_total for job in self._jobs)
        if len(self._jobs) > 1:
            return tr("These videos have unfinished jobs"), tr(
                "{percent} % done. They continue with their own settings.", percent=percent
            )
        return tr("This video has an unfinished job"), tr(
            "{percent} % done. It continues with its own settings.", percent=percent
        )


_COUNTS = {
    "sleep": mark("Queue finished: this computer goes to sleep in {seconds} s"),
    "shut-down": mark("Queue finished: this computer shuts down in {seconds} s"),
    "command": mark("Queue finished: your command runs in {seconds} s"),
}
_FAILED = {
    "sleep": mark("This computer could not be put to sleep."),
    "shut-down": mark("This computer could not be shut down."),
    "command": mark("The command after the queue could not be started."),
}


class AfterQueueCard(QFrame):
    """Seconds until the action after the queue, or its failure; hidden while there is neither."""

    cancelled = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "afterQueueCard", "notice")
        self._what, self._command, self._seconds = "sleep", "", 0
        self._notice = NoticeLine()
        self._cancel = button(name="cancelAfterQueue", on=self.cancelled)
        column(self._notice, row(self._cancel, STRETCH), spacing=10, margins=(12, 10), on=self)
        bind(self, self._show)
        self.hide()

    def show_countdown(self, what: str, command: str, seconds: int) -> None:
        """Show what follows.

        Args:
            what: A value of the setting `after_queue`.
            command: Command as the user wrote it; "" for others.
            seconds: Until then; 0 when it was tried and has failed.
        """
        self._what, self._command, self._seconds = what, command, seconds
        self._show()
        self.show()

    def _show(self) -> None:
        counts = self._seconds > 0
        text = _COUNTS[self._what] if counts else _FAILED[self._what]
        shown = tr(text, seconds=self._seconds) if counts else tr(text)
        self._notice.show_message("info" if counts else "warning", shown, self._command)
        self._cancel.setText(tr("Cancel") if counts else tr("Close"))
        self.setAccessibleName(f"{shown} {self._command}".strip())
