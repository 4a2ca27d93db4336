"""Work of views that is done once in a turn of the event loop, however often it is asked for."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer


def once_a_turn(owner: QObject, work: Callable[[], object]) -> QTimer:
    """A timer: `start` asks for the work, which is done when the event loop comes round."""
    timer = QTimer(owner, interval=0, singleShot=True)
    timer.timeout.connect(work)
    return timer
