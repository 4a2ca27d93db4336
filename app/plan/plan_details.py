"""Everything about a plan that its card has no room for: memory, reasons, streams of the source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QGridLayout, QLayout, QWidget

from app import labels
from app.bound import bind
from app.engine_messages import hint, text
from app.i18n import mark, tr
from app.plan.memory_bars import MemoryBars, rows_of
from app.plan.streams import StreamLine, stream_lines
from app.state.job_row import JobRow
from app.widgets.layouts import RIGHT, TOP, Part, Stretch, column, grid
from app.widgets.parts import label, named
from app.widgets.plain import Label, set_tip
from engine.core.units import memory_text
from engine.protocol.plan import Alternative, Notice, Plan


class PlanDetails(QWidget):
    """Shows the plan of one job; made again only while it can be seen."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "scrolled")
        self._row: JobRow | None = None
        self._shown: tuple[object, ...] = ()
        self._body: QWidget | None = None
        self._column = column(margins=(16, 8, 16, 16), on=self)
        bind(self, self._renew, theme=True)

    def show_job(self, row: JobRow | None) -> None:
        """Show another plan, or nothing."""
        self._row = row
        if self.isVisible():
            self._fill()

    def showEvent(self, event: QShowEvent) -> None:
        """Show what has come meanwhile."""
        super().showEvent(event)
        self._fill()

    def _renew(self) -> None:
        self._shown = ()
        if self.isVisible():
            self._fill()

    def _fill(self) -> None:
        row = self._row
        plan = row.plan if row is not None else None
        if self._shown == (plan, row.media if row is not None else None):
            return
        self._shown = (plan, row.media if row is not None else None)
        if self._body is not None:
            self._body.hide()
            self._body.deleteLater()
        self._body = QWidget()
        parts = _parts(row, plan) if row is not None and plan is not None else ()
        column(*parts, Stretch(1), spacing=6, on=self._body)
        self._column.addWidget(self._body)


def _parts(row: JobRow, plan: Plan) -> Iterator[Part]:
    """Everything that is known, each part below its heading."""
    reasons, lines = plan.reasons, stream_lines(row)
    if reasons is not None:
        yield _wrapped(text(reasons.as_message), "")
    kinds = mark("GPU memory and RAM") if plan.device_bytes else mark("Memory")
    yield from _part(kinds, MemoryBars(rows_of(plan)))
    if lines:
        yield from _part("Other streams", _grid(map(_stream, lines)))
    if reasons is not None and reasons.alternatives:
        steps = (_step(plan, one) for one in reasons.alternatives)
        yield from _part("Alternatives", _grid(steps))
    if reasons is not None and reasons.choices:
        yield from _part("Plan details", column(*map(_choice, reasons.choices), spacing=6))


def _part(title: str, part: QWidget | QLayout) -> tuple[Part, ...]:
    return 8, label(title, "section"), part


def _choice(notice: Notice) -> Label:
    line = _wrapped(text(notice), "small")
    set_tip(line, hint(notice))
    return line


def _grid(rows: Iterable[tuple[Label, Label]]) -> QGridLayout:
    return grid(rows, spacing=(10, 6), wide=[0])


def _stream(line: StreamLine) -> tuple[Label, Label]:
    fate = _wrapped(line.fate, "secondary" if line.is_kept else "warning")
    fate.setAlignment(RIGHT | TOP)
    fate.setMinimumWidth(150)
    return _wrapped(line.name, "small"), fate


def _step(plan: Plan, step: Alternative) -> tuple[Label, Label]:
    figures = label(kind="small" if step.fits else "secondary", align=RIGHT | TOP)
    figures.setText(_figures(plan, step))
    title = text(step.message) if step.message is not None else ""
    return _wrapped(title, "secondary"), figures


def _figures(plan: Plan, step: Alternative) -> str:
    """Memory of a step and its additional time, in two lines."""
    size = memory_text(step.device_bytes if plan.device_bytes else step.ram_bytes)
    if not step.fits and step.device_bytes <= plan.device_budget_bytes:
        return f"{memory_text(step.ram_bytes)}\n{tr('RAM: does not fit')}"
    if not step.fits:
        return f"{size}\n{tr('does not fit')}"
    return f"{size}\n{labels.difference(step.seconds - plan.seconds)}"


def _wrapped(text: str, kind: str) -> Label:
    made = label(kind=kind, wraps=True)
    made.setText(text)
    return made
