"""Report of a finished job: a short card, and a dialog with every check."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from PySide6.QtCore import QEvent, QSize
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app import labels
from app.engine_messages import text, title
from app.i18n import tr
from app.theme.icons import pixmap
from app.widgets.notice_line import NoticeLine, colour_of
from app.window_place import resize_on_screen
from engine.core.units import memory_text
from engine.protocol.report import Report


class DoneCard(QFrame):
    """How many checks passed, and how long it took."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card")
        self.setObjectName("doneCard")
        self._report: Report | None = None
        self._icon, self._head = QLabel(), QLabel()
        self._facts, self._problem = QLabel(), QLabel()
        for label in (self._facts, self._problem):
            label.setWordWrap(True)
        self._facts.setProperty("kind", "secondary")
        head = QHBoxLayout()
        head.setSpacing(6)
        head.addWidget(self._icon)
        head.addWidget(self._head, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 12, 14, 12)
        column.setSpacing(6)
        column.addLayout(head)
        for part in (self._problem, self._facts):
            column.addWidget(part)

    def show_report(self, report: Report) -> None:
        """Show the outcome of a job."""
        self._report = report
        severity = "good" if report.passed else "warning"
        self._icon.setPixmap(
            pixmap("check" if report.passed else "warning", colour_of(severity), 18)
        )
        passed = sum(check.passed for check in report.checks)
        self._head.setText(
            tr("{passed} of {total} checks passed", passed=passed, total=len(report.checks))
        )
        self._head.setProperty("kind", severity)
        self._head.style().polish(self._head)
        self._facts.setText(facts(report))
        self._problem.setVisible(not report.passed)
        self._problem.setText("\n".join(text(check.message) for check in report.problems[:2]))

    def changeEvent(self, event: QEvent) -> None:
        """Follow the language and the theme."""
        super().changeEvent(event)
        requested = (QEvent.Type.LanguageChange, QEvent.Type.StyleChange)
        if event.type() in requested and self._report is not None:
            self.show_report(self._report)


class ReportDialog(QDialog):
    """Every check of a report, one a line."""

    def __init__(self, report: Report, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("What was checked"))
        resize_on_screen(self, QSize(560, 560))
        name, sub = QLabel(report.output.name), QLabel(facts(report))
        name.setProperty("kind", "title")
        sub.setProperty("kind", "secondary")
        lines = QWidget()
        lines.setObjectName("scrolled")
        inner = QVBoxLayout(lines)
        inner.setContentsMargins(4, 4, 12, 4)
        inner.setSpacing(12)
        for check in report.checks:
            severity = "good" if check.passed else "warning"
            inner.addWidget(NoticeLine(severity, title(f"check.{check.code}"), text(check.message)))
        if report.model_files:
            inner.addWidget(NoticeLine("info", tr("Model files"), model_files(report)))
        if times := stage_times(report):
            inner.addWidget(NoticeLine("info", tr("Times of the stages"), times))
        if report.gpu_memory:
            lines_of_gpu = gpu_memory(report)
            if report.memory_ratios[1:]:
                lines_of_gpu += "\n" + spread(report.memory_ratios)
            inner.addWidget(NoticeLine("info", tr("Memory of the GPU"), lines_of_gpu))
        inner.addStretch()
        scroll = QScrollArea()
        scroll.setAccessibleName(self.windowTitle())
        scroll.setWidgetResizable(True)
        scroll.setWidget(lines)
        close = QPushButton(tr("Close"))
        close.clicked.connect(self.accept)
        buttons = QHBoxLayout()
        buttons.addStretch()
        buttons.addWidget(close)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 16, 20, 16)
        column.setSpacing(8)
        for part in (name, sub, scroll):
            column.addWidget(part)
        column.addLayout(buttons)


def model_files(report: Report) -> str:
    """What the result was made with: name and architecture, below it the SHA-256."""
    lines = []
    for file in report.model_files:
        lines.append(" · ".join(part for part in (file.name, file.architecture) if part))
        lines.append(
            tr("SHA-256 {sum}", sum=file.sha256)
            if file.sha256
            else tr("It was changed before the job ended.")
        )
    return "\n".join(lines)


def stage_times(report: Report) -> str:
    """What each stage took, one a line, next to what was planned; none that took 0 s."""
    return "\n".join(
        (tr("{stage}: {time}, planned {planned}") if one.planned else tr("{stage}: {time}")).format(
            stage=labels.stage_name(one.stage),
            time=labels.duration(one.seconds),
            planned=labels.duration(one.planned),
        )
        for one in report.stage_times
        if round(one.seconds)
    )


def gpu_memory(report: Report) -> str:
    """What each stage took of the GPU, one a line, next to what was planned."""
    sentence = tr("{stage}: {size}, planned {planned}; {reserved} reserved")
    return "\n".join(
        sentence.format(
            stage=labels.stage_name(one.stage),
            size=memory_text(one.peak.requested),
            planned=memory_text(one.planned),
            reserved=memory_text(one.peak.reserved),
        )
        for one in report.gpu_memory
    )


def spread(ratios: Sequence[float]) -> str:
    """How much the peaks of jobs of a kind differ, all next to what was planned."""
    return tr(
        "Over {count} jobs of this kind: {low} to {high} of what was planned, "
        "standard deviation {deviation}",
        count=len(ratios),
        low=f"{100 * min(ratios):.0f} %",
        high=f"{100 * max(ratios):.0f} %",
        deviation=f"{100 * statistics.stdev(ratios):.1f} %",
    )


def facts(report: Report) -> str:
    """Frames, likeness and time in one line."""
    parts = [tr("{count} frames", count=report.frames_out)]
    if report.likeness_mean:
        parts.append(tr("likeness {value}", value=f"{report.likeness_mean:.3f}"))
    if report.seconds:
        parts.append(tr("took {time}", time=labels.duration(report.seconds)))
    return " · ".join(parts)
