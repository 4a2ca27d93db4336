"""The three columns, and what folds where the window is small.

The queue becomes a strip where the stage would be too narrow, the choices a button where they
would have no room above the plan; each opens as a sheet over the stage. "Why this plan" does
everywhere.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.actions import Actions
from app.i18n import tr
from app.jobs.choices_form import ChoicesForm
from app.jobs.decision_panel import DecisionPanel
from app.jobs.queue_column import QueueColumn
from app.plan.plan_details import PlanDetails
from app.preview.preview_view import PreviewView
from app.state.queue_model import QueueModel
from app.theme import tokens
from app.theme.icons import icon
from app.widgets.controls import Themed
from app.widgets.plain import set_tip
from app.widgets.sheet import Sheet

_QUEUE_FROM = 1180  # px of width below which the queue folds
_CHOICES_FROM = 540  # px of height below which the choices fold
_LOW = 345  # px of height below which a button that cannot be pressed goes
_WHY_WIDTH = 460
_CARD_SHARE = 0.4  # of the window's height, for the card of the plan


class Columns(Themed, QWidget):
    """Lays out queue, stage and choices, and folds them."""

    def __init__(
        self,
        model: QueueModel,
        queue: QueueColumn,
        stage: PreviewView,
        choices: ChoicesForm,
        decision: DecisionPanel,
        actions: Actions,
    ) -> None:
        super().__init__()
        self._queue, self._choices, self._decision = queue, choices, decision
        self._strip = _Strip(model, actions)
        self.queue_sheet = Sheet(stage, "queueSheet", tokens.QUEUE_WIDTH + 2, is_left=True)
        self.choices_sheet = Sheet(stage, "choicesSheet", tokens.CHOICES_WIDTH)
        self.why_sheet = Sheet(stage, "whySheet", _WHY_WIDTH)
        self.why = PlanDetails()
        why = _scrolled(self.why)
        why.setObjectName("whyBody")
        self.why_sheet.hold(why)
        self._form = _scrolled(choices)
        # A fixed width: the scroll bar then lies in the margin and pushes nothing aside.
        choices.setFixedWidth(tokens.CHOICES_WIDTH - 2)
        self._fold = QPushButton()
        self._fold.setObjectName("openChoices")
        self._fold.setProperty("kind", "page")
        self._lay_out(stage)
        self._strip.queue_requested.connect(self.queue_sheet.toggle)
        queue.answer_requested.connect(self._open_queue)
        self._fold.clicked.connect(self.choices_sheet.toggle)
        decision.plan.why_requested.connect(self.why_sheet.toggle)
        self.retranslate_ui()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fold what has no room."""
        super().resizeEvent(event)
        self._decision.limit_card(round(_CARD_SHARE * self.window().height()))
        self._decision.set_low(self.height() < _LOW)
        self._fold_queue(self.width() < _QUEUE_FROM)
        self._fold_choices(self.height() < _CHOICES_FROM)

    def retranslate_ui(self) -> None:
        """All texts in the current language, icons in the current theme."""
        self.queue_sheet.setAccessibleName(tr("Queue"))  # the column has its own heading
        self.choices_sheet.set_title(tr("Video settings"))
        self.why_sheet.set_title(tr("Why this plan"))
        self._fold.setText(tr("Video settings"))
        self._fold.setIcon(icon("settings", size=16))

    def _lay_out(self, stage: QWidget) -> None:
        right = QWidget()
        right.setObjectName("choicesColumn")
        right.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        right.setFixedWidth(tokens.CHOICES_WIDTH)
        self._right = QVBoxLayout(right)
        self._right.setContentsMargins(1, 0, 0, 0)
        self._right.setSpacing(0)
        self._right.addWidget(self._form, 1)
        self._right.addWidget(self._fold)
        self._right.addStretch(0)
        self._right.addWidget(self._choices.result)
        self._right.addWidget(self._decision)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(0)
        self._row.addWidget(self._strip)
        self._row.addWidget(self._queue)
        self._row.addWidget(stage, 1)
        self._row.addWidget(right)
        self._strip.setVisible(False)
        self._fold.setVisible(False)

    def _open_queue(self) -> None:
        """Show a folded queue: it asks something."""
        if not self._strip.isHidden():
            self.queue_sheet.open_up()

    def _fold_queue(self, is_folded: bool) -> None:
        if is_folded != self._strip.isHidden():
            return
        self._strip.setVisible(is_folded)
        if is_folded:
            self.queue_sheet.hold(self._queue)
        else:
            self.queue_sheet.close_down()
            self._row.insertWidget(1, self._queue)

    def _fold_choices(self, is_folded: bool) -> None:
        if is_folded != self._fold.isHidden():
            return
        self._fold.setVisible(is_folded)
        self._right.setStretch(self._right.count() - 3, int(is_folded))
        if is_folded:
            self.choices_sheet.hold(self._form)
        else:
            self.choices_sheet.close_down()
            self._right.insertWidget(0, self._form, 1)


class _Strip(Themed, QWidget):
    """What is left of a folded queue: how many films, and a button for more."""

    queue_requested = Signal()

    def __init__(self, model: QueueModel, actions: Actions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("queueStrip")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFixedWidth(tokens.STRIP_WIDTH)
        self._model = model
        self._open, self._add = QToolButton(), QToolButton()
        self._open.setObjectName("openQueue")
        self._open.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
        self._add.setObjectName("addToQueue")
        column = QVBoxLayout(self)
        column.setContentsMargins(6, 12, 6, 12)
        column.setSpacing(8)
        for button in (self._open, self._add):
            button.setProperty("kind", "icon")
            button.setMinimumWidth(tokens.STRIP_WIDTH - 13)
            column.addWidget(button)
        column.addStretch(1)
        self._open.clicked.connect(self.queue_requested)
        self._add.clicked.connect(actions["add_files"].trigger)
        model.queue_changed.connect(self.retranslate_ui)
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """All texts in the current language, icons in the current theme."""
        count = self._model.rowCount()
        self._open.setIcon(icon("film"))
        self._open.setText(str(count))
        name = f"{tr('Queue')} · {count}"
        set_tip(self._open, name)
        self._open.setAccessibleName(name)
        self._add.setIcon(icon("add"))
        set_tip(self._add, tr("Add videos or images (Ctrl+O)"))
        self._add.setAccessibleName(tr("Add files"))


def _scrolled(body: QWidget) -> QScrollArea:
    """A scroll area that only ever moves up and down."""
    area = QScrollArea()
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # it follows the controls in it
    area.setWidgetResizable(True)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    across = area.horizontalScrollBar()  # moves with the focus where the body is wider
    across.valueChanged.connect(lambda _value: across.setValue(0))
    area.setWidget(body)
    return area
