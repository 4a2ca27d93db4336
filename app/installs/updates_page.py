"""The page of updates: is there a newer version, what is new in it, get and install it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent, QTextDocument
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.i18n import current_language, mark, tr
from app.installs.installable import problem
from app.installs.installable import progress as figures_of
from app.state.listings import UpdateModel
from app.state.tasks_model import TaskState
from app.theme.icons import icon
from app.widgets.controls import fit_height
from app.widgets.meters import ShareBar
from app.widgets.notice_line import NoticeLine, PageLine
from app.widgets.plain import Label, Page
from app.window_place import resize_on_screen
from engine import __version__
from engine.core.units import bytes_text
from engine.protocol.update_state import UpdateState

_SMALL, _LARGE = QSize(620, 220), QSize(620, 460)  # without and with what is new
_INDENT = 20  # px, of a list
# After these no update is offered.
_NOT_OFFERED = ("update-untrusted", "update-outdated", "update-too-new")
_MARKDOWN = (
    QTextDocument.MarkdownFeature.MarkdownDialectGitHub
    | QTextDocument.MarkdownFeature.MarkdownNoHTML
)
_DOING = {
    "check": mark("Checking for updates …"),
    "download": mark("Downloading the setup …"),
    "install": mark("Verifying the setup …"),
}
_INSTEAD = {
    "portable": mark(
        "This copy was unpacked from an archive: download the new archive and replace this folder "
        "with it."
    ),
    "sources": mark("This copy runs from source: update the source code."),
}


class UpdatesPage(QDialog):
    """Shows the model; emits requests of the user."""

    requested = Signal(str)  # "check", "download", "install", "stop"

    def __init__(self, model: UpdateModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("updateDialog")
        self.setMinimumSize(_SMALL)
        self.resize(_SMALL)
        self._model = model
        self._shown_notes = ""
        self._title, self._about, self._never = Label(), Label(), Label()
        self._notice = NoticeLine()
        self._notes = Page()
        self._bar, self._doing = ShareBar(), Label()
        self._check, self._act, self._stop, self._close = (QPushButton() for _ in range(4))
        self._action = "check"
        self._name_parts()
        self._lay_out()
        self._check.clicked.connect(lambda: self.requested.emit("check"))
        self._act.clicked.connect(lambda: self.requested.emit(self._action))
        self._stop.clicked.connect(lambda: self.requested.emit("stop"))
        self._close.clicked.connect(self.close)
        model.changed.connect(self._show)
        model.progressed.connect(self._show_progress)
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self.setWindowTitle(tr("Updates"))
        self._never.setText(
            tr("Upreel checks for updates only when you press the button, never automatically.")
        )
        self._stop.setText(tr("Stop"))
        self._close.setText(tr("Close"))
        self._notes.setAccessibleName(tr("What's new"))
        self._show()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the language and the theme."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.LanguageChange, QEvent.Type.StyleChange):
            self._shown_notes = ""  # headings and links have the theme's colours
            self.retranslate_ui()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A narrower page needs more lines."""
        super().resizeEvent(event)
        fit_height(self)

    def showEvent(self, event: QShowEvent) -> None:
        """Fonts are known now."""
        super().showEvent(event)
        fit_height(self)

    # Showing

    def _show(self) -> None:
        state = self._model.state
        self._title.setText(_headline(state))
        self._about.setText(_about(state))
        self._about.setVisible(bool(state.version))
        self._show_notes(_notes(state))
        self._show_notice()
        self._show_buttons()
        self._show_progress()
        fit_height(self)

    def _show_notes(self, text: str) -> None:
        self._notes.setVisible(bool(text))
        self._filler.setVisible(not text)
        if text != self._shown_notes:
            self._shown_notes = text
            self._notes.document().setMarkdown(text, _MARKDOWN)
            if text:
                resize_on_screen(self, self.size().expandedTo(_LARGE))

    def _show_notice(self) -> None:
        model, state = self._model, self._model.state
        shown: tuple[str, ...] = ()
        if not state.is_in_build:
            sentence = tr("This build of Upreel cannot check for updates.")
            shown = ("info", sentence, tr("Download a released version of Upreel."))
        elif model.is_running:
            pass
        elif model.error is not None:
            shown = ("refusal", *problem(model.error))
        elif state.newer and _instead(state):
            shown = ("info", _instead(state))
        elif state.is_ready:
            shown = (
                "good",
                tr("The setup is downloaded and matches the published one."),
                tr(
                    "Upreel closes, the setup runs, and the new version opens. Unfinished videos "
                    "continue there."
                ),
            )
        elif state.was_checked and not state.newer:
            shown = ("good", tr("Upreel {version} is the latest version.", version=state.version))
        self._notice.setVisible(bool(shown))
        if shown:
            self._notice.show_message(*shown)

    def _show_buttons(self) -> None:
        model, state = self._model, self._model.state
        rests = state.is_in_build and not model.is_running
        is_doubtful = model.error is not None and model.error.code in _NOT_OFFERED
        is_theirs = bool(state.newer) and not _instead(state)
        again = state.newer or state.was_checked or model.error is not None
        self._check.setText(tr("Check again") if again else tr("Check for updates"))
        self._check.setIcon(icon("retry", size=16))
        self._check.setVisible(rests)
        self._act.setVisible(rests and is_theirs and not is_doubtful)
        self._action = "install" if state.is_ready else "download"
        if state.is_ready:
            self._act.setText(tr("Close Upreel and install"))
        else:
            self._act.setText(tr("Continue") if state.done_bytes else tr("Download"))
        self._stop.setVisible(model.is_running)

    def _show_progress(self, _subject: str = "") -> None:
        model = self._model
        self._bar.setVisible(model.phase == "download")
        self._doing.setVisible(model.is_running)
        if model.task is not None and model.is_running:
            self._bar.set_shares(model.share)
            self._doing.setText(_doing(model.task))
            self._bar.setAccessibleName(self._doing.text())

    def _name_parts(self) -> None:
        self._title.setProperty("kind", "headline")
        for label in (self._about, self._never, self._doing):
            label.setProperty("kind", "secondary")
        for label in (self._title, self._about, self._never):
            label.setWordWrap(True)
        self._notes.setOpenLinks(False)
        self._notes.document().setIndentWidth(_INDENT)
        self._notes.setObjectName("updateNotes")
        self._notice.setObjectName("updateNotice")
        self._doing.setObjectName("updateDoing")
        self._check.setObjectName("updateCheck")
        self._act.setObjectName("updateAct")
        self._stop.setObjectName("updateStop")
        self._close.setObjectName("updateClose")
        self._close.setDefault(True)  # else Enter would end the program

    def _lay_out(self) -> None:
        running = QHBoxLayout()
        running.setSpacing(12)
        running.addWidget(self._bar, 1)
        running.addWidget(self._doing)
        foot = QHBoxLayout()
        foot.setSpacing(12)
        foot.addWidget(self._check)
        foot.addStretch(1)
        for button in (self._stop, self._act, self._close):
            foot.addWidget(button)
        self._filler = QWidget()
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 16, 20, 16)
        column.setSpacing(12)
        column.addWidget(self._title)
        column.addWidget(self._about)
        column.addWidget(self._notes, 1)
        column.addWidget(self._notice)
        column.addLayout(running)
        column.addWidget(self._filler, 1)
        column.addWidget(self._never)
        column.addLayout(foot)
        self._title.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._title.setFocus(Qt.FocusReason.OtherFocusReason)  # no focus ring before the first tab


class UpdateLine(PageLine):
    """The line among the settings: which version this is; its button opens the page and looks."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("update", parent)
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self.name.setText(tr("Updates"))
        yours = tr("You have Upreel {version}.", version=__version__)
        never = tr("Upreel checks for updates only when you press the button, never automatically.")
        self.explanation.setText(f"{yours} {never}")
        self.button.setText(tr("Check for updates …"))


def _headline(state: UpdateState) -> str:
    """Headline of the page."""
    if state.newer:
        return tr("Upreel {version} is available", version=state.newer)
    return tr("Updates")


def _about(state: UpdateState) -> str:
    """Date and size of the newer version, and the version that runs."""
    if not state.newer:
        return tr("You have Upreel {version}.", version=state.version)
    figures = {"date": state.date, "size": bytes_text(state.bytes), "version": state.version}
    return tr("Published on {date} · {size} · you have Upreel {version}", **figures)


def _notes(state: UpdateState) -> str:
    """News of the version, as Markdown; English where there is nothing in the language."""
    return state.notes.get(current_language()) or state.notes.get("en", "")


def _instead(state: UpdateState) -> str:
    """Instructions where no setup can update this copy; "" where one can."""
    return tr(_INSTEAD[state.installed_as]) if state.installed_as in _INSTEAD else ""


def _doing(task: TaskState) -> str:
    """Description of the running task, with figures where there are some."""
    if task.phase != "download" or not task.total:
        return tr(_DOING[task.phase])
    return figures_of(task)
