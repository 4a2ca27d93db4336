"""Services of the desktop for the window: the same functions for Windows and for other systems."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices

from app.desktop.programs import command_words, start_program
from app.desktop.windows_rules import Progress
from engine.core import paths

if sys.platform == "win32":
    from app.desktop.windows import (
        allows_motion,
        colour_title_bar,
        explain_shutdown,
        is_being_written,
        let_come_forward,
        prepare_process,
        restart_after_update,
        show_in_folder,
        show_progress,
        shut_down,
        sleep,
    )
else:

    def allows_motion() -> bool:
        """Whether parts of the window may move by themselves: users can turn that off."""
        return True

    def show_in_folder(path: Path) -> bool:
        """Open the folder of a file, with the file marked where the system can do that."""
        return QDesktopServices.openUrl(QUrl.fromLocalFile(str(path.parent)))

    def prepare_process() -> None:
        """Set the program's identity in the taskbar, before its first window."""

    def show_progress(window_id: int, progress: Progress, share: float = 0.0) -> None:
        """Show progress on the window's button in the taskbar, where the system has one."""

    def let_come_forward() -> None:
        """Let another instance put its window in front: the user has just started it."""

    def colour_title_bar(window_id: int, *, is_dark: bool) -> None:
        """Make the system's title bar match the theme, where the system can."""

    def is_being_written(path: Path) -> bool:
        """Whether a program has a file open to write to it; False where the system cannot say."""
        return False

    def sleep() -> bool:
        """Put this computer to sleep; False where the system refuses."""
        return start_program(["systemctl", "suspend"])

    def shut_down() -> bool:
        """Shut this computer down, once other programs agree; False where the system refuses."""
        return start_program(["systemctl", "poweroff"])

    def explain_shutdown(window_id: int, reason: str) -> bool:
        """Show why a shutdown should wait, "" for no longer; False where the system cannot."""
        return False

    def restart_after_update(arguments: Sequence[str]) -> bool:
        """Be started again after an update of the system; False where it does not do that."""
        return False


__all__ = [
    "allows_motion",
    "colour_title_bar",
    "command_words",
    "explain_shutdown",
    "is_being_written",
    "let_come_forward",
    "open_file",
    "open_page",
    "prepare_process",
    "restart_after_update",
    "show_in_folder",
    "show_progress",
    "shut_down",
    "sleep",
    "start_program",
]


def open_file(path: Path) -> bool:
    """Open a file with the program the user has chosen for it; False where either is missing."""
    whole = paths.openable(path)
    return whole.exists() and QDesktopServices.openUrl(QUrl.fromLocalFile(paths.shown(path)))


def open_page(address: str) -> bool:
    """Open a page of the web in the user's browser; False when there is none."""
    return QDesktopServices.openUrl(QUrl(address))
