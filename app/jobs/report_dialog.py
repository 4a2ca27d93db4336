"""Checks of a finished job: a card of those that failed, and a dialog with all of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from app import labels
from app.bound import bind
from app.engine_messages import hint, text, title
from app.i18n import mark, tr
from app.widgets.layouts import STRETCH, add_parts, clear_layout, column, row
from app.widgets.notice_line import NoticeLine
from app.widgets.page import Page
from app.widgets.parts import button, named
from app.widgets.plain import Label
from engine.core.plain_text import one_line
from engine.core.units import memory_text
from engine.protocol.report import Check, PartMemory, Report

_PARTS = 3  # of a stage that are shown


class DoubtCard(QFrame):
    """Differences between a result and its source: the checks that failed."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "doubtCard", "card")
        self._problems: tuple[Check, ...] = ()
        self._lines = column(spacing=10, margins=(14, 12), on=self)
        bind(self, lambda: self.show_problems(self._problems))

    def show_problems(self, problems: tuple[Check, ...]) -> None:
        """Show a line for each of these checks."""
        self._problems = problems
        clear_layout(self._lines)
        add_parts(self._lines, map(_line_of, problems))


class ReportDialog(Page):
    """Every check of a report, one a line."""

    def __init__(self, report: Report, parent: QWidget | None = None) -> None:
        super().__init__("reportDialog", mark("Verification report"), parent)
        self.resize_on_screen(QSize(560, 560))
        lines = [_line_of(check) for check in report.checks]
        if report.model_files:
            lines.append(NoticeLine("info", tr("Model files"), model_files(report)))
        for change in report.plan_changes:
            lines.append(NoticeLine("warning", text(change), hint(change)))
        if times := stage_times(report):
            lines.append(NoticeLine("info", tr("Time per stage"), times))
        if report.gpu_memory:
            memory = gpu_memory(report)
            if report.memory_ratios[1:]:
                memory += "\n" + spread(report.memory_ratios)
            lines.append(NoticeLine("info", tr("GPU memory"), memory))
        body = named(QWidget(), "scrolled")
        column(*lines, STRETCH, spacing=12, margins=(4, 4, 12, 4), on=body)
        scroll = QScrollArea()
        scroll.setAccessibleName(self.windowTitle())
        scroll.setWidgetResizable(True)
        scroll.setWidget(body)
        name = named(Label(one_line(report.output.name)), kind="title")
        sub = named(Label(facts(report)), kind="secondary")
        buttons = row(STRETCH, button("Close", on=self.accept))
        self.fill(name, sub, scroll, buttons, spacing=8)


def model_files(report: Report) -> str:
    """Model files of the result: name and architecture, below it the SHA-256."""
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
    """Time of each stage, one a line, next to the planned one; none that took 0 s."""
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
    """GPU memory of each stage, one a line, next to the planned one; its largest parts."""
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
    """Differences between the peaks of jobs of a kind, all next to the planned value."""
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
    parts = [tr("{count} {count:frame|frames}", count=report.frames_out)]
    if report.likeness_mean:
        parts.append(tr("similarity {value}", value=f"{report.likeness_mean:.3f}"))
    if report.seconds:
        parts.append(tr("took {time}", time=labels.duration(report.seconds)))
    return " · ".join(parts)
