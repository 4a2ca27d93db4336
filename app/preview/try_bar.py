"""The bar over the picture that makes a part of the film before the whole, and how that goes on."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.i18n import tr
from app.widgets.controls import Translated

SECONDS = 3.0
_MARGIN = 12  # px to the edges of the picture


class TryBar(Translated, QFrame):
    """Three offers; while one is carried out, its progress and Stop to the right of them.

    Nothing moves under the pointer: the left edge stays, errors grow upwards.

    Args:
        over: The widget whose lower edge it lies on.
    """

    wanted = Signal(float)  # s; 0 for the frame that is shown
    stop_clicked = Signal()
    compare_clicked = Signal()

    def __init__(self, over: QWidget) -> None:
        super().__init__(over)
        self.setObjectName("tryBar")
        self.setProperty("kind", "card")
        self.setCursor(Qt.CursorShape.ArrowCursor)
        self._over = over
        self._frame, self._seconds, self._stop = QPushButton(), QPushButton(), QPushButton()
        self._compare = QPushButton()
        self._progress, self._problem = QLabel(), QLabel()
        self._problem.setWordWrap(True)
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
        self._frame.clicked.connect(lambda: self.wanted.emit(0.0))
        self._seconds.clicked.connect(lambda: self.wanted.emit(SECONDS))
        self._stop.clicked.connect(self.stop_clicked)
        self._compare.clicked.connect(self.compare_clicked)
        self._lay_out()
        self._has_result, self._why_not = False, ""
        over.installEventFilter(self)
        self.retranslate_ui()
        self.hide()

    def _lay_out(self) -> None:
        self._row = QHBoxLayout()
        self._row.setSpacing(8)
        for widget in (self._frame, self._seconds, self._compare, self._progress, self._stop):
            self._row.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
        self._row.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(8, 8, 8, 8)
        column.setSpacing(8)
        column.addWidget(self._problem)
        column.addLayout(self._row)
        self._show_work(None)
        self._problem.hide()

    def press(self, seconds: float) -> None:
        """As a click on the button of so many seconds, where it can be used."""
        if not self.isHidden():
            (self._seconds if seconds else self._frame).click()

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
        self._problem.setVisible(bool(problem))
        self._refresh()

    def show_progress(self, done: int, total: int) -> None:
        """Something is being made: so many frames of so many, 0 while it begins."""
        text = tr("{done} of {total} frames", done=done, total=total) if done else tr("Begins …")
        self._show_work(text)
        self._problem.hide()
        self._refresh()

    def _show_work(self, text: str | None) -> None:
        self._progress.setText(text or "")
        for widget in (self._progress, self._stop):
            widget.setVisible(text is not None)

    def _refresh(self) -> None:
        """Which buttons can be used, and where the bar lies."""
        may_begin = self._stop.isHidden() and not self._why_not
        self._frame.setEnabled(may_begin and not self._has_result)
        self._seconds.setEnabled(may_begin)
        tried = tr("This frame was made with these choices already.")
        alone = tr("Make this frame alone as the film would be made (Ctrl+T)")
        self._frame.setToolTip(self._why_not or (tried if self._has_result else alone))
        longer = tr("Make 3 seconds from this frame on; Space plays them (Ctrl+Shift+T)")
        self._seconds.setToolTip(self._why_not or longer)
        self._place()
        self.show()
        self.raise_()

    def _place(self) -> None:
        room = self._over.width() - 2 * _MARGIN
        self._problem.setFixedWidth(min(420, room - 16))
        self._give_way(room)
        self.adjustSize()
        margins = self.layout().contentsMargins()
        buttons = (self._frame, self._seconds, self._compare)
        offers = sum(button.sizeHint().width() + self._row.spacing() for button in buttons)
        offers += margins.left() + margins.right() - self._row.spacing()
        left = max(_MARGIN, (self._over.width() - offers) // 2)
        left = max(_MARGIN, min(left, self._over.width() - _MARGIN - self.width()))
        self.move(left, self._over.height() - _MARGIN - self.height())

    def _give_way(self, room: int) -> None:
        """In a narrow window the count of frames goes first, then the page of presets."""
        is_working = not self._stop.isHidden()
        for widget, is_wanted in ((self._compare, True), (self._progress, is_working)):
            widget.setVisible(is_wanted)
        for widget in (self._progress, self._compare):
            self.layout().activate()
            if self.sizeHint().width() > room:
                widget.hide()
        self.layout().activate()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay at the lower edge."""
        if event.type() == QEvent.Type.Resize and not self.isHidden():
            self._place()
        return super().eventFilter(watched, event)

    def retranslate_ui(self) -> None:
        """Texts in the current language."""
        self._frame.setText(tr("Try this frame"))
        self._seconds.setText(tr("Try 3 seconds"))
        self._compare.setText(tr("Compare presets …"))
        self._compare.setToolTip(tr("Two seconds of telling places in several presets"))
        self._stop.setText(tr("Stop"))
        if not self.isHidden():
            self._refresh()
