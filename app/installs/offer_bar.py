"""One line across the window: what the GPU could do with a runtime, and how far that is."""

from __future__ import annotations

from PySide6.QtCore import QElapsedTimer, Qt, Signal
from PySide6.QtWidgets import QApplication, QFrame, QHBoxLayout, QPushButton, QWidget

from app.i18n import mark, tr
from app.installs import runtime_labels
from app.installs.runtime_labels import Message
from app.state.runtimes_model import (
    RuntimesModel,
    RuntimeStatus,
    Situation,
    can_repair,
)
from app.state.tasks_model import TaskState
from app.widgets.controls import Themed
from app.widgets.meters import ShareBar
from app.widgets.notice_line import NoticeLine

_BAR_WIDTH = 260  # px
_TEXTS = {
    "download": mark("Download"),
    "continue": mark("Continue"),
    "retry": mark("Try again"),
    "repair": mark("Repair"),
    "pause": mark("Pause"),
    "cancel": mark("Cancel"),
    "file": mark("From a file …"),
    "discard": mark("Delete"),
    "restart": mark("Restart now"),
    "restart_now": mark("Restart now, continue the video later"),
    "stay": mark("Do not restart"),
    "driver": mark("Download driver"),
    "details": mark("Details"),
    "later": mark("Later"),
    "hide": mark("Not now"),
    "dismiss": mark("Close"),
}
_QUIET = ("hide", "later", "dismiss", "details")
_STOPS = ("pause", "cancel")


def offers(status: RuntimeStatus, task: TaskState | None) -> tuple[str, ...]:
    """Names of the buttons for a situation, the likely one first."""
    runtime = status.runtime
    match status.situation:
        case Situation.OFFER:
            return "download", "file", "hide"
        case Situation.PARTIAL:
            return "continue", "discard", "hide"
        case Situation.BUSY if task is not None:
            return {"download": _STOPS, "remove": (), "use": ()}.get(task.phase, ("cancel",))
        case Situation.FAILED if task is not None:
            return (*(() if task.phase == "import" else ("retry",)), "file", "dismiss")
        case Situation.READY:
            return "restart", "later"
        case Situation.BROKEN if runtime is not None:
            helps = ("restart",) if runtime.is_used else ("repair",) if can_repair(runtime) else ()
            return (*helps, "details", "hide")
        case Situation.OLD_DRIVER:
            return "driver", "hide"
        case Situation.OLD_GPU:
            return "details", "hide"
    return ()


class OfferBar(Themed, QFrame):
    """Shows the model's one situation; emits requests of the user. Never blocks the window."""

    requested = Signal(str)  # a name of `_TEXTS`

    def __init__(self, model: RuntimesModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("runtimeBar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._model = model
        self._waits = ""  # for which film the new start waits
        self._notice, self._bar = NoticeLine(), ShareBar()
        self._notice.setObjectName("runtimeSays")
        self._bar.setObjectName("runtimeShare")
        self._buttons = {name: QPushButton() for name in _TEXTS}
        self._since = QElapsedTimer()  # the last press
        self._lay_out()
        model.changed.connect(self._show)
        model.progressed.connect(self._show_texts)
        self.retranslate_ui()

    def show_waiting(self, film: str) -> None:
        """Upreel starts again when this film is done; "" for no more."""
        self._waits = film
        self._show()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        for name, button in self._buttons.items():
            button.setText(tr(_TEXTS[name]))
            button.setAccessibleName(tr("{text}: NVIDIA runtime", text=tr(_TEXTS[name])))
        self._show()

    def _show(self) -> None:
        had_focus = self.isAncestorOf(QApplication.focusWidget() or self)
        shown = self._offered()
        for name, button in self._buttons.items():
            button.setVisible(name in shown)
        self.setVisible(bool(self._waits) or not self._model.is_hidden)
        self._show_texts()
        if had_focus and shown:
            self._buttons[shown[0]].setFocus(Qt.FocusReason.OtherFocusReason)

    def _offered(self) -> tuple[str, ...]:
        if self._waits:
            return "restart_now", "stay"
        return offers(self._model.status, self._model.task)

    def _show_texts(self, _runtime: str = "") -> None:
        """Texts and figures: they come several times a second."""
        shown, task = self._message(), self._model.task
        self._notice.show_message(shown.severity, shown.title, shown.text)
        self.setAccessibleName(f"{shown.title}. {shown.text}")
        is_counted = task is not None and task.runs and bool(task.total) and not self._waits
        self._bar.setVisible(is_counted)
        if task is not None and is_counted:
            self._bar.set_shares(task.share)
            self._bar.setAccessibleName(shown.text)

    def _message(self) -> Message:
        if not self._waits:
            return runtime_labels.message(self._model)
        return Message(
            severity="info",
            title=tr("Upreel restarts when {film} is finished", film=self._waits),
            text=tr("Other videos wait until then and continue automatically afterwards."),
        )

    def _act(self, name: str) -> None:
        """The second half of a double click does not stop what the first has begun."""
        is_double = self._since.isValid() and not self._since.hasExpired(
            QApplication.doubleClickInterval()
        )
        self._since.start()
        if not (is_double and name in _STOPS):
            self.requested.emit(name)

    def _lay_out(self) -> None:
        self._bar.setFixedWidth(_BAR_WIDTH)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 10, 16, 10)
        row.setSpacing(8)
        row.addWidget(self._notice, 1)
        row.addWidget(self._bar)
        row.addSpacing(16)
        for name, button in self._buttons.items():
            button.setObjectName(f"runtime-{name}")
            if name in _QUIET:
                button.setProperty("kind", "quiet")
            button.clicked.connect(lambda _=False, name=name: self._act(name))
            row.addWidget(button, 0, Qt.AlignmentFlag.AlignVCenter)
