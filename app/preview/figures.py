"""A few calm figures below the picture: speed, time left, time of a frame, memory."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app import labels
from app.i18n import tr
from app.widgets.controls import ElidedLabel
from app.widgets.plain import Label, set_tip
from engine.core.units import memory_text
from engine.protocol.plan import Plan

_FOUR_FROM = 680  # px of width
_NOTHING = "–"  # a figure that is not known yet


class Figure(QFrame):
    """A caption, a figure and what belongs to it."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName(f"figure-{name}")
        self.setProperty("kind", "card")
        self._caption, self._value = ElidedLabel(), Label(_NOTHING)
        self._detail, self._note = ElidedLabel(), Label()
        for part in (self._caption, self._detail, self._note):
            part.setProperty("kind", "secondary")
        self._value.setProperty("kind", "figure")
        row = QHBoxLayout()
        row.setSpacing(6)
        row.addWidget(self._value, 0, Qt.AlignmentFlag.AlignBaseline)
        row.addWidget(self._detail, 1, Qt.AlignmentFlag.AlignBaseline)
        column = QVBoxLayout(self)
        column.setContentsMargins(10, 8, 8, 8)
        column.setSpacing(2)
        head = QHBoxLayout()
        head.setSpacing(4)
        head.addWidget(self._caption, 1)
        head.addWidget(self._note)
        column.addLayout(head)
        column.addLayout(row)

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
            detail: What is read after it: a unit, or what it is a part of.
            note: What kind of figure it is, next to the caption, where it is never cut.
        """
        self._value.setText(value or _NOTHING)
        self._detail.setText(detail if value else "")
        self._note.setText(note if value else "")
        self._name()

    def _name(self) -> None:
        self.setAccessibleName(f"{self._caption.whole}: {self.text}")


class FiguresRow(QWidget):
    """Four figures of the running job."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._figures = {name: Figure(name) for name in ("speed", "left", "frame", "memory")}
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        for figure in self._figures.values():
            row.addWidget(figure, 1)
        self.clear()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Three figures where four would be cut: the time of a frame follows from the speed."""
        super().resizeEvent(event)
        self._figures["frame"].setVisible(self.width() >= _FOUR_FROM)

    def figure(self, name: str) -> Figure:
        """One of "speed", "left", "frame" and "memory"."""
        return self._figures[name]

    def clear(self) -> None:
        """Another job: nothing is known."""
        self._rate, self._left = 0.0, 0.0
        self._plan: Plan | None = None
        self._peak_bytes = 0
        self.retranslate()

    def show_plan(self, plan: Plan) -> None:
        """What the plan predicts."""
        self._plan = plan
        self._refresh()

    def show_progress(self, frames_per_second: float, seconds_left: float) -> None:
        """How fast it goes; zeros are not known and change nothing."""
        self._rate = frames_per_second or self._rate
        self._left = seconds_left or self._left
        self._refresh()

    def show_memory(self, used_bytes: int) -> None:
        """What our process uses now; the most of it is shown."""
        if used_bytes > self._peak_bytes:
            self._peak_bytes = used_bytes
            self._refresh()

    def _refresh(self) -> None:
        rate = self._rate
        shown = f"{rate:.1f}" if rate >= 10 else f"{rate:.2f}"
        self._figures["speed"].show_value(shown if rate else "", tr("fps"))
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
            detail = tr("of {size}", size=planned) if planned else ""
            self._figures["memory"].show_value(memory_text(self._peak_bytes), detail)
        else:
            self._figures["memory"].show_value(planned, note=tr("planned"))

    def changeEvent(self, event: QEvent) -> None:
        """Another language."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.LanguageChange:
            self.retranslate()

    def retranslate(self) -> None:
        """All texts in the current language."""
        captions = {
            "speed": tr("Speed"),
            "left": tr("Time left"),
            "frame": tr("Time per frame"),
            "memory": tr("Peak memory"),
        }
        set_tip(self._figures["memory"], tr("Memory used by Upreel, and the planned value"))
        for name, caption in captions.items():
            self._figures[name].set_caption(caption)
        self._refresh()
