"""An error of the engine, translated by its code, with one button that helps."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.engine_messages import hint, text
from app.i18n import mark, tr
from app.theme import tokens
from app.theme.icons import pixmap
from engine.core.errors import ErrorInfo


@dataclass(frozen=True, slots=True)
class Help:
    """What the window says about an error code: title, and the button's action and text."""

    title: str
    action: str  # what MainWindow.do takes
    button: str


RETRY = mark("Try again")
REMOVE = mark("Remove from the queue")
LOG = mark("Show the log")
MODELS = mark("Show the models")
RUNTIME = mark("Show the NVIDIA runtime")
CHOICES = mark("Change the choices")
HELP = {
    "engine-error": Help(mark("Something went wrong"), "log", LOG),
    "input-error": Help(mark("This file cannot be used"), "remove", REMOVE),
    "source-missing": Help(mark("The file is not there any more"), "retry", RETRY),
    "source-unreadable": Help(mark("The file may not be read"), "retry", RETRY),
    "unreadable-media": Help(mark("This is no film or picture we can read"), "remove", REMOVE),
    "truncated-media": Help(mark("The file ends too early"), "source", mark("Look at the file")),
    "unsupported-media": Help(mark("This kind of file cannot be used"), "remove", REMOVE),
    "output-error": Help(
        mark("The result cannot be written"), "folder", mark("Choose another folder")
    ),
    "output-exists": Help(
        mark("A file of that name is already there"), "rename", mark("Choose another name")
    ),
    "output-is-input": Help(
        mark("The result would replace its own source"), "rename", mark("Choose another name")
    ),
    "output-name": Help(
        mark("Windows cannot use that name"), "rename", mark("Choose another name")
    ),
    "output-unwritable": Help(
        mark("This folder cannot be written to"), "folder", mark("Choose another folder")
    ),
    "disk-full": Help(mark("The disk is full"), "result", mark("Open the folder")),
    "encoder-missing": Help(mark("This machine cannot write that codec"), "choices", CHOICES),
    "container-mismatch": Help(mark("That kind of file cannot hold this"), "choices", CHOICES),
    "weights-error": Help(mark("The model file cannot be used"), "models", MODELS),
    "weights-missing": Help(
        mark("The model is not on this machine yet"), "get-model", mark("Get the model")
    ),
    "download-failed": Help(mark("The model could not be fetched"), "models", MODELS),
    "weights-busy": Help(mark("Another program is at this file"), "models", MODELS),
    "unknown-weights": Help(mark("There is no such file in the list"), "models", MODELS),
    "hash-mismatch": Help(mark("This is not the file that was published"), "models", MODELS),
    "weights-unreadable": Help(mark("The model file cannot be read"), "models", MODELS),
    "not-safetensors": Help(mark("This is no model file"), "models", MODELS),
    "not-gguf": Help(mark("This is no model file"), "log", LOG),
    "weights-truncated": Help(mark("The model file is incomplete"), "models", MODELS),
    "weights-damaged": Help(mark("The model file is damaged"), "models", MODELS),
    "unsafe-weights": Help(mark("The file could run a program"), "models", MODELS),
    "wrong-model": Help(mark("The file holds another model"), "models", MODELS),
    "wrong-numbers": Help(
        mark("The model file has a number format we cannot use"), "models", MODELS
    ),
    "missing-keys": Help(mark("The model file lacks some of its numbers"), "models", MODELS),
    "extra-keys": Help(
        mark("The file has numbers that do not belong to the model"), "models", MODELS
    ),
    "wrong-shapes": Help(mark("The model file does not fit"), "models", MODELS),
    "unknown-keys": Help(mark("The model file does not fit"), "models", MODELS),
    "runtime-error": Help(mark("Something about the NVIDIA runtime is wrong"), "runtime", RUNTIME),
    "unknown-runtime": Help(mark("There is no such NVIDIA runtime"), "runtime", RUNTIME),
    "runtime-not-in-build": Help(mark("Not in this build"), "runtime", RUNTIME),
    "runtime-busy": Help(mark("The NVIDIA runtime is in use"), "runtime", RUNTIME),
    "runtime-broken": Help(mark("The NVIDIA runtime does not work here"), "runtime", RUNTIME),
    "unsafe-archive": Help(mark("This archive will not be unpacked"), "runtime", RUNTIME),
    "update-error": Help(mark("The update could not be read or written"), "log", LOG),
    "update-not-in-build": Help(mark("Not in this build"), "log", LOG),
    "update-unreachable": Help(mark("The place of the updates does not answer"), "log", LOG),
    "update-untrusted": Help(mark("This update is not from us"), "log", LOG),
    "update-too-new": Help(mark("This version is too old to update itself"), "log", LOG),
    "update-damaged": Help(mark("The setup is damaged"), "log", LOG),
    "update-missing": Help(mark("There is no update here"), "log", LOG),
    "update-busy": Help(mark("Another Upreel is at the update"), "log", LOG),
    "update-not-installable": Help(mark("This copy is not updated by a setup"), "log", LOG),
    "hardware-error": Help(mark("This machine lacks something"), "choices", CHOICES),
    "no-usable-gpu": Help(mark("No NVIDIA card can be used"), "choices", CHOICES),
    "pretended-card": Help(mark("Planned for a card that is not here"), "choices", CHOICES),
    "feature-missing": Help(mark("This machine cannot compute that way"), "choices", CHOICES),
    "capacity-error": Help(mark("Too little memory"), "choices", CHOICES),
    "plan-does-not-fit": Help(mark("This does not fit into memory"), "choices", CHOICES),
    "out-of-memory": Help(mark("Memory ran out"), "retry", RETRY),
    "numeric-overflow": Help(mark("The numbers grew too large"), "choices", CHOICES),
    "settings-error": Help(mark("One of the choices is not possible"), "choices", CHOICES),
    "job-error": Help(mark("The job cannot go on"), "retry", RETRY),
    "unknown-job": Help(mark("This job is not there any more"), "remove", REMOVE),
    "job-busy": Help(mark("Another Upreel is at work on this"), "retry", RETRY),
    "checkpoint-mismatch": Help(mark("The source has changed since then"), "remove", REMOVE),
    "engine-stopped": Help(mark("The engine has stopped"), "log", LOG),
    "internal-error": Help(mark("A mistake of ours"), "log", LOG),
}


def help_of(error: ErrorInfo) -> Help:
    """What to say and offer; an unknown code is shown with the engine's own sentence."""
    return HELP.get(error.code, HELP["engine-error"])


class ErrorCard(QFrame):
    """Title, the engine's sentence with its figures, hint, and one button."""

    action_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card")
        self.setObjectName("errorCard")
        self._error: ErrorInfo | None = None
        self._icon, self._title, self._message, self._hint = (QLabel() for _ in range(4))
        self._title.setProperty("kind", "error")
        self._hint.setProperty("kind", "secondary")
        for label in (self._title, self._message, self._hint):
            label.setWordWrap(True)
        self._message.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._button = QPushButton()
        self._button.setObjectName("errorAction")
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignTop)
        head.addWidget(self._title, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 12, 14, 14)
        column.setSpacing(8)
        column.addLayout(head)
        for part in (self._message, self._hint, self._button):
            column.addWidget(part)
        self._button.clicked.connect(self._act)

    def show_error(self, error: ErrorInfo) -> None:
        """Show an error of the engine."""
        self._error = error
        help_ = help_of(error)
        self._icon.setPixmap(pixmap("error", tokens.current().error, 18))
        self._title.setText(tr(help_.title))
        self._message.setText(text(error))
        self._hint.setText(hint(error))
        self._hint.setVisible(bool(self._hint.text()))
        self._button.setText(tr(help_.button))

    def changeEvent(self, event: QEvent) -> None:
        """Follow the language and the theme."""
        super().changeEvent(event)
        wanted = (QEvent.Type.LanguageChange, QEvent.Type.StyleChange)
        if event.type() in wanted and self._error is not None:
            self.show_error(self._error)

    def _act(self) -> None:
        if self._error is not None:
            self.action_wanted.emit(help_of(self._error).action)
