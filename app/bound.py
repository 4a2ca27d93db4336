"""Texts and icons bound to widgets: set now, and again when the language or the theme changes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from operator import itemgetter

from PySide6.QtWidgets import QApplication, QWidget
from shiboken6 import isValid

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
    _show_again(theme_only=False)


def show_theme() -> None:
    """Show everything in the theme that has just been chosen."""
    _show_again(theme_only=True)


def _show_again(*, theme_only: bool) -> None:
    bound = [
        (number, widget, show)
        for widget in QApplication.allWidgets()
        for number, theme, show in widget.__dict__.get(_KEPT, ())
        if theme or not theme_only
    ]
    for _, widget, show in sorted(bound, key=itemgetter(0)):
        if isValid(widget):  # one that was shown before may have deleted it
            show()
