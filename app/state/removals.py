"""Removed jobs that the user can still put back, the latest last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from app.state.job_row import JobRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Films that went by one action.

    Attributes:
        rows: The films as they were; empty for jobs of an earlier run.
        count: Number of videos.
        restore: Puts them back.
        drop: Deletes what they hold.
    """

    rows: tuple[JobRow, ...] = ()
    count: int
    restore: Callable[[], None]
    drop: Callable[[], None]


class Removals(QObject):
    """Undo of removals while the window is open; finished pieces are deleted only by `drop`."""

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._kept: list[Removal] = []

    @property
    def last(self) -> Removal | None:
        """Removal that `undo` puts back."""
        return self._kept[-1] if self._kept else None

    def add(self, removal: Removal) -> None:
        """Keep what was removed."""
        self._kept.append(removal)
        self.changed.emit()

    def undo(self) -> None:
        """Put back what was removed last."""
        if self._kept:
            self._kept.pop().restore()
            self.changed.emit()

    def drop(self) -> None:
        """Give up all of it: the window is closed."""
        kept, self._kept = self._kept, []
        for removal in kept:
            removal.drop()
