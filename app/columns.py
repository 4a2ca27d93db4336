"""The three columns, and what folds where the window is small.

The edge between queue and preview can be dragged and keeps its place. The queue becomes a strip if
it is dragged narrow or the preview would be too narrow, the choices a button if they have no room
above the plan; each opens as a sheet over the preview. "Why this plan" is always such a sheet.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QIcon, QResizeEvent
from PySide6.QtWidgets import QScrollArea, QSplitter, QWidget

from app.actions import Actions
from app.bound import bind
from app.i18n import tr
from app.jobs.choices_form import ChoicesForm
from app.jobs.decision_panel import DecisionPanel
from app.jobs.queue_column import QueueColumn
from app.plan.plan_details import PlanDetails
from app.preview.preview_view import PreviewView
from app.state.queue_model import QueueModel
from app.theme import tokens
from app.theme.icons import pixmap
from app.ui_state import UiState
from app.widgets.layouts import STRETCH, Stretch, column, row
from app.widgets.parts import bind_text, button, icon_button, named, scroll_area
from app.widgets.plain import set_tip
from app.widgets.sheet import Sheet

_QUEUE_FROM = 1180  # px of width below which the queue folds
_QUEUE_FOLDS = 160  # px below which a queue that is dragged narrow folds
_CHOICES_FROM = 510  # px of height below which the choices fold
_LOW = 345  # px of height below which gaps shrink
_WHY_WIDTH = 460
_CARD_SHARE, _CARD_ALONE = 0.4, 0.5  # of the window's height, for the card below choices or not


class Columns(QWidget):
    """Lays out queue, preview and choices, and folds them."""

    def __init__(
        self,
        model: QueueModel,
        queue: QueueColumn,
        stage: PreviewView,
        choices: ChoicesForm,
        decision: DecisionPanel,
        actions: Actions,
        ui_state: UiState,
    ) -> None:
        super().__init__()
        self._ui_state = ui_state
        self._queue, self._choices, self._decision = queue, choices, decision
        self._strip = _Strip(model, queue, actions)
        self.queue_sheet = Sheet(stage, "queueSheet", tokens.QUEUE_WIDTH + 2, is_left=True)
        self.choices_sheet = Sheet(stage, "choicesSheet", tokens.CHOICES_WIDTH)
        self.why_sheet = Sheet(stage, "whySheet", _WHY_WIDTH)
        self.why = PlanDetails()
        self.why_sheet.hold(named(_scrolled(self.why), "whyBody"))
        self._form = _scrolled(choices)
        # A fixed width: the scroll bar then lies in the margin and pushes nothing aside.
        choices.setFixedWidth(tokens.CHOICES_WIDTH - 2)
        self._fold = button(
            "Video settings",
            "openChoices",
            "page",
            icon="settings",
            on=self.choices_sheet.toggle,
        )
        self._lay_out(stage)
        self._strip.queue_requested.connect(self._show_queue)
        queue.answer_requested.connect(self._open_queue)
        decision.plan.why_requested.connect(self.why_sheet.toggle)
        # The column of the queue has its own heading.
        bind_text(self.queue_sheet, self.queue_sheet.setAccessibleName, "Queue")
        bind_text(self.choices_sheet, self.choices_sheet.set_title, "Video settings")
        bind_text(self.why_sheet, self.why_sheet.set_title, "Why this plan")

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fold what has no room."""
        super().resizeEvent(event)
        is_folded = self.height() < _CHOICES_FROM
        share = _CARD_ALONE if is_folded else _CARD_SHARE
        self._decision.limit_card(round(share * self.window().height()))
        self._decision.set_low(self.height() < _LOW)
        self._place_queue()
        self._fold_choices(is_folded)

    def _lay_out(self, stage: QWidget) -> None:
        right = named(QWidget(), "choicesColumn", has_ground=True)
        right.setFixedWidth(tokens.CHOICES_WIDTH)
        self._right = column(
            (self._form, 1),
            self._fold,
            STRETCH,
            self._choices.result,
            self._decision,
            spacing=0,
            margins=(1, 0, 0, 0),
            on=right,
        )
        self._left = QWidget()
        self._left.setMinimumWidth(tokens.STRIP_WIDTH)  # so far it can be dragged
        self._left_row = row(self._strip, (self._queue, 1), spacing=0, on=self._left)
        self._strip.setVisible(False)
        self._splitter = named(QSplitter(), "columnsSplitter")
        self._splitter.setHandleWidth(0)  # Qt lets 4 px be taken; the line is the queue's edge
        self._splitter.setChildrenCollapsible(False)
        for part in (self._left, stage):
            self._splitter.addWidget(part)
        self._splitter.setStretchFactor(1, 1)
        self._splitter.splitterMoved.connect(self._drag_queue)
        row((self._splitter, 1), right, spacing=0, on=self)
        self._fold.setVisible(False)

    def _open_queue(self) -> None:
        """Show a folded queue: it asks something."""
        if not self._strip.isHidden():
            self.queue_sheet.open_up()

    def _drag_queue(self, *_: int) -> None:
        """The user moves the edge of the queue: it follows, or folds."""
        beside = self._splitter.handle(1).contentsMargins().left()  # px that Qt does not count
        width = self._splitter.sizes()[0] + beside
        if self.width() >= _QUEUE_FROM:
            allowed = min(max(width, tokens.QUEUE_LEAST), tokens.QUEUE_MOST)
            self._ui_state.queue_width = allowed if width >= _QUEUE_FOLDS else 0
        self._place_queue()

    def _show_queue(self) -> None:
        """Unfold the queue, or show it over the preview where that would be too narrow."""
        if self.width() >= _QUEUE_FROM:
            self._ui_state.queue_width = tokens.QUEUE_WIDTH
            self._place_queue()
        else:
            self.queue_sheet.toggle()

    def _place_queue(self) -> None:
        """Give the queue the width that was chosen for it, or fold it."""
        width = self._ui_state.queue_width
        is_folded = not width or self.width() < _QUEUE_FROM
        width = min(width, tokens.QUEUE_WIDTH + max(0, self.width() - _QUEUE_FROM))
        self._fold_queue(is_folded)
        left = tokens.STRIP_WIDTH if is_folded else width
        self._splitter.setSizes([left, max(1, self._splitter.width() - left)])

    def _fold_queue(self, is_folded: bool) -> None:
        if is_folded != self._strip.isHidden():
            return
        self._strip.setVisible(is_folded)
        if is_folded:
            self.queue_sheet.hold(self._queue)
        else:
            self.queue_sheet.close_down()
            self._left_row.addWidget(self._queue, 1)

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


class _Strip(QWidget):
    """Rest of a folded queue: the number of videos, a button for more, and one for notices."""

    queue_requested = Signal()

    def __init__(self, model: QueueModel, queue: QueueColumn, actions: Actions) -> None:
        super().__init__()
        named(self, "queueStrip", has_ground=True)
        self.setFixedWidth(tokens.STRIP_WIDTH)
        self._model, self._queue = model, queue
        self._open = icon_button("film", "Queue", "openQueue", "icon", on=self.queue_requested)
        self._open.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
        add = icon_button(
            "add",
            "Add files",
            "addToQueue",
            "icon",
            tip="Add videos or images (Ctrl+O)",
            on=actions["add_files"].trigger,
        )
        self._notices = icon_button(
            "info", "Notices", "openNotices", "icon", on=self.queue_requested
        )
        parts = self._open, add, self._notices
        for each in parts:
            each.setMinimumWidth(tokens.STRIP_WIDTH - 13)
        column(*parts, Stretch(1), spacing=8, margins=(6, 12), on=self)
        model.queue_changed.connect(self._show_count)
        queue.notices_changed.connect(self._show_notices)
        bind(self, self._show_count)
        bind(self, self._draw, theme=True)
        self._show_notices()

    def _show_count(self) -> None:
        count = self._model.rowCount()
        self._open.setText(str(count))
        name = f"{tr('Queue')} · {count}"
        set_tip(self._open, name)
        self._open.setAccessibleName(name)

    def _draw(self) -> None:
        """The button of notices has their colour, since it was not there before."""
        self._notices.setIcon(QIcon(pixmap("info", tokens.current().information, 20)))

    def _show_notices(self) -> None:
        self._notices.setVisible(self._queue.has_notice)


def _scrolled(body: QWidget) -> QScrollArea:
    """A scroll area that only ever moves up and down."""
    area = scroll_area(body)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # it follows the controls in it
    across = area.horizontalScrollBar()  # moves with the focus where the body is wider
    across.valueChanged.connect(lambda _value: across.setValue(0))
    return area
