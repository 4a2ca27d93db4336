"""Pictures of events as QImages: scaled well, and compared."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QImage, QPainter

from engine.protocol.events import Picture

AMPLIFIED = 4  # times, of the difference


def to_image(picture: Picture) -> QImage:
    """A picture of its own memory; a null one when the bytes do not match the size."""
    width, height = picture.size.width, picture.size.height
    if len(picture.rgb) != width * height * 3:
        return QImage()
    image = QImage(picture.rgb, width, height, width * 3, QImage.Format.Format_RGB888)
    return image.convertToFormat(QImage.Format.Format_RGB32)  # the format that paints fastest


def difference(first: QImage, second: QImage) -> QImage:
    """Absolute difference, `AMPLIFIED` times as bright, at the size of `second`."""
    result = QImage(second.size(), QImage.Format.Format_RGB32)
    if result.isNull():
        return result
    painter = QPainter(result)
    painter.drawImage(0, 0, resized(first, second.size()))
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Difference)
    painter.drawImage(0, 0, second)
    painter.end()
    doublings = AMPLIFIED.bit_length() - 1
    for _ in range(doublings):
        once = result.copy()
        painter = QPainter(result)
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Plus)
        painter.drawImage(0, 0, once)
        painter.end()
    return result


def resized(image: QImage, size: QSize) -> QImage:
    """The image at another size, averaged when it becomes smaller."""
    if image.size() == size:
        return image
    return image.scaled(
        size, Qt.AspectRatioMode.IgnoreAspectRatio, Qt.TransformationMode.SmoothTransformation
    )


class Layer:
    """An image with the last reduced copy of it, so that a moving line costs no new scaling."""

    def __init__(self, image: QImage | None = None) -> None:
        self.image = image if image is not None else QImage()
        self._reduced = QImage()

    @property
    def is_empty(self) -> bool:
        """True while there is nothing to show."""
        return self.image.isNull()

    def for_size(self, size: QSize) -> QImage:
        """The image to paint into `size` device pixels: itself, or an averaged smaller copy.

        Painters only interpolate between neighbours: strongly reduced pictures would shimmer.
        """
        if self.image.width() <= size.width() * 1.2 or size.isEmpty():
            return self.image
        if self._reduced.size() != size:
            self._reduced = resized(self.image, size)
        return self._reduced
