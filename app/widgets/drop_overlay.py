"""What lies over the window while files are dragged over it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app.i18n import tr
from app.theme import tokens
from app.theme.fonts import interface_font
from app.theme.icons import pixmap


class DropOverlay(QWidget):
    """Covers its parent; takes no events, so that the window itself gets the drop."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("dropOverlay")
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setVisible(False)
        parent.installEventFilter(self)

    def open_up(self) -> None:
        """Cover the window."""
        parent = self.parentWidget()
        if parent is not None:
            self.setGeometry(parent.rect())
        self.raise_()
        self.show()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay as large as the window."""
        if event.type() == QEvent.Type.Resize and self.isVisible():
            parent = self.parentWidget()
            if parent is not None:
                self.setGeometry(parent.rect())
        return False

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Dim what lies below; a frame and a word in the middle."""
        theme = tokens.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        veil = QColor(theme.background)
        veil.setAlphaF(0.9)
        painter.fillRect(self.rect(), veil)
        fill = QColor(theme.accent)
        fill.setAlphaF(0.08)
        pen = QPen(QColor(theme.accent), 2)
        pen.setDashPattern([5, 4])
        painter.setPen(pen)
        painter.setBrush(fill)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(20, 20, -20, -20), 20, 20)
        centre = self.rect().center()
        painter.drawPixmap(centre.x() - 32, centre.y() - 84, pixmap("add", theme.accent, 64))
        painter.setPen(QColor(theme.text_1))
        painter.setFont(interface_font(26, QFont.Weight.DemiBold))
        room = self.rect().adjusted(0, 24, 0, 24)
        painter.drawText(room, int(Qt.AlignmentFlag.AlignCenter), tr("Drop to add"))
