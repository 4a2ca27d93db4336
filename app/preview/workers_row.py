"""Each GPU, process and other computer at the running job, with its speed: below the figures."""

from __future__ import annotations

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.i18n import tr
from app.preview.figures import Figure
from app.widgets.controls import Translated
from app.widgets.plain import set_tip
from engine.core.plain_text import one_line
from engine.protocol.events import WorkerProgress

_WIDTH = 168  # px of a figure, at least
_MOST = 8  # figures


class WorkersRow(Translated, QWidget):
    """A figure for each that has begun; the last one is for all that have no room."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("workersRow")
        self._seen: dict[int, WorkerProgress] = {}
        self._figures = [Figure(f"worker-{place}") for place in range(_MOST)]
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        for figure in self._figures:
            row.addWidget(figure, 1)
        self.clear()

    @property
    def has_some(self) -> bool:
        """Whether there is anything to show."""
        return bool(self._seen)

    def clear(self) -> None:
        """Another job, or none runs: nothing is known."""
        self._seen.clear()
        self.hide()

    def show_worker(self, event: WorkerProgress) -> None:
        """Where one of them is."""
        self._seen[event.worker] = event
        self.retranslate_ui()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """As many figures as have room."""
        super().resizeEvent(event)
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        everyone = [self._seen[number] for number in sorted(self._seen)]
        room = max(1, min(_MOST, self.width() // _WIDTH))
        alone = everyone if len(everyone) <= room else everyone[: room - 1]
        for figure, event in zip(self._figures, alone, strict=False):
            figure.set_caption(_name(event))
            frame = tr("at frame {frame}", frame=event.frame)
            figure.show_value(*_speed(event.frames_per_second))
            set_tip(figure, f"{_name(event)}, {frame}")
        if rest := everyone[len(alone) :]:
            figure = self._figures[len(alone)]
            figure.set_caption(tr("{count} more", count=len(rest)))
            figure.show_value(*_speed(sum(one.frames_per_second for one in rest)))
            set_tip(figure, "\n".join(map(_name, rest)))
        shown = len(alone) + bool(rest)
        for place, figure in enumerate(self._figures):
            figure.setVisible(place < shown)


def _name(event: WorkerProgress) -> str:
    return one_line(event.name) or tr("Process {number}", number=event.worker)


def _speed(frames_per_second: float) -> tuple[str, str]:
    shown = f"{frames_per_second:.1f}" if frames_per_second >= 10 else f"{frames_per_second:.2f}"
    return (shown if frames_per_second else ""), tr("fps")
