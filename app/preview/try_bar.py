"""The bar over the picture that makes an excerpt of the video, and shows its progress."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtWidgets import QFrame, QMenu, QPushButton, QWidget

from app.bound import bind
from app.i18n import tr
from app.widgets.layouts import MIDDLE, RIGHT, TOP, Stretch, column, layout_of, row
from app.widgets.parts import button, follow_in_tab_order, icon_button, label, named
from app.widgets.plain import set_tip
from app.widgets.tab_stop import TabStop

SECONDS = 3.0
_MARGIN = 12  # px to the edges of the picture
_SHARE = 4  # of the picture's height: the bar takes no more than a quarter


class TryBar(QFrame):
    """Three offers, of which an image has one; then progress and Stop to the right of them.

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
        named(self, "tryBar", "card")
        self.setCursor(Qt.CursorShape.ArrowCursor)
        self._over = over
        tab = Qt.FocusPolicy.TabFocus  # a click leaves the keys to the image
        self._frame = button(
            "Try this frame", "tryFrame", on=lambda: self.wanted.emit(0.0), focus=tab
        )
        self._seconds = button(
            "Try 3 seconds", "trySeconds", on=lambda: self.wanted.emit(SECONDS), focus=tab
        )
        self._compare = button(
            "Compare presets …",
            "tryCompare",
            tip="Two-second samples from characteristic scenes in several presets",
            on=self.compare_clicked,
            focus=tab,
        )
        self._offers = self._frame, self._seconds, self._compare
        self._progress = label(align=RIGHT | MIDDLE)
        stop = button("Stop", "tryStop", on=self.stop_clicked, focus=tab)
        self._work, self.line, self._trouble = QWidget(), QWidget(), QWidget()
        row(self._progress, stop, spacing=8, align=MIDDLE, on=self._work)
        self._row = row(*self._offers, self._work, Stretch(1), spacing=8, align=MIDDLE)
        self._menu_button = button("Try …", "tryMenu", focus=tab)
        self._line_row = row(self._menu_button, spacing=8, align=MIDDLE, on=self.line)
        menu = QMenu(self._menu_button)
        self._items = [menu.addAction("", offer.click) for offer in self._offers]
        self._menu_button.setMenu(menu)
        self._problem = label(name="tryProblem", wraps=True)
        self._close = icon_button(
            "cancel", "Close", "tryClose", "more", size=16, on=self.problem_closed
        )
        row((self._problem, 0, MIDDLE), (self._close, 0, TOP), spacing=8, on=self._trouble)
        column(self._trouble, self._row, spacing=8, margins=8, on=self)
        follow_in_tab_order(over, (self._close, *self._offers, stop))
        TabStop(self, self._offers)
        self._show_work(None)
        self._trouble.hide()
        self._has_result, self._is_still, self._why_not = False, False, ""
        self._is_offered = self._is_folded = False
        over.installEventFilter(self)
        bind(self, self._show_language)
        self.withdraw()

    def press(self, seconds: float) -> None:
        """Click the button of n seconds, where it is enabled."""
        if self._is_offered and not (seconds and self._is_still):
            (self._seconds if seconds else self._frame).click()

    def withdraw(self) -> None:
        """Offer nothing: the video cannot be tried."""
        self._is_offered = False
        self.hide()
        self.line.hide()
        self.line_changed.emit()

    def offer(
        self, *, is_still: bool, has_result: bool, why_not: str = "", problem: str = ""
    ) -> None:
        """Show the offers.

        Args:
            is_still: An image, which has no seconds and no scenes.
            has_result: The frame that is shown needs not be tried.
            why_not: Reason why the video cannot be tried now; "" for none.
            problem: Why the last try has failed; "" where it has not.
        """
        self._is_still, self._has_result, self._why_not = is_still, has_result, why_not
        self._show_work(None)
        self._problem.setText(problem)
        self._trouble.setVisible(bool(problem))
        self._refresh()

    def show_progress(self, done: int, total: int) -> None:
        """An excerpt is being made: finished frames and all frames, 0 while it begins."""
        text = (
            tr("{done} of {total} {total:frame|frames}", done=done, total=total)
            if done
            else tr("Starting …")
        )
        self._show_work(text)
        self._trouble.hide()
        self._refresh()

    @property
    def _offered(self) -> tuple[QPushButton, ...]:
        """Buttons for the kind of file that is shown."""
        return self._offers[:1] if self._is_still else self._offers

    def _show_work(self, text: str | None) -> None:
        self._progress.setText(text or "")
        self._work.setVisible(text is not None)

    def _refresh(self) -> None:
        """Which buttons can be used, and where the bar lies."""
        may_begin = self._work.isHidden() and not self._why_not
        self._frame.setEnabled(may_begin and not self._has_result)
        self._seconds.setEnabled(may_begin)
        tried = tr("This frame was already processed with these settings.")
        alone = (
            tr("Process the image and show it here, without a file (Ctrl+T)")
            if self._is_still
            else tr("Process only this frame, as the whole video would be (Ctrl+T)")
        )
        set_tip(self._frame, self._why_not or (tried if self._has_result else alone))
        longer = tr("Process 3 seconds from this frame on; Space plays them (Ctrl+Shift+T)")
        set_tip(self._seconds, self._why_not or longer)
        for item, offer in zip(self._items, self._offers, strict=True):
            item.setEnabled(offer.isEnabled())
            item.setVisible(offer in self._offered)
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
        offers = sum(one.sizeHint().width() + self._row.spacing() for one in self._offered)
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
            place, at = (self._line_row, 1) if is_folded else (self._row, len(self._offers))
            place.insertWidget(at, self._work, 0, MIDDLE)
        for offer in self._offers:
            offer.setVisible(not is_folded and offer in self._offered)
        wide = self._menu_button.sizeHint().width()
        self._progress.setMinimumWidth(wide if is_folded else 0)  # Stop comes under no pointer
        self._menu_button.setVisible(self._work.isHidden())

    def _give_way(self, room: int) -> None:
        """Hide the count of frames in a narrow window, then the page of presets."""
        self._progress.show()
        self._compare.setVisible(not self._is_folded and self._compare in self._offered)
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

    def _show_language(self) -> None:
        for item, offer in zip(self._items, self._offers, strict=True):
            item.setText(offer.text())
        if self._is_offered:
            self._refresh()
