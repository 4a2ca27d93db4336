"""An image as large as its place allows, on a grey that leaves its colours alone."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme import tokens

_THIN = 4  # px; bars at most this wide would look like lines around the image


class PictureBox(QWidget):
    """Shows an image in its middle, or a text in place of one."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.image, self.instead = QImage(), ""
        self.setMinimumSize(120, 68)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def show_image(self, image: QImage, instead: str = "") -> None:
        """Show another image; where it is null, a text."""
        self.image, self.instead = image, instead
        self.update()

    def sizeHint(self) -> QSize:
        """Room for an image that can be judged."""
        return QSize(316, 190)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw the image, or the text."""
        painter, theme = QPainter(self), tokens.current()
        if self.image.isNull() and self.instead:
            painter.fillRect(self.rect(), QColor(theme.surface_3))
            painter.setPen(QColor(theme.text_2))
            wrapped = int(Qt.AlignmentFlag.AlignCenter) | int(Qt.TextFlag.TextWordWrap)
            painter.drawText(self.rect().adjusted(12, 0, -12, 0), wrapped, self.instead)
            return
        size = self.image.size().scaled(self.size(), Qt.AspectRatioMode.KeepAspectRatio)
        left, top = (self.width() - size.width()) // 2, (self.height() - size.height()) // 2
        if self.image.isNull() or max(left, top) > _THIN:
            painter.fillRect(self.rect(), QColor(tokens.SURROUND))
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        painter.drawImage(self.rect().adjusted(left, top, -left, -top), self.image)
