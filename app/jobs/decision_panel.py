"""The bottom of the right column: the plan, doubts or the error, and what to do now."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QApplication,
    QBoxLayout,
    QFrame,
    QPushButton,
    QSizePolicy,
    QWidget,
)

from app.actions import Actions
from app.bound import bind
from app.engine_messages import text
from app.i18n import tr
from app.installs.installable import DoubleClick
from app.jobs.report_dialog import DoubtCard
from app.plan.plan_card import PlanCard
from app.state.downloads_model import MISSING, DownloadsModel, can_download
from app.state.job_row import JobRow, JobState
from app.state.queue_model import QueueModel
from app.theme import tokens
from app.theme.icons import pixmap
from app.widgets.compact_scroll import CompactScroll
from app.widgets.controls import Switch
from app.widgets.error_view import ErrorCard
from app.widgets.layouts import column, layout_of, row, set_margins
from app.widgets.parts import bind_text, button, label, named
from app.widgets.plain import caption, set_tip
from engine.core.errors import PretendedGpu

_NAME_WIDTHS = (200, 110, 60)  # px of the name of a video on a button
_MARGIN = 16  # px at both sides
_WIDTH = tokens.CHOICES_WIDTH - 1 - 2 * _MARGIN  # px of the cards, and of the buttons below them
_BAR = 12  # px of the right margin, for the scroll bar of a long card


def download_action(downloads: DownloadsModel, row: JobRow | None) -> str:
    """Text of the action that provides missing files; "" where nothing has to be downloaded."""
    if row is not None and row.job_id in downloads.films:
        return "download_stop"
    may_wait = row is not None and (row.state.can_change or row.state.can_retry)
    return "download_start" if row is not None and may_wait and can_download(row) else ""


def primary_action(
    model: QueueModel, downloads: DownloadsModel, row: JobRow | None
) -> tuple[str, str]:
    """The main action for the selected video and the second one: names of actions, "" for none.

    What concerns the video that runs has buttons of its own, which never mean anything else.
    """
    waits = bool(model.startable) and model.active is None
    download = download_action(downloads, row)
    if download:
        return download, "start" if waits and model.can_start else ""
    if row is not None and row.lost is not None:
        return ("start", "run_again") if waits else ("run_again", "show_in_folder")
    if row is not None and row.state is JobState.DONE:
        is_still = row.media is not None and row.media.kind == "image"
        look = "open_result" if is_still else "play"
        return ("start" if waits else look), "accept" if row.is_doubtful else ""
    if row is not None and row.can_retry:
        return ("start", "retry") if waits else ("retry", "")
    return "start", ""


class DecisionPanel(QWidget):
    """Shows at most one of four cards, what can be done, and what concerns the video that runs."""

    choices_requested = Signal(dict)  # settings by name, that a refused plan offers
    stop_requested = Signal(bool)  # after the video that runs; False takes that back
    focus_freed = Signal()  # the button that had it cannot be pressed any more

    def __init__(
        self,
        model: QueueModel,
        downloads: DownloadsModel,
        actions: Actions,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        named(self, "decisionPanel", has_ground=True)
        self._model, self._downloads, self._actions = model, downloads, actions
        self._row: JobRow | None = None
        self._names = ("start", "")
        self.held = ""  # why nothing may start
        self._offers_unfinished = False
        self.plan, self.doubt = PlanCard(downloads, actions), DoubtCard()
        self.error = ErrorCard(actions)
        self._hint = _HintCard()
        self._clicks = DoubleClick()
        self._primary = button(name="primaryAction", kind="primary", on=self._press)
        self._second = button(
            name="secondAction",
            kind="large",
            on=lambda: actions[self._names[1]].trigger(),
        )
        self._primary.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._running = _RunningRow(actions)
        self._stops = named(Switch(), "stopsAfterThis")
        cards = QWidget()
        column(self._hint, self.plan, self.doubt, self.error, on=cards)
        cards.setFixedWidth(_WIDTH)  # with a scroll bar, too
        self._cards = CompactScroll(cards)
        self._buttons = row((self._primary, 1), self._second, spacing=8)
        self._below = column(self._running, self._stops, self._buttons, margins=(0, 0, _BAR, 0))
        column(self._cards, self._below, on=self)
        self._stops.clicked.connect(self.stop_requested)
        self.plan.choices_requested.connect(self.choices_requested)
        actions["start"].changed.connect(self._show_buttons)
        downloads.changed.connect(lambda: self.show_job(self._row))
        self.set_low(False)
        self.show_job(None)
        bind_text(self._stops, self._stops.setText, "Stop after this video")
        bind(self, self._show_state, theme=True)

    def show_job(self, row: JobRow | None) -> None:
        """Show what concerns the selected job."""
        self._row = row
        shown: QWidget | None = self._hint
        download = download_action(self._downloads, row)
        error = (row.error or row.lost) if row is not None else None
        if row is not None and error is not None and not (download and row.plan is not None):
            self.error.show_error(error)
            shown = self.error
        elif row is not None and row.report is not None:
            self.doubt.show_problems(row.report.problems)
            shown = self.doubt if row.report.problems else None  # the rest is below the picture
        elif row is not None and row.plan is not None:
            self.plan.show_job(row)
            shown = self.plan
        for card in (self._hint, self.plan, self.doubt, self.error):
            card.setVisible(card is shown)
        self._cards.setVisible(shown is not None)
        self._show_state()
        self._cards.settle()

    def limit_card(self, height: int) -> None:
        """Limit the height of the card, px; its content scrolls."""
        self._cards.setMaximumHeight(height)

    def set_low(self, is_low: bool) -> None:
        """Shrink gaps in a low window."""
        gap = 6 if is_low else 8
        for layout in (layout_of(self), self._below):
            layout.setSpacing(gap)
        set_margins(layout_of(self), (_MARGIN, gap, _MARGIN - _BAR, gap + 4))
        # The main button comes in its place, and never below a pointer that was about to pause.
        height = 0 if is_low else self._primary.sizeHint().height()
        self._stops.setMinimumHeight(height)

    def offer_unfinished(self, is_offered: bool) -> None:
        """Films of an earlier run wait for an answer: Start says which ones it starts."""
        self._offers_unfinished = is_offered
        self._show_buttons()

    def hold(self, reason: str) -> None:
        """Let nothing start, and show why; "" lets it."""
        self.held = reason
        self._show_buttons()

    def show_stop(self, stops: bool) -> None:
        """Show whether the queue stops after the video that runs; Cancel is no such request."""
        active = self._model.active
        if active is None or active.asked != "cancel":
            self._stops.setChecked(stops)

    def take_focus(self) -> bool:
        """Give the keyboard to the main button of this state; False where none can be pressed."""
        if self._model.active is not None:
            self._running.take_focus()
            return True
        if self._primary.isEnabled():
            self._primary.setFocus()
        return self._primary.isEnabled()

    def _show_state(self) -> None:
        self._hint.show_state(self._row)
        self._show_buttons()

    def _show_buttons(self) -> None:
        self._names = primary_action(self._model, self._downloads, self._row)
        active = self._model.active
        first, second = self._names
        self.error.leave_out(self._names)
        focused = QApplication.focusWidget()
        whole = self._show_texts(first, second)
        if second:
            self._second.setEnabled(self._actions[second].isEnabled())
        self._second.setVisible(bool(second))
        self._running.show_active(active, is_selected=active is self._row)
        self._show_switch()
        is_able = self._actions[first].isEnabled()
        self._primary.setEnabled(is_able)
        self._primary.setVisible(is_able or active is None)  # Pause is the main button meanwhile
        is_ours = focused is not None and self.isAncestorOf(focused)
        if is_ours and focused is not QApplication.focusWidget():
            self.focus_freed.emit()  # Qt has moved it to the log, and the next key would open that
        more = "" if first != "start" else "Ctrl+Enter" if is_able else self._why_not()
        set_tip(self._primary, "\n".join(filter(None, (whole, more))))
        self._primary.setAccessibleDescription(more)

    def _press(self) -> None:
        if not self._clicks.stops("stop" if self._names[0] == "download_stop" else ""):
            self._actions[self._names[0]].trigger()

    def _show_switch(self) -> None:
        """The switch, where there is another video to stop before; else only its place.

        What comes where Pause was would be pressed by who wanted to pause.
        """
        policy = self._stops.sizePolicy()
        policy.setRetainSizeWhenHidden(self._model.active is not None)
        self._stops.setSizePolicy(policy)
        others = self._model.count(JobState.READING, JobState.WAITING)
        self._stops.setVisible(self._model.active is not None and others > 0)

    def _show_texts(self, first: str, second: str) -> str:
        """Show the longest texts that fit side by side, else one button below the other.

        Returns:
            The whole text of the main button, where less of it is shown.
        """
        texts = [self._texts(name) for name in (first, second) if name]
        buttons = (self._primary, self._second)[: len(texts)]
        gaps = (len(texts) - 1) * self._buttons.spacing()
        fitting = (
            words for words in product(*texts) if sum(map(_width, buttons, words)) + gaps <= _WIDTH
        )
        beside = next(fitting, None)
        shown = beside or [
            _longest(one, words, _WIDTH) for one, words in zip(buttons, texts, strict=True)
        ]
        ways = QBoxLayout.Direction
        self._buttons.setDirection(ways.LeftToRight if beside else ways.TopToBottom)
        for one, words, (whole, *_) in zip(buttons, shown, texts, strict=True):
            one.setText(caption(words))
            one.setAccessibleName(whole if whole != words else "")
            set_tip(one, one.accessibleName())
        if first == "play":
            self._primary.setAccessibleName(tr("Play the result"))
        return texts[0][0] if texts[0][0] != shown[0] else ""

    def _texts(self, action: str) -> list[str]:
        """Texts of an action, the longest first."""
        match action:
            case "start":
                return self._start_texts()
            case "download_start":
                return self._download_texts()
            case "download_stop":
                return [tr("Stop download")]
            case "retry":
                return [self._retry_text()]
            case "accept":
                return [tr("Keep it anyway")]
            case "run_again":
                return [tr("Run again")]
            case "show_in_folder":
                return [tr("Folder")]
            case "open_result":
                return [tr("Open result")]
        return [tr("Play")]

    def _start_texts(self) -> list[str]:
        """Texts with the number of videos, or with the name of one that is not selected."""
        waiting = self._model.startable
        count = len(waiting)
        if count > 1 and self._offers_unfinished:
            return [tr("Start {count} queued videos", count=count)]
        if count > 1:
            return [tr("Start queue ({count})", count=count)]
        if count and waiting[0] is not self._row:
            return [tr("Start {name}", name=name) for name in _names(waiting[0], self._primary)]
        return [tr("Start the queued video") if count and self._offers_unfinished else tr("Start")]

    def _retry_text(self) -> str:
        """A video that was cancelled goes on after its last finished part."""
        row = self._row
        is_begun = row is not None and row.state is JobState.CANCELLED and row.done > 0
        return tr("Continue") if is_begun else tr("Try again")

    def _download_texts(self) -> list[str]:
        """Texts of the button, with the size of the download where the plan knows it."""
        row = self._row
        notices = row.plan.notices if row is not None and row.plan is not None else ()
        size = next((str(n.params.get("size", "")) for n in notices if n.code == MISSING), "")
        if row is not None and PretendedGpu.code in row.refusals:  # nothing starts afterwards
            texts = [tr("Download · {size}", size=size), tr("Download")]
        else:
            texts = [tr("Download and start · {size}", size=size), tr("Download and start")]
        return texts if size else texts[1:]

    def _why_not(self) -> str:
        """Why nothing can be started."""
        if self.held:
            return self.held
        active = self._model.active
        if active is not None:
            return tr("{name} is being processed", name=active.name)
        row = self._row
        if row is not None and row.error is not None:
            return text(row.error)
        if row is not None and row.awaits_plan:
            return tr("Planning …")
        plan = row.plan if row is not None else None
        if plan is None or plan.fits:
            to_continue = tr("Continue the unfinished videos, or add a video")
            return to_continue if self._offers_unfinished else tr("Add a video first")
        if plan.is_pretended:
            return tr("Planned for {gpu}, which is not in this computer", gpu=plan.card)
        return next(text(n) for n in plan.notices if n.severity == "refusal")


class _RunningRow(QWidget):
    """Pause and Cancel of the video that runs; hidden while none does."""

    def __init__(self, actions: Actions) -> None:
        super().__init__()
        self._actions, self._clicks = actions, DoubleClick()
        self._pause = button(
            name="pauseAction",
            kind="primary",
            tip=lambda: "Ctrl+P",
            on=self._press,
        )
        self._cancel = button(name="cancelAction", kind="large", on=actions["cancel"].trigger)
        self._pause.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._row = row(self._pause, self._cancel, spacing=8, on=self)

    def take_focus(self) -> None:
        """Give the keyboard to Pause, or keep it here until that can be pressed."""
        (self._pause if self._pause.isEnabled() else self).setFocus()

    def show_active(self, active: JobRow | None, *, is_selected: bool) -> None:
        """Show the video that runs; it is named where another one is selected."""
        self.setVisible(active is not None)
        if active is None:
            return
        has_focus = any(one.hasFocus() for one in (self, self._pause, self._cancel))
        is_ending = active.asked == "cancel"
        self._cancel.setText(tr("Cancelling …") if is_ending else tr("Cancel"))
        names = [] if is_selected or is_ending else _names(active, self._pause)
        if active.asked == "pause":
            texts = [tr("Pausing …")]
        elif active.state is JobState.PAUSED:
            texts = [tr("Resume {name}", name=name) for name in names] or [tr("Resume")]
        else:
            texts = [tr("Pause {name}", name=name) for name in names] or [tr("Pause")]
        room = _WIDTH - self._row.spacing() - self._cancel.sizeHint().width()
        self._pause.setText(caption(_longest(self._pause, texts, room)))
        what = tr("Cancel {name}", name=active.name)
        set_tip(self._cancel, what)
        self._cancel.setAccessibleDescription(what)
        for one, action in ((self._pause, "pause"), (self._cancel, "cancel")):
            one.setEnabled(self._actions[action].isEnabled())
        if has_focus and not (self._cancel.hasFocus() or self._pause.hasFocus()):
            self.take_focus()  # else Qt leaves it to the log

    def _press(self) -> None:
        if not self._clicks.stops("pause"):  # nor does the second half of a double click resume
            self._actions["pause"].trigger()


def _width(one: QPushButton, text: str) -> int:
    """Width that a button needs for a text, px."""
    one.ensurePolished()
    one.setText(caption(text))
    return one.sizeHint().width()


def _longest(one: QPushButton, texts: Sequence[str], room: int) -> str:
    """The first of the texts that fits; the last one where none does."""
    return next((text for text in texts if _width(one, text) <= room), texts[-1])


def _names(video: JobRow, one: QPushButton) -> list[str]:
    """The name of a video, then less and less of it."""
    elide, mode = one.fontMetrics().elidedText, Qt.TextElideMode.ElideMiddle
    return [video.name, *(elide(video.name, mode, width) for width in _NAME_WIDTHS)]


class _HintCard(QFrame):
    """Text while there is no plan."""

    def __init__(self) -> None:
        super().__init__()
        named(self, kind="card")
        self._icon, self._text = label(), label(kind="secondary", wraps=True)
        row(self._icon, (self._text, 1), spacing=10, margins=14, on=self)

    def show_state(self, row: JobRow | None) -> None:
        self._icon.setPixmap(pixmap("info", tokens.current().information, 18))
        if row is None:
            self._text.setText(
                tr(
                    "Add a video to see, before anything starts, whether it fits into memory, how "
                    "long it takes and how large the file gets."
                )
            )
        else:
            self._text.setText(tr("Reading the file and planning …"))
