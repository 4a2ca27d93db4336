"""Qt's own controls with a few pixels of ours: drop-down, slider, switch, elided label."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QCheckBox, QComboBox, QLabel, QSizePolicy, QSlider, QWidget

from app.theme import tokens
from app.theme.icons import pixmap


def bring_up(window: QWidget) -> None:
    """Show a window in front of the others, with the keyboard."""
    window.show()
    window.raise_()
    window.activateWindow()


class ChoiceBox(QComboBox):
    """A drop-down list; the wheel scrolls the page below it and never changes the choice."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(6)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the control as Qt does, then our arrow."""
        super().paintEvent(event)
        theme = tokens.current()
        colour = theme.text_2 if self.isEnabled() else theme.line
        painter = QPainter(self)
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
    """On or off, drawn as a switch; position and fill both tell the state."""

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


class ElidedLabel(QLabel):
    """One line that ends in "..." where room is short; the tool tip then shows all of it."""

    def __init__(
        self, mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._mode = mode
        self._whole = ""
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    @property
    def whole(self) -> str:
        """The text, not elided."""
        return self._whole

    def setText(self, text: str) -> None:
        """Show a new text."""
        self._whole = text
        self.setAccessibleName(text)
        self._elide()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Elide anew."""
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
        shown = self.fontMetrics().elidedText(self._whole, self._mode, max(0, self.width()))
        if shown != self.text():
            super().setText(shown)
        self.setToolTip(self._whole if shown != self._whole else "")
