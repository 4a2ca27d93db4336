"""A notice in one line that opens: its whole sentence, what to do next, and buttons that help."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QPushButton, QSizePolicy, QWidget

from app.theme import tokens
from app.theme.icons import pixmap
from app.widgets.controls import ElidedLabel, FlowLayout
from app.widgets.layouts import TOP, column, row
from app.widgets.notice_line import ICONS, NoticeLine, colour_of
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
        self._head = None if is_whole and not self._has_more else _Head(severity, message, is_whole)
        if self._head is not None:
            self._head.clicked.connect(self._toggle)
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
        head = self._head or NoticeLine(severity, message)
        column(head, self._body, spacing=4, on=self)
        self.set_open(False)

    @property
    def controls(self) -> list[QWidget]:
        """The line, where it opens, and what is below it, in the order of the keyboard."""
        below = list[QWidget](self._buttons)
        for notice in self._notices:
            below += notice.controls
        return [self._head, *below] if self._head is not None else below

    @property
    def is_open(self) -> bool:
        """Whether all of it is shown."""
        return self._head is not None and self._head.isChecked()

    def set_open(self, is_open: bool) -> None:
        """Show all of it, or its line."""
        if self._head is not None:
            self._head.show_open(is_open)
        self._body.setVisible(is_open and self._has_more)

    def _toggle(self, is_open: bool) -> None:
        self.set_open(is_open)
        self.toggled.emit(is_open)
        if is_open:
            bring_into_view(self)


class _Head(QAbstractButton):
    """Icon, sentence and arrow; a button that stays down while its notice is open."""

    def __init__(self, severity: str, message: str, is_whole: bool) -> None:
        super().__init__()
        self._is_whole = is_whole
        named(self, "noticeHead")
        self.setCheckable(True)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAccessibleName(message)
        icon = label()
        icon.setPixmap(pixmap(ICONS[severity], colour_of(severity), 16))
        icon.setFixedSize(16, 18)
        self._line, self._whole, self._arrow = ElidedLabel(), Label(message), label()
        self._arrow.setFixedSize(14, 18)
        self._line.setText(message)
        self._whole.setWordWrap(True)
        texts = column(self._line, self._whole)
        head = (icon, 0, TOP), (texts, 1), (self._arrow, 0, TOP)
        row(*head, spacing=8, margins=(0, 1), on=self)

    def show_open(self, is_open: bool) -> None:
        """Show the whole sentence, or as much as one line holds."""
        self.setChecked(is_open)
        self._line.setVisible(not is_open and not self._is_whole)
        self._whole.setVisible(is_open or self._is_whole)
        name = "chevron-up" if is_open else "chevron-down"
        self._arrow.setPixmap(pixmap(name, tokens.current().text_2, 14))

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw the focus ring; the rest are labels."""
        if self.hasFocus():
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(QColor(tokens.current().accent), 1.5))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 4, 4)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Press by Return, too."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
            return
        super().keyPressEvent(event)
