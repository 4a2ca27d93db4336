"""Checks of a finished job: a card of those that failed, and a dialog with all of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app import labels
from app.engine_messages import text, title
from app.i18n import tr
from app.widgets.controls import Translated
from app.widgets.layouts import layout_of
from app.widgets.notice_line import NoticeLine
from app.widgets.plain import Label
from app.window_place import resize_on_screen
from engine.core.plain_text import one_line
from engine.core.units import memory_text
from engine.protocol.report import Check, PartMemory, Report

_PARTS = 3  # of a stage that are shown
_DIRECTLY = Qt.FindChildOption.FindDirectChildrenOnly


class DoubtCard(Translated, QFrame):
    """What differs between a result and its source: the checks that failed."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card")
        self.setObjectName("doubtCard")
        self._problems: tuple[Check, ...] = ()
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 12, 14, 12)
        column.setSpacing(10)

    def show_problems(self, problems: tuple[Check, ...]) -> None:
        """A line for each of these checks."""
        self._problems = problems
        for line in self.findChildren(NoticeLine, options=_DIRECTLY):
            line.setParent(None)
            line.deleteLater()
        for check in problems:
            layout_of(self).addWidget(_line_of(check))

    def retranslate_ui(self) -> None:
        """The same in the current language."""
        self.show_problems(self._problems)


class ReportDialog(QDialog):
    """Every check of a report, one a line."""

    def __init__(self, report: Report, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Verification report"))
        resize_on_screen(self, QSize(560, 560))
        name, sub = Label(one_line(report.output.name)), Label(facts(report))
        name.setProperty("kind", "title")
        sub.setProperty("kind", "secondary")
        lines = QWidget()
        lines.setObjectName("scrolled")
        inner = QVBoxLayout(lines)
        inner.setContentsMargins(4, 4, 12, 4)
        inner.setSpacing(12)
        for check in report.checks:
            inner.addWidget(_line_of(check))
        if report.model_files:
            inner.addWidget(NoticeLine("info", tr("Model files"), model_files(report)))
        if times := stage_times(report):
            inner.addWidget(NoticeLine("info", tr("Time per stage"), times))
        if report.gpu_memory:
            lines_of_gpu = gpu_memory(report)
            if report.memory_ratios[1:]:
                lines_of_gpu += "\n" + spread(report.memory_ratios)
            inner.addWidget(NoticeLine("info", tr("GPU memory"), lines_of_gpu))
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
        lines.append(" · ".join(one_line(part) for part in (file.name, file.architecture) if part))
        lines.append(
            tr("SHA-256 {sum}", sum=file.sha256)
            if file.sha256
            else tr("It was changed before the job finished.")
        )
    return "\n".join(lines)


def _line_of(check: Check) -> NoticeLine:
    severity = "good" if check.passed else "warning"
    return NoticeLine(severity, title(f"check.{check.code}"), text(check.message))


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
    """What each stage took of the GPU, one a line, next to what was planned; its largest parts."""
    sentence = tr("{stage}: {size}, planned {planned}; {reserved} reserved")
    lines = []
    for one in report.gpu_memory:
        lines.append(
            sentence.format(
                stage=labels.stage_name(one.stage),
                size=memory_text(one.peak.requested),
                planned=memory_text(one.planned),
                reserved=memory_text(one.peak.reserved),
            )
        )
        if one.parts:
            lines.append(tr("Largest parts: {parts}", parts=_largest(one.parts)))
    return "\n".join(lines)


def _largest(parts: Sequence[PartMemory]) -> str:
    """The largest parts and what they took, the largest first."""
    found = sorted(parts, key=lambda one: one.peak, reverse=True)[:_PARTS]
    names = (one.part.removeprefix("encoder.").removeprefix("decoder.") for one in found)
    return ", ".join(
        f"{name} {memory_text(one.peak)}" for name, one in zip(names, found, strict=True)
    )


def spread(ratios: Sequence[float]) -> str:
    """How much the peaks of jobs of a kind differ, all next to what was planned."""
    return tr(
        "{count} similar jobs: {low} to {high} of the planned value, standard deviation "
        "{deviation}",
        count=len(ratios),
        low=f"{100 * min(ratios):.0f} %",
        high=f"{100 * max(ratios):.0f} %",
        deviation=f"{100 * statistics.stdev(ratios):.1f} %",
    )


def facts(report: Report) -> str:
    """Frames, likeness and time in one line."""
    parts = [tr("{count} frames", count=report.frames_out)]
    if report.likeness_mean:
        parts.append(tr("similarity {value}", value=f"{report.likeness_mean:.3f}"))
    if report.seconds:
        parts.append(tr("took {time}", time=labels.duration(report.seconds)))
    return " · ".join(parts)
