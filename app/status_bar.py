"""The strip at the bottom (a sentence, the plan in one line) and the log above it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QAction, QHideEvent, QShowEvent
from PySide6.QtWidgets import QDockWidget, QMainWindow, QPlainTextEdit, QWidget

from app import labels
from app.bound import bind
from app.engine_messages import choice_text, text
from app.i18n import tr
from app.latents.latent_sheet import READINGS
from app.state.log_model import KEPT_LINES, LogModel
from app.theme import tokens
from app.widgets.layouts import MIDDLE, RIGHT, row
from app.widgets.parts import action_button, bind_text, elided, icon_button, label, named
from app.widgets.tab_stop import TabStop
from engine.protocol.plan import LatentPlan, Notice, Plan
from engine.settings.schema import CODECS

_BOTH_FROM = 540  # px of the window's height from which columns and log have room


class LogDock(QDockWidget):
    """Shows the lines of the log model; new ones come at the end.

    In a low window it takes the place of the columns, which would have no room above it.

    Args:
        model: Its lines.
        window: The window at whose foot it lies.
    """

    def __init__(self, model: LogModel, window: QMainWindow) -> None:
        super().__init__(window)
        named(self, "logDock")
        bind_text(self, self.setWindowTitle, "Log")
        self._window = window
        window.installEventFilter(self)
        self.setFeatures(QDockWidget.DockWidgetFeature.DockWidgetClosable)
        close = icon_button("cancel", "Close", "closeLog", "more", size=16, on=self.close)
        head = named(QWidget(), "logHead")
        row((label("Log"), 1), close, margins=(12, 2, 8, 2), on=head)
        self.setTitleBarWidget(head)
        self._text = QPlainTextEdit()
        bind_text(self._text, self._text.setAccessibleName, "Log")
        self._text.setReadOnly(True)
        self._text.setMaximumBlockCount(KEPT_LINES)
        self._text.setMinimumHeight(96)
        self._text.setPlainText("\n".join(model.lines))
        self.setWidget(self._text)
        model.line_added.connect(self._text.appendPlainText)

    def showEvent(self, event: QShowEvent) -> None:
        """Open at the end: what has just happened."""
        super().showEvent(event)
        self._make_room()
        bar = self._text.verticalScrollBar()
        QTimer.singleShot(0, bar, lambda: bar.setValue(bar.maximum()))

    def hideEvent(self, event: QHideEvent) -> None:
        """Give the columns their place back."""
        super().hideEvent(event)
        self._make_room()

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
        """Another height of the window may have room for both, or not any more."""
        if event.type() == QEvent.Type.Resize:
            self._make_room()
        return False

    def _make_room(self) -> None:
        body = self._window.centralWidget()
        if body is not None:
            body.setVisible(self.isHidden() or self._window.height() >= _BOTH_FROM)


class StatusBar(QWidget):
    """Always visible."""

    def __init__(self, *actions: QAction) -> None:
        super().__init__()
        named(self, "statusBar", has_ground=True)
        self.setFixedHeight(tokens.FOOT_HEIGHT)
        self._plan: Plan | None = None
        sentence = label(
            "AI redraws detail. Check faces and small text before you keep the result.",
            "secondary",
        )
        self._line = elided(kind="secondary", align=RIGHT | MIDDLE)
        style = Qt.ToolButtonStyle.ToolButtonTextOnly  # like words of the strip
        buttons = [action_button(action, "quiet", style) for action in actions]
        row(sentence, (self._line, 1), *buttons, spacing=16, margins=(16, 0, 8, 0), on=self)
        TabStop(self, buttons)
        bind(self, lambda: self.show_plan(self._plan))

    def show_plan(self, plan: Plan | None) -> None:
        """The plan of the selected job."""
        self._plan = plan
        self._line.setText(*(plan_lines(plan) if plan is not None else [""]))


def plan_lines(plan: Plan) -> list[str]:
    """Engine, tiles and codec of a plan in one line; then less and less of it."""
    picture = plan.picture
    parts = latent_parts(plan.latent) if plan.latent is not None else []
    if plan.first_pass is not None:
        file = plan.first_pass.weights_files[0].path.name
        parts.append(tr("cleaned with {file}", file=file))
    parts += [choice_text("model", plan.work.model), *map(phrase_of, plan.work.summary)]
    codec = choice_text("codec" if picture.codec in CODECS else "container", picture.codec)
    parts.append(tr("{codec} {bits} bit", codec=codec, bits=picture.bit_depth))
    parts.append(tr("{count} {count:frame|frames}", count=plan.frames))
    words = [parts, *([*parts[:count], "…"] for count in range(len(parts) - 1, 0, -1))]
    return [tr("Plan: {words}", words=" · ".join(one)) for one in words]


def phrase_of(part: Notice) -> str:
    """A part of a plan's summary in the current language."""
    if part.code == "value":
        return choice_text("treatment", str(part.params["value"]))
    return text(part)


def latent_parts(plan: LatentPlan) -> list[str]:
    """Step of decoding latents, before anything else."""
    title, _ = READINGS["normalised" if plan.normalised else "raw"]
    parts = [tr("latents: {reading}", reading=tr(title))]
    if plan.decode_tile is not None:
        parts.append(tr("decoded in tiles of {size}", size=labels.size(plan.decode_tile)))
    return parts
