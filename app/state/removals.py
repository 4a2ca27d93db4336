"""Removed jobs that the user can still put back, the latest last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from app.state.job_row import JobRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Films that went by one action."""

    rows: tuple[JobRow, ...]  # the videos as they were
    restore: Callable[[], None]  # puts them back
    drop: Callable[[], None]  # deletes what they hold


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

    @property
    def job_ids(self) -> frozenset[str]:
        """Names of all jobs that can be put back."""
        return frozenset(row.job_id for removal in self._kept for row in removal.rows)

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
