"""Everything about a plan that its card has no room for: memory, reasons, streams of the source."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QGridLayout, QLayout, QVBoxLayout, QWidget

from app import labels
from app.engine_messages import hint, text
from app.i18n import tr
from app.plan.memory_bars import MemoryBars, rows_of
from app.plan.streams import StreamLine, stream_lines
from app.state.job_row import JobRow
from app.widgets.controls import Themed
from app.widgets.plain import Label, set_tip
from engine.core.units import memory_text
from engine.protocol.plan import Alternative, Notice, Plan


class PlanDetails(Themed, QWidget):
    """Shows the plan of one job; made again only while it can be seen."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("scrolled")
        self._row: JobRow | None = None
        self._shown: tuple[object, ...] = ()
        self._body: QWidget | None = None
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(16, 8, 16, 16)

    def show_job(self, row: JobRow | None) -> None:
        """Show another plan, or nothing."""
        self._row = row
        if self.isVisible():
            self._fill()

    def showEvent(self, event: QShowEvent) -> None:
        """Show what has come meanwhile."""
        super().showEvent(event)
        self._fill()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
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
        column = QVBoxLayout(self._body)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        if row is not None and plan is not None:
            _show_plan(column, row, plan)
        column.addStretch(1)
        self._column.addWidget(self._body)


def _show_plan(column: QVBoxLayout, row: JobRow, plan: Plan) -> None:
    if plan.reasons is not None:
        column.addWidget(_wrapped(text(plan.reasons.as_message), ""))
    _add_part(column, tr("Memory"), MemoryBars(rows_of(plan)))
    lines = stream_lines(row)
    if lines:
        _add_part(column, tr("Other streams"), _streams(lines))
    if plan.reasons is not None and plan.reasons.alternatives:
        _add_part(column, tr("Alternatives"), _steps(plan, plan.reasons.alternatives))
    if plan.reasons is not None and plan.reasons.choices:
        _add_part(column, tr("Plan details"), _choices(plan.reasons.choices))


def _add_part(column: QVBoxLayout, title: str, part: QWidget | QLayout) -> None:
    heading = Label(title)
    heading.setProperty("kind", "section")
    column.addSpacing(8)
    column.addWidget(heading)
    if isinstance(part, QLayout):
        column.addLayout(part)
    else:
        column.addWidget(part)


def _choices(notices: tuple[Notice, ...]) -> QVBoxLayout:
    column = QVBoxLayout()
    column.setSpacing(6)
    for choice in notices:
        line = _wrapped(text(choice), "small")
        set_tip(line, hint(choice))
        column.addWidget(line)
    return column


def _streams(lines: list[StreamLine]) -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(10)
    grid.setVerticalSpacing(6)
    grid.setColumnStretch(0, 1)
    for at, line in enumerate(lines):
        grid.addWidget(_wrapped(line.name, "small"), at, 0)
        fate = _wrapped(line.fate, "secondary" if line.is_kept else "warning")
        fate.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop)
        fate.setMinimumWidth(150)
        grid.addWidget(fate, at, 1)
    return grid


def _steps(plan: Plan, alternatives: tuple[Alternative, ...]) -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(10)
    grid.setVerticalSpacing(6)
    grid.setColumnStretch(0, 1)
    for at, step in enumerate(alternatives):
        title = text(step.message) if step.message is not None else ""
        grid.addWidget(_wrapped(title, "secondary"), at, 0)
        figures = Label(_figures(plan, step))
        figures.setProperty("kind", "small" if step.fits else "secondary")
        figures.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop)
        grid.addWidget(figures, at, 1, Qt.AlignmentFlag.AlignTop)
    return grid


def _figures(plan: Plan, step: Alternative) -> str:
    """What a step needs and how much longer it takes, in two lines."""
    size = memory_text(step.device_bytes if plan.device_bytes else step.ram_bytes)
    if not step.fits and step.device_bytes <= plan.device_budget_bytes:
        return f"{memory_text(step.ram_bytes)}\n{tr('RAM: does not fit')}"
    if not step.fits:
        return f"{size}\n{tr('does not fit')}"
    return f"{size}\n{labels.difference(step.seconds - plan.seconds)}"


def _wrapped(text: str, kind: str = "small") -> Label:
    label = Label(text)
    label.setProperty("kind", kind)
    label.setWordWrap(True)
    return label
