"""A notice in one line that opens: its whole sentence, what to do next, and buttons that help."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QPushButton, QWidget

from app.theme import tokens
from app.theme.icons import pixmap
from app.widgets.controls import ElidedLabel, FlowLayout
from app.widgets.layouts import TOP, column, row
from app.widgets.notice_line import ICONS, colour_of
from app.widgets.parts import label, named
from app.widgets.plain import Label
from app.widgets.reveal import bring_into_view


class FoldedNotice(QWidget):
    """Opens and closes by a click on its line, Return or the space bar.

    A warning's sentence is always whole; an information's has one line until it is opened.

    Args:
        severity: Severity of the notice.
        message: The sentence.
        hint: Advice on what to do next; "" for none.
        buttons: Shown below when it is open.
        notices: Shown below when it is open, too.
        is_whole: Whether the sentence has all its lines from the beginning.
    """

    toggled = Signal(bool)  # by the user

    def __init__(
        self,
        severity: str,
        message: str,
        hint: str = "",
        buttons: Sequence[QPushButton] = (),
        notices: Sequence[FoldedNotice] = (),
        *,
        is_whole: bool | None = None,
    ) -> None:
        super().__init__()
        self._has_more = bool(hint or buttons or notices)
        self._buttons, self._notices = buttons, notices
        is_whole = severity != "info" if is_whole is None else is_whole
        self._head = _Head(severity, message, is_whole, self._has_more)
        self._head.pressed.connect(self._toggle)
        self._body = QWidget()
        below = label(kind="secondary", wraps=True, selectable=True)
        below.setText(hint)
        margins = (8 if notices else 24, 0, 0, 2)
        within = column(below, *notices, spacing=6, margins=margins, on=self._body)
        below.setVisible(bool(hint))
        if buttons:
            flow = FlowLayout(spacing=6)
            for button in buttons:
                flow.addWidget(button)
            within.addLayout(flow)
        column(self._head, self._body, spacing=4, on=self)
        self.set_open(False)

    @property
    def controls(self) -> list[QWidget]:
        """The line, where it opens, and what is below it, in the order of the keyboard."""
        below = list[QWidget](self._buttons)
        for notice in self._notices:
            below += notice.controls
        return [self._head, *below] if self._head.opens else below

    @property
    def is_open(self) -> bool:
        """Whether all of it is shown."""
        return self._head.is_open

    def set_open(self, is_open: bool) -> None:
        """Show all of it, or its line."""
        self._head.show_open(is_open)
        self._body.setVisible(is_open and self._has_more)

    def _toggle(self) -> None:
        self.set_open(not self.is_open)
        self.toggled.emit(self.is_open)
        if self.is_open:
            bring_into_view(self)


class _Head(QWidget):
    """Icon, sentence and arrow; one control for the keyboard, where it opens something."""

    pressed = Signal()

    def __init__(self, severity: str, message: str, is_whole: bool, has_more: bool) -> None:
        super().__init__()
        self.is_open, self._is_whole = False, is_whole
        self.opens = has_more or not is_whole
        named(self, "noticeHead", has_ground=True)
        if self.opens:
            self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAccessibleName(message)
        icon = label()
        icon.setPixmap(pixmap(ICONS[severity], colour_of(severity), 16))
        icon.setFixedSize(16, 18)
        self._line, self._whole, self._arrow = ElidedLabel(), Label(message), label()
        self._line.setText(message)
        self._whole.setWordWrap(True)
        texts = column(self._line, self._whole)
        head = (icon, 0, TOP), (texts, 1), (self._arrow, 0, TOP)
        row(*head, spacing=8, margins=(0, 1), on=self)
        self._arrow.setVisible(self.opens)

    def show_open(self, is_open: bool) -> None:
        """Show the whole sentence, or as much as one line holds."""
        self.is_open = is_open
        self._line.setVisible(not is_open and not self._is_whole)
        self._whole.setVisible(is_open or self._is_whole)
        name = "chevron-up" if is_open else "chevron-down"
        self._arrow.setPixmap(pixmap(name, tokens.current().text_2, 14))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """The press is ours, so that the release comes here, too."""
        event.accept()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """A click anywhere on it."""
        if self.opens and self.rect().contains(event.position().toPoint()):
            self.pressed.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Press, as a button."""
        if event.key() in (Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.pressed.emit()
            return
        super().keyPressEvent(event)
