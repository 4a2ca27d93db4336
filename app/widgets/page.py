"""Windows above the main one: pages and dialogs, never larger than their screen."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QDialog, QWidget

from app.widgets.layouts import Part, column, layout_of
from app.widgets.parts import Text, bind_text

TITLE_PX = 40  # of a title bar, before the window has one


class Page(QDialog):
    """A window above the main one.

    Args:
        name: Name of the object.
        title: Text of the title bar; "" where the owner sets it.
        parent: Window that it belongs to.
        size: Size at first, px.
        least: Smallest size, px.
    """

    def __init__(
        self,
        name: str,
        title: Text = "",
        parent: QWidget | None = None,
        *,
        size: QSize | None = None,
        least: QSize | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        if title:
            bind_text(self, self.setWindowTitle, title)
        if least is not None:
            self.setMinimumSize(least)
        if size is not None:
            self.resize(size)

    def fill(self, *parts: Part, spacing: int = 10, focus: QWidget | None = None) -> None:
        """Lay out parts from top to bottom, as `column` does.

        Args:
            parts: Parts of the page.
            spacing: Between two parts, px.
            focus: Takes the focus at first; it shows no ring before Tab is pressed.
        """
        column(*parts, spacing=spacing, margins=(20, 16), on=self)
        if focus is not None:
            if focus.focusPolicy() is Qt.FocusPolicy.NoFocus:
                focus.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
            focus.setFocus(Qt.FocusReason.OtherFocusReason)

    def bring_up(self) -> None:
        """Show the page in front of the others, with the keyboard."""
        self.resize_on_screen(self.size())
        self.show()
        self.raise_()
        self.activateWindow()

    def resize_on_screen(self, size: QSize) -> None:
        """Take a size, at most that of the free part of the screen below a title."""
        room = self.screen().availableGeometry().adjusted(0, TITLE_PX, 0, 0)
        self.resize(size.boundedTo(room.size()))

    def fit_height(self) -> None:
        """Make room for every line: Qt gives wrapped sentences one line where a window is low."""
        needed = layout_of(self).totalHeightForWidth(self.width())
        if self.isVisible() and needed > self.height():
            self.resize_on_screen(QSize(self.width(), needed))
