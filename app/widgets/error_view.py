"""Card of an error: title, message, hint and one button that helps."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.actions import Actions
from app.engine_messages import button, hint, text, title
from app.theme import tokens
from app.theme.icons import pixmap
from app.widgets.compact_scroll import CompactScroll
from app.widgets.plain import Label
from engine.core.errors import EngineError, ErrorInfo

ACTIONS = {  # names of actions, with the codes of the errors that they help with
    "accept": "result-held-back",
    "choices": (
        "encoder-missing container-mismatch hardware-error no-usable-gpu pretended-card "
        "feature-missing capacity-error plan-does-not-fit numeric-overflow settings-error"
    ),
    "folder": "output-error output-unwritable",
    "show_log": (
        "engine-error identity-damaged machine-error unknown-machine not-gguf update-error "
        "update-not-in-build update-unreachable update-outdated "
        "update-untrusted update-too-new update-damaged update-missing update-busy "
        "update-not-installable engine-stopped system-refusal internal-error command-invalid"
    ),
    "models": (
        "weights-error weights-missing library-missing download-failed weights-busy "
        "unknown-weights hash-mismatch weights-unreadable not-safetensors weights-truncated "
        "weights-damaged unsafe-weights wrong-model wrong-numbers missing-keys extra-keys "
        "wrong-shapes unknown-keys"
    ),
    "remove": "input-error unreadable-media unsupported-media unknown-job checkpoint-mismatch",
    "rename": "output-exists output-is-input output-name",
    "restart": "gpu-lost",
    "result": "disk-full",
    "retry": (
        "source-missing source-unreadable out-of-memory job-error job-busy port-taken "
        "already-lent machine-unreachable pairing-failed segment-damaged"
    ),
    "run_again": "result-gone",
    "runtime": (
        "runtime-error unknown-runtime runtime-not-accepted runtime-busy runtime-broken "
        "unsafe-archive unsuitable-wheel"
    ),
    "source": "truncated-media",
}
ACTION_OF = {code: action for action, codes in ACTIONS.items() for code in codes.split()}
_UNKNOWN = EngineError.code  # stands for a code that this version does not know


def error_title(error: ErrorInfo) -> str:
    """Heading of an error."""
    return title(error.code) or title(_UNKNOWN)


class ErrorCard(QFrame):
    """Title, the engine's sentence with its figures, hint, and one button."""

    def __init__(self, actions: Actions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card")
        self.setObjectName("errorCard")
        self._actions = actions
        self._error: ErrorInfo | None = None
        self._icon, self._title, self._message, self._hint = (Label() for _ in range(4))
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
        words = QWidget()
        within = QVBoxLayout(words)
        within.setContentsMargins(0, 0, 0, 0)
        within.setSpacing(6)
        within.addLayout(head)
        within.addWidget(self._message)
        within.addWidget(self._hint)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 10, 14, 10)
        column.setSpacing(6)
        column.addWidget(CompactScroll(words))  # below it the button stays in sight
        column.addWidget(self._button)
        self._button.clicked.connect(self._act)

    def show_error(self, error: ErrorInfo) -> None:
        """Show an error of the engine."""
        self._error = error
        self._icon.setPixmap(pixmap("error", tokens.current().error, 18))
        self._title.setText(error_title(error))
        self._message.setText(text(error))
        self._hint.setText(hint(error))
        self._hint.setVisible(bool(self._hint.text()))
        self._button.setText(button(error.code) or button(_UNKNOWN))

    def changeEvent(self, event: QEvent) -> None:
        """Follow the language and the theme."""
        super().changeEvent(event)
        requested = (QEvent.Type.LanguageChange, QEvent.Type.StyleChange)
        if event.type() in requested and self._error is not None:
            self.show_error(self._error)

    def _act(self) -> None:
        if self._error is not None:
            self._actions[ACTION_OF.get(self._error.code, "show_log")].trigger()
