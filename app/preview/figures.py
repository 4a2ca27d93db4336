"""Calm figures below the image: those of the running job, and the speed of each of its workers."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QWidget

from app import labels
from app.bound import bind
from app.i18n import mark, tr
from app.widgets.layouts import column, row
from app.widgets.parts import bind_tip, elided, label, named
from app.widgets.plain import set_tip
from engine.core.plain_text import one_line
from engine.core.units import memory_text
from engine.protocol.events import WorkerProgress
from engine.protocol.plan import Plan

_CAPTIONS = {
    "left": mark("Time left"),
    "frame": mark("Time per frame"),
    "memory": mark("Peak memory"),
}
_BASELINE = Qt.AlignmentFlag.AlignBaseline
_WORKER_WIDTH = 168  # px of a figure of a worker, at least
_MOST_WORKERS = 8
_NOTHING = "–"  # a figure that is not known yet


class Figure(QFrame):
    """A caption, a figure and what belongs to it."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, f"figure-{name}", "card")
        self._caption, self._detail = elided(kind="secondary"), elided(kind="secondary")
        self._value, self._note = label(kind="figure"), label(kind="secondary")
        self._value.setText(_NOTHING)
        head = row((self._caption, 1), self._note, spacing=4)
        figure = row(self._value, (self._detail, 1, _BASELINE), spacing=6, align=_BASELINE)
        column(head, figure, spacing=2, margins=(10, 8, 8, 8), on=self)

    @property
    def text(self) -> str:
        """Figure with what belongs to it, as read."""
        parts = (self._value.text(), self._detail.whole, self._note.text())
        return " ".join(part for part in parts if part)

    def set_caption(self, caption: str) -> None:
        """Another language."""
        self._caption.setText(caption)
        self._name()

    def show_value(self, value: str, detail: str = "", *, note: str = "") -> None:
        """A new figure; "" for none yet.

        Args:
            value: The figure.
            detail: Text after it: a unit, or the whole that it is a part of.
            note: Kind of figure, next to the caption, where it is never cut.
        """
        self._value.setText(value or _NOTHING)
        self._detail.setText(detail if value else "")
        self._note.setText(note if value else "")
        self._name()

    def _name(self) -> None:
        self.setAccessibleName(f"{self._caption.whole}: {self.text}")


class FiguresRow(QWidget):
    """Three figures of the running job; its speed is among the gauges above."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._figures = {name: Figure(name) for name in _CAPTIONS}
        bind_tip(self._figures["memory"], "Memory used by Upreel, and the planned value")
        row(*((figure, 1) for figure in self._figures.values()), spacing=8, on=self)
        self.clear()
        bind(self, self._show)

    def figure(self, name: str) -> Figure:
        """One of "left", "frame" and "memory"."""
        return self._figures[name]

    def clear(self) -> None:
        """Another job: nothing is known."""
        self._rate, self._left = 0.0, 0.0
        self._plan: Plan | None = None
        self._peak_bytes = 0
        self._refresh()

    def show_plan(self, plan: Plan) -> None:
        """Show the prediction of the plan."""
        self._plan = plan
        self._refresh()

    def show_progress(self, frames_per_second: float, seconds_left: float) -> None:
        """Show the speed; zeros are not known and change nothing."""
        self._rate = frames_per_second or self._rate
        self._left = seconds_left or self._left
        self._refresh()

    def stop(self) -> None:
        """Clear speed and time left, which mean nothing once the job has ended."""
        self._rate, self._left = 0.0, 0.0
        self._refresh()

    def show_memory(self, peak_bytes: int) -> None:
        """Show the largest memory of our process during the job; 0 where it is not known yet."""
        if peak_bytes != self._peak_bytes:
            self._peak_bytes = peak_bytes
            self._refresh()

    def _refresh(self) -> None:
        self._figures["frame"].show_value(*self._frame_text())
        if self._left or self._plan is None:
            self._figures["left"].show_value(labels.duration(self._left) if self._left else "")
        else:
            self._figures["left"].show_value(labels.expected(self._plan), note=tr("planned"))
        self._show_memory()

    def _frame_text(self) -> tuple[str, str]:
        if not self._rate:
            return "", ""
        if self._rate < 1:
            return f"{1 / self._rate:.1f} s", ""
        return f"{1000 / self._rate:.0f} ms", ""

    def _show_memory(self) -> None:
        plan = self._plan
        planned = "" if plan is None else memory_text(plan.device_bytes or plan.peak_bytes)
        if self._peak_bytes:
            detail = tr("planned {size}", size=planned) if planned else ""
            self._figures["memory"].show_value(memory_text(self._peak_bytes), detail)
        else:
            self._figures["memory"].show_value(planned, note=tr("planned"))

    def _show(self) -> None:
        for name, caption in _CAPTIONS.items():
            self._figures[name].set_caption(tr(caption))
        self._refresh()


class WorkersRow(QWidget):
    """A figure for each GPU, process and other computer at the running job that has begun.

    The last figure is for all that have no room. Figures are made when they are first needed: most
    jobs have no workers.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "workersRow")
        self._seen: dict[int, WorkerProgress] = {}
        self._figures: list[Figure] = []
        self._line = row(spacing=8, on=self)
        self.clear()
        bind(self, self._show)

    @property
    def has_some(self) -> bool:
        """Whether there is anything to show."""
        return bool(self._seen)

    def clear(self) -> None:
        """Another job, or none runs: nothing is known."""
        self._seen.clear()
        self.hide()

    def show_worker(self, event: WorkerProgress) -> None:
        """Show the place of one of them."""
        self._seen[event.worker] = event
        self._show()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show as many figures as fit."""
        super().resizeEvent(event)
        self._show()

    def _show(self) -> None:
        everyone = [self._seen[number] for number in sorted(self._seen)]
        room = max(1, min(_MOST_WORKERS, self.width() // _WORKER_WIDTH))
        alone = everyone if len(everyone) <= room else everyone[: room - 1]
        rest = everyone[len(alone) :]
        shown = len(alone) + bool(rest)
        for place in range(len(self._figures), shown):
            self._figures.append(Figure(f"worker-{place}"))
            self._line.addWidget(self._figures[place], 1)
        for figure, event in zip(self._figures, alone, strict=False):
            figure.set_caption(_name(event))
            frame = tr("at frame {frame}", frame=event.frame)
            figure.show_value(*_speed(event.frames_per_second))
            set_tip(figure, f"{_name(event)}, {frame}")
        if rest:
            figure = self._figures[len(alone)]
            figure.set_caption(tr("{count} more", count=len(rest)))
            figure.show_value(*_speed(sum(one.frames_per_second for one in rest)))
            set_tip(figure, "\n".join(map(_name, rest)))
        for place, figure in enumerate(self._figures):
            figure.setVisible(place < shown)


def _name(event: WorkerProgress) -> str:
    return one_line(event.name) or tr("Process {number}", number=event.worker)


def _speed(frames_per_second: float) -> tuple[str, str]:
    shown = f"{frames_per_second:.1f}" if frames_per_second >= 10 else f"{frames_per_second:.2f}"
    return (shown if frames_per_second else ""), tr("fps")
