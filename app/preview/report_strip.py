"""Outcome of a finished job, in two lines, with what can be done with the result."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QIcon, QResizeEvent
from PySide6.QtWidgets import QFrame, QWidget

from app import engine_messages, labels
from app.actions import Actions
from app.bound import bind
from app.engine_messages import error_title
from app.i18n import tr
from app.theme import tokens
from app.theme.icons import icon, pixmap
from app.widgets.layouts import MIDDLE, column, row
from app.widgets.parts import button, elided, label, named, set_kind
from engine.core.errors import ErrorInfo
from engine.core.units import bytes_text, memory_text
from engine.protocol.report import Report

_BETWEEN = 70  # px of icon and margins


class ReportStrip(QFrame):
    """Results of the checks, and facts about the job; failed checks are in `DoubtCard`."""

    compare_clicked = Signal()

    def __init__(self, actions: Actions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "reportStrip", "card")
        self._report: Report | None = None
        self._lost: ErrorInfo | None = None
        self._sizes = self._short = ""
        self._icon, self._title = label(), elided(name="reportTitle")
        self._detail = elided(kind="secondary", name="reportDetail")
        self._open = button(
            name="openButton",
            tip="Open the result in your default program",
            on=actions["open_result"].trigger,
        )
        self._folder = button(
            name="folderButton",
            tip="Show the result in its folder",
            says="Folder",
            on=actions["show_in_folder"].trigger,
        )
        self._details = button(
            name="reportButton",
            tip="Every check, with the values of source and result",
            says="Report",
            on=actions["report"].trigger,
        )
        self._compare = button(
            name="compareButton",
            tip="Play both videos in sync",
            says="Compare",
            on=self.compare_clicked,
        )
        self._again = button(
            name="againButton",
            tip="Run again with other settings (Ctrl+D); this result is kept",
            says="Run again with other settings",
            on=actions["run_again"].trigger,
        )
        self._buttons = self._again, self._compare, self._details, self._folder, self._open
        words = column(self._title, self._detail, spacing=2)
        parts = self._icon, 4, (words, 1), *self._buttons
        row(*parts, spacing=8, margins=(14, 10, 12, 10), align=MIDDLE, on=self)
        bind(self, self._show, theme=True)

    def show_report(self, report: Report, sizes: str, *, is_still: bool) -> None:
        """Show the outcome of a finished job.

        Args:
            report: Checks and measurements.
            sizes: Sizes of source and result; "" where they are not known.
            is_still: An image: source and result are compared already, and nothing can be played.
        """
        self._report, self._sizes = report, sizes
        self._compare.setVisible(not is_still)
        self._show()

    def show_lost(self, lost: ErrorInfo | None) -> None:
        """Show why the result is gone; None where it is there."""
        if lost != self._lost:
            self._lost = lost
            self._show()

    @property
    def text(self) -> str:
        """Both lines."""
        return f"{self._title.whole}\n{self._detail.whole}"

    def _fill_report(self, report: Report) -> None:
        theme, total, bad = tokens.current(), len(report.checks), len(report.problems)
        kind, colour = ("warning", theme.warning) if bad else ("good", theme.accent)
        self._icon.setPixmap(pixmap("warning" if bad else "check", colour, 24))
        set_kind(self._title, kind)
        failed = tr("{bad} of {total} checks failed", bad=bad, total=total)
        passed = tr("All {total} checks passed", total=total)
        ending = failed if bad else tr("verified")
        result = [self._sizes] if self._sizes else []
        cost = [bytes_text(report.output_bytes)] if report.output_bytes else []
        cost += [labels.duration(report.seconds)] if report.seconds > 0 else []
        # In a narrow window the sizes go first, which its card shows too; the ending stays.
        titles = [*result, *cost, ending], [*cost, ending], [ending]
        whole, self._short, least = map(" · ".join, titles)
        self._title.setText(whole, self._short, least)
        frames, *others = _summary(report) or [""]
        facts = list(filter(None, (frames, "" if bad else passed, *others)))
        counts = range(max(1, len(facts)), 0, -1)  # the last ones go first
        self._detail.setText(*(" · ".join(facts[:count]) for count in counts))

    def _show(self) -> None:
        if self._lost is not None:
            self._icon.setPixmap(pixmap("warning", tokens.current().warning, 24))
            set_kind(self._title, "warning")
            self._title.setText(error_title(self._lost))
            self._detail.setText(engine_messages.text(self._lost))
        elif self._report is not None:
            self._fill_report(self._report)
        self._give_way()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Find out what fits."""
        super().resizeEvent(event)
        self._give_way()

    def _give_way(self) -> None:
        """Turn buttons into icons, one by one, where the words of the ending have no room."""
        texts = {
            self._open: tr("Open"),
            self._compare: tr("Compare"),
            self._again: tr("Run again …"),
            self._folder: tr("Folder"),
            self._details: tr("Report"),
        }
        for shown, text in texts.items():
            shown.setText(text)
            shown.setIcon(QIcon())
        icons = {
            self._again: "copy",
            self._folder: "folder",
            self._details: "info",
            self._compare: "side-by-side",
        }
        self._icon.show()
        for shown, name in icons.items():
            if self._fits:
                return
            shown.setText("")
            shown.setIcon(icon(name, size=16))
        self._icon.setVisible(self._fits)

    @property
    def _fits(self) -> bool:
        needed = self._title.fontMetrics().horizontalAdvance(self._short) + _BETWEEN
        needed += sum(one.sizeHint().width() + 8 for one in self._buttons if not one.isHidden())
        return needed <= self.width()


def _summary(report: Report) -> list[str]:
    """Frames, likeness, speed and memory; what is not known is left out."""
    parts = []
    if report.frames_out:
        parts.append(tr("{count} {count:frame|frames}", count=report.frames_out))
    if report.likeness_mean:
        parts.append(tr("similarity {value}", value=f"{report.likeness_mean:.3f}"))
    if report.seconds > 0 and report.frames_out > 1:
        parts.append(tr("{rate} fps", rate=f"{report.frames_out / report.seconds:.1f}"))
    if report.peak_bytes:
        parts.append(tr("at most {size}", size=bytes_text(report.peak_bytes)))
    most = report.largest_on_gpu
    if most is not None:
        sizes = {"size": memory_text(most.peak.requested), "planned": memory_text(most.planned)}
        parts.append(tr("GPU {size}, {planned} planned", **sizes))
    return parts
