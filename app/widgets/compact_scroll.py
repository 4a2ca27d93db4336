"""A scroll area that is as high as what it holds, as far as there is room."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QWidget

_LEAST = 72  # px


class CompactScroll(QScrollArea):
    """Scrolls up and down only, and only above its maximum height.

    Args:
        body: Its content.
        is_whole: Whether it gives way to what stands beside it only above its maximum height.
    """

    def __init__(self, body: QWidget, *, is_whole: bool = False) -> None:
        super().__init__()
        self._is_whole = is_whole
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.body = body
        body.setObjectName("scrolled")
        self.setWidget(body)

    def sizeHint(self) -> QSize:
        """Returns the height of the body at the present width, or at its own where that is less."""
        body = self.body
        width = min(max(self.width(), self.minimumWidth()), body.maximumWidth())
        hint = body.sizeHint()
        height = body.heightForWidth(width) if body.hasHeightForWidth() else hint.height()
        return QSize(hint.width(), height)

    def minimumSizeHint(self) -> QSize:
        """A few lines, or all of them."""
        height = self.sizeHint().height()
        return QSize(0, height if self._is_whole else min(_LEAST, height))

    def settle(self) -> None:
        """Take the height of the body at once: by itself Qt needs an event for each layout."""
        for widget in (*reversed(self.body.findChildren(QWidget)), self.body):
            if (layout := widget.layout()) is not None:
                layout.activate()
        self.updateGeometry()
        above = self.parentWidget()
        while above is not None:
            if (layout := above.layout()) is not None:
                layout.activate()
            above = above.parentWidget()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Another width breaks the lines of the body elsewhere."""
        super().resizeEvent(event)
        self._offer_bar()
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Another body height is another height of the area."""
        if watched is self.body and event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
            self._offer_bar()
        return super().eventFilter(watched, event)

    def _offer_bar(self) -> None:
        """Have no bar where all has room: Qt keeps one whose own width makes it needed."""
        policies = Qt.ScrollBarPolicy
        is_needed = self.sizeHint().height() > self.height()
        policy = policies.ScrollBarAsNeeded if is_needed else policies.ScrollBarAlwaysOff
        if policy is not self.verticalScrollBarPolicy():
            self.setVerticalScrollBarPolicy(policy)
