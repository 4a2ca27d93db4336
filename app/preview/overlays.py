"""What lies over the pictures: labels, the split line, a message, rounded corners."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPainterPath, QPen, QPolygonF

from app.theme import tokens
from app.theme.fonts import interface_font

# Over pictures everything is white on dark glass, in both themes: what lies below is unknown.
GLASS = QColor(20, 22, 26, 205)
INK = QColor("#ECEEF2")
HANDLE_RADIUS = 14.0
_INSET = 10.0


def label_rect(area: QRectF, text: str, *, at_right: bool) -> QRectF:
    """Where a label lies in the upper corner of an area; empty where the area is too small."""
    metrics = QFontMetricsF(interface_font(tokens.SMALL_PX))
    size = QSizeF(metrics.horizontalAdvance(text) + 20, 26)
    if not text or size.width() + 2 * _INSET > area.width() or area.height() < 60:
        return QRectF()
    left = area.right() - _INSET - size.width() if at_right else area.left() + _INSET
    return QRectF(QPointF(left, area.top() + _INSET), size)


def draw_label(painter: QPainter, area: QRectF, text: str, *, at_right: bool) -> None:
    """A label in the upper left or right corner of an area."""
    rect = label_rect(area, text, at_right=at_right)
    if rect.isEmpty():
        return
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(GLASS)
    painter.drawRoundedRect(rect, 6, 6)
    painter.setPen(INK)
    painter.setFont(interface_font(tokens.SMALL_PX))
    painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, text)


def draw_message(painter: QPainter, area: QRectF, text: str) -> None:
    """A sentence in the middle of an area, broken into lines where it is narrow."""
    font = interface_font(tokens.BODY_PX)
    room = QRectF(0, 0, max(40.0, min(area.width() - 48, 360.0)), 1000)
    wrapped = int(Qt.AlignmentFlag.AlignCenter) | int(Qt.TextFlag.TextWordWrap)
    needed = QFontMetricsF(font).boundingRect(room, wrapped, text).size()
    box = QRectF(0, 0, needed.width() + 32, needed.height() + 18)
    box.moveCenter(area.center())
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(GLASS)
    painter.drawRoundedRect(box, tokens.RADIUS, tokens.RADIUS)
    painter.setPen(INK)
    painter.setFont(font)
    painter.drawText(box.adjusted(12, 0, -12, 0), wrapped, text)


def draw_split(painter: QPainter, area: QRectF, x: float) -> None:
    """The line between source and result with its handle."""
    shadow = QColor(0, 0, 0, 90)
    painter.fillRect(QRectF(x - 2, area.top(), 4, area.height()), shadow)
    painter.fillRect(QRectF(x - 1, area.top(), 2, area.height()), INK)
    middle = QPointF(x, area.center().y())
    painter.setPen(QPen(shadow, 1))
    painter.setBrush(INK)
    painter.drawEllipse(middle, HANDLE_RADIUS, HANDLE_RADIUS)
    painter.setPen(
        QPen(
            QColor(tokens.DARK.surface_1),
            2,
            Qt.PenStyle.SolidLine,
            Qt.PenCapStyle.RoundCap,
            Qt.PenJoinStyle.RoundJoin,
        )
    )
    for side in (-1, 1):
        tip, back = middle.x() + side * 7, middle.x() + side * 3.5
        points = [(back, -3.5), (tip, 0), (back, 3.5)]
        painter.drawPolyline(QPolygonF([QPointF(px, middle.y() + dy) for px, dy in points]))


def round_corners(painter: QPainter, area: QRectF, colour: QColor) -> None:
    """Cover the corners of an area, so that the picture in it looks rounded."""
    path = QPainterPath()
    path.addRect(area.adjusted(-1, -1, 1, 1))
    inner = QPainterPath()
    inner.addRoundedRect(area, tokens.RADIUS, tokens.RADIUS)
    painter.fillPath(path - inner, colour)


def draw_focus(painter: QPainter, area: QRectF) -> None:
    """The ring that shows where the keyboard is."""
    painter.setPen(QPen(QColor(tokens.current().accent), 2))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRoundedRect(area.adjusted(1, 1, -1, -1), tokens.RADIUS, tokens.RADIUS)
