"""Page of the benchmark: speed test, table of the switches, report to copy."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.bench.table import SwitchesTable
from app.engine_messages import hint, text
from app.i18n import tr
from app.state.listings import BenchmarkModel
from app.theme.icons import icon
from app.widgets.controls import ElidedLabel, Themed
from app.widgets.meters import ShareBar
from app.widgets.notice_line import NoticeLine
from app.widgets.plain import Label, set_tip
from app.window_place import resize_on_screen
from engine.protocol.report import BenchReport, MeasuredRate, MeasuredSwitch

_NOTHING = "none"
_LOW_PAGE = 520  # px
_NEXT_TO_TABLE, _IN_LOW_PAGE = 132, 82  # px of the figures at most, next to a table
_IN_A_LINE = 2


class FiguresCard(QFrame):
    """Hidden while there are none."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("benchFigures")
        self.setProperty("kind", "card")
        self._shown: tuple[tuple[str, str], ...] = ()
        self._scroll = QScrollArea()
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 10, 8, 10)
        column.addWidget(self._scroll)

    def limit(self, height: int) -> None:
        """Take so much height at most, in px; 0 hides it."""
        self.setMaximumHeight(height)
        self.setVisible(bool(self._shown) and height > 0)

    def show_figures(self, figures: tuple[MeasuredRate, ...]) -> None:
        """Show the figures of another report, in the current language."""
        texts = tuple((text(figure.title), text(figure.value)) for figure in figures)
        if texts != self._shown:
            self._shown = texts
            self._scroll.setWidget(_body(texts))


def _body(figures: tuple[tuple[str, str], ...]) -> QWidget:
    body = QWidget()
    body.setObjectName("scrolled")
    grid = QGridLayout(body)
    grid.setContentsMargins(0, 0, 12, 0)
    grid.setHorizontalSpacing(12)
    grid.setVerticalSpacing(6)
    lines = -(-len(figures) // _IN_A_LINE)
    for at, (name, value) in enumerate(figures):
        side, line = divmod(at, lines)
        caption, figure = ElidedLabel(), Label(value)
        caption.setText(name)
        caption.setProperty("kind", "secondary")
        figure.setProperty("kind", "strong")
        figure.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        grid.addWidget(caption, line, 3 * side)
        grid.addWidget(figure, line, 3 * side + 1)
    for side in range(_IN_A_LINE):
        grid.setColumnStretch(3 * side, 1)
    grid.setColumnMinimumWidth(2, 28)  # between the two halves
    grid.setRowStretch(lines, 1)
    return body


def machine_of(machine: Mapping[str, str]) -> str:
    """The machine of a report in one line; absent parts are left out."""
    parts = [machine.get("processor", "")]
    if "threads" in machine:
        parts.append(tr("{count} threads", count=machine["threads"]))
    parts += [machine.get(name, "") for name in ("memory", "card")]
    if machine.get("driver", _NOTHING) != _NOTHING:
        parts.append(tr("Driver {version}", version=machine["driver"]))
    if "torch" in machine:
        parts.append(f"torch {machine['torch'].removeprefix('torch ')}")
    return " · ".join(part for part in parts if part not in ("", _NOTHING))


_SMALL, _LARGE = QSize(760, 320), QSize(1080, 660)  # before and after a measurement
_COPIED_MS = 2500  # how long the button shows it


class BenchView(Themed, QDialog):
    """Shows the model; emits the user's requests."""

    run_requested = Signal(bool)  # True for the speed test alone
    stop_requested = Signal()

    def __init__(self, model: BenchmarkModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("benchDialog")
        self.setMinimumSize(_SMALL)
        self.resize(_SMALL)
        self._model = model
        self._busy = ""
        self._title, self._lead, self._nothing = Label(), Label(), Label()
        self._quick, self._full, self._stop = (QPushButton() for _ in range(3))
        self._copy, self._close = QPushButton(), QPushButton()
        self._notice = NoticeLine()
        self._progress, self._doing = ShareBar(), ElidedLabel()
        self._figures = FiguresCard()
        self._table = SwitchesTable()
        self._filter, self._found = QLineEdit(), Label()
        self._notes, self._machine = Label(), ElidedLabel()
        self._shown: tuple[MeasuredSwitch, ...] = ()
        self._was_filled = False
        self._name_parts()
        self._lay_out()
        self._quick.clicked.connect(lambda: self.run_requested.emit(True))
        self._full.clicked.connect(lambda: self.run_requested.emit(False))
        self._stop.clicked.connect(self.stop_requested)
        self._copy.clicked.connect(self._copy_report)
        self._close.clicked.connect(self.close)
        self._filter.textChanged.connect(self._look_for)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_COPIED_MS)
        self._timer.timeout.connect(self._name_copy)
        model.changed.connect(self._show)
        model.progressed.connect(self._show)
        self.retranslate_ui()

    def show_busy(self, reason: str) -> None:
        """Show why nothing can be measured now; "" where it can."""
        self._busy = reason
        self._show()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self.setWindowTitle(tr("Speed test and benchmark"))
        self._title.setText(tr("How fast is this computer?"))
        self._lead.setText(
            tr(
                "The speed test takes up to a minute; plans then show times measured on this "
                "computer. The full benchmark also measures each optimisation on its own, on and "
                "off, and takes several minutes. Nothing leaves this computer."
            )
        )
        self._quick.setText(tr("Speed test"))
        self._quick.setIcon(icon("gauge", size=16))
        self._full.setText(tr("Full benchmark"))
        self._table.setAccessibleName(tr("Full benchmark"))
        self._filter.setPlaceholderText(tr("Search optimisations and claims"))
        self._filter.setAccessibleName(self._filter.placeholderText())
        self._stop.setText(tr("Stop"))
        self._close.setText(tr("Close"))
        self._nothing.setText(
            tr(
                "Nothing measured since Upreel was started. Results of earlier runs are kept and "
                "used for plans."
            )
        )
        self._name_copy()
        self._show()

    # Showing

    def _show(self, _subject: str = "") -> None:
        model = self._model
        for button in (self._quick, self._full):
            button.setVisible(not model.is_running)
            button.setEnabled(not self._busy)
            set_tip(button, self._busy)
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
        self._notice.setVisible(bool(self._busy) or is_stopped or error is not None)
        if self._busy:
            self._notice.show_message("info", self._busy)
        elif is_stopped:
            self._notice.show_message("info", tr("Benchmark stopped."))
        elif error is not None:
            self._notice.show_message("warning", text(error), hint(error))

    def _show_report(self, report: BenchReport | None) -> None:
        self._copy.setEnabled(report is not None and bool(report.markdown))
        self._nothing.setVisible(report is None and not self._model.is_running)
        self._figures.show_figures(report.figures if report is not None else ())
        switches = report.switches if report is not None else ()
        if report is not None and not self._was_filled:
            self._was_filled = True
            resize_on_screen(self, self.size().expandedTo(_LARGE))
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
        self._machine.setText(machine_of(report.machine) if report is not None else "")

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
        self._figures.limit(height)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A low page has room for less."""
        super().resizeEvent(event)
        self._make_room()

    def _copy_report(self) -> None:
        report = self._model.report
        if report is not None:
            QGuiApplication.clipboard().setText(report.markdown)
            self._copy.setText(tr("Copied"))
            self._copy.setIcon(icon("check", size=16))
            self._timer.start()

    def _name_copy(self) -> None:
        self._timer.stop()
        self._copy.setText(tr("Copy report"))
        self._copy.setIcon(icon("copy", size=16))
        set_tip(self._copy, tr("Copy as text with tables, without personal data"))

    def _name_parts(self) -> None:
        self._title.setProperty("kind", "headline")
        labels = (self._lead, self._nothing, self._notes, self._doing, self._machine, self._found)
        for label in labels:
            label.setProperty("kind", "secondary")
        for label in (self._lead, self._notes):
            label.setWordWrap(True)
        self._quick.setObjectName("benchQuick")
        self._full.setObjectName("benchFull")
        self._stop.setObjectName("benchStop")
        self._copy.setObjectName("benchCopy")
        self._close.setObjectName("benchClose")
        self._filter.setObjectName("benchFilter")
        self._filter.setClearButtonEnabled(True)
        self._notice.setObjectName("benchNotice")
        self._doing.setObjectName("benchDoing")
        self._close.setDefault(True)  # otherwise Enter would start minutes of work

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self._title, 1)
        for button in (self._quick, self._full, self._stop):
            head.addWidget(button)
        running = QHBoxLayout()
        running.setSpacing(12)
        running.addWidget(self._progress, 1)
        running.addWidget(self._doing, 2)
        finding = QHBoxLayout()
        finding.setSpacing(12)
        finding.addWidget(self._filter, 1)
        finding.addWidget(self._found)
        foot = QHBoxLayout()
        foot.setSpacing(12)
        foot.addWidget(self._machine, 1)
        foot.addWidget(self._copy)
        foot.addWidget(self._close)
        self._filler = QWidget()
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 16, 20, 16)
        column.setSpacing(10)
        column.addLayout(head)
        column.addWidget(self._lead)
        column.addWidget(self._notice)
        column.addLayout(running)
        column.addWidget(self._nothing)
        column.addWidget(self._figures)
        column.addLayout(finding)
        column.addWidget(self._table, 1)
        column.addWidget(self._filler, 1)
        column.addWidget(self._notes)
        column.addLayout(foot)
        self._table.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._title.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._title.setFocus(Qt.FocusReason.OtherFocusReason)  # no focus ring before Tab is pressed
