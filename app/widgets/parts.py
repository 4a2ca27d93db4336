"""Labels and buttons made in one call, whose texts and icons follow the language and the theme.

A text is the English one, as the catalogue has it, or a function that returns it as it is shown;
`""` sets none. Foreign texts go into a `Label` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TypeVar

from PySide6.QtCore import Qt, SignalInstance
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QAbstractButton,
    QFrame,
    QPushButton,
    QScrollArea,
    QToolButton,
    QWidget,
)

from app.bound import bind
from app.i18n import tr
from app.theme.icons import icon as icon_of
from app.widgets.controls import ElidedLabel
from app.widgets.plain import Label, set_tip

Text = str | Callable[[], str]
Slot = Callable[..., object] | SignalInstance
AnyWidget = TypeVar("AnyWidget", bound=QWidget)
AnyLabel = TypeVar("AnyLabel", bound=Label)
AnyButton = TypeVar("AnyButton", bound=QAbstractButton)


def named(
    widget: AnyWidget, name: str = "", kind: str = "", *, has_ground: bool = False
) -> AnyWidget:
    """Gives a widget the names by which the style sheet and tests know it.

    Args:
        widget: Named widget, which is returned.
        name: Name of the object.
        kind: Kind of the style sheet.
        has_ground: Whether the style sheet paints its background, which a plain QWidget needs.
    """
    if name:
        widget.setObjectName(name)
    if kind:
        widget.setProperty("kind", kind)
    if has_ground:
        widget.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    return widget


def set_kind(widget: QWidget, kind: str) -> None:
    """Show a widget as another kind of the style sheet."""
    if widget.property("kind") != kind:
        widget.setProperty("kind", kind)
        widget.style().polish(widget)


def label(
    text: Text = "",
    kind: str = "",
    *,
    name: str = "",
    wraps: bool = False,
    selectable: bool = False,
    align: Qt.AlignmentFlag | None = None,
) -> Label:
    """A label.

    Args:
        text: Shown text.
        kind: Kind of the style sheet.
        name: Name of the object.
        wraps: Whether a long text continues in another line.
        selectable: Whether the mouse selects text, to copy it.
        align: Place of the text.
    """
    made = named(Label(), name, kind)
    made.setWordWrap(wraps)
    if selectable:
        made.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return _with_text(made, text, align)


def elided(
    text: Text = "",
    kind: str = "",
    *,
    name: str = "",
    mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    align: Qt.AlignmentFlag | None = None,
) -> ElidedLabel:
    """A label of one line that ends in "..." where room is short; arguments as those of `label`."""
    return _with_text(named(ElidedLabel(mode), name, kind), text, align)


def button(
    text: Text = "",
    name: str = "",
    kind: str = "",
    *,
    icon: str = "",
    tip: Text = "",
    says: Text = "",
    on: Slot | None = None,
    focus: Qt.FocusPolicy | None = None,
    auto_default: bool = True,
) -> QPushButton:
    """A button with a text.

    Args:
        text: Shown text.
        name: Name of the object.
        kind: Kind of the style sheet.
        icon: Icon of 16 px next to the text.
        tip: Tool tip.
        says: Name for screen readers, where it is not the text.
        on: Slot or signal that follows a press.
        focus: Way in which it takes the focus.
        auto_default: Whether Enter may press it in a dialog while another control has the focus.
    """
    made = QPushButton()
    if not auto_default:
        made.setAutoDefault(False)
    if text:
        bind_text(made, made.setText, text)
    return _dressed(made, name, kind, (icon, 16), tip, says, on, focus)


def icon_button(
    icon: str,
    text: Text,
    name: str = "",
    kind: str = "",
    *,
    size: int = 20,
    tip: Text = "",
    on: Slot | None = None,
    focus: Qt.FocusPolicy | None = None,
) -> QToolButton:
    """A button with an icon alone.

    Args:
        icon: Shown icon; "" where the owner sets it.
        text: Name for screen readers, and tool tip where there is no other.
        name: Name of the object.
        kind: Kind of the style sheet.
        size: Edge of the icon, px.
        tip: Tool tip.
        on: Slot or signal that follows a press.
        focus: Way in which it takes the focus.
    """
    return _dressed(QToolButton(), name, kind, (icon, size), tip or text, text, on, focus)


def action_button(action: QAction, kind: str, style: Qt.ToolButtonStyle) -> QToolButton:
    """A button that follows an action: its text, icon, tool tip, and whether it is enabled."""
    name = action.objectName().removeprefix("action-")
    made = named(QToolButton(), f"{name}Button", kind)
    made.setDefaultAction(action)
    made.setToolButtonStyle(style)
    return made


def rule() -> QFrame:
    """A line between two parts."""
    return named(QFrame(), kind="rule")


def scroll_area(body: QWidget, name: str = "", says: Text = "") -> QScrollArea:
    """A scroll area that only moves up and down; arguments as those of `icon_button`."""
    area = named(QScrollArea(), name)
    area.setWidgetResizable(True)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setWidget(body)
    if says:
        bind_text(area, area.setAccessibleName, says)
    return area


def bind_text(widget: QWidget, set_text: Callable[[str], object], text: Text) -> None:
    """Set a text of a widget, again when the language changes."""
    bind(widget, lambda: set_text(tr(text) if isinstance(text, str) else text()))


def bind_tip(widget: QWidget, text: Text) -> None:
    """Give a widget a tool tip, again when the language changes."""
    bind_text(widget, lambda shown: set_tip(widget, shown), text)


def bind_icon(target: QAbstractButton, icon: str | Callable[[], str], size: int = 20) -> None:
    """Give a button an icon, again when the theme changes."""
    name = icon if callable(icon) else lambda: icon
    bind(target, lambda: target.setIcon(icon_of(name(), size=size)), theme=True)


def follow_in_tab_order(before: QWidget, controls: Iterable[QWidget]) -> None:
    """Have the keyboard reach controls after a widget, not after the whole window.

    Args:
        before: Any widget.
        controls: Controls from first to last.
    """
    chain = [before, *controls]
    policies = [one.focusPolicy() for one in chain]
    for one in chain:
        one.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # Qt puts nothing after such as take no Tab
    for first, second in pairwise(chain):
        QWidget.setTabOrder(first, second)
    for one, policy in zip(chain, policies, strict=True):
        one.setFocusPolicy(policy)


def _with_text(made: AnyLabel, text: Text, align: Qt.AlignmentFlag | None) -> AnyLabel:
    if align is not None:
        made.setAlignment(align)
    if text:
        bind_text(made, made.setText, text)
    return made


def _dressed(
    made: AnyButton,
    name: str,
    kind: str,
    icon: tuple[str, int],
    tip: Text,
    says: Text,
    on: Slot | None,
    focus: Qt.FocusPolicy | None,
) -> AnyButton:
    named(made, name, kind)
    if icon[0]:
        bind_icon(made, *icon)
    if tip:
        bind_tip(made, tip)
    if says:
        bind_text(made, made.setAccessibleName, says)
    if focus is not None:
        made.setFocusPolicy(focus)
    if on is not None:
        made.clicked.connect(on)
    return made
