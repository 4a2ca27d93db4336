"""NVIDIA runtimes in the window: their page, the line among the settings, the card that offers."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QApplication, QFrame, QPushButton, QWidget

from app.bound import bind
from app.engine_messages import text
from app.i18n import mark, tr
from app.installs import runtime_labels
from app.installs.installable import (
    ACTIONS,
    DoubleClick,
    Group,
    InstallsPage,
    Message,
    PageSpec,
    Widths,
    show_message,
)
from app.state.runtimes_model import RuntimesModel, find
from app.widgets.controls import FlowLayout
from app.widgets.layouts import column
from app.widgets.meters import ShareBar
from app.widgets.notice_line import NoticeLine, PageLine
from app.widgets.parts import button, follow_in_tab_order, label, named

_SPEC = PageSpec(
    name="runtime",
    title=mark("NVIDIA runtime"),
    file=mark("From a file …"),
    foot=mark(
        'Without internet access, download the file on another computer and choose "From '
        'a file …". A runtime in use can be removed after Upreel has been started '
        "without it."
    ),
    widths=Widths(facts=(), state=172, button=112, more=34),
    size=(880, 540),
    least=(720, 420),
)
_OFFERS = {  # buttons of the card, in their order
    **{
        name: ACTIONS[name]
        for name in ("download", "continue", "retry", "repair", "pause", "cancel")
    },
    "use": mark("Try again"),
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


class RuntimesPage(InstallsPage):
    """Which torch is in use and why, and a row for each one that could be."""

    def __init__(self, model: RuntimesModel, parent: QWidget | None = None) -> None:
        super().__init__(_SPEC, parent)
        self._model = model
        lead = label(
            "The NVIDIA runtime lets Upreel run on the GPU; without it, Upreel runs on the "
            "CPU. It is the official PyTorch build for NVIDIA GPUs and is used only if its "
            "checksum matches the published one.",
            "secondary",
            wraps=True,
        )
        self._now = named(NoticeLine(), "runtimeNow")
        self._trouble = named(NoticeLine(), "runtimeTrouble")
        self._restart = button(
            "Restart now", "runtimeRestart", on=lambda: self.requested.emit("restart", "")
        )
        self.lay_out((lead, self._now, self._trouble), buttons=(self._restart,))
        model.changed.connect(self._show)
        model.progressed.connect(self._show_progress)
        bind(self, self._show, theme=True)

    def _show(self) -> None:
        model, listed, task = self._model, self._model.listed, self._model.task
        self.show_room(listed.free_mb if listed is not None else None)
        self._file.setVisible(listed is not None and bool(listed.card))
        self._file.setEnabled(not model.is_running)
        self._restart.setVisible("restart" in runtime_labels.message(model).offers)
        show_message(self._now, runtime_labels.in_use(model))
        self._show_trouble()
        shown = (runtime_labels.own(model), *model.runtimes) if listed is not None else ()
        items = tuple(
            runtime_labels.item_of(
                state,
                task if task is not None and task.subject == state.id else None,
                is_idle=not model.is_running,
            )
            for state in shown
        )
        self.show_groups([Group(items=items)] if items else [])

    def _show_trouble(self) -> None:
        """Messages that concern no row: an import that fails or runs, good news."""
        model, task = self._model, self._model.task
        is_elsewhere = task is not None and find(model.listed, task.subject) is None
        good = Message("good", text(model.done)) if model.done is not None else None
        show_message(self._trouble, runtime_labels.message(model) if is_elsewhere else good)

    def _show_progress(self, runtime: str) -> None:
        """Only what the progress changes."""
        if not self.show_progress(runtime, self._model.task):
            self._show_trouble()


class RuntimeLine(PageLine):
    """The line among the settings: which runtime is in use and why, and the way to the page."""

    def __init__(self, model: RuntimesModel) -> None:
        super().__init__(
            "runtime",
            title=mark("NVIDIA runtime"),
            text=mark("Show …"),
            says=lambda: tr("{text}: NVIDIA runtime", text=tr("Show …")),
        )
        self._model = model
        model.changed.connect(self._show)
        bind(self, self._show)

    def _show(self) -> None:
        self.explanation.setText(runtime_labels.summary(self._model))


class OfferCard(QFrame):
    """The model's one situation, and buttons; a notice of the queue's column. Never blocks."""

    requested = Signal(str)  # a name of `_OFFERS`

    def __init__(self, model: RuntimesModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "runtimeCard", "notice")
        self._model = model
        self._waits = ""  # name of the video that the restart waits for
        self._notice = named(NoticeLine(), "runtimeSays")
        self._share = named(ShareBar(), "runtimeShare")
        self._clicks = DoubleClick()
        self._buttons = dict[str, QPushButton]()  # made with the first offer: most see none
        self._offers = FlowLayout(spacing=6)
        column(self._notice, self._share, self._offers, spacing=10, margins=(12, 10), on=self)
        model.changed.connect(self._show)
        model.progressed.connect(self._show_texts)
        bind(self, self._show)

    def _make_button(self, name: str) -> QPushButton:
        return button(
            lambda: tr(_OFFERS[name]),
            f"runtime-{name}",
            "quiet" if name in _QUIET else "",
            says=lambda: tr("{text}: NVIDIA runtime", text=tr(_OFFERS[name])),
            on=lambda: self._act(name),
        )

    def _act(self, name: str) -> None:
        if not self._clicks.stops(name):
            self.requested.emit(name)

    def show_waiting(self, film: str) -> None:
        """Show that Upreel restarts when a video is finished; "" for no longer."""
        self._waits = film
        self._show()

    def _show(self) -> None:
        had_focus = self.isAncestorOf(QApplication.focusWidget() or self)
        offers = self._message().offers
        if offers and not self._buttons:
            self._buttons = {name: self._make_button(name) for name in _OFFERS}
            for part in self._buttons.values():
                self._offers.addWidget(part)
            follow_in_tab_order(self, self._buttons.values())
        for name, part in self._buttons.items():
            part.setVisible(name in offers)
        self.setVisible(bool(self._waits) or not self._model.is_hidden)
        self._show_texts()
        if had_focus and offers:
            self._buttons[offers[0]].setFocus(Qt.FocusReason.OtherFocusReason)

    def _show_texts(self, _runtime: str = "") -> None:
        """Texts and figures: they come several times a second."""
        shown, task = self._message(), self._model.task
        show_message(self._notice, shown)
        self.setAccessibleName(f"{shown.title}. {shown.text}")
        is_counted = task is not None and task.runs and bool(task.total) and not self._waits
        self._share.setVisible(is_counted)
        if task is not None and is_counted:
            self._share.set_shares(task.share)
            self._share.setAccessibleName(shown.text)

    def _message(self) -> Message:
        if not self._waits:
            return runtime_labels.message(self._model)
        title = tr("Upreel restarts when {film} is finished", film=self._waits)
        said = tr("Other videos wait until then and continue automatically afterwards.")
        return Message("info", title, said, ("restart_now", "stay"))
