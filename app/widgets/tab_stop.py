"""Several controls that are one stop of the Tab key, as tool bars and radio groups are."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractButton, QComboBox, QSlider, QWidget

from app.i18n import mark

KEYS = (  # for the list of keys
    (("Tab", "Shift+Tab"), mark("Next or previous control; a row of buttons counts as one")),
    (("Left", "Right", "Home", "End"), mark("Move within a row of buttons")),
)
_STEPS = {
    Qt.Key.Key_Left: -1,
    Qt.Key.Key_Up: -1,
    Qt.Key.Key_Right: 1,
    Qt.Key.Key_Down: 1,
}
_UP_AND_DOWN = (Qt.Key.Key_Up, Qt.Key.Key_Down)  # change the value of what has one
_ENDS = {Qt.Key.Key_Home: 0, Qt.Key.Key_End: -1}
_CHANGES = (
    QEvent.Type.EnabledChange,
    QEvent.Type.Show,
    QEvent.Type.Hide,
    QEvent.Type.ShowToParent,
    QEvent.Type.HideToParent,
)


class TabStop(QObject):
    """Tab reaches the control that was used last; arrow keys, Home and End reach the others.

    Args:
        bar: Widget that holds the controls.
        controls: Controls from first to last.
        chooses: Whether moving to a control presses it, as in radio buttons.
    """

    def __init__(
        self, bar: QWidget, controls: Sequence[QWidget] = (), *, chooses: bool = False
    ) -> None:
        super().__init__(bar)
        self._bar, self._chooses = bar, chooses
        self._takes_clicks: dict[QWidget, bool] = {}
        self._at: QWidget | None = None
        self.set_controls(controls)

    @property
    def controls(self) -> list[QWidget]:
        """Controls from first to last, also those that are hidden or disabled."""
        return list(self._takes_clicks)

    def set_controls(self, controls: Sequence[QWidget]) -> None:
        """Take other controls in place of those before, which are gone."""
        click = Qt.FocusPolicy.ClickFocus
        self._takes_clicks = {one: click in one.focusPolicy() for one in controls}
        for one in controls:
            one.installEventFilter(self)
        self._settle()

    def stay_at(self, control: QWidget | None) -> None:
        """Let Tab reach a control; None for the first."""
        self._at = control
        self._settle()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Move by keys, and follow the focus and what can be used."""
        if watched not in self._takes_clicks or not isinstance(watched, QWidget):
            return False  # it was replaced
        kind = event.type()  # asked once: a window has hundreds of events of controls
        if kind is QEvent.Type.FocusIn:
            self.stay_at(watched)
        elif kind in _CHANGES:
            self._settle()
        elif kind is QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            return self._is_moved(watched, event)
        return False

    def _is_moved(self, control: QWidget, event: QKeyEvent) -> bool:
        key, usable = Qt.Key(event.key()), self._usable
        if event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier or control not in usable:
            return False
        has_value = isinstance(control, QSlider | QComboBox)
        if has_value and (key in _UP_AND_DOWN or key in _ENDS):
            return False
        if key in _STEPS:
            at = (usable.index(control) + _STEPS[key]) % len(usable)
        elif key in _ENDS:
            at = _ENDS[key]
        else:
            return False
        target = usable[at]
        target.setFocus(Qt.FocusReason.TabFocusReason)
        if self._chooses and isinstance(target, QAbstractButton):
            target.click()
        return True

    @property
    def _usable(self) -> list[QWidget]:
        return [one for one in self.controls if one.isEnabled() and one.isVisibleTo(self._bar)]

    def _settle(self) -> None:
        """Let Tab stop at one of them."""
        usable = self._usable
        stop = self._at if self._at in usable else next(iter(usable), None)
        for one, takes_clicks in self._takes_clicks.items():
            if one is stop:
                policy = Qt.FocusPolicy.StrongFocus if takes_clicks else Qt.FocusPolicy.TabFocus
            else:
                policy = Qt.FocusPolicy.ClickFocus if takes_clicks else Qt.FocusPolicy.NoFocus
            if one.focusPolicy() is not policy:
                one.setFocusPolicy(policy)
