"""Texts and icons bound to widgets: set now, and again when the language or the theme changes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from PySide6.QtWidgets import QApplication, QWidget

Show = Callable[[], object]

_KEPT = "_bound"  # attribute of a widget; what it holds ends with the widget
_numbers = itertools.count()


def bind(widget: QWidget, show: Show, *, theme: bool = False) -> None:
    """Call `show` now and after each change of the language.

    Args:
        widget: Owner: `show` is forgotten when it is deleted.
        show: Sets texts. What was bound first is shown first.
        theme: Whether `show` is called after a change of the theme, too: it sets an icon, a colour
            or a width.
    """
    widget.__dict__.setdefault(_KEPT, []).append((next(_numbers), theme, show))
    show()


def show_language() -> None:
    """Show everything in the language that has just been chosen."""
    for show in _in_order(theme_only=False):
        show()


def show_theme() -> None:
    """Show everything in the theme that has just been chosen."""
    for show in _in_order(theme_only=True):
        show()


def _in_order(*, theme_only: bool) -> Iterator[Show]:
    widgets = QApplication.allWidgets()
    bound = sorted(one for widget in widgets for one in widget.__dict__.get(_KEPT, ()))
    return (show for _, theme, show in bound if theme or not theme_only)
