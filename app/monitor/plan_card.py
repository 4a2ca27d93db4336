"""The plan in words: does it fit and why, memory, time, size of the file, free disk."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app import wording
from app.engine_words import said
from app.error_view import HELP
from app.i18n import mark, tr
from app.state.job_row import JobRow
from app.theme.icons import pixmap
from app.widgets.meters import ShareBar
from app.widgets.notice_line import NoticeLine, colour_of
from engine.errors import WeightsMissing
from engine.plan import Notice, Plan
from engine.units import bytes_text

_STAGES = {
    "latents": mark("Latents"),
    "read": mark("Read"),
    "encode": mark("Encode"),
    "transformer": mark("Transformer"),
    "decode": mark("Decode"),
    "upscale": mark("Upscale"),
    "restore": mark("Restore"),
    "write": mark("Write"),
    "verify": mark("Check"),
}
_MOST_NOTICES = 3
_SAID_ABOVE = ("trained-on-stills",)  # beside the choice of the model, as `names.limits_of`


class PlanCard(QFrame):
    """Shows one plan; everything in it comes from the engine's prediction."""

    action_wanted = Signal(str)  # of error_view.Help

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card")
        self.setObjectName("planCard")
        self._row: JobRow | None = None
        self._icon, self._head = QLabel(), QLabel()
        self._memory, self._needed, self._limit = QLabel(), QLabel(), QLabel()
        for label in (self._memory, self._limit):
            label.setProperty("kind", "secondary")
        self._bar = ShareBar()
        self._figures = [_Figure() for _ in range(3)]
        self._notes = QVBoxLayout()
        self._help = QPushButton()
        self._help.setObjectName("planHelp")
        self._action = ""
        self._help.clicked.connect(lambda: self.action_wanted.emit(self._action))
        self._lay_out()

    def show_job(self, row: JobRow) -> None:
        """Show the plan of a job."""
        if row.plan is None:
            return
        self._row = row
        self._show_head(row.plan)
        self._show_memory(row.plan)
        self._show_figures(row.plan)
        self._show_notices(row)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the language and the theme."""
        super().changeEvent(event)
        wanted = (QEvent.Type.LanguageChange, QEvent.Type.StyleChange)
        if event.type() in wanted and self._row is not None:
            self.show_job(self._row)

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(6)
        head.addWidget(self._icon)
        head.addWidget(self._head)
        head.addStretch()
        memory = QHBoxLayout()
        memory.addWidget(self._memory)
        memory.addStretch()
        memory.addWidget(self._needed)
        memory.addWidget(self._limit)
        memory.setSpacing(8)
        rule = QFrame()
        rule.setProperty("kind", "rule")
        figures = QHBoxLayout()
        for figure in self._figures:
            figures.addWidget(figure)
        figures.setSpacing(8)
        self._notes.setSpacing(6)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 12, 14, 12)
        column.setSpacing(10)
        column.addLayout(head)
        column.addLayout(memory)
        column.addWidget(self._bar)
        column.addLayout(self._notes)
        column.addWidget(self._help)
        column.addWidget(rule)
        column.addLayout(figures)

    def _show_head(self, plan: Plan) -> None:
        severity = "good" if plan.fits else "refusal"
        self._icon.setPixmap(pixmap("check" if plan.fits else "error", colour_of(severity), 18))
        self._head.setText(tr("It fits") if plan.fits else tr("This cannot start"))
        self._head.setProperty("kind", "good" if plan.fits else "error")
        self._head.style().polish(self._head)

    def _show_memory(self, plan: Plan) -> None:
        """One bar for the most that is needed at once; its tool tip has every stage."""
        whole = max(plan.budget_bytes, plan.peak_bytes, 1) * 1.04
        is_over = plan.peak_bytes > plan.budget_bytes > 0
        tick = plan.budget_bytes / whole if plan.budget_bytes else None
        self._bar.set_shares(plan.peak_bytes / whole, tick=tick, is_over=is_over)
        self._memory.setText(tr("Memory"))
        needed = bytes_text(plan.peak_bytes)
        self._needed.setText(tr("needs {size}", size=needed))
        self._limit.setText(tr("limit {size}", size=bytes_text(plan.budget_bytes)))
        stages = [
            f"{tr(_STAGES.get(stage.stage, stage.stage))}: {bytes_text(stage.peak_bytes)}"
            for stage in plan.stages
        ]
        explanation = tr("Memory that may be used: part of what is free now")
        for part in (self._bar, self._needed, self._limit):
            part.setToolTip("\n".join([*stages, explanation]))
        self._bar.setAccessibleName(f"{self._needed.text()}, {self._limit.text()}")

    def _show_figures(self, plan: Plan) -> None:
        time, file, free = self._figures
        time.show_text(wording.about(plan.seconds, plan.seconds_error), tr("time"))
        file.show_text(bytes_text(plan.output_bytes), tr("file"))
        drive = plan.output.drive
        where = tr("free on {drive}", drive=drive) if drive else tr("free on disk")
        free.show_text(bytes_text(plan.free_disk_bytes), where)

    def _show_notices(self, row: JobRow) -> None:
        _clear(self._notes)
        notices = (*(row.plan.notices if row.plan else ()), *row.warnings)
        found = [notice for notice in notices if notice.code not in _SAID_ABOVE]
        order = {"refusal": 0, "warning": 1, "info": 2}
        found.sort(key=lambda notice: order[notice.severity])
        for notice in found[:_MOST_NOTICES]:
            self._notes.addWidget(_line(notice))
        rest = found[_MOST_NOTICES:]
        if rest:
            more = QLabel(tr("and {count} more", count=len(rest)))
            more.setProperty("kind", "secondary")
            more.setToolTip("\n".join(said(notice.message) for notice in rest))
            self._notes.addWidget(more)
        self._show_help(found)

    def _show_help(self, found: list[Notice]) -> None:
        """A refusal offers the button that helps."""
        refusal = next((notice for notice in found if notice.severity == "refusal"), None)
        help_ = HELP.get(refusal.code) if refusal is not None else None
        self._help.setVisible(help_ is not None)
        self._action = help_.action if help_ is not None else ""
        self._help.setText(tr(help_.button) if help_ is not None else "")


def _line(notice: Notice) -> NoticeLine:
    """A notice; names of missing files are only a tool tip, the button below fetches them."""
    if notice.code != WeightsMissing.code:
        return NoticeLine(notice.severity, said(notice.message), said(notice.hint))
    line = NoticeLine(notice.severity, tr(HELP[notice.code].title))
    line.setToolTip(said(notice.message))
    return line


class _Figure(QWidget):
    """A number and, below it, what it counts."""

    def __init__(self) -> None:
        super().__init__()
        self._figure, self._unit = QLabel(), QLabel()
        self._figure.setProperty("kind", "figure")
        self._unit.setProperty("kind", "secondary")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._figure)
        column.addWidget(self._unit)

    def show_text(self, figure: str, unit: str) -> None:
        self._figure.setText(figure)
        self._unit.setText(unit)


def _clear(layout: QVBoxLayout) -> None:
    while layout.count():
        item = layout.takeAt(0)
        widget = item.widget() if item is not None else None
        if widget is not None:
            widget.hide()
            widget.deleteLater()
