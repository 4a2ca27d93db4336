"""Pictures of the setup's pages, painted from the program's icon."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QColor,
    QImage,
    QLinearGradient,
    QPainter,
)

_ICON = Path(__file__).resolve().parents[1] / "resources" / "icons" / "upreel-512.png"
_SIDE = (191, 362)  # width and height on a screen at 100 %, px
_HEADER = (150, 57)
_SHARPER = 2  # for screens at 200 %


def paint(folder: Path) -> None:
    """Write `side.bmp` and `header.bmp`, twice as large as shown on a screen at 100 %.

    Raises:
        OSError: One of them could not be written.
    """
    shade = QLinearGradient(0, 0, _SIDE[0] / 2, _SIDE[1])
    shade.setColorAt(0, QColor("#1B2A2C"))
    shade.setColorAt(1, QColor("#0E1013"))
    side, header = _empty(*_SIDE), _empty(*_HEADER)
    with QPainter(side) as painter:
        painter.fillRect(0, 0, *_SIDE, shade)
        painter.drawImage((_SIDE[0] - 96) // 2, _SIDE[1] // 4, _icon(96))
    with QPainter(header) as painter:
        painter.fillRect(0, 0, *_HEADER, QColor("#FFFFFF"))
        painter.drawImage(_HEADER[0] - 44 - 32, (_HEADER[1] - 44) // 2, _icon(44))
    for name, picture in (("side", side), ("header", header)):
        picture.setDevicePixelRatio(1)
        if not picture.save(str(folder / f"{name}.bmp")):
            raise OSError(f"{name}.bmp could not be written")


def _empty(width: int, height: int) -> QImage:
    picture = QImage(width * _SHARPER, height * _SHARPER, QImage.Format.Format_RGB32)
    picture.setDevicePixelRatio(_SHARPER)
    return picture


def _icon(edge: int) -> QImage:
    smooth = Qt.TransformationMode.SmoothTransformation
    picture = QImage(str(_ICON)).scaledToHeight(edge * _SHARPER, smooth)
    picture.setDevicePixelRatio(_SHARPER)
    return picture
