"""One reading of a latent: its picture, its name, and a mark where it is taken."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFocusEvent, QFont, QImage, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from app.theme import tokens
from app.theme.fonts import interface_font

_PADDING = 10
_TEXTS = 48  # px, height of the two lines
_MARK = 9.0  # px, radius
_PICTURE, _LEAST_PICTURE = 190, 120  # px, height
_BY_KEY = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)


class ReadingCard(QAbstractButton):
    """A large radio button with a picture; in a QButtonGroup the arrow keys walk along them."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._second_line = self._instead = ""
        self._picture = QImage()
        self._has_ring = False  # none before the keyboard is used
        self.setCheckable(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    @property
    def has_picture(self) -> bool:
        """Whether there is something to look at."""
        return not self._picture.isNull()

    @property
    def instead(self) -> str:
        """What stands in the place of the picture."""
        return self._instead

    def set_texts(self, title: str, second_line: str) -> None:
        """New texts; both are read out by screen readers."""
        self.setText(title)
        self._second_line = second_line
        self.setAccessibleName(title)
        self.setAccessibleDescription(second_line)
        self.update()

    def set_picture(self, picture: QImage, instead: str = "") -> None:
        """A picture, or a null one and why there is none."""
        self._picture, self._instead = picture, instead
        self.update()

    def sizeHint(self) -> QSize:
        """Room for a film's picture and two lines."""
        return QSize(336, 2 * _PADDING + _PICTURE + _TEXTS)

    def minimumSizeHint(self) -> QSize:
        """A picture too small to judge is of no use."""
        return QSize(240, 2 * _PADDING + _LEAST_PICTURE + _TEXTS)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show a ring where the keyboard brought the focus."""
        self._has_ring = event.reason() in _BY_KEY
        super().focusInEvent(event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Frame, picture, mark, texts."""
        theme = tokens.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        is_hovered = self.underMouse() and self.isEnabled()
        fill = tokens.mixed(theme.text_1, theme.surface_2, 0.04 if is_hovered else 0.0)
        painter.setBrush(QColor(fill))
        width = 2.0 if self.isChecked() else 1.0
        painter.setPen(QPen(QColor(theme.accent if self.isChecked() else theme.line), width))
        inset = width / 2
        frame = QRectF(self.rect()).adjusted(inset, inset, -inset, -inset)
        painter.drawRoundedRect(frame, tokens.CARD_RADIUS, tokens.CARD_RADIUS)
        if self.hasFocus() and self._has_ring:
            self._paint_focus(painter, frame)
        inner = QRectF(self.rect()).adjusted(_PADDING, _PADDING, -_PADDING, -_PADDING)
        self._paint_picture(painter, inner.adjusted(0, 0, 0, -_TEXTS))
        self._paint_texts(painter, inner)

    def _paint_focus(self, painter: QPainter, frame: QRectF) -> None:
        """A ring inside the frame: taken and focused look different."""
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(tokens.current().text_1), 1.5))
        radius = tokens.CARD_RADIUS - 3
        painter.drawRoundedRect(frame.adjusted(3, 3, -3, -3), radius, radius)

    def _paint_picture(self, painter: QPainter, room: QRectF) -> None:
        theme = tokens.current()
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.surface_3))
        if self._picture.isNull():
            painter.drawRoundedRect(room, 4, 4)
            painter.setPen(QColor(theme.text_2))
            painter.setFont(interface_font(tokens.SMALL_PX))
            wrapped = int(Qt.AlignmentFlag.AlignCenter) | int(Qt.TextFlag.TextWordWrap)
            painter.drawText(room.adjusted(12, 0, -12, 0), wrapped, self._instead)
            return
        size = self._picture.size().toSizeF()
        size.scale(room.size(), Qt.AspectRatioMode.KeepAspectRatio)
        place = QRectF(QPointF(0, 0), size)
        place.moveCenter(room.center())
        painter.drawImage(place, self._picture)

    def _paint_texts(self, painter: QPainter, inner: QRectF) -> None:
        theme = tokens.current()
        top = inner.bottom() - _TEXTS + 10
        centre = QPointF(inner.left() + _MARK + 2, top + 10)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        mark = theme.accent if self.isChecked() else theme.text_2
        painter.setPen(QPen(QColor(mark), 1.5))
        painter.drawEllipse(centre, _MARK - 1, _MARK - 1)
        if self.isChecked():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.accent))
            painter.drawEllipse(centre, _MARK - 4.5, _MARK - 4.5)
        left = inner.left() + 2 * _MARK + 12
        room = QRectF(left, top, inner.right() - left, 20)
        self._line(painter, room, self.text(), is_title=True)
        self._line(painter, room.translated(0, 19), self._second_line, is_title=False)

    def _line(self, painter: QPainter, room: QRectF, text: str, *, is_title: bool) -> None:
        theme = tokens.current()
        weight = QFont.Weight.DemiBold if is_title else QFont.Weight.Normal
        painter.setFont(interface_font(tokens.BODY_PX if is_title else tokens.SMALL_PX, weight))
        painter.setPen(QColor(theme.text_1 if is_title else theme.text_2))
        elide = Qt.TextElideMode.ElideRight
        shown = painter.fontMetrics().elidedText(text, elide, int(room.width()))
        painter.drawText(room, int(Qt.AlignmentFlag.AlignVCenter), shown)
