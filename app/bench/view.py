"""Page of the benchmark: speed test, table of the switches, report to copy, archive to send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QFrame, QLineEdit, QScrollArea, QToolButton, QWidget

from app.actions import SPECS
from app.bench.table import SwitchesTable
from app.bound import bind
from app.engine_messages import hint, text
from app.i18n import mark, tr
from app.state.listings import BenchmarkModel
from app.theme.icons import icon
from app.widgets.layouts import MIDDLE, RIGHT, column, grid, row
from app.widgets.meters import ShareBar
from app.widgets.notice_line import NoticeLine
from app.widgets.page import Page
from app.widgets.parts import bind_text, button, elided, label, named
from app.widgets.plain import set_tip
from engine.protocol.report import BenchReport, MeasuredRate, MeasuredSwitch

_NOTHING = "none"
_SMALL, _LARGE = QSize(760, 320), QSize(1080, 660)  # before and after a measurement
_COPIED_MS = 2500  # how long the button shows it
_LOW_PAGE = 520  # px
_NEXT_TO_TABLE, _IN_LOW_PAGE = 150, 76  # px of the figures at most, next to a table: whole lines


class BenchView(Page):
    """Shows the model; emits the user's requests."""

    run_requested = Signal(bool)  # True for the speed test alone
    archive_requested = Signal()  # everything in one archive
    stop_requested = Signal()

    def __init__(self, model: BenchmarkModel, parent: QWidget | None = None) -> None:
        super().__init__("benchDialog", SPECS["bench"].text, parent, size=_SMALL, least=_SMALL)
        self._model = model
        self._busy = ""
        self._shown: tuple[MeasuredSwitch, ...] = ()
        self._shown_figures: tuple[tuple[str, str], ...] = ()
        self._was_filled = False
        self._copied = QTimer(self, interval=_COPIED_MS, singleShot=True)
        self._make_parts()
        self._lay_out()
        self._filter.textChanged.connect(self._look_for)
        self._copied.timeout.connect(self._name_copy)
        model.changed.connect(self._show)
        model.progressed.connect(self._show)
        bind(self, self._name_copy, theme=True)
        bind(self, self._show)

    def show_busy(self, reason: str) -> None:
        """Show why nothing can be measured now; "" where it can."""
        self._busy = reason
        self._show()

    # Showing

    def _show(self, _subject: str = "") -> None:
        model = self._model
        for start in (self._quick, self._full, self._measure):
            start.setVisible(not model.is_running)
            start.setEnabled(not self._busy)
            set_tip(start, self._busy)
        self._stop.setVisible(model.is_running)
        self._stop.setEnabled(not model.was_stopped)
        for part in (self._progress, self._doing):
            part.setVisible(model.is_running)
        self._progress.set_shares(model.task.share if model.task is not None else 0.0)
        self._doing.setText(self._doing_text())
        self._show_notice()
        self._show_report(model.report)

    def _doing_text(self) -> str:
        task = self._model.task
        if self._model.was_stopped:
            return tr("Stopping after this step …")
        if task is None or task.step is None:
            return tr("Finishing …") if task is not None and task.done else tr("Starting …")
        doing = text(task.step)
        if not task.total:
            return doing
        step, total = min(task.done + 1, task.total), task.total
        return tr(
            "{doing} · {done} of {total}", doing=doing, done=f"{step:.0f}", total=f"{total:.0f}"
        )

    def _show_notice(self) -> None:
        task = self._model.task
        error = task.error if task is not None else None
        is_stopped = task is None and self._model.was_stopped
        is_archive, is_running = bool(self._model.archive), self._model.is_running
        is_written = task is None and is_archive
        is_shown = bool(self._busy) or is_stopped or is_archive or error is not None
        self._notice.setVisible(is_shown)
        name = Path(self._model.archive).name
        if self._busy:
            self._notice.show_message("info", self._busy)
        elif is_stopped and is_written:
            stopped = tr("Stopped. {name} has the results so far.", name=name)
            self._notice.show_message("info", stopped, tr("Measure again to continue."))
        elif is_stopped:
            self._notice.show_message("info", tr("Benchmark stopped."))
        elif error is not None:
            self._notice.show_message("warning", text(error), hint(error))
        elif is_archive and is_running:
            advice = tr("Close games and other programs that use the GPU: they change the results.")
            self._notice.show_message("info", tr("You can keep using Upreel meanwhile."), advice)
        elif is_written:
            advice = tr("Attach this file to your report. Nothing was sent.")
            self._notice.show_message("good", tr("Saved: {name}", name=name), advice)

    def _show_report(self, report: BenchReport | None) -> None:
        self._copy.setEnabled(report is not None and bool(report.markdown))
        is_idle = not self._model.is_running and not self._model.archive
        self._nothing.setVisible(report is None and is_idle)
        self._show_figures(report.figures if report is not None else ())
        switches = report.switches if report is not None else ()
        if report is not None and not self._was_filled:
            self._was_filled = True
            self.resize_on_screen(self.size().expandedTo(_LARGE))
        for part in (self._table, self._filter, self._found):
            part.setVisible(bool(switches))
        self._filler.setVisible(report is None)
        if switches != self._shown:
            self._shown = switches
            self._table.show_switches(switches)
        self._look_for()
        notes = report.notes if report is not None else ()
        self._notes.setText("\n".join(map(text, notes)))
        self._notes.setVisible(bool(notes))
        self._machine.setText(_machine(report.machine) if report is not None else "")

    def _show_figures(self, figures: Sequence[MeasuredRate]) -> None:
        """Show names and values in two columns, in the current language."""
        texts = tuple((text(figure.title), text(figure.value)) for figure in figures)
        if texts == self._shown_figures:
            return
        self._shown_figures = texts
        body = named(QWidget(), "scrolled")
        cells = grid(spacing=(12, 6), margins=(0, 0, 12, 0), wide=(0, 3), on=body)
        lines = -(-len(texts) // 2)
        for at, (name, value) in enumerate(texts):
            side, line = divmod(at, lines)
            caption, figure = elided(kind="secondary"), label(kind="strong", align=RIGHT | MIDDLE)
            caption.setText(name)
            figure.setText(value)
            cells.addWidget(caption, line, 3 * side)
            cells.addWidget(figure, line, 3 * side + 1)
        cells.setColumnMinimumWidth(2, 28)  # between the two halves
        cells.setRowStretch(lines, 1)
        self._scroll.setWidget(body)

    def _look_for(self, _text: str = "") -> None:
        """Show the rows that have the words of the filter, and how many these are."""
        found, total = self._table.look_for(self._filter.text())
        self._found.setText(tr("{count} of {total} rows", count=found, total=total))
        self._make_room()

    def _make_room(self) -> None:
        """Rows come first: a low page has few figures next to them, none where some are sought."""
        height = _NEXT_TO_TABLE if self._shown else 16_777_215
        if self._shown and self.height() < _LOW_PAGE:
            height = 0 if self._filter.text() else _IN_LOW_PAGE
        self._figures.setMaximumHeight(height)
        self._figures.setVisible(bool(self._shown_figures) and height > 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Give less room to figures in a low page."""
        super().resizeEvent(event)
        self._make_room()

    def _copy_report(self) -> None:
        if self._model.report is not None:
            QGuiApplication.clipboard().setText(self._model.report.markdown)
            self._copied.start()
            self._name_copy()

    def _name_copy(self) -> None:
        is_copied = self._copied.isActive()
        self._copy.setText(tr("Copied") if is_copied else tr("Copy report"))
        self._copy.setIcon(icon("check" if is_copied else "copy", size=16))

    # Layout

    def _make_parts(self) -> None:
        self._quick = button("Speed test", "benchQuick", icon="gauge")
        self._quick.clicked.connect(lambda: self.run_requested.emit(True))
        self._full = button("Full benchmark", "benchFull")
        self._full.clicked.connect(lambda: self.run_requested.emit(False))
        self._measure = button("Measure this PC …", "benchMeasure", on=self.archive_requested)
        self._stop = button("Stop", "benchStop", on=self.stop_requested)
        self._notice = named(NoticeLine(), "benchNotice")
        self._progress, self._doing = ShareBar(), elided(kind="secondary", name="benchDoing")
        self._nothing = label(
            "Nothing measured since Upreel was started. Results of earlier runs are kept and "
            "used for plans.",
            "secondary",
        )
        self._figures, self._scroll = named(QFrame(), "benchFigures", "card"), QScrollArea()
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._filter, self._found = named(QLineEdit(), "benchFilter"), label(kind="secondary")
        self._filter.setClearButtonEnabled(True)
        sought = mark("Search optimisations and claims")
        bind_text(self._filter, self._filter.setPlaceholderText, sought)
        bind_text(self._filter, self._filter.setAccessibleName, sought)
        for clear in self._filter.findChildren(QToolButton):
            bind_text(clear, clear.setAccessibleName, "Clear the search")
        self._table = SwitchesTable()
        bind_text(self._table, self._table.setAccessibleName, "Full benchmark")
        self._filler = QWidget()
        self._notes = label(kind="secondary", wraps=True)
        self._machine = elided(kind="secondary")
        self._copy = button(
            name="benchCopy",
            tip="Copy as text with tables, without personal data",
            on=self._copy_report,
        )

    def _lay_out(self) -> None:
        title = label("How fast is this computer?", "headline", wraps=True)
        lead = label(
            "Speed test: up to a minute; plans then show times measured on this computer.\n"
            "Full benchmark: several minutes; also measures each optimisation on its own, on and "
            "off.\n"
            "Measure this PC: up to ten minutes; saves one file for a report with speeds, "
            "self-test, settings and logs, without file names.\n"
            "Nothing leaves this computer.",
            "secondary",
            wraps=True,
        )
        close = button("Close", "benchClose", on=self.close)
        close.setDefault(True)  # otherwise Enter would start minutes of work
        column(self._scroll, margins=(14, 10, 8, 10), on=self._figures)
        self.fill(
            row((title, 1), self._quick, self._full, self._measure, self._stop, spacing=8),
            lead,
            self._notice,
            row((self._progress, 1), (self._doing, 2), spacing=12),
            self._nothing,
            self._figures,
            row((self._filter, 1), self._found, spacing=12),
            (self._table, 1),
            (self._filler, 1),
            self._notes,
            row((self._machine, 1), self._copy, close, spacing=12),
            focus=title,
        )
        self._table.setFocusPolicy(Qt.FocusPolicy.StrongFocus)


def _machine(machine: Mapping[str, str]) -> str:
    """Describe the machine of a report in one line; absent parts are left out."""
    parts = [machine.get("processor", "")]
    if "threads" in machine:
        parts.append(tr("{count} {count:thread|threads}", count=machine["threads"]))
    parts += [machine.get(name, "") for name in ("memory", "card")]
    if machine.get("driver", _NOTHING) != _NOTHING:
        parts.append(tr("Driver {version}", version=machine["driver"]))
    if "torch" in machine:
        parts.append(f"torch {machine['torch'].removeprefix('torch ')}")
    return " · ".join(part for part in parts if part not in ("", _NOTHING))
