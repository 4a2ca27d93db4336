"""The page of updates: is there a newer version, what is new in it, get and install it."""

from __future__ import annotations

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent, QTextDocument
from PySide6.QtWidgets import QWidget

from app.bound import bind
from app.i18n import current_language, mark, tr
from app.installs.installable import ACTIONS, Message, problem, progress, show_message
from app.state.listings import UpdateModel
from app.widgets.layouts import STRETCH, row
from app.widgets.meters import ShareBar
from app.widgets.notice_line import NoticeLine, PageLine
from app.widgets.page import Page
from app.widgets.parts import bind_text, button, label, named
from app.widgets.plain import RichTextView
from engine import __version__
from engine.core.units import bytes_text

_SMALL, _LARGE = QSize(620, 220), QSize(620, 460)  # without and with what is new
_INDENT = 20  # px, of a list
# After these no update is offered.
_NOT_OFFERED = ("update-untrusted", "update-outdated", "update-too-new")
_MARKDOWN = (
    QTextDocument.MarkdownFeature.MarkdownDialectGitHub
    | QTextDocument.MarkdownFeature.MarkdownNoHTML
)
_NEVER = mark("Upreel checks for updates only when you press the button, never automatically.")
_DOING = {
    "check": mark("Checking for updates …"),
    "download": mark("Downloading the setup …"),
    "install": mark("Verifying the setup …"),
}
_INSTEAD = {  # ways to update copies that no setup can update
    "portable": mark(
        "This copy was unpacked from an archive: download the new archive and replace this folder "
        "with it."
    ),
    "sources": mark("This copy runs from source: update the source code."),
}


class UpdatesPage(Page):
    """Shows the model; emits requests of the user."""

    requested = Signal(str)  # "check", "download", "install", "stop"

    def __init__(self, model: UpdateModel, parent: QWidget | None = None) -> None:
        super().__init__("updateDialog", mark("Updates"), parent, size=_SMALL, least=_SMALL)
        self._model = model
        self._shown_notes, self._action = "", "check"
        self._title = label(kind="headline", wraps=True)
        self._about = label(kind="secondary", wraps=True)
        self._notes, self._filler = named(RichTextView(), "updateNotes"), QWidget()
        self._notes.setOpenLinks(False)
        self._notes.document().setIndentWidth(_INDENT)
        bind_text(self._notes, self._notes.setAccessibleName, mark("What's new"))
        self._notice = named(NoticeLine(), "updateNotice")
        self._bar, self._doing = ShareBar(), label(kind="secondary", name="updateDoing")
        ask = self.requested.emit
        self._check = button(name="updateCheck", icon="retry", on=lambda: ask("check"))
        self._act = button(name="updateAct", on=lambda: ask(self._action))
        self._stop = button("Stop", "updateStop", on=lambda: ask("stop"))
        close = button("Close", "updateClose", on=self.close)
        close.setDefault(True)  # else Enter would end the program
        self.fill(
            self._title,
            self._about,
            (self._notes, 1),
            self._notice,
            row((self._bar, 1), self._doing, spacing=12),
            (self._filler, 1),
            label(lambda: tr(_NEVER), "secondary", wraps=True),
            row(self._check, STRETCH, self._stop, self._act, close, spacing=12),
            spacing=12,
            focus=self._title,
        )
        model.changed.connect(self._show)
        model.progressed.connect(self._show_progress)
        bind(self, self._show_anew, theme=True)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A narrower page needs more lines."""
        super().resizeEvent(event)
        self.fit_height()

    def showEvent(self, event: QShowEvent) -> None:
        """Fonts are known now."""
        super().showEvent(event)
        self.fit_height()

    def _show_anew(self) -> None:
        self._shown_notes = ""  # headings and links have the theme's colours
        self._show()

    def _show(self) -> None:
        model, state = self._model, self._model.state
        if state.newer:
            self._title.setText(tr("Upreel {version} is available", version=state.newer))
            about = {"date": state.date, "size": bytes_text(state.bytes), "version": state.version}
            self._about.setText(
                tr("Published on {date} · {size} · you have Upreel {version}", **about)
            )
        else:
            self._title.setText(tr("Updates"))
            self._about.setText(tr("You have Upreel {version}.", version=state.version))
        self._about.setVisible(bool(state.version))
        # English where there is nothing in the language.
        self._show_notes(state.notes.get(current_language()) or state.notes.get("en", ""))
        show_message(self._notice, self._message())
        rests = state.is_in_build and not model.is_running
        is_doubtful = model.error is not None and model.error.code in _NOT_OFFERED
        has_setup = bool(state.newer) and state.installed_as not in _INSTEAD
        again = state.newer or state.was_checked or model.error is not None
        self._check.setText(tr("Check again") if again else tr("Check for updates"))
        self._check.setVisible(rests)
        self._act.setVisible(rests and has_setup and not is_doubtful)
        self._action = "install" if state.is_ready else "download"
        if state.is_ready:
            self._act.setText(tr("Close Upreel and install"))
        else:
            self._act.setText(tr(ACTIONS["continue" if state.done_bytes else "download"]))
        self._stop.setVisible(model.is_running)
        self._show_progress()
        self.fit_height()

    def _show_notes(self, notes: str) -> None:
        """Show the news of the version, Markdown."""
        self._notes.setVisible(bool(notes))
        self._filler.setVisible(not notes)
        if notes != self._shown_notes:
            self._shown_notes = notes
            self._notes.document().setMarkdown(notes, _MARKDOWN)
            if notes:
                self.resize_on_screen(self.size().expandedTo(_LARGE))

    def _message(self) -> Message | None:
        model, state = self._model, self._model.state
        if not state.is_in_build:
            sentence = tr("This build of Upreel cannot check for updates.")
            return Message("info", sentence, tr("Download a released version of Upreel."))
        if model.is_running:
            return None
        if model.error is not None:
            return Message("refusal", *problem(model.error))
        if state.newer and state.installed_as in _INSTEAD:
            return Message("info", tr(_INSTEAD[state.installed_as]))
        if state.is_ready:
            then = tr(
                "Upreel closes, the setup runs, and the new version opens. Unfinished videos "
                "continue there."
            )
            done = tr("The setup is downloaded and matches the published one.")
            return Message("good", done, then)
        if state.was_checked and not state.newer:
            newest = tr("Upreel {version} is the latest version.", version=state.version)
            return Message("good", newest)
        return None

    def _show_progress(self, _subject: str = "") -> None:
        model, task = self._model, self._model.task
        self._bar.setVisible(model.phase == "download")
        self._doing.setVisible(model.is_running)
        if task is not None and model.is_running:
            is_counted = task.phase == "download" and task.total
            self._bar.set_shares(model.share)
            self._doing.setText(progress(task) if is_counted else tr(_DOING[task.phase]))
            self._bar.setAccessibleName(self._doing.text())


def update_line() -> PageLine:
    """The line among the settings: which version this is; its button opens the page and checks."""

    def about() -> str:
        return f"{tr('You have Upreel {version}.', version=__version__)} {tr(_NEVER)}"

    return PageLine(
        "update", title=mark("Updates"), explanation=about, text=mark("Check for updates …")
    )
