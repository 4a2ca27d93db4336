"""The import of the engine, while the window is already there."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable

from PySide6.QtCore import QObject, Signal


class EngineImport(QObject):
    """Imports `engine.api` in a thread of its own, 0.2 s in which the window already answers."""

    _ended = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._thread = threading.Thread(target=self._run, name="engine import", daemon=True)
        self._then: Callable[[], None] = lambda: None
        self._ended.connect(self._finish)

    def start(self, then: Callable[[], None]) -> None:
        """Begin; `then` follows in the window's thread, where its own import raises what failed."""
        self._then = then
        self._thread.start()

    def wait(self) -> None:
        """Return when the thread has ended, if it was started."""
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            importlib.import_module("engine.api")
        finally:
            self._ended.emit()  # queued: Qt changes the thread

    def _finish(self) -> None:
        self._then()
