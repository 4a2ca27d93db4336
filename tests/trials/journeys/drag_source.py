"""A small window of another program that files can be dragged from, with real XDND.

`python -m tests.trials.journeys.drag_source X Y ACTION FILE...` shows it at a place of the screen.
It prints "ready", "accepted" or "refused" each time the window below the pointer answers otherwise,
and in the end the action that the target chose.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PySide6.QtCore import QMimeData, QRect, Qt, QTimer, QUrl
from PySide6.QtGui import QDrag, QMouseEvent
from PySide6.QtWidgets import QApplication, QWidget

SIDE = 24  # px
_READ_MS = 5000  # in which any target has read the files


class DragSource(QWidget):
    """Begins one drag when the mouse is pressed, and ends with it."""

    def __init__(self, files: list[Path], proposed: Qt.DropAction) -> None:
        flags = Qt.WindowType.BypassWindowManagerHint | Qt.WindowType.WindowStaysOnTopHint
        super().__init__(None, flags)
        self._files, self._proposed = files, proposed

    def mousePressEvent(self, _event: QMouseEvent) -> None:
        """Drag until the button is released."""
        drag, mime = QDrag(self), QMimeData()
        mime.setUrls([QUrl.fromLocalFile(str(file)) for file in self._files])
        drag.setMimeData(mime)
        drag.actionChanged.connect(self._changed)
        drag.destroyed.connect(QApplication.quit)  # as soon as the target has read the files
        offered = Qt.DropAction.CopyAction | Qt.DropAction.MoveAction
        action = drag.exec(offered, self._proposed)
        print(action.name, flush=True)
        QTimer.singleShot(_READ_MS, QApplication.quit)  # Qt does not always hear of the end

    def _changed(self, action: Qt.DropAction) -> None:
        is_refused = action is Qt.DropAction.IgnoreAction
        print("refused" if is_refused else "accepted", flush=True)


def main() -> int:
    """Show the window until one drag has ended."""
    left, top, action, *files = sys.argv[1:]
    app = QApplication(sys.argv[:1])
    source = DragSource([Path(file) for file in files], Qt.DropAction[action])
    source.setGeometry(QRect(int(left), int(top), SIDE, SIDE))
    source.show()
    source.raise_()
    QTimer.singleShot(200, lambda: print("ready", flush=True))
    return app.exec()


if __name__ == "__main__":
    sys.exit(main())
