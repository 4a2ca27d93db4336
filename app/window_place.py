"""Places of windows: the main one opens on each screen where it was, all of them inside it."""

from __future__ import annotations

import re

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QGuiApplication, QScreen
from PySide6.QtWidgets import QWidget

from app.ui_state import UiState
from app.widgets.page import TITLE_PX

SMALLEST = QSize(880, 430)  # logical pixels: 1366x768 at 150 % less the task bar and a title
_USUAL = QSize(1440, 900)


def place_window(window: QWidget, state: UiState) -> None:
    """Give a window its size and place before it is shown."""
    screen = _screen_of(state.screen)
    free = screen.availableGeometry()
    kept = state.place(key_of(screen))
    window.setGeometry(fitted(kept, free) if kept.isValid() else _opened(free))
    if state.is_maximised:
        window.setWindowState(Qt.WindowState.WindowMaximized)


def keep_place(window: QWidget, state: UiState) -> None:
    """Remember where a window is, for the screen that it is on."""
    screen = window.screen()
    state.screen = key_of(screen)
    state.is_maximised = window.isMaximized()
    state.keep_place(key_of(screen), window.normalGeometry())


def fitted(place: QRect, free: QRect) -> QRect:
    """A place moved and shrunk so that window and frame lie on the free part of a screen."""
    inner = free.adjusted(0, TITLE_PX, 0, 0)
    size = place.size().boundedTo(inner.size())
    left = min(max(place.left(), inner.left()), inner.right() + 1 - size.width())
    top = min(max(place.top(), inner.top()), inner.bottom() + 1 - size.height())
    return QRect(left, top, size.width(), size.height())


def key_of(screen: QScreen) -> str:
    """Tells screens apart, and resolutions and scales of one screen."""
    size = screen.geometry().size()
    name = re.sub(r"\W+", "_", screen.name())  # may have what a key of QSettings may not
    return f"{name}_{size.width()}x{size.height()}"


def _opened(free: QRect) -> QRect:
    """The usual size, or all that there is, in the middle."""
    place = QRect(0, 0, _USUAL.width(), _USUAL.height())
    place.moveCenter(free.center())
    return fitted(place, free)


def _screen_of(key: str) -> QScreen:
    screens = QGuiApplication.screens()
    return next((one for one in screens if key_of(one) == key), QGuiApplication.primaryScreen())
