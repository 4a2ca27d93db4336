"""Small controls used all over the window: drop-down, slider, switch, segments, elided label."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFrame,
    QHBoxLayout,
    QLayout,
    QLayoutItem,
    QMessageBox,
    QPushButton,
    QSizePolicy,
    QSlider,
    QStyle,
    QStyleOptionComboBox,
    QStylePainter,
    QWidget,
)

from app.theme import tokens
from app.theme.icons import pixmap
from app.widgets.layouts import clear_layout
from app.widgets.plain import Label, message_box, set_tip, tip
from app.widgets.tab_stop import TabStop
from engine.core.plain_text import one_line

_SHORTER = Qt.ItemDataRole.UserRole + 1  # of a choice: texts for little room
_LIST_BORDER = 26  # px of an open list, with its scroll bar


def is_confirmed(parent: QWidget, text: str, details: str = "", *, yes: str, no: str) -> bool:
    """Whether the user agrees; asks, and waits for the answer.

    Args:
        parent: Window that the question belongs to.
        text: The question.
        details: Consequence, in smaller letters.
        yes: Text of the button that does it.
        no: Text of the button that leaves everything as it is.
    """
    box = message_box(QMessageBox.Icon.Question, text, details, parent=parent)
    accept = box.addButton(yes, QMessageBox.ButtonRole.AcceptRole)
    box.setDefaultButton(box.addButton(no, QMessageBox.ButtonRole.RejectRole))
    box.exec()
    return box.clickedButton() is accept


class SegmentedControl(QFrame):
    """Exclusive buttons side by side, one stop of the Tab key.

    Args:
        keys: Keys of the choices.
        in_bar: Whether the buttons belong to the stop of a bar, where arrow keys only move.
    """

    chosen = Signal(str)  # key; only by the user, never by `set_current`

    def __init__(self, keys: Sequence[str], *, in_bar: bool = False) -> None:
        super().__init__()
        self.setProperty("kind", "segments")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._buttons: dict[str, QPushButton] = {}
        row = QHBoxLayout(self)
        row.setContentsMargins(3, 3, 3, 3)
        row.setSpacing(2)
        for key in keys:
            button = QPushButton(key)
            button.setProperty("kind", "segment")
            button.setObjectName(f"segment-{key}")
            button.setCheckable(True)
            button.setCursor(Qt.CursorShape.PointingHandCursor)
            button.clicked.connect(lambda _checked=False, key=key: self._choose(key))
            self._buttons[key] = button
            row.addWidget(button, 1)
        self._stop = None if in_bar else TabStop(self, self.buttons, chooses=True)

    @property
    def buttons(self) -> list[QPushButton]:
        """Buttons from first to last."""
        return list(self._buttons.values())

    @property
    def current(self) -> str:
        """Key of the selected choice; "" while there is none."""
        return next((key for key, button in self._buttons.items() if button.isChecked()), "")

    def set_current(self, key: str) -> None:
        """Show a choice as selected; an unknown key selects none."""
        for one, button in self._buttons.items():
            button.setChecked(one == key)
        if self._stop is not None:
            self._stop.stay_at(self._buttons.get(key))

    def _choose(self, key: str) -> None:
        self.set_current(key)  # a press on the selected one has taken its check away
        self.chosen.emit(key)

    def set_labels(self, labels: dict[str, str]) -> None:
        """New texts of the buttons, by key."""
        for key, label in labels.items():
            self._buttons[key].setText(label)

    def set_tips(self, tips: dict[str, str]) -> None:
        """New explanations of the buttons, by key; read out by screen readers too."""
        for key, text in tips.items():
            set_tip(self._buttons[key], text)
            self._buttons[key].setAccessibleDescription(text)

    def button(self, key: str) -> QPushButton:
        """The button of a key."""
        return self._buttons[key]


class FlowLayout(QLayout):
    """Left to right, then the next line; each line as high as its highest visible widget."""

    def __init__(self, parent: QWidget | None = None, *, spacing: int = 8) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self.setContentsMargins(0, 0, 0, 0)
        self.setSpacing(spacing)

    def clear(self) -> None:
        """Take all widgets away."""
        clear_layout(self)

    def addItem(self, item: QLayoutItem) -> None:
        """Qt adds a widget."""
        self._items.append(item)

    def count(self) -> int:
        """Number of widgets."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        """One of them; None beyond the last."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        """Take one away."""
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        """Takes no more room than it needs."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        """Narrower means more lines."""
        return True

    def heightForWidth(self, width: int) -> int:
        """Height of all lines."""
        return self._place(QRect(0, 0, width, 0), only_measured=True)

    def setGeometry(self, rect: QRect) -> None:
        """Put the widgets where they belong."""
        super().setGeometry(rect)
        self._place(rect)

    def sizeHint(self) -> QSize:
        """All of them in one line."""
        hints = [item.sizeHint() for item in self._shown]
        width = sum(hint.width() for hint in hints) + self.spacing() * max(0, len(hints) - 1)
        return QSize(width, max((hint.height() for hint in hints), default=0))

    def minimumSize(self) -> QSize:
        """The widest of them."""
        hints = [item.minimumSize() for item in self._shown]
        return QSize(
            max((hint.width() for hint in hints), default=0),
            max((hint.height() for hint in hints), default=0),
        )

    @property
    def _shown(self) -> list[QLayoutItem]:
        return [item for item in self._items if not item.isEmpty()]

    def _place(self, rect: QRect, *, only_measured: bool = False) -> int:
        """Lay out the lines; their total height."""
        x, y, line = rect.left(), rect.top(), 0
        for item in self._shown:
            hint = item.sizeHint()
            if x > rect.left() and x + hint.width() > rect.left() + rect.width():
                x, y, line = rect.left(), y + line + self.spacing(), 0
            if not only_measured:
                item.setGeometry(QRect(QPoint(x, y), hint))
            x, line = x + hint.width() + self.spacing(), max(line, hint.height())
        return y + line - rect.top()


class ChoiceBox(QComboBox):
    """A drop-down list; the wheel scrolls the page below it and never changes the choice.

    A text without room gives way to a shorter one, and that loses its middle: names differ at their
    ends. The open list has room for the whole text.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(6)

    def offer(self, text: str, value: object = None) -> None:
        """Offer a choice, whose name may be foreign."""
        self.addItem(one_line(text), value)

    def set_item_texts(self, at: int, text: str, *shorter: str) -> None:
        """Give a choice another text, and shorter ones for the closed list."""
        self.setItemText(at, one_line(text))
        self.setItemData(at, list(map(one_line, shorter)), _SHORTER)

    def set_item_tip(self, at: int, text: str) -> None:
        """Give a choice a tool tip."""
        self.setItemData(at, tip(text), Qt.ItemDataRole.ToolTipRole)

    @property
    def shown_text(self) -> str:
        """The legible part of the current text."""
        return self._style_option().currentText

    def showPopup(self) -> None:
        """Open the list, as wide as its longest text, within the screen."""
        view, room = self.view(), self.screen().availableGeometry().width()
        needed = view.sizeHintForColumn(0) + _LIST_BORDER
        view.setMinimumWidth(max(self.width(), min(needed, room)))
        super().showPopup()

    def _style_option(self) -> QStyleOptionComboBox:
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        box, text_field = QStyle.ComplexControl.CC_ComboBox, QStyle.SubControl.SC_ComboBoxEditField
        field = self.style().subControlRect(box, option, text_field, self)
        metrics, room = self.fontMetrics(), field.width() - 2
        texts = [option.currentText, *(self.itemData(self.currentIndex(), _SHORTER) or ())]
        fitting = (text for text in texts if metrics.horizontalAdvance(text) <= room)
        cut = metrics.elidedText(texts[-1], Qt.TextElideMode.ElideMiddle, room)
        option.currentText = next(fitting, cut)
        return option

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw the control as Qt does, with the elided text and our arrow."""
        painter, option = QStylePainter(self), self._style_option()
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)
        theme = tokens.current()
        colour = theme.text_2 if self.isEnabled() else theme.text_3
        size = 16
        arrow = pixmap("chevron-down", colour, size)
        painter.drawPixmap(self.width() - size - 8, (self.height() - size) // 2, arrow)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Leave the wheel to the scroll area."""
        event.ignore()


class WheellessSlider(QSlider):
    """The wheel scrolls the page and never changes the value."""

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Leave the wheel to the scroll area."""
        event.ignore()


class Switch(QCheckBox):
    """On or off, drawn as a switch; position and fill both show the state."""

    _WIDTH, _HEIGHT = 34, 20

    def sizeHint(self) -> QSize:
        """Room for the switch and its text."""
        text = self.fontMetrics().horizontalAdvance(self.text())
        return QSize(self._WIDTH + (text + 8 if text else 0), max(24, self.fontMetrics().height()))

    def hitButton(self, _position: object) -> bool:
        """The whole widget reacts."""
        return True

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw track, knob, focus ring and text."""
        theme = tokens.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        top = (self.height() - self._HEIGHT) / 2
        track = QRectF(1, top + 1, self._WIDTH - 2, self._HEIGHT - 2)
        painter.setPen(QPen(QColor(theme.accent if self.hasFocus() else theme.line), 1.5))
        painter.setBrush(QColor(theme.accent if self.isChecked() else theme.surface_3))
        painter.drawRoundedRect(track, track.height() / 2, track.height() / 2)
        x = track.right() - 9 if self.isChecked() else track.left() + 9
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.on_accent if self.isChecked() else theme.text_2))
        painter.drawEllipse(QPointF(x, track.center().y()), 5.5, 5.5)
        painter.setPen(QColor(theme.text_1))
        room = self.rect().adjusted(self._WIDTH + 8, 0, 0, 0)
        painter.drawText(room, int(Qt.AlignmentFlag.AlignVCenter), self.text())


class ElidedLabel(Label):
    """One line that ends in "..." where room is short; the tool tip then shows all of it."""

    def __init__(
        self, mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent=parent)
        self._mode = mode
        self._whole = ""
        self._shorter: list[str] = []
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    @property
    def whole(self) -> str:
        """The text, not elided."""
        return self._whole

    def setText(self, text: str, *shorter: str) -> None:
        """Show a new text.

        Args:
            text: All of it.
            shorter: Shorter texts, shown where they fit; only the last one ends in "...".
        """
        self._whole, *self._shorter = map(one_line, (text, *shorter))
        self.setAccessibleName(self._whole)
        self._elide()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Elide again."""
        super().resizeEvent(event)
        self._elide()

    def changeEvent(self, event: QEvent) -> None:
        """Another font or style has other widths."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._elide()

    def sizeHint(self) -> QSize:
        """Room for all of the text."""
        hint = super().sizeHint()
        return QSize(self.fontMetrics().horizontalAdvance(self._whole) + 2, hint.height())

    def minimumSizeHint(self) -> QSize:
        """Any width will do."""
        return QSize(24, super().minimumSizeHint().height())

    def _elide(self) -> None:
        metrics, width = self.fontMetrics(), max(0, self.width())
        texts = self._whole, *self._shorter
        fitting = (text for text in texts if metrics.horizontalAdvance(text) <= width)
        shown = next(fitting, None) or metrics.elidedText(texts[-1], self._mode, width)
        if shown != self.text():
            super().setText(shown)
        set_tip(self, self._whole if shown != self._whole else "")
