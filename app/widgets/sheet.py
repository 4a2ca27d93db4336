"""A sheet over the preview: holds what has no room of its own, until it is closed."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QFrame, QWidget

from app.widgets.layouts import column, row
from app.widgets.parts import icon_button, label, named


class Sheet(QFrame):
    """Covers a part of `over`, as high as that; one sheet is open at a time.

    Args:
        over: The widget that it covers; its parent.
        name: Its objectName.
        width: px, at most: it never is wider than `over`.
        is_left: At the left edge of `over`, else at the right one.
    """

    def __init__(self, over: QWidget, name: str, width: int, *, is_left: bool = False) -> None:
        super().__init__(over)
        named(self, name, "sheet")
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._over, self._width, self._is_left = over, width, is_left
        self._focus_before: QWidget | None = None
        self._title = label(kind="title")
        close = icon_button(
            "cancel",
            "Close",
            f"{name}Close",
            "more",
            size=16,
            tip="Close (Esc)",
            on=self.close_down,
        )
        head = row((self._title, 1), close, margins=(16, 8, 8, 0))
        self._column = column(head, spacing=0, margins=(1, 0, 1, 1), on=self)
        self.setVisible(False)
        over.installEventFilter(self)

    def hold(self, body: QWidget) -> None:
        """Take a widget in; it fills the sheet."""
        self._column.addWidget(body, 1)
        body.show()

    def set_title(self, title: str) -> None:
        """Heading, in the current language."""
        self._title.setText(title)
        self.setAccessibleName(title)

    def open_up(self) -> None:
        """Show it, in place of any other sheet."""
        if not self.isHidden():
            return
        for other in self._over.findChildren(Sheet):
            other.close_down()
        self._focus_before = QApplication.focusWidget()
        self._fit()
        self.show()
        self.raise_()
        self.setFocus(Qt.FocusReason.OtherFocusReason)  # Tab goes to what it holds

    def close_down(self) -> None:
        """Hide it; the keyboard goes back to where it was."""
        if self.isHidden():
            return
        held_focus = self.isAncestorOf(QApplication.focusWidget() or self._over)
        self.hide()
        before = self._focus_before
        if held_focus and before is not None and before.isVisible():
            before.setFocus(Qt.FocusReason.OtherFocusReason)

    def toggle(self) -> None:
        """Open it, or close it: its button was pressed."""
        if self.isHidden():
            self.open_up()
        else:
            self.close_down()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape closes."""
        if event.key() == Qt.Key.Key_Escape:
            self.close_down()
            return
        super().keyPressEvent(event)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
        """Stay as high as what it covers."""
        if event.type() == QEvent.Type.Resize and not self.isHidden():
            self._fit()
        return False

    def _fit(self) -> None:
        width = min(self._width, self._over.width())
        left = 0 if self._is_left else self._over.width() - width
        self.setGeometry(left, 0, width, self._over.height())
