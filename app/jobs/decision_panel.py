"""The bottom of the right column: the plan, doubts or the error, and what to do now."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QApplication, QFrame, QSizePolicy, QWidget

from app.actions import Actions
from app.bound import bind
from app.engine_messages import text
from app.i18n import tr
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

_NAME_WIDTH = 110  # px of a video's name on a button
_MARGIN = 16  # px at both sides
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
    waits = model.count(JobState.WAITING) > 0 and model.active is None
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
        self._primary = button(
            name="primaryAction",
            kind="primary",
            on=lambda: actions[self._names[0]].trigger(),
        )
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
        cards.setFixedWidth(tokens.CHOICES_WIDTH - 1 - 2 * _MARGIN)  # with a scroll bar, too
        self._cards = CompactScroll(cards)
        buttons = row((self._primary, 1), self._second, spacing=8)
        self._below = column(self._running, self._stops, buttons, margins=(0, 0, _BAR, 0))
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
        """Show whether the queue stops after the video that runs."""
        self._stops.setChecked(stops)

    def take_focus(self) -> bool:
        """Give the keyboard to the main button of this state; False where none can be pressed."""
        if self._model.active is not None:
            self._running.setFocus()
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
        texts = {
            "start": self._start_text(),
            "download_start": self._download_text(),
            "download_stop": tr("Stop download"),
            "play": tr("Play"),
            "open_result": tr("Open result"),
            "retry": self._retry_text(),
            "run_again": tr("Run again"),
            "show_in_folder": tr("Folder"),
            "accept": tr("Keep it anyway"),
        }
        first, second = self._names
        self.error.leave_out(self._names)
        focused = QApplication.focusWidget()
        self._primary.setText(caption(texts[first]))
        self._primary.setAccessibleName(tr("Play the result") if first == "play" else "")
        if second:
            self._second.setText(texts[second])
            self._second.setEnabled(self._actions[second].isEnabled())
        self._second.setVisible(bool(second))
        self._running.show_active(active, is_selected=active is self._row)
        self._stops.setVisible(active is not None)
        is_able = self._actions[first].isEnabled()
        self._primary.setEnabled(is_able)
        self._primary.setVisible(is_able or active is None)  # Pause is the main button meanwhile
        is_ours = focused is not None and self.isAncestorOf(focused)
        if is_ours and focused is not QApplication.focusWidget():
            self.focus_freed.emit()  # Qt has moved it to the log, and the next key would open that
        more = "" if first != "start" else "Ctrl+Enter" if is_able else self._why_not()
        set_tip(self._primary, more)
        self._primary.setAccessibleDescription(more)

    def _start_text(self) -> str:
        waiting = self._model.startable
        if waiting and self._offers_unfinished:
            several = tr("Start {count} queued videos", count=waiting)
            return several if waiting > 1 else tr("Start the queued video")
        return tr("Start queue ({count})", count=waiting) if waiting > 1 else tr("Start")

    def _retry_text(self) -> str:
        """A video that was cancelled goes on after its last finished part."""
        row = self._row
        is_begun = row is not None and row.state is JobState.CANCELLED and row.done > 0
        return tr("Continue") if is_begun else tr("Try again")

    def _download_text(self) -> str:
        """Text of the button, with the size of the download where the plan knows it."""
        row = self._row
        notices = row.plan.notices if row is not None and row.plan is not None else ()
        size = next((str(n.params.get("size", "")) for n in notices if n.code == MISSING), "")
        if row is not None and PretendedGpu.code in row.refusals:  # nothing starts afterwards
            return tr("Download · {size}", size=size) if size else tr("Download")
        return tr("Download and start · {size}", size=size) if size else tr("Download and start")

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
        self._pause = button(
            name="pauseAction",
            kind="primary",
            tip=lambda: "Ctrl+P",
            on=actions["pause"].trigger,
        )
        self._cancel = button("Cancel", "cancelAction", "large", on=actions["cancel"].trigger)
        self.setFocusProxy(self._pause)
        self._pause.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        row(self._pause, self._cancel, spacing=8, on=self)

    def show_active(self, active: JobRow | None, *, is_selected: bool) -> None:
        """Show the video that runs; it is named where another one is selected."""
        self.setVisible(active is not None)
        if active is None:
            return
        whole = active.name
        name = "" if is_selected else self._short(whole)
        if active.state is JobState.PAUSED:
            text = tr("Resume {name}", name=name) if name else tr("Resume")
        else:
            text = tr("Pause {name}", name=name) if name else tr("Pause")
        self._pause.setText(caption(text))
        what = tr("Cancel {name}", name=whole)
        set_tip(self._cancel, what)
        self._cancel.setAccessibleDescription(what)

    def _short(self, name: str) -> str:
        """The name of a video as wide as the button has room for."""
        metrics = self._pause.fontMetrics()
        return metrics.elidedText(name, Qt.TextElideMode.ElideMiddle, _NAME_WIDTH)


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
