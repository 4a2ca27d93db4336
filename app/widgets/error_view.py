"""Card of an error: title, message, hint and one button that helps."""

from __future__ import annotations

from collections.abc import Collection

from PySide6.QtWidgets import QFrame, QWidget

from app import engine_messages
from app.actions import Actions
from app.bound import bind
from app.engine_messages import error_title, hint, text
from app.theme import tokens
from app.theme.icons import pixmap
from app.widgets.compact_scroll import CompactScroll
from app.widgets.layouts import TOP, column, row
from app.widgets.parts import button, label, named
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
        "update-not-installable engine-stopped system-refusal internal-error command-invalid "
        "unsuitable-tensor"
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
        "choice-missing source-missing source-unreadable out-of-memory job-error job-busy "
        "port-taken already-lent machine-unreachable pairing-failed segment-damaged"
    ),
    "run_again": "result-gone",
    "runtime": (
        "runtime-error unknown-runtime runtime-busy runtime-broken "
        "runtime-blocked "
        "unsafe-archive unsuitable-wheel"
    ),
    "source": "truncated-media",
}
ACTION_OF = {code: action for action, codes in ACTIONS.items() for code in codes.split()}
_UNKNOWN = EngineError.code  # stands for a code that this version does not know


class ErrorCard(QFrame):
    """Title, the engine's sentence with its figures, hint, and one button."""

    def __init__(self, actions: Actions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "errorCard", "card")
        self._actions = actions
        self._error: ErrorInfo | None = None
        self._icon, self._title = label(), label(kind="error", wraps=True)
        self._message = label(wraps=True, selectable=True)
        self._hint = label(kind="secondary", wraps=True)
        self._button = button(name="errorAction", on=self._act)
        words = QWidget()
        head = row((self._icon, 0, TOP), (self._title, 1), spacing=8)
        column(head, self._message, self._hint, spacing=6, on=words)
        # The button stays in sight below what scrolls.
        column(CompactScroll(words), self._button, spacing=6, margins=(14, 10), on=self)
        bind(self, self._show, theme=True)

    def show_error(self, error: ErrorInfo) -> None:
        """Show an error of the engine."""
        self._error = error
        self._show()

    def _show(self) -> None:
        error = self._error
        if error is None:
            return
        self._icon.setPixmap(pixmap("error", tokens.current().error, 18))
        self._title.setText(error_title(error))
        self._message.setText(text(error))
        self._hint.setText(hint(error))
        self._hint.setVisible(bool(self._hint.text()))
        action = engine_messages.button(error.code) or engine_messages.button(_UNKNOWN)
        self._button.setText(action)

    def leave_out(self, names: Collection[str]) -> None:
        """Hide the button where another one in sight does the same: one of these actions."""
        self._button.setVisible(self._action not in names)

    @property
    def _action(self) -> str:
        code = self._error.code if self._error is not None else ""
        return ACTION_OF.get(code, "show_log")

    def _act(self) -> None:
        if self._error is not None:
            self._actions[self._action].trigger()
