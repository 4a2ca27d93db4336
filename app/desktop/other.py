"""Linux and other systems: only the folder can be opened, the rest is the desktop's own."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices

from app.desktop.windows_rules import Progress


def show_in_folder(path: Path) -> bool:
    """Open the folder of a file."""
    return QDesktopServices.openUrl(QUrl.fromLocalFile(str(path.parent)))


def prepare_process() -> None:
    """Nothing to say."""


def show_progress(window_id: int, progress: Progress, share: float) -> None:
    """Desktops have no common way to show it."""


def let_come_forward() -> None:
    """Whoever is called may come forward."""


def colour_title_bar(window_id: int, *, is_dark: bool) -> None:
    """The window manager draws the title bar as it likes."""
