"""Widgets side by side, as many as fit into a line."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QWidget


class FlowLayout(QLayout):
    """Left to right, then the next line; each line as high as its highest widget."""

    def __init__(self, parent: QWidget | None = None, *, spacing: int = 8) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self.setContentsMargins(0, 0, 0, 0)
        self.setSpacing(spacing)

    def clear(self) -> None:
        """Take all widgets away."""
        while self._items:
            item = self.takeAt(0)
            widget = item.widget() if item is not None else None
            if widget is not None:
                widget.hide()
                widget.deleteLater()

    def addItem(self, item: QLayoutItem) -> None:
        """Qt adds a widget."""
        self._items.append(item)

    def count(self) -> int:
        """Number of widgets."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        """One of them; None beyond the last."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        """Take one away."""
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        """Takes no more room than it needs."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        """Narrower means more lines."""
        return True

    def heightForWidth(self, width: int) -> int:
        """Height of all lines."""
        return self._place(QRect(0, 0, width, 0), only_measured=True)

    def setGeometry(self, rect: QRect) -> None:
        """Put the widgets where they belong."""
        super().setGeometry(rect)
        self._place(rect)

    def sizeHint(self) -> QSize:
        """All of them in one line."""
        hints = [item.sizeHint() for item in self._items]
        width = sum(hint.width() for hint in hints) + self.spacing() * max(0, len(hints) - 1)
        return QSize(width, max((hint.height() for hint in hints), default=0))

    def minimumSize(self) -> QSize:
        """The widest of them."""
        hints = [item.minimumSize() for item in self._items]
        return QSize(
            max((hint.width() for hint in hints), default=0),
            max((hint.height() for hint in hints), default=0),
        )

    def _place(self, rect: QRect, *, only_measured: bool = False) -> int:
        """Walk along the lines; their height altogether."""
        x, y, line = rect.left(), rect.top(), 0
        for item in self._items:
            hint = item.sizeHint()
            if x > rect.left() and x + hint.width() > rect.left() + rect.width():
                x, y, line = rect.left(), y + line + self.spacing(), 0
            if not only_measured:
                item.setGeometry(QRect(QPoint(x, y), hint))
            x, line = x + hint.width() + self.spacing(), max(line, hint.height())
        return y + line - rect.top()
