"""The line icons of `resources/icons`, in the colours of the current theme."""

from __future__ import annotations

import functools

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QGuiApplication, QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from app.theme import tokens
from engine.core import paths

_DRAWN_COLOUR = "#A9B0BC"  # the colour in the files


def icon(name: str, *, size: int = 20) -> QIcon:
    """An icon for buttons and menus; ask again after a change of theme."""
    theme = tokens.current()
    result = QIcon(pixmap(name, theme.text_2, size))
    result.addPixmap(pixmap(name, theme.text_1, size), QIcon.Mode.Active)
    result.addPixmap(pixmap(name, theme.text_3, size), QIcon.Mode.Disabled)
    return result


def pixmap(name: str, colour: str, size: int) -> QPixmap:
    """One icon in one colour, `size` logical px wide and high, sharp on every screen."""
    app = QGuiApplication.instance()
    ratio = app.devicePixelRatio() if isinstance(app, QGuiApplication) else 1.0
    return _rendered(name, colour, size, ratio)


def program_icon() -> QIcon:
    """The program's own icon; Qt reads a PNG when its size is wanted, and an .ico as a whole."""
    result = QIcon()
    for file in paths.resource("icons").glob("upreel-*.png"):
        result.addFile(str(file))
    return result


@functools.lru_cache(maxsize=256)
def _rendered(name: str, colour: str, size: int, ratio: float) -> QPixmap:
    result = QPixmap(round(size * ratio), round(size * ratio))
    result.setDevicePixelRatio(ratio)
    result.fill(Qt.GlobalColor.transparent)
    painter = QPainter(result)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    QSvgRenderer(QByteArray(_source(name, colour))).render(painter, QRectF(0, 0, size, size))
    painter.end()
    return result


@functools.lru_cache(maxsize=128)
def _source(name: str, colour: str) -> bytes:
    text = paths.resource("icons", f"{name}.svg").read_text("utf-8")
    return text.replace(_DRAWN_COLOUR, colour).encode()
