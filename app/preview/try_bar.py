"""The bar over the picture that makes a part of the film before the whole, and how that goes on."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QMenu,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.i18n import tr
from app.theme.icons import icon
from app.widgets.controls import Themed
from app.widgets.layouts import layout_of
from app.widgets.plain import Label, set_tip

SECONDS = 3.0
_MARGIN = 12  # px to the edges of the picture
_SHARE = 4  # of the picture's height: the bar takes no more than a quarter


class TryBar(Themed, QFrame):
    """Three offers; while one is carried out, its progress and Stop to the right of them.

    Nothing moves under the pointer: the left edge stays, errors grow upwards. Over a low picture
    only errors are shown; the offers are a menu then, in `line`, which has its place elsewhere.

    Args:
        over: The widget whose lower edge it lies on.
    """

    wanted = Signal(float)  # s; 0 for the frame that is shown
    stop_clicked = Signal()
    compare_clicked = Signal()
    problem_closed = Signal()
    line_changed = Signal()  # it came, went or needs another width

    def __init__(self, over: QWidget) -> None:
        super().__init__(over)
        self.setObjectName("tryBar")
        self.setProperty("kind", "card")
        self.setCursor(Qt.CursorShape.ArrowCursor)
        self._over = over
        self._frame, self._seconds, self._stop = QPushButton(), QPushButton(), QPushButton()
        self._compare = QPushButton()
        self._progress, self._problem = Label(), Label()
        self._problem.setWordWrap(True)
        self._progress.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        names = {
            "tryFrame": self._frame,
            "trySeconds": self._seconds,
            "tryCompare": self._compare,
            "tryStop": self._stop,
        }
        for name, button in names.items():
            button.setObjectName(name)
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a click leaves the keys to the picture
        self._problem.setObjectName("tryProblem")
        self._trouble, self._close = QWidget(), QToolButton()  # the problem with its button
        self._close.setObjectName("tryClose")
        self._close.setProperty("kind", "more")
        self._close.clicked.connect(self.problem_closed)
        self._offers = self._frame, self._seconds, self._compare
        self.line, self._menu_button, self._work = QWidget(), QPushButton(), QWidget()
        self._items = tuple(QAction(self) for _ in self._offers)
        self._frame.clicked.connect(lambda: self.wanted.emit(0.0))
        self._seconds.clicked.connect(lambda: self.wanted.emit(SECONDS))
        self._stop.clicked.connect(self.stop_clicked)
        self._compare.clicked.connect(self.compare_clicked)
        self._lay_out()
        self._has_result, self._why_not = False, ""
        self._is_offered = self._is_folded = False
        over.installEventFilter(self)
        self.retranslate_ui()
        self.withdraw()

    def _lay_out(self) -> None:
        self._row = _row_of(*self._offers, self._work)
        self._row.addStretch(1)
        self._work.setLayout(_row_of(self._progress, self._stop))
        self._line_row = _row_of(self._menu_button)
        self.line.setLayout(self._line_row)
        self._menu_button.setObjectName("tryMenu")
        self._menu_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        menu = QMenu(self._menu_button)
        for item, button in zip(self._items, self._offers, strict=True):
            item.triggered.connect(button.click)
            menu.addAction(item)
        self._menu_button.setMenu(menu)
        column = QVBoxLayout(self)
        column.setContentsMargins(8, 8, 8, 8)
        column.setSpacing(8)
        trouble = _row_of(self._problem)
        trouble.addWidget(self._close, 0, Qt.AlignmentFlag.AlignTop)
        self._trouble.setLayout(trouble)
        column.addWidget(self._trouble)
        column.addLayout(self._row)
        self._show_work(None)
        self._trouble.hide()

    def press(self, seconds: float) -> None:
        """As a click on the button of so many seconds, where it can be used."""
        if self._is_offered:
            (self._seconds if seconds else self._frame).click()

    def withdraw(self) -> None:
        """Offer nothing: the film cannot be tried."""
        self._is_offered = False
        self.hide()
        self.line.hide()
        self.line_changed.emit()

    def offer(self, *, has_result: bool, why_not: str = "", problem: str = "") -> None:
        """Show the offers.

        Args:
            has_result: The frame that is shown needs not be tried.
            why_not: What keeps the film from being tried now; "" for nothing.
            problem: Why the last try has failed; "" where it has not.
        """
        self._has_result, self._why_not = has_result, why_not
        self._show_work(None)
        self._problem.setText(problem)
        self._trouble.setVisible(bool(problem))
        self._refresh()

    def show_progress(self, done: int, total: int) -> None:
        """Something is being made: so many frames of so many, 0 while it begins."""
        text = tr("{done} of {total} frames", done=done, total=total) if done else tr("Starting …")
        self._show_work(text)
        self._trouble.hide()
        self._refresh()

    def _show_work(self, text: str | None) -> None:
        self._progress.setText(text or "")
        self._work.setVisible(text is not None)

    def _refresh(self) -> None:
        """Which buttons can be used, and where the bar lies."""
        may_begin = self._work.isHidden() and not self._why_not
        self._frame.setEnabled(may_begin and not self._has_result)
        self._seconds.setEnabled(may_begin)
        tried = tr("This frame was already processed with these settings.")
        alone = tr("Process only this frame, as the whole video would be (Ctrl+T)")
        set_tip(self._frame, self._why_not or (tried if self._has_result else alone))
        longer = tr("Process 3 seconds from this frame on; Space plays them (Ctrl+Shift+T)")
        set_tip(self._seconds, self._why_not or longer)
        for item, button in zip(self._items, self._offers, strict=True):
            item.setEnabled(button.isEnabled())
        set_tip(self._menu_button, self._why_not)
        self._is_offered = True
        self._place()
        self.raise_()

    def _place(self) -> None:
        height = self._frame.sizeHint().height() + 2 * self._row.spacing() + _MARGIN
        self._fold(_SHARE * height > self._over.height())
        self.setVisible(not self._is_folded or not self._trouble.isHidden())
        self.line.setVisible(self._is_folded)
        room = self._over.width() - 2 * _MARGIN
        self._problem.setFixedWidth(min(420, room - 24 - self._close.sizeHint().width()))
        self._give_way(room)
        self.adjustSize()
        margins = layout_of(self).contentsMargins()
        offers = sum(one.sizeHint().width() + self._row.spacing() for one in self._offers)
        offers += margins.left() + margins.right() - self._row.spacing()
        wide = self.width() if self._is_folded else offers
        left = max(_MARGIN, (self._over.width() - wide) // 2)
        left = max(_MARGIN, min(left, self._over.width() - _MARGIN - self.width()))
        self.move(left, self._over.height() - _MARGIN - self.height())
        self.line_changed.emit()

    def _fold(self, is_folded: bool) -> None:
        """Offer a menu in `line` instead; while something is made, progress and Stop are there."""
        if is_folded != self._is_folded:
            self._is_folded = is_folded
            row, at = (self._line_row, 1) if is_folded else (self._row, len(self._offers))
            row.insertWidget(at, self._work, 0, Qt.AlignmentFlag.AlignVCenter)
        for button in self._offers:
            button.setVisible(not is_folded)
        wide = self._menu_button.sizeHint().width()
        self._progress.setMinimumWidth(wide if is_folded else 0)  # Stop comes under no pointer
        self._menu_button.setVisible(self._work.isHidden())

    def _give_way(self, room: int) -> None:
        """In a narrow window the count of frames goes first, then the page of presets."""
        self._progress.show()
        self._compare.setVisible(not self._is_folded)
        for widget in () if self._is_folded else (self._progress, self._compare):
            self._lay_out_again()
            if self.sizeHint().width() > room:
                widget.hide()
        self._lay_out_again()

    def _lay_out_again(self) -> None:
        for widget in (self._work, self):
            layout_of(widget).activate()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay at the lower edge."""
        if event.type() == QEvent.Type.Resize and self._is_offered:
            self._place()
        return super().eventFilter(watched, event)

    def retranslate_ui(self) -> None:
        """Texts in the current language."""
        self._frame.setText(tr("Try this frame"))
        self._seconds.setText(tr("Try 3 seconds"))
        self._compare.setText(tr("Compare presets …"))
        set_tip(
            self._compare, tr("Two-second samples from characteristic scenes in several presets")
        )
        self._stop.setText(tr("Stop"))
        self._menu_button.setText(tr("Try …"))
        self._close.setIcon(icon("cancel", size=16))
        set_tip(self._close, tr("Close"))
        self._close.setAccessibleName(tr("Close"))
        for item, button in zip(self._items, self._offers, strict=True):
            item.setText(button.text())
        if self._is_offered:
            self._refresh()


def _row_of(*widgets: QWidget) -> QHBoxLayout:
    row = QHBoxLayout()
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(8)
    for widget in widgets:
        row.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
    return row
